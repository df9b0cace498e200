"""The report of `whatif`: apiVersion kschedctl.dev/v1, kind WhatIf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.reports.columns import Column, CsvTable, to_csv_table
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated, describe_not_created
from kschedctl.reports.placements import (
    DownNode,
    PinnedVolume,
    Spread,
    describe_data_on_nodes,
    describe_down_nodes,
)
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, counted, first_few

LOST = "Lost"
"""The outcome of a pod that is gone and that no controller recreates."""
CHANGES = {
    "NewlyPending": "newly pending",
    LOST: "lost for good",
    "Gone": "gone",
    "NewlyScheduled": "newly scheduled",
    "Created": "created",
    "Moved": "moved",
}
"""Outcome of a changed pod -> its words, most important first."""


class StepReport(Document, frozen=True):
    """A step of the scenario, with its effects on pods."""

    step: Annotated[str, Column("what", keep=True)]
    displaced: Annotated[int, Column(above=0)]
    """The number of pods that lost their node."""
    placed: Annotated[int, Column(above=0)]
    """The number of pods that got a node."""
    pending: Annotated[int, Column(above=0, place=1)]
    """The number of pods that wait after the step."""
    evicted: Annotated[int, Column(above=0)]
    notes: Annotated[tuple[str, ...], Column("note", lines=True, place=1)] = ()


class PodChange(Document, frozen=True):
    """A pod that ends up elsewhere."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    change: Annotated[str, Column()]
    """Moved, NewlyPending, NewlyScheduled, Created or Gone."""
    before: Annotated[str, Column(keep=True)] = ""
    """The node before, or an empty string."""
    after: Annotated[str, Column(keep=True, beneath="→")] = ""
    """The node after, or an empty string."""
    message: Annotated[str, Column(csv_only=True)] = ""
    """The scheduler's message if the pod waits."""
    because: Annotated[tuple[str, ...], Column("because of", every=True)] = ()
    """The version changes that cause the change."""
    lost: Annotated[bool, Column(csv_only=True)] = False
    """Whether the pod is gone for good: no controller recreates it, and it was not being deleted anyway."""

    @property
    def outcome(self) -> str:
        """The change, or `Lost` for a pod that is gone for good. It is a key of `CHANGES`."""
        return LOST if self.lost else self.change


class DomainBalance(Document, frozen=True):
    """A zone before and after."""

    domain: str
    nodes: tuple[int, int]
    pods: tuple[int, int]
    requested: dict[str, tuple[float, float]] = msgspec.field(default_factory=dict)
    """Resource -> its requested share in percent, before and after."""


class MessageChange(Document, frozen=True):
    """Pods that wait before and after, with another message from kube-scheduler."""

    before: Annotated[str, Column()]
    after: Annotated[str, Column(beneath="→")]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    because: tuple[str, ...] = ()
    """The version changes that cause the difference."""


class PodsElsewhere(Document, frozen=True):
    """Running pods of a workload that would go to other nodes if they were recreated."""

    workload: Annotated[str, Column()]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    before: Annotated[tuple[str, ...], Column("best before")]
    """The equally good nodes before, empty if the pod would wait."""
    after: Annotated[tuple[str, ...], Column("best after", beneath="→")]
    """The equally good nodes after, empty if the pod would wait."""
    because: Annotated[tuple[str, ...], Column("because of", every=True)] = ()


class PodsRescored(Document, frozen=True):
    """Running pods of a workload with the same best nodes, but with scores that differ otherwise."""

    workload: Annotated[str, Column()]
    pods: Annotated[tuple[str, ...], Column(counted=True, place=-1)]
    because: Annotated[tuple[str, ...], Column("because of", every=True)] = ()


class Replacement(Document, frozen=True):
    """The running pods that a controller would recreate.

    Each pod is judged as if it were the only one to be recreated.
    """

    running: int
    """The number of these pods."""
    asked: int
    """The number of pods that were compared. If there are too many, some of each workload are."""
    elsewhere: tuple[PodsElsewhere, ...] = ()
    failed: int = 0
    """The number of pods about which nothing is known, because a plugin fails."""
    rescored: tuple[PodsRescored, ...] = ()


