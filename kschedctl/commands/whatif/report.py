"""The report of `whatif`: apiVersion kschedctl.dev/v1, kind WhatIf."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kschedctl.api.ownership import Owner
from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.reports.columns import Column, CsvTable, to_csv_table
from kschedctl.reports.document import Document
from kschedctl.reports.lost_nodes import LatePods, PodsWaitingForDeletion, describe_late_pods, describe_waiting_pods
from kschedctl.reports.not_created import NotCreated, describe_not_created
from kschedctl.reports.placements import (
    BlockedPod,
    DownNode,
    EvictedPod,
    EvictionFate,
    PinnedVolume,
    Spread,
    describe_data_on_nodes,
    describe_differing_runs,
    describe_pods_stuck_on_down_nodes,
    describe_violated_budgets,
    group_blocked_pods,
    join_reason_with_cause,
)
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import ShortPods, Summary, list_eviction_costs
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, counted, first_few, join_words

LOST = "Lost"
"""The outcome of a pod that is gone and that no controller recreates."""
CHANGES = {
    "NewlyPending": "newly pending",
    LOST: "lost for good",
    "Gone": "gone",
    "NewlyScheduled": "newly scheduled",
    "Created": "created",
    "Moved": "moved",
    "Restarted": "restarted on the same node",
}
"""Outcome of a changed pod -> its words, most important first."""
_FATES: Mapping[str, str] = {
    EvictionFate.MOVED: "moved",
    EvictionFate.PENDING: "then pending",
    EvictionFate.LOST: "lost for good",
}
"""The fate of a pod that is preempted before the first step, in words."""
_MAX_NAMED_VICTIMS = 4
"""The maximum number of preempted pods of a step that are named."""
BLOCKED = "Blocked"
"""The verdict if a drain cannot be completed, and the key of the number of pods that do not leave."""
NUMBERS_OVER_RUNS = {BLOCKED: "cannot leave drained nodes", **CHANGES}
"""Key of `WhatIf.over_runs` -> its words, most important first."""


class StepReport(Document, frozen=True):
    """A step of the scenario, with its effects on pods."""

    step: Annotated[str, Column("change", keep=True)]
    displaced: Annotated[int, Column(show_above=0)]
    """The number of pods that lost their node and that controllers recreate."""
    placed: Annotated[int, Column(show_above=0)]
    """The number of pods that got a node."""
    pending: Annotated[int, Column(show_above=0, place=1)]
    """The number of pods that wait after the step."""
    evicted: Annotated[int, Column("preempted", show_above=0)]
    """The number of pods that kube-scheduler preempted."""
    notes: Annotated[tuple[str, ...], Column("note", lines=True, place=1)] = ()
    blocked: tuple[BlockedPod, ...] = ()
    """The pods that a drain cannot evict."""
    returned: tuple[str, ...] = ()
    """The evicted pods that are on a drained node again, since they tolerate the cordon."""
    not_drained: tuple[str, ...] = ()
    """The nodes that a drain does not empty, since pods cannot be evicted, come back or stay Terminating."""
    subject: str = ""
    """The objects that the step is about, such as the names of its nodes."""
    ending: int = 0
    """The number of pods of DaemonSets and static pods that end with their nodes and do not count as displaced."""
    waiting_until_deleted: tuple[PodsWaitingForDeletion, ...] = ()
    """The pods that fit nowhere until the failed nodes are deleted."""
    late_pods: tuple[LatePods, ...] = ()
    """The pods that run again only once the failed nodes are deleted."""
    preempted: tuple[EvictedPod, ...] = ()
    """The preempted pods, in the order of their evictions. A pod that is evicted twice is listed twice."""
    violated_budgets: dict[str, int] = {}
    """PodDisruptionBudget that preemption violates -> the number of disruptions that it allows before the step's
    evictions.
    """


class PodChange(Document, frozen=True):
    """A pod that ends up elsewhere or is restarted."""

    pod: Annotated[str, Column(keep=True)]
    workload: str
    change: Annotated[str, Column()]
    """Moved, Restarted, NewlyPending, NewlyScheduled, Created or Gone."""
    before: Annotated[str, Column(keep=True)] = ""
    """The node before, or an empty string."""
    after: Annotated[str, Column(keep=True, beneath="→")] = ""
    """The node after, or an empty string."""
    message: Annotated[str, Column(csv_only=True)] = ""
    """The scheduler's message if the pod waits."""
    cause: Annotated[str, Column(csv_only=True)] = ""
    """A cause that a newly pending pod's message does not name, such as a volume that one zone only can use, or a
    missing StorageClass.
    """
    because: Annotated[tuple[str, ...], Column("because of", show_all=True)] = ()
    """The version changes that cause the change."""
    lost: Annotated[bool, Column(csv_only=True)] = False
    """True if the pod is gone for good: no controller recreates it, and it was not being deleted anyway."""
    ends_with_job: bool = False
    """True if the pod is lost because its Job fails."""
    waits_now: bool = False
    """True if the pod is pending now. `before` is then the node that it would get without the steps."""

    @property
    def outcome(self) -> str:
        """The change, or `Lost` for a pod that is gone for good. It is a key of `CHANGES`."""
        return LOST if self.lost else self.change


