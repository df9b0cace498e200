"""The report of `rebalance`: apiVersion kschedctl.dev/v1, kind Rebalancing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from kschedctl.commands.make_room.report import HeldPods, PlacedPod
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.placements import PoolChange
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary, list_eviction_costs
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import counted, first_few, join_words


class RebalancingStep(Document, frozen=True):
    """A pod that a descheduler plugin evicts, and where kube-scheduler puts the replacement."""

    round: Annotated[int, Column("round", right=True, place=1)]
    pod: Annotated[str, Column("evict", keep=True)]
    workload: Annotated[str, Column(narrow=True)]
    plugin: Annotated[str, Column("plugin")]
    source: Annotated[str, Column("from", keep=True, beneath="from")]
    target: Annotated[str, Column("to", keep=True, beneath="to")]
    tied: Annotated[int, Column("equally good", show_above=1, form="")] = 1
    budgets: Annotated[tuple[str, ...], Column("PDBs")] = ()
    """The PDBs that select the pod and allow its eviction at this step."""
    again: bool = False
    """True if an earlier step had brought the pod to `source`."""
    stays: bool = False
    """True if the replacement is placed on the same node."""

    @property
    def helps(self) -> bool:
        """True if the pod leaves its node for good, according to the replay."""
        return not (self.again or self.stays)


class RemovedPod(Document, frozen=True):
    """A terminated pod that a descheduler plugin deletes."""

    pod: Annotated[str, Column("delete", keep=True)]
    workload: Annotated[str, Column(narrow=True)]
    phase: Annotated[str, Column()]
    plugin: Annotated[str, Column("plugin")]
    node: Annotated[str, Column("from", keep=True)]
    round: Annotated[int, Column("round", right=True)]


class HeldBack(Document, frozen=True):
    """Pods that a plugin wants to evict but that stay: because of a limit, a PDB, or the harm of the eviction."""

    plugin: Annotated[str, Column("plugin", keep=True)]
    why: Annotated[str, Column("why not evicted", tone=Tone.WARNING)]
    pods: Annotated[int, Column("pods")]
    names: Annotated[tuple[str, ...], Column("examples")] = ()


class DeschedulerRound(Document, frozen=True):
    """The numbers of evicted pods and of denied evictions of a round."""

    number: Annotated[int, Column("round", right=True)]
    evicted: Annotated[int, Column("evicted")]
    refused: Annotated[int, Column("denied")]


class Rebalancing(Report, frozen=True):
    """The replayed evictions, their effect, and the evictions that were held back."""

    policy: str
    """The policy's file, or "default"."""
    plugins: tuple[str, ...]
    """The plugins that the policy runs."""
    steps: tuple[RebalancingStep, ...] = ()
    """Replayed evictions in order: budgets allow each, the pod is recreated, and it gets a node without preemption."""
    rounds: tuple[DeschedulerRound, ...] = ()
    removed: tuple[RemovedPod, ...] = ()
    """Terminated pods that are deleted."""
    held: tuple[HeldBack, ...] = ()
    """Evictions that the descheduler requests but that are not replayed."""
    quiet: bool = True
    """True if the last round evicts no pod."""
    loops: bool = False
    """True if a placement recurs."""
    unsafe: int = 0
    """The number of held-back evictions that would lose a pod or leave it without a node, though the API server
    allows them.
    """
    kept: tuple[HeldPods, ...] = ()
    """The numbers of pods that may not be evicted, by reason."""
    placed: tuple[PlacedPod, ...] = ()
    """The pending pods that get a node because others leave it."""
    commands: tuple[str, ...] = ()
    """The commands that carry out the evictions of the first round."""
    fitting: int = 0
    """The number of pending pods that fit before the first eviction."""
    pools: tuple[PoolChange, ...] = ()
    """The pools before and after."""
    policy_ignored: tuple[str, ...] = ()
    """Parts of the policy that the descheduler does not read."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    loses_data: tuple[str, ...] = ()
    """The evicted pods whose emptyDir volumes are deleted (`namespace/name`)."""
    ask_to_stay: tuple[str, ...] = ()
    """The evicted pods whose annotations ask autoscalers not to evict them (`namespace/name`)."""
    outages: tuple[str, ...] = ()
    """The workloads that have no running pod until replacements run, since one round evicts all their pods."""
    starting_over: tuple[str, ...] = ()
    """The pods of Jobs, whose replacements start from the beginning (`namespace/name`)."""
    slow_pods: dict[str, int] = {}
    """The pods with a long grace period, each with the seconds that it may take to end."""
    kind: str = "Rebalancing"

    @property
    def again(self) -> int:
        """The number of pods that are evicted more than once."""
        return len({step.pod for step in self.steps if step.again})

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the verdict on the evictions, and the numbers of exceptions such as denied evictions.

        The second text is empty if there are no exceptions.
        """
        held_back = sum(group.pods for group in self.held)
        exceptions = (
            (len(self.removed), "terminated pod is deleted", "terminated pods are deleted"),
            (self.again, "pod is evicted again", "pods are evicted again"),
            (held_back - self.unsafe, "pod may not be evicted", "pods may not be evicted"),
            (self.unsafe, "eviction would do harm and is not made", "evictions would do harm and are not made"),
        )
        exceptions_text = "; ".join(
            counted(number, singular, plural) for number, singular, plural in exceptions if number
        )
        verdict = self._describe_verdict()
        doubts = describe_doubt(self.unknown)
        if not exceptions_text:
            return (f"{verdict}{doubts}", "")
        return (f"{verdict};", f"{exceptions_text}{doubts}")

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def _describe_verdict(self) -> str:
        """Return the number of evictions and rounds as text, and whether the evictions loop, end or continue."""
        rounds = len({step.round for step in self.steps})
        if not self.steps:
            return f"The descheduler evicts nothing{' so far' if self.interrupted else ''}"
        eviction_count = counted(len(self.steps), "eviction")
        evicted = f"{eviction_count} in {counted(rounds, 'round')}"
        if self.loops:
            return f"The descheduler never stops: after {evicted}, an earlier placement recurs"
        if self.quiet:
            return f"The descheduler stops after {eviction_count}: round {len(self.rounds)} evicts nothing"
        return f"The descheduler has not stopped after {evicted}"

    def list_harms(self) -> tuple[str, ...]:
        """Return texts on the data that evictions delete, and on the workloads that they interrupt."""
        return tuple(cost.text for cost in list_eviction_costs(self))

    def _iter_further_doubts(self) -> Iterator[str]:
        """Also yield the parts of the policy that the descheduler does not read."""
        yield from super()._iter_further_doubts()
        if self.policy_ignored:
            yield f"the descheduler does not read {join_words(self.policy_ignored)} in the policy"

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the verdict, the evicted pods, and the held-back pods with their reasons.

        Warnings name the evicted pods and the harm of the evictions, and figures count the evictions.
        """
        if self.loops:
            verdict = "Loops"
        elif self.quiet:
            verdict = "Quiet"
        else:
            verdict = "NotQuiet"
        evicted_pods = tuple(dict.fromkeys(step.pod for step in self.steps))
        return replace(
            summary,
            subject=self.policy,
            verdict=verdict,
            pods=tuple(ShortPods(group.pods, group.names[0], group.plugin, group.why) for group in self.held),
            victims=evicted_pods,
            warnings=(f"evicts {first_few(evicted_pods)}", *self.list_harms()) if evicted_pods else (),
            figures={"evictions": len(self.steps), "again": self.again, "unsafe": self.unsafe},
        )