class WhatIf(Report, frozen=True):
    """The difference that a scenario makes, or the difference between two schedulers for a scenario."""

    name: str
    seed: int
    pending: tuple[int, int]
    """The number of pending pods before and after."""
    steps: tuple[StepReport, ...] = ()
    changes: tuple[PodChange, ...] = ()
    balance: tuple[DomainBalance, ...] = ()
    compared: tuple[str, ...] = ()
    """The names of two configurations or versions. The first is "before" and the second is "after"."""
    messages: tuple[MessageChange, ...] = ()
    """Changed messages, if versions are compared."""
    replacement: Replacement | None = None
    """The running pods, if versions or configurations are compared."""
    explained: tuple[ExplainedPods, ...] = ()
    """Newly pending pods explained node by node, if requested."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    """Notes on the answers of called extenders."""
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    search_start: SearchStart | None = None
    runs: int = 1
    over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    """Change -> the smallest and the largest number of pods over several runs."""
    not_created: tuple[NotCreated, ...] = ()
    """Workloads with pods that the API server denies."""
    waiting: int = 0
    """The number of pods that wait in the cluster now, including those that get a node without any change."""
    steps_before: tuple[StepReport, ...] = ()
    """The steps under the first of the two schedulers, if two are compared. `steps` are under the second."""
    unverified: str = ""
    """Which compared version is replayed from its sources only, and how many of its changes are not replayed."""
    down_nodes: tuple[DownNode, ...] = ()
    """The drained nodes that are unreachable or not ready, and whose pods stay Terminating."""
    pinned_volumes: tuple[PinnedVolume, ...] = ()
    """The volumes that can be used only from removed or failed nodes, of pods there and of pending pods."""
    kind: str = "WhatIf"

    def build_first_line(self) -> tuple[str, ...]:
        """Return the verdict and the numbers of affected pods by change.

        Pods that are not created come first, and then pods that are lost for good.

        If schedulers are compared, the end says how many messages change and how many running pods have other best
        nodes.
        """
        numbers = Counter(change.outcome for change in self.changes)
        lost_pods = self.lost_pods
        if lost_pods and not self.not_created:
            del numbers[LOST]
        counts = ", ".join(f"{numbers[kind]:,} {word}" for kind, word in CHANGES.items() if numbers[kind])
        stuck = "".join(f"; {text}" for text in describe_down_nodes(self.down_nodes))
        doubt = f"{stuck}{self._describe_further_differences()}{describe_doubt(self.unknown)}"
        if self.not_created:
            failures = describe_not_created(self.not_created)
            if counts:
                failures += f"; {counts}"
            return ("Not created:", f"{failures}{doubt}")
        if lost_pods:
            nobody = f"(no controller recreates {agreeing(len(lost_pods), 'it', 'them')})"
            others = f"; {counts}" if counts else ""
            verdict = counted(len(lost_pods), "pod is lost for good:", "pods are lost for good:")
            return (
                verdict,
                f"{first_few(lost_pods)} {nobody}{others}{doubt}",
            )
        if not counts:
            # Without steps, a comparison of schedulers places only the pending pods.
            pod = "pending pod" if self.compared and not self.steps else "pod"
            return (f"No {pod} ends up elsewhere{doubt}",)
        return ("Pods are affected:", f"{counts}{doubt}")

    @property
    def lost_pods(self) -> tuple[str, ...]:
        """The pods that are gone and that no controller recreates."""
        return tuple(change.pod for change in self.changes if change.lost)

    def _describe_further_differences(self) -> str:
        """Describe, as the end of a sentence, how many messages change and how many running pods have other best nodes.

        Return "" if there are no such differences.
        """
        text = ""
        pods_with_messages = sum(len(change.pods) for change in self.messages)
        if pods_with_messages:
            gets = agreeing(pods_with_messages, "gets", "get")
            pods = counted(pods_with_messages, "pending pod")
            text += f"; {pods} {gets} another message (alerts that match it break)"
        elsewhere = sum(len(pods.pods) for pods in self.replacement.elsewhere) if self.replacement else 0
        if self.replacement and elsewhere:
            running = counted(self.replacement.asked, "pod")
            text += f"; {elsewhere:,} of {running} would have other best nodes if recreated"
        return text

    def extend_summary(self, summary: Summary) -> Summary:
        """Add the newly pending pods, lost pods and data, preemptions, and the numbers of changes to the summary."""
        newly_pending = (change for change in self.changes if change.change == "NewlyPending")
        before, after = self.pending
        evictions = sum(step.evicted for step in self.steps)
        lost = self.lost_pods
        return replace(
            summary,
            warnings=(
                *((f"lost for good, since no controller recreates them: {first_few(lost)}",) if lost else ()),
                *describe_data_on_nodes(self.pinned_volumes),
                *((f"{counted(evictions, 'pod')} preempted in the steps",) if evictions else ()),
            ),
            subject=self.name,
            pods=_group_newly_pending_pods(newly_pending),
            figures={"pendingBefore": before, "pendingAfter": after, "changes": len(self.changes), "lost": len(lost)},
        )

    def build_csv_table(self) -> CsvTable:
        """Return a row for each pod that ends up elsewhere."""
        return to_csv_table(PodChange, self.changes)

    def list_pod_names(self) -> tuple[str, ...]:
        """List the names of the newly pending pods."""
        return tuple(change.pod for change in self.changes if change.change == "NewlyPending")

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return "no pod becomes pending or is lost"

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return a problem for each newly pending, lost or endlessly terminating pod, for a CI gate to report."""
        return [
            *(
                GateProblem("not-scheduled", f"Pod {change.pod}", change.message or "becomes Pending")
                for change in self.changes
                if change.change == "NewlyPending"
            ),
            *(GateProblem("lost", f"Pod {pod}", "no controller creates it again") for pod in self.lost_pods),
            *(problem for down in self.down_nodes for problem in down.iter_gate_problems()),
        ]


def _group_newly_pending_pods(changes: Iterable[PodChange]) -> tuple[ShortPods, ...]:
    """Group newly pending pods of a workload that have the same message."""
    groups: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        groups.setdefault((change.workload, change.message), []).append(change.pod)
    return tuple(ShortPods(len(pods), pods[0], workload, message) for (workload, message), pods in groups.items())