class WaitBetweenSteps(Document, frozen=True):
    """Pods of a workload that have no node after some steps, although they have one or are gone in the end."""

    workload: str
    pods: tuple[str, ...]
    steps: tuple[int, ...]
    """The numbers of the steps after which some of the pods have no node."""
    most: int
    """The largest number of pods without a node at the same time."""

    def describe(self) -> str:
        """Return a sentence that says how many pods have no node after which steps."""
        pods = counted(self.most, "pod")
        steps = f"{agreeing(len(self.steps), 'step', 'steps')} {join_words(list(map(str, self.steps)))}"
        up_to = "up to " if self.most > 1 and len(self.steps) > 1 else ""
        verb = agreeing(self.most, "has", "have")
        return f"{up_to}{pods} of {self.workload} {verb} no node after {steps} ({first_few(self.pods)})"


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
    pods: Annotated[tuple[str, ...], Column(show_count=True, place=-1)]
    because: tuple[str, ...] = ()
    """The version changes that cause the difference."""


class PodsElsewhere(Document, frozen=True):
    """Running pods of a workload that would go to other nodes if they were recreated."""

    workload: Annotated[str, Column()]
    pods: Annotated[tuple[str, ...], Column(show_count=True, place=-1)]
    before: Annotated[tuple[str, ...], Column("best before")]
    """The equally good nodes before, empty if the pod would wait."""
    after: Annotated[tuple[str, ...], Column("best after", beneath="→")]
    """The equally good nodes after, empty if the pod would wait."""
    because: Annotated[tuple[str, ...], Column("because of", show_all=True)] = ()


class PodsRescored(Document, frozen=True):
    """Running pods of a workload with the same best nodes, but with scores that differ otherwise."""

    workload: Annotated[str, Column()]
    pods: Annotated[tuple[str, ...], Column(show_count=True, place=-1)]
    because: Annotated[tuple[str, ...], Column("because of", show_all=True)] = ()


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
    """Change -> the smallest and the largest number of pods over several runs. `Blocked` counts pods that do not leave
    drained nodes.
    """
    not_created: tuple[NotCreated, ...] = ()
    """Workloads with pods that the API server denies."""
    waiting: int = 0
    """The number of pods that wait in the cluster now, including those that get a node without any change."""
    waiting_placed: int = 0
    """The number of these pods that get a node before the first step."""
    steps_before: tuple[StepReport, ...] = ()
    """The steps under the first of the two schedulers, if two are compared. `steps` are under the second."""
    unverified: str = ""
    """The compared version that is replayed from its sources only, with the number of its changes not replayed."""
    down_nodes: tuple[DownNode, ...] = ()
    """The drained nodes that are unreachable or not ready, and whose pods stay Terminating."""
    pinned_volumes: tuple[PinnedVolume, ...] = ()
    """The volumes that can be used only from removed or failed nodes, of pods there and of pending pods."""
    evicted_before: tuple[EvictedPod, ...] = ()
    """The pods that pending pods preempt before the first step. These pods are not among the changes."""
    violated_budgets_before: dict[str, int] = {}
    """PodDisruptionBudget that preemption violates before the first step -> the number of disruptions it allows."""
    ended_before: tuple[str, ...] = ()
    """The pods of Jobs that fail before the first step because one of their pods is preempted."""
    waits_between_steps: tuple[WaitBetweenSteps, ...] = ()
    """The pods that have no node after some steps, although they have one or are gone in the end."""
    loses_data: tuple[str, ...] = ()
    """The pods that drains evict and whose emptyDir volumes are deleted (`namespace/name`)."""
    ask_to_stay: tuple[str, ...] = ()
    """The pods that drains evict although their annotations ask autoscalers not to (`namespace/name`)."""
    outages: tuple[str, ...] = ()
    """The workloads that have no running pod until replacements run, since a drain evicts all their pods."""
    starting_over: tuple[str, ...] = ()
    """The pods of Jobs that drains evict, whose replacements start from the beginning (`namespace/name`)."""
    slow_pods: dict[str, int] = {}
    """The drained pods with a long grace period, each with the seconds that it may take to end."""
    kind: str = "WhatIf"

    def describe_eviction_harms(self) -> tuple[str, ...]:
        """Return sentences on the data that drains delete, and on the workloads that they interrupt."""
        return tuple(f"Draining {cost.text}" for cost in list_eviction_costs(self))

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the verdict and the numbers of affected pods by change.

        Drains that cannot be completed come first, then pods that are not created, and then pods that are lost for
        good.

        If schedulers are compared, the end says how many messages change and how many running pods have other best
        nodes.
        """
        numbers = Counter(change.outcome for change in self.changes)
        lost_pods = self.lost_pods
        is_verdict_on_lost_pods = bool(lost_pods) and not self.not_created and not self.incomplete_steps
        if is_verdict_on_lost_pods:
            del numbers[LOST]  # the verdict counts these pods
        counts = ", ".join(f"{numbers[kind]:,} {word}" for kind, word in CHANGES.items() if numbers[kind])
        ending = f"{self._describe_waiting_pods()}{self._describe_further_differences()}{describe_doubt(self.unknown)}"
        if self.incomplete_steps:
            verdict = f"{self._name_incomplete_steps()} cannot be completed:"
            return (verdict, f"{self._describe_incomplete_steps(counts)}{ending}")
        down_nodes_text = "".join(f"; {text}" for text in describe_pods_stuck_on_down_nodes(self.down_nodes))
        ending = f"{down_nodes_text}{ending}"
        if self.not_created:
            failures = describe_not_created(self.not_created)
            if counts:
                failures += f"; {counts}"
            return ("Not created:", f"{failures}{ending}")
        if is_verdict_on_lost_pods:
            other_counts = f"; {counts}" if counts else ""
            verdict = counted(len(lost_pods), "pod is lost for good:", "pods are lost for good:")
            return (verdict, f"{self._explain_lost_pods()}{other_counts}{ending}")
        if not counts:
            # Without steps, a comparison of schedulers places only the pending pods.
            pod = "pending pod" if self.compared and not self.steps else "pod"
            return (f"No {pod} ends up elsewhere{ending}",)
        return ("Effect on pods:", f"{counts}{ending}")

    def _explain_lost_pods(self) -> str:
        """Name the lost pods, and say why they are lost: no controller recreates them, or their Job fails."""
        texts = []
        if uncontrolled := [change.pod for change in self.changes if change.lost and not change.ends_with_job]:
            them = agreeing(len(uncontrolled), "it", "them")
            texts.append(f"{first_few(uncontrolled)} (no controller recreates {them})")
        pods_by_job: dict[str, list[str]] = {}
        for change in self.changes:
            if change.ends_with_job:
                pods_by_job.setdefault(change.workload, []).append(change.pod)
        texts += [f"{first_few(pods)} ({job} fails)" for job, pods in pods_by_job.items()]
        return " and ".join(texts)

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    @property
    def incomplete_steps(self) -> tuple[int, ...]:
        """The numbers of the drains that do not empty their nodes."""
        return tuple(number for number, step in enumerate(self.steps, 1) if step.not_drained)

    @property
    def blocked_pods(self) -> tuple[BlockedPod, ...]:
        """The pods that drains cannot evict, each once, with the first reason."""
        pods: dict[str, BlockedPod] = {}
        for step in self.steps:
            for blocked in step.blocked:
                pods.setdefault(blocked.pod, blocked)
        return tuple(pods.values())

    @property
    def returned_pods(self) -> tuple[str, ...]:
        """The evicted pods that come back to a drained node, each once."""
        return tuple(dict.fromkeys(pod for step in self.steps for pod in step.returned))

    @property
    def pods_not_leaving(self) -> tuple[str, ...]:
        """The pods that cannot be evicted from a drained node or that come back to one."""
        return tuple(dict.fromkeys([*(blocked.pod for blocked in self.blocked_pods), *self.returned_pods]))

    def _name_incomplete_steps(self) -> str:
        """Name the drains that cannot be completed by their numbers, such as `Step 1`."""
        numbers = list(map(str, self.incomplete_steps))
        return f"{agreeing(len(numbers), 'Step', 'Steps')} {first_few(numbers)}"

    def _describe_incomplete_steps(self, counts: str) -> str:
        """Describe the pods that keep drains from being completed, the pods that are not created, and the `counts`."""
        outcomes = list(self._describe_pods_not_leaving())
        if self.not_created:
            outcomes.append(f"not created: {describe_not_created(self.not_created)}")
        if counts:
            outcomes.append(counts)
        return "; ".join(outcomes)

    def _describe_pods_not_leaving(self) -> tuple[str, ...]:
        """Describe the pods that keep drains from being completed. The first text begins with the nodes."""
        texts = []
        blocked, returned = [pod.pod for pod in self.blocked_pods], self.returned_pods
        if blocked:
            cannot_be_evicted = counted(len(blocked), "pod cannot be evicted", "pods cannot be evicted")
            texts.append(f"{cannot_be_evicted} ({first_few(blocked)})")
        if returned:
            come_back = counted(
                len(returned), "pod comes back: it tolerates the cordon", "pods come back: they tolerate the cordon"
            )
            texts.append(f"{come_back} ({first_few(returned)})")
        texts += describe_pods_stuck_on_down_nodes(self.down_nodes)
        nodes = first_few(list(dict.fromkeys(node for step in self.steps for node in step.not_drained)))
        first_text, *other_texts = texts
        return (f"{nodes} – {first_text}", *other_texts)

    @property
    def lost_pods(self) -> tuple[str, ...]:
        """The pods that are gone and that no controller recreates."""
        return tuple(change.pod for change in self.changes if change.lost)

    @property
    def pods_waiting_until_deleted(self) -> tuple[str, ...]:
        """The pods that fit nowhere until failed nodes are deleted, each once."""
        groups = (group for step in self.steps for group in step.waiting_until_deleted)
        return tuple(dict.fromkeys(pod for group in groups for pod in group.pods))

    def _describe_waiting_pods(self) -> str:
        """Describe, as the end of a sentence, how many pods wait between the steps or until failed nodes are deleted.

        Pods that run again only after that deletion are counted as well. Return "" if there are no such pods.
        """
        text = ""
        between = {pod for wait in self.waits_between_steps for pod in wait.pods}
        if between:
            text += f"; between the steps, {counted(len(between), 'pod waits', 'pods wait')} for a node"
        waiting = len(self.pods_waiting_until_deleted)
        if waiting:
            text += f"; {counted(waiting, 'pod waits', 'pods wait')} until the failed nodes' Node objects are deleted"
        late = len({pod for step in self.steps for group in step.late_pods for pod in group.pods})
        if late:
            text += (
                f"; {counted(late, 'pod runs', 'pods run')} again only after the failed nodes' Node objects are deleted"
            )
        return text

    def describe_evictions_before(self) -> tuple[str, ...]:
        """Return a text for each pod that fits before the first step by preempting others, with the fate of these.

        A text on other pods that end because their Job fails, and texts on violated PodDisruptionBudgets, follow.
        """
        victims_by_preemptor: dict[str, list[EvictedPod]] = {}
        for evicted in self.evicted_before:
            if not evicted.was_terminating:
                victims_by_preemptor.setdefault(evicted.by, []).append(evicted)
        texts = []
        for preemptor, victims in victims_by_preemptor.items():
            names = first_few([f"{victim.pod} ({_FATES.get(victim.fate, 'fate unknown')})" for victim in victims])
            texts.append(f"{preemptor} gets a node by evicting {names}, which does not count as a change")
        victim_keys = {victim.pod for victim in self.evicted_before}
        if ended := [pod for pod in self.ended_before if pod not in victim_keys]:
            ends = counted(len(ended), "other pod ends with its failed Job", "other pods end with their failed Jobs")
            texts.append(f"{ends} ({first_few(ended)})")
        texts += describe_violated_budgets(self.violated_budgets_before, self.evicted_before)
        return tuple(texts)

    def describe_pending_counts(self) -> str:
        """Return how many pods are pending before and after the steps, or under the compared schedulers."""
        pending_before, pending_after = self.pending
        steps = " the steps" if self.steps and not self.compared else ""
        displaced = {pod.pod for pod in self.evicted_before if pod.fate == EvictionFate.PENDING}
        preempted = f" ({len(displaced):,} of them preempted by other pending pods)" if displaced else ""
        are = agreeing(pending_before, "is", "are")
        return f"{counted(pending_before, 'pod')} {are} pending before{steps}{preempted}, and {pending_after:,} after"

    def describe_evictions_in_steps(self) -> tuple[str, ...]:
        """Return a text for each step in which pods are preempted, with the pods, their nodes and their preemptors.

        A text on each PodDisruptionBudget that this violates follows.
        """
        texts = []
        for number, step in enumerate(self.steps, 1):
            victims = [
                f"{victim.pod} on {victim.node}, preempted by {victim.by}"
                + (f" ({_FATES[victim.fate]})" if victim.fate in _FATES else "")
                for victim in step.preempted
            ]
            if victims:
                left_out = len(victims) - _MAX_NAMED_VICTIMS
                more = f"; and {left_out:,} more" if left_out > 0 else ""
                texts.append(f"step {number} evicts {'; '.join(victims[:_MAX_NAMED_VICTIMS])}{more}")
            texts += (
                f"step {number} {text}" for text in describe_violated_budgets(step.violated_budgets, step.preempted)
            )
        return tuple(texts)

    def describe_waits_between_steps(self) -> tuple[str, ...]:
        """Return a text for each workload with pods that wait between the steps."""
        return tuple(wait.describe() for wait in self.waits_between_steps)

    def describe_pods_until_deletion(self) -> tuple[str, ...]:
        """Return clauses on the pods that wait or run late until failed nodes are deleted."""
        return (
            *describe_waiting_pods(group for step in self.steps for group in step.waiting_until_deleted),
            *describe_late_pods(group for step in self.steps for group in step.late_pods),
        )

    def _describe_restarted_pods(self) -> tuple[str, ...]:
        """Describe the pods that restart on the same node in one clause, or return () if no pod restarts.

        The pods of StatefulSets are named first.
        """
        restarted = [change for change in self.changes if change.change == "Restarted"]
        restarted.sort(key=lambda change: Owner.parse(change.workload).kind != "StatefulSet")
        pods = first_few([change.pod for change in restarted])
        return (f"restarted on the same node: {pods}",) if restarted else ()

    def _describe_further_differences(self) -> str:
        """Describe, as the end of a sentence, how many messages change and how many running pods have other best nodes.

        Return "" if there are no such differences.
        """
        text = ""
        pods_with_messages = sum(len(change.pods) for change in self.messages)
        if pods_with_messages:
            gets = agreeing(pods_with_messages, "gets", "get")
            pods = counted(pods_with_messages, "pending pod")
            text += f"; {pods} {gets} a different message (alerts on the old message no longer match)"
        elsewhere = sum(len(pods.pods) for pods in self.replacement.elsewhere) if self.replacement else 0
        if self.replacement and elsewhere:
            running = counted(self.replacement.asked, "pod")
            text += f"; {elsewhere:,} of {running} would get a different best node if recreated"
        return text

    def extend_summary(self, summary: Summary) -> Summary:
        """Add the verdict, the blocked, newly pending and lost pods, lost data, preemptions and figures to the summary.

        The verdict is empty unless a drain cannot be completed.
        """
        blocked = self.blocked_pods
        newly_pending = (change for change in self.changes if change.change == "NewlyPending")
        before, after = self.pending
        lost = self.lost_pods
        return replace(
            summary,
            verdict=BLOCKED if self.incomplete_steps else "",
            warnings=(
                *describe_data_on_nodes(self.pinned_volumes),
                *(
                    (f"lost for good: {self._explain_lost_pods()}",)
                    if lost and (self.incomplete_steps or self.not_created)  # otherwise, the headline names them
                    else ()
                ),
                *((self.describe_pending_counts(),) if before and after and not self.compared else ()),
                *(f"before the steps, {text}" for text in self.describe_evictions_before()),
                *self.describe_waits_between_steps(),
                *self.describe_eviction_harms(),
                *self._describe_restarted_pods(),
                *self.describe_pods_until_deletion(),
                *self.describe_evictions_in_steps(),
                *(f"step {number}: {note}" for number, step in enumerate(self.steps, 1) for note in step.notes),
                *describe_differing_runs(self.runs, self.over_runs, NUMBERS_OVER_RUNS),
            ),
            subject=self.name,
            pods=(
                *group_blocked_pods(blocked),
                *_group_newly_pending_pods(newly_pending),
            ),
            figures={
                "pendingBefore": before,
                "pendingAfter": after,
                "changes": len(self.changes),
                "blocked": len(blocked),
                "returned": len(self.returned_pods),
                "lost": len(lost),
                "waitingUntilDeleted": len(self.pods_waiting_until_deleted),
                "waitingBetweenSteps": sum(len(wait.pods) for wait in self.waits_between_steps),
            },
        )

    def build_csv_table(self) -> CsvTable:
        """Return a row for each pod that ends up elsewhere."""
        return to_csv_table(PodChange, self.changes)

    def list_pod_names(self) -> tuple[str, ...]:
        """List the names of the pods that drains cannot evict, and of the newly pending pods."""
        newly_pending = (change.pod for change in self.changes if change.change == "NewlyPending")
        return tuple(dict.fromkeys([*(blocked.pod for blocked in self.blocked_pods), *newly_pending]))

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return "no pod becomes pending or is lost, and no drain is blocked"

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return a problem for a CI gate for each pod that does not leave or end, becomes pending, or is lost."""
        returned = "comes back to a drained node: it tolerates the cordon"
        return [
            *(GateProblem("eviction-blocked", f"Pod {blocked.pod}", blocked.why) for blocked in self.blocked_pods),
            *(GateProblem("returned", f"Pod {pod}", returned) for pod in self.returned_pods),
            *(
                GateProblem("not-scheduled", f"Pod {change.pod}", change.message or "becomes Pending")
                for change in self.changes
                if change.change == "NewlyPending"
            ),
            *(GateProblem("lost", f"Pod {pod}", "no controller creates it again") for pod in self.lost_pods),
            *(
                GateProblem("not-scheduled", f"Pod {pod}", "waits until the failed nodes' Node objects are deleted")
                for pod in self.pods_waiting_until_deleted
            ),
            *(problem for down in self.down_nodes for problem in down.iter_gate_problems()),
        ]


def _group_newly_pending_pods(changes: Iterable[PodChange]) -> tuple[ShortPods, ...]:
    """Group newly pending pods of a workload that have the same message and cause."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for change in changes:
        groups.setdefault((change.workload, change.message, change.cause), []).append(change.pod)
    return tuple(
        ShortPods(
            pods=len(pods),
            such_as=pods[0],
            workload=workload,
            why=join_reason_with_cause(message, cause, len(pods)),
        )
        for (workload, message, cause), pods in groups.items()
    )
