"""The report of `drain`: apiVersion kschedctl.dev/v1, kind Drain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from kschedctl.reports.columns import Column, CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import (
    BlockedPod,
    DownNode,
    EvictedPod,
    EvictionChain,
    FailedJob,
    Headroom,
    MovedPod,
    PendingLeftOut,
    PinnedVolume,
    PodCount,
    Spread,
    UnplacedPods,
    describe_data_on_nodes,
    describe_differing_runs,
    describe_evictions,
    describe_failing_jobs,
    describe_fates_of_evicted,
    describe_pods_stuck_on_down_nodes,
    describe_violated_budgets,
    group_blocked_pods,
    list_displaced_pods,
    list_unplaced_evicted_pods,
    select_displaced_pods,
)
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import GateProblem, Report
from kschedctl.reports.summary import CostKind, FixCost, ShortFix, Summary, list_eviction_costs
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few, join_words

NUMBER_DESCRIPTIONS = {
    "lost": "lost for good",
    "unplaced": "fit nowhere else",
    "blocked": "cannot be evicted",
    "returned": "come back to the nodes",
    "evicted": "are evicted from other nodes",
}
"""The description of each number that varies over runs."""


class QuotaOutcome(StrEnum):
    """The state of a Workload's quota after its pods are evicted."""

    KEPT = "Kept"
    """The Workload keeps its quota, and its job recreates the pods."""
    READMITTED = "Readmitted"
    """The successor of its only pod is a new Workload that Kueue admits."""
    WAITS = "Waits"
    """The successor of its only pod is a new Workload that waits for quota."""
    RELEASED = "Released"
    """No controller recreates its only pod."""


class DisplacedWorkload(Document, frozen=True):
    """A Workload of Kueue with quota, some of whose pods are evicted."""

    workload: Annotated[str, Column(keep=True)]
    job: Annotated[str, Column(beneath="of")]
    """The object whose pods the Workload stands for, or "" if it is not known."""
    pods: Annotated[int, Column("evicted pods")]
    queue: Annotated[str, Column("ClusterQueue")]
    outcome: Annotated[QuotaOutcome, Column("quota")]
    flavors: Annotated[str, Column(beneath="in")] = ""
    """The flavors in which the successor is admitted, such as ``flavor spot``."""
    reason: Annotated[str, Column(beneath="it")] = ""
    """The reason why the successor waits."""

    @property
    def gate_problem(self) -> GateProblem:
        """The problem that fails a CI gate, if the successor waits for quota."""
        return GateProblem("not-scheduled", f"Workload {self.workload}", f"its successor {self.reason}")


class HarmAfterPendingPods(Document, frozen=True):
    """The harm that the drain does only if the pending pods that get a node take their room first."""

    blocked: tuple[str, ...] = ()
    """Pods of the drained nodes that then cannot be evicted."""
    unplaced: tuple[str, ...] = ()
    """Running pods that then fit on no other node."""
    lost: tuple[str, ...] = ()
    """Pods that are then lost for good: no controller recreates them, or their Job fails."""
    evicted: tuple[str, ...] = ()
    """Pods of other nodes that are then preempted, and get another node."""

    def iter_gate_problems(self) -> Iterator[GateProblem]:
        """Yield a problem for each harmed pod, for CI."""
        reason = "once pending pods have taken their room"
        yield from (GateProblem("eviction-blocked", f"Pod {pod}", f"blocks the drain {reason}") for pod in self.blocked)
        yield from (GateProblem("not-scheduled", f"Pod {pod}", f"fits nowhere else {reason}") for pod in self.unplaced)
        yield from (GateProblem("lost", f"Pod {pod}", f"is lost for good {reason}") for pod in self.lost)
        yield from (GateProblem("evicted", f"Pod {pod}", f"is preempted {reason}") for pod in self.evicted)

    def describe(self) -> tuple[str, ...]:
        """Return a clause on each kind of harm, the worst first."""
        kinds = (
            (self.lost, "is lost for good", "are lost for good"),
            (self.blocked, "cannot be evicted", "cannot be evicted"),
            (self.unplaced, "fits nowhere else", "fit nowhere else"),
            (self.evicted, "is preempted", "are preempted"),
        )
        return tuple(
            f"{join_first_few(pods)} {agreeing(len(pods), singular, plural)} once pending pods have taken their room"
            for pods, singular, plural in kinds
            if pods
        )


class Drain(Report, frozen=True):
    """The effect of draining some nodes."""

    nodes: tuple[str, ...]
    seed: int
    drained: bool
    """True if only pods that belong to the nodes are left in every run.

    False if pods stay Terminating on an unreachable node.
    """
    safe: bool
    """True if in every run each evicted pod gets another node, no pod is lost, and no other pod is evicted.

    No pending pod may lose its nominated node, or the only nodes where it can run, and no pod may stay Terminating on a
    node that is unreachable or not ready. All of this must also hold if pending pods take room first. The fields
    `loses_data`, `ask_to_stay`, `outages` and `starting_over` name what evictions harm all the same.
    """
    moved: tuple[MovedPod, ...] = ()
    unplaced: tuple[UnplacedPods, ...] = ()
    """Evicted pods that fit on no other node, including preempted pods of other nodes."""
    blocked: tuple[BlockedPod, ...] = ()
    """Pods that cannot be evicted."""
    evicted: tuple[EvictedPod, ...] = ()
    """Pods preempted by the drained ones. Their replacements are among the moved or unplaced pods."""
    lost: tuple[str, ...] = ()
    """Pods that no controller recreates, including the pods of failed Jobs."""
    without_controller: tuple[str, ...] = ()
    """The lost pods that kubectl evicts only with --force, since they have no controller."""
    violated_budgets: dict[str, int] = msgspec.field(default_factory=dict)
    """PodDisruptionBudget that preemption violates -> the number of disruptions that it allows now."""
    evictions: int = 0
    """The number of pods that are evicted from the nodes, without pods that are preempted or end with their Job."""
    evictions_by_node: dict[str, int] = {}
    """The number of these pods by node, for nodes with any."""
    failed_jobs: tuple[FailedJob, ...] = ()
    """The Jobs that fail because their pods are evicted, which ends all their pods."""
    returned: tuple[str, ...] = ()
    """Pods that come back to the nodes because they tolerate the cordon."""
    staying: int = 0
    """The number of DaemonSet and static pods."""
    untried: int = 0
    """The number of pods that were not tried before the user interrupted."""
    terminating: tuple[str, ...] = ()
    """Pods on the nodes that are being deleted already. `kubectl drain` waits until they are gone."""
    grace_ends: str = ""
    """The time at which the grace period of the last terminating pod ends; empty if no pod is terminating."""
    nominated: tuple[str, ...] = ()
    """Pending pods for which preemption reserved one of the nodes, and which lose that room."""
    stranded: tuple[str, ...] = ()
    """Pending pods that can run on none but the drained nodes, whatever room is made elsewhere."""
    headroom: tuple[Headroom, ...] = ()
    """The room on the nodes that are ready and not drained."""
    zones: tuple[PodCount, ...] = ()
    """Pods per zone."""
    nodes_changed: tuple[PodCount, ...] = ()
    """Pods per node, for the nodes where the number changed."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    """Notes on the answers of called extenders."""
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    remedy: Mapping[str, Any] | None = None
    """A scenario for `whatif` with additional nodes that leaves no pod without a node, if one was found."""
    search_start: SearchStart | None = None
    runs: int = 1
    """The number of runs. Other fields describe the first run, in which pods are evicted one by one. In further runs
    pods are evicted in parallel.
    """
    over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    """Outcome -> the smallest and the largest number of pods over the runs."""
    unplaced_over_runs: dict[str, Spread] = msgspec.field(default_factory=dict)
    """Workload -> the smallest and the largest number of unplaced pods over the runs."""
    in_no_order: dict[str, int] = msgspec.field(default_factory=dict)
    """Workload -> the number of pods that fit nowhere even if no other pod comes back."""
    not_created: tuple[NotCreated, ...] = ()
    """Workloads with replacements that the API server denies."""
    displaced_workloads: tuple[DisplacedWorkload, ...] = ()
    """The Workloads of Kueue whose pods are evicted, with what becomes of their quota."""
    chain: EvictionChain | None = None
    """The fate of the pods that the drained ones preempt. None if there are none, or if the user interrupted."""
    evicted_elsewhere: tuple[str, ...] = ()
    """The preempted pods of other nodes, each of them once."""
    delayed: tuple[BlockedPod, ...] = ()
    """The pods whose eviction is denied until replacements of pods that were evicted before them run."""
    loses_data: tuple[str, ...] = ()
    """The evicted pods whose emptyDir volumes are deleted."""
    ask_to_stay: tuple[str, ...] = ()
    """The evicted pods whose annotations ask autoscalers not to evict them."""
    outages: tuple[str, ...] = ()
    """The workloads that have no running pod until replacements run."""
    starting_over: tuple[str, ...] = ()
    """The pods of Jobs, whose replacements start from the beginning (`namespace/name`)."""
    slow_pods: dict[str, int] = {}
    """The pods with a long grace period, each with the seconds that it may take to end."""
    lost_victims: tuple[str, ...] = ()
    """The preempted pods that no controller recreates."""
    pinned_volumes: tuple[PinnedVolume, ...] = ()
    """The volumes of the drained pods that can be used only from the drained nodes."""
    down_nodes: tuple[DownNode, ...] = ()
    """The drained nodes that are unreachable or not ready, and whose pods stay Terminating."""
    other_unready_nodes: tuple[str, ...] = ()
    """The other nodes that are not ready and have pods, whose replacements may take room before the evicted pods."""
    drain_first: tuple[str, ...] = ()
    """Other nodes with unhealthy pods that use up budgets. If they are drained before the nodes, the drain is safe."""
    budget_fixes: tuple[str, ...] = ()
    """The change that lets the drain go on, for each PodDisruptionBudget that allows no eviction from the start."""
    waiting_in_budgets: tuple[str, ...] = ()
    """Pods without a node that use up the PodDisruptionBudgets of the blocked pods."""
    unplaced_without_budgets: tuple[UnplacedPods, ...] = ()
    """Blocked pods that would fit on no other node if no PodDisruptionBudget denied their eviction."""
    commands: tuple[str, ...] = ()
    """The command that drains the nodes, or () if they cannot be drained."""
    pending_left_out: PendingLeftOut = PendingLeftOut()
    """The pending pods, which take no part in the replay."""
    harm_after_pending_pods: HarmAfterPendingPods = HarmAfterPendingPods()
    """The harm that a second replay shows, in which the pending pods are scheduled before the drain."""
    kind: str = "Drain"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the nodes, the verdict, and the number of pods with each outcome that the verdict does not name."""
        doubt = describe_doubt(self.unknown)
        outcomes = self._describe_down_nodes_and_outcomes()
        if not outcomes:
            return join_first_few(self.nodes), f"{self._build_verdict()}{doubt}"
        nodes = join_first_few(self.nodes)
        return nodes, f"{self._build_verdict()}{self._separator}", f"{outcomes}{doubt}"

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def _describe_down_nodes_and_outcomes(self) -> str:
        """Describe the down nodes, and then the number of pods with each outcome, the worst outcomes first.

        The outcome that the verdict names is left out. If no pod has an outcome, the text says that nothing runs there.
        The text is empty if no node is down and the verdict names the only outcome.
        """
        *first_outcomes, last_outcome = self.list_outcomes_after_verdict() or ("",)
        outcomes = f"{', '.join(first_outcomes)}, and {last_outcome}" if first_outcomes else last_outcome
        down_nodes = "; ".join(describe_pods_stuck_on_down_nodes(self.down_nodes))
        if down_nodes:
            return f"{down_nodes}; then {outcomes or 'nothing runs there'}"
        return outcomes or ("" if self._find_outcome_in_verdict() else "nothing runs there")

    def list_outcomes_after_verdict(self) -> list[str]:
        """Describe the number of pods with each outcome, except for the outcome that the verdict names."""
        in_verdict = self._find_outcome_in_verdict()
        return [outcome for outcome in self._list_outcomes() if outcome != in_verdict]

    @property
    def _separator(self) -> str:
        """The mark between the verdict and the outcomes: a colon, unless the verdict names some other harm."""
        return ";" if self.verdict_names_harm else ":"

    @property
    def verdict_names_harm(self) -> bool:
        """True if the verdict names the worst outcome, or the harm of a drain that is safe otherwise."""
        return bool(self._find_outcome_in_verdict()) or bool(self.safe and self._harms)

    def _find_outcome_in_verdict(self) -> str:
        """Return the worst outcome if the verdict names it, or "" if the verdict is a general one."""
        if self.safe or not self.drained or self.down_nodes:
            return ""
        return next(self._iter_drawbacks(), "")

    def _list_outcomes(self) -> list[str]:
        """Describe the number of pods with each outcome, the worst outcomes first. Return [] if nothing runs there."""
        outcomes = [
            *self._iter_fates(),
            *self._describe_pods_evicted_elsewhere(),
            *self._describe_pods_evicted_twice(),
            *self._iter_waits(),
            *self._iter_effects_on_pending_pods(),
        ]
        if self.untried:
            outcomes.append(counted(self.untried, "pod was not tried", "pods were not tried"))
        if self.staying:
            outcomes.append(counted(self.staying, "DaemonSet or static pod stays", "DaemonSet or static pods stay"))
        return outcomes

    def _iter_fates(self) -> Iterator[str]:
        """Describe how many pods cannot be evicted, and how many have each fate afterwards, the worst fate first."""
        if self.blocked:
            cannot = counted(len(self.blocked), "pod cannot be evicted", "pods cannot be evicted")
            yield f"{cannot} ({first_few([pod.pod for pod in self.blocked])})"
        yield from self._iter_fates_without_node()
        if self.returned:
            yield counted(
                len(self.returned),
                "pod comes back: it tolerates the cordon",
                "pods come back: they tolerate the cordon",
            )
        if self._moved_count:
            yield counted(self._moved_count, "pod moves to another node", "pods move to other nodes")

    def _iter_fates_without_node(self) -> Iterator[str]:
        """Describe which Jobs fail, and how many evicted pods are lost, fit nowhere else, wait or are not recreated."""
        if self.failed_jobs:
            yield describe_failing_jobs(self.failed_jobs)
        ended_pods = {pod for job in self.failed_jobs for pod in job.pods}
        counts_and_fates = (
            (
                sum(pod not in ended_pods for pod in (*self.lost, *self.lost_victims)),
                "pod is lost: no controller recreates it",
                "pods are lost: no controller recreates them",
            ),
            (self._unplaced_count - self._unplaced_evicted_count, "pod fits nowhere else", "pods fit nowhere else"),
            (self._waiting_count, "pod waits for quota of Kueue", "pods wait for quota of Kueue"),
            (self._not_created_count, "pod is not recreated", "pods are not recreated"),
        )
        for count, singular, plural in counts_and_fates:
            if count:
                yield counted(count, singular, plural)

    def _iter_waits(self) -> Iterator[str]:
        """Describe the pods for which the drain waits: those that can only be evicted later, and the terminating."""
        if self.delayed:
            waits = counted(len(self.delayed), "pod can be evicted only", "pods can be evicted only")
            names = first_few([delayed.pod for delayed in self.delayed])
            yield f"{waits} once replacements of others are ready ({names})"
        if self.terminating:
            verb = agreeing(len(self.terminating), "pod is", "pods are")
            yield f"{len(self.terminating):,} {verb} still terminating (grace period ends {self.grace_ends})"

    def _iter_effects_on_pending_pods(self) -> Iterator[str]:
        """Describe how pending pods and the drain harm each other.

        Pending pods may be unable to run elsewhere or lose their nominated node, or take the room of evicted pods.
        """
        yield from self.harm_after_pending_pods.describe()
        if self.stranded:
            can = agreeing(len(self.stranded), "pending pod can", "pending pods can")
            yield f"{len(self.stranded):,} {can} run nowhere else ({first_few(self.stranded)})"
        if self.nominated:
            loses = agreeing(len(self.nominated), "pending pod loses its", "pending pods lose their")
            yield f"{len(self.nominated):,} {loses} nominated node ({first_few(self.nominated)})"

    def _iter_drawbacks(self) -> Iterator[str]:
        """Describe the outcomes that leave pods without a node, the worst first."""
        yield from self._iter_fates_without_node()
        if self._unplaced_evicted_count:
            yield from self._describe_pods_evicted_elsewhere()
        yield from self._iter_effects_on_pending_pods()

    def _build_verdict(self) -> str:
        """Return the verdict as a predicate of the nodes.

        If the nodes can be drained, but not safely, it includes the worst drawback. If every pod gets another node, it
        includes all that evictions harm.
        """
        if self.safe and self._harms:
            probably = "probably " if describe_doubt(self.unknown) else ""
            return f"can {probably}be drained, but this {join_words(self._harms)}"
        if self.safe:
            are = agreeing(len(self.nodes), "is", "are")
            return f"{are} probably safe to drain" if describe_doubt(self.unknown) else f"{are} safe to drain"
        if not self.drained and self.interrupted and not self.blocked:
            return agreeing(len(self.nodes), "is not drained yet", "are not drained yet")
        if not self.drained:
            return "cannot be drained"
        if self.down_nodes:
            return "can be drained, but pods may stay Terminating"
        outcome = self._find_outcome_in_verdict()
        return f"can be drained, but {outcome}" if outcome else "can be drained, with disruption"

    @property
    def _harms(self) -> tuple[str, ...]:
        """The harm that evictions do even if all pods get another node, in short clauses that follow "this".

        The worst harm comes first. Long grace periods do not count as harm.
        """
        harms = []
        if self.outages:
            harms.append(f"leaves {first_few(self.outages, 1)} without a running pod for a while")
        if self.starting_over:
            harms.append(f"restarts {counted(len(self.starting_over), 'Job pod')} from the beginning")
        if self.loses_data:
            harms.append("deletes emptyDir data")
        if self.ask_to_stay:
            harms.append("evicts pods that ask not to be evicted")
        return tuple(harms)

    def _describe_pods_evicted_elsewhere(self) -> list[str]:
        """Describe the evicted pods of other nodes: how many there are, and how many get no node or are lost.

        If all of them move, the text says so. Return a list with this one text, or [] if no pod of another node is
        evicted.
        """
        evicted = len(self.evicted_elsewhere)
        if not evicted:
            return []
        text = counted(evicted, "pod elsewhere is preempted", "pods elsewhere are preempted")
        lost = len(set(self.lost_victims).intersection(self.evicted_elsewhere))
        if fates := describe_fates_of_evicted(evicted, self._unplaced_evicted_count, lost):
            return [f"{text}{fates}"]
        moved_from_other_nodes = sum(pod.source not in self.nodes for pod in self.moved)
        if moved_from_other_nodes == evicted:
            return [f"{text} and {agreeing(evicted, 'moves', 'move')}"]
        return [text]

    def _describe_pods_evicted_twice(self) -> tuple[str, ...]:
        """Return a text on the pods of the drained nodes that are preempted on their new nodes, or () if none is."""
        elsewhere = set(self.evicted_elsewhere)
        twice = [pod for pod in list_displaced_pods(self.evicted) if pod not in elsewhere]
        if not twice:
            return ()
        are = agreeing(len(twice), "moved pod is", "moved pods are")
        return (
            f"{len(twice):,} {are} preempted on {agreeing(len(twice), 'its', 'their')} new node ({first_few(twice)})",
        )

    @property
    def headline_entries(self) -> int:
        """Return 1 if a pod is blocked, since the headline says why its group cannot be evicted, otherwise 0."""
        return int(bool(self.blocked))

    def _describe_blocker(self) -> str:
        """Describe why the first blocked pod cannot be evicted, and count the other blocked pods.

        Return "" if no pod is blocked.
        """
        if not self.blocked:
            return ""
        first, *other_blocked = self.blocked
        more = f" and {counted(len(other_blocked), 'more pod')}" if other_blocked else ""
        return "; ".join([*describe_pods_stuck_on_down_nodes(self.down_nodes), f"{first.why} ({first.pod}{more})"])

    def describe_blocked_kubectl_drain(self) -> tuple[str, ...]:
        """Describe what `kubectl drain` would do, in one sentence, or return () if no pod is blocked.

        kubectl drains one node after the other. It retries an eviction that one budget denies, so that it never comes
        to the nodes after that. If several budgets select the pod, it goes on and ends with an error.

        Upstream: RunDrain and RunNodeDrain in staging/src/k8s.io/kubectl/pkg/cmd/drain/drain.go and
        staging/src/k8s.io/kubectl/pkg/drain/drain.go (v1.36).
        """
        if not self.blocked:
            return ()
        retried_on = {pod.node for pod in self.blocked if len(pod.budgets) == 1}
        stuck_index = next((index for index, node in enumerate(self.nodes) if node in retried_on), None)
        reached = self.nodes if stuck_index is None else self.nodes[: stuck_index + 1]
        if stuck_index is None:
            end = "end with an error"
        elif len(self.nodes) == 1:
            end = "retry forever, unless --timeout is set"
        else:
            end = f"retry forever on {self.nodes[stuck_index]}, unless --timeout is set"
            if not_reached := self.nodes[stuck_index + 1 :]:
                end += f", and never come to {join_first_few(not_reached)}"
        eviction_count = sum(self.evictions_by_node.get(node, 0) for node in reached)
        evictions = f"evict {counted(eviction_count, 'other pod')}" if eviction_count else "evict no pod"
        return (f"kubectl drain would cordon {join_first_few(self.nodes)}, {evictions}, and then {end}",)

    def _describe_pods_unplaced_without_budgets(self) -> tuple[str, ...]:
        """Return a sentence on the blocked pods that would fit nowhere else, as a tuple, or () if there are none."""
        pods = [pod for group in self.unplaced_without_budgets for pod in group.pods]
        if not pods:
            return ()
        them = agreeing(len(pods), "it", "them")
        return (f"even if the budgets allowed the eviction of {join_first_few(pods)}, no other node could take {them}",)

    @property
    def unfit_in_budgets(self) -> tuple[str, ...]:
        """The pods in `waiting_in_budgets` that fit on no node now."""
        fitting_pods = self.pending_left_out.fitting or ()
        return tuple(pod for pod in self.waiting_in_budgets if pod not in fitting_pods)

    @property
    def bare_victims(self) -> tuple[str, ...]:
        """The preempted pods without a controller."""
        ended_pods = {pod for job in self.failed_jobs for pod in job.pods}
        return tuple(pod for pod in self.lost_victims if pod not in ended_pods)

    @property
    def pods_of_failed_indexes(self) -> tuple[str, ...]:
        """The lost pods whose Job goes on without their index."""
        pods_lost_otherwise = {*self.without_controller, *(pod for job in self.failed_jobs for pod in job.pods)}
        return tuple(pod for pod in self.lost if pod not in pods_lost_otherwise)

    def _describe_lost_pods(self) -> tuple[str, ...]:
        """Return a clause on each kind of lost pods, starting with those of failed Jobs.

        Pods of failed Job indexes follow, then evicted pods without a controller, and then preempted ones.
        """
        texts = [job.describe() for job in self.failed_jobs]
        if self.pods_of_failed_indexes:
            texts.append(f"lost, since their Job does not retry their index: {first_few(self.pods_of_failed_indexes)}")
        if self.without_controller:
            pods = first_few(self.without_controller)
            texts.append(f"lost for good, and evicted by kubectl only with --force: {pods}")
        if self.bare_victims:
            texts.append(f"lost for good, since they are preempted: {first_few(self.bare_victims)}")
        return tuple(texts)

    def describe_violated_budgets(self) -> tuple[str, ...]:
        """Return a clause on each PodDisruptionBudget that preemption violates."""
        return describe_violated_budgets(self.violated_budgets, self.evicted)

    def list_harms(self) -> tuple[str, ...]:
        """Return clauses on the data that the drain deletes, and on evicted pods that ask not to be evicted."""
        return tuple(cost.text for cost in list_eviction_costs(self))

    def describe_other_unready_nodes(self) -> tuple[str, ...]:
        """Return a sentence on the other nodes that are not ready, as a tuple, or () if all are ready."""
        if not self.other_unready_nodes:
            return ()
        nodes = counted(len(self.other_unready_nodes), "other node is", "other nodes are")
        their = agreeing(len(self.other_unready_nodes), "its", "their")
        names = first_few(self.other_unready_nodes)
        return (f"{nodes} not ready ({names}): the replacements of {their} pods may take room first",)

    def _describe_drain_order(self) -> tuple[str, ...]:
        """Return one sentence, as a tuple, on the nodes to drain first and later, or () if the order is irrelevant."""
        later_nodes = list(dict.fromkeys(pod.node for pod in self.delayed))
        first_nodes = [node for node in self.nodes if node not in later_nodes]
        if not later_nodes or not first_nodes:
            return ()
        first, later = join_first_few(first_nodes), join_first_few(later_nodes)
        return (f"drain {first} first; {later} only once the replacements are ready",)

    def describe_safe_order(self) -> tuple[str, ...]:
        """Return a sentence on the nodes that have to be drained first, as a tuple, or () if there are none."""
        if not self.drain_first:
            return ()
        unhealthy = list(dict.fromkeys(pod for blocked in self.blocked for pod in blocked.unhealthy))
        replacements = agreeing(len(unhealthy), "the replacement of", "the replacements of")
        become = agreeing(len(unhealthy), "becomes", "become")
        return (
            f"the drain is possible if {join_first_few(self.drain_first)} "
            f"{agreeing(len(self.drain_first), 'is', 'are')} drained first and {replacements} "
            f"{join_first_few(unhealthy)} {become} Ready",
        )

    def _build_short_fixes(self) -> tuple[ShortFix, ...]:
        """Return the drain itself, with its command and costs.

        Return () if the nodes cannot be drained, or if new nodes should be added first.
        """
        if not self.commands or self.remedy:
            return ()
        costs = self._list_costs()
        drawback = "; ".join(cost.text for cost in costs)
        return (
            ShortFix(
                f"drain {first_few(self.nodes)}",
                "platform",
                but=drawback,
                nodes=self.nodes[:3],
                commands=self.commands,
                costs=costs,
            ),
        )

    def _list_costs(self) -> tuple[FixCost, ...]:
        """Return everything that makes the drain unsafe, and the data and preferences that it disregards."""
        costs = []
        if down_nodes := [down.node for down in self.down_nodes]:
            pods = counted(sum(len(down.pods) for down in self.down_nodes), "pod")
            costs.append(FixCost(CostKind.PARTIAL, f"may leave {pods} Terminating on {join_first_few(down_nodes)}"))
        without_node = (
            (self._unplaced_count, "without a node"),
            (self._waiting_count, "waiting for quota of Kueue"),
            (self._not_created_count, "without a replacement"),
        )
        for number, state in without_node:
            if number:
                costs.append(FixCost(CostKind.PARTIAL, f"leaves {counted(number, 'pod')} {state}"))
        if self.stranded:
            pods = counted(len(self.stranded), "pending pod")
            costs.append(FixCost(CostKind.PARTIAL, f"leaves {pods} without any node ({first_few(self.stranded, 1)})"))
        harm_kind = CostKind.LOSES if self.harm_after_pending_pods.lost else CostKind.PARTIAL
        costs += [FixCost(harm_kind, clause) for clause in self.harm_after_pending_pods.describe()]
        if losing_nomination := [pod for pod in self.nominated if pod not in self.stranded]:
            pods = counted(len(losing_nomination), "pending pod")
            text = f"takes the nominated node of {pods} ({first_few(losing_nomination, 1)})"
            costs.append(FixCost(CostKind.PARTIAL, text))
        if self._lost_count:
            lost = first_few([*self.lost, *self.lost_victims])
            costs.append(FixCost(CostKind.LOSES, f"loses {lost} for good"))
        costs += list_eviction_costs(self)
        if displaced := select_displaced_pods(self.evicted):
            costs.append(FixCost(CostKind.EVICTS, f"preempts {counted(len(displaced), 'pod')}", len(displaced)))
        return tuple(costs)

    @property
    def _lost_count(self) -> int:
        """The number of evicted and preempted pods that no controller recreates."""
        return len(self.lost) + len(self.lost_victims)

    def list_pods_moved_off_nodes(self) -> list[MovedPod]:
        """List the pods of the drained nodes that get another node."""
        return [pod for pod in self.moved if pod.source in self.nodes]

    @property
    def _moved_count(self) -> int:
        """The number of pods of the drained nodes that get another node."""
        return len(self.list_pods_moved_off_nodes())

    @property
    def _unplaced_evicted_count(self) -> int:
        """The number of preempted pods of other nodes that fit on no other node."""
        return len(list_unplaced_evicted_pods(self.unplaced))

    @property
    def _unplaced_count(self) -> int:
        """The number of evicted pods that fit on no other node."""
        return sum(len(group.pods) for group in self.unplaced)

    @property
    def _waiting_count(self) -> int:
        """The number of evicted pods whose successors wait for quota of Kueue, whatever room there is."""
        return sum(workload.pods for workload in self.displaced_workloads if workload.outcome is QuotaOutcome.WAITS)

    @property
    def _not_created_count(self) -> int:
        """The number of replacements that the API server denies."""
        return sum(workload.missing or 0 for workload in self.not_created)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the verdict, the blocked, unplaced and preempted pods, warnings and figures.

        If a pod is blocked, the headline says why.
        """
        # A drain that ends is not called safe if it harms pods
        if self.safe and not self._harms:
            verdict = "Safe"
        elif self.drained:
            verdict = "Drained"
        else:
            verdict = "Blocked"
        outcomes = self._describe_down_nodes_and_outcomes()  # without doubts, for which the summary has its own field
        explanation = self._describe_blocker() or outcomes
        details = f"{self._separator} {explanation}" if explanation else ""
        return replace(
            summary,
            subject=", ".join(self.nodes),
            verdict=verdict,
            headline=f"{join_first_few(self.nodes)} {self._build_verdict()}{details}",
            pods=(*group_blocked_pods(self.blocked), *(pods.short_form for pods in self.unplaced)),
            fixes=self._build_short_fixes(),
            victims=list_displaced_pods(self.evicted),
            advice=self.budget_fixes,
            warnings=(
                *((outcomes,) if self.blocked else ()),
                *describe_data_on_nodes(self.pinned_volumes),
                *self.describe_violated_budgets(),
                *self._describe_lost_pods(),
                *self.describe_blocked_kubectl_drain(),
                *self._describe_pods_unplaced_without_budgets(),
                *self._describe_drain_order(),
                *self.describe_safe_order(),
                *self.list_harms(),
                *(self.pending_left_out.describe() if self.pending_left_out.may_take_room else ()),
                *self.describe_other_unready_nodes(),
                *describe_evictions(self.evicted),
                *describe_differing_runs(self.runs, self.over_runs, NUMBER_DESCRIPTIONS),
            ),
            figures={
                "moved": self._moved_count,
                "unplaced": self._unplaced_count,
                "unplacedEvicted": self._unplaced_evicted_count,
                "movedEvicted": self.chain.moved if self.chain else 0,
                "returnedEvicted": self.chain.returned if self.chain else 0,
                "blocked": len(self.blocked),
                "evicted": len(select_displaced_pods(self.evicted)),
                "lost": self._lost_count,
                "returned": len(self.returned),
            },
        )

    def build_csv_table(self) -> CsvTable:
        """Build a table with a row for each pod of the drained nodes and each pod that is preempted for them."""
        rows: list[tuple[str, ...]] = [(pod.pod, "Moved", pod.source, pod.target, "") for pod in self.moved]
        rows += [(pod, group.verdict, "", "", group.message) for group in self.unplaced for pod in group.pods]
        rows += [(pod.pod, "Blocked", pod.node, "", pod.why) for pod in self.blocked]
        rows += [
            (pod.pod, "Deleted" if pod.was_terminating else "Evicted", pod.node, "", f"for {pod.by}")
            for pod in self.evicted
        ]
        rows += [(pod, "Lost", "", "", "") for pod in (*self.lost, *self.lost_victims)]
        rows += [(pod, "Returned", "", "", "") for pod in self.returned]
        return CsvTable(("pod", "what", "from", "to", "message"), rows)

    def list_pod_names(self) -> tuple[str, ...]:
        """Return the keys of the pods that cannot be evicted or that are left without a node."""
        return (
            *(blocked.pod for blocked in self.blocked),
            *(pod for group in self.unplaced for pod in group.pods),
        )

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return "every evicted pod gets another node"

    def find_ci_gate_problems(self) -> list[GateProblem]:
        """Return a problem for each pod that blocks the drain, gets no node or quota, is lost, returns or is evicted.

        Denied replacements of one workload are one problem, and so are pods that wait for the same reason.
        """
        returned = "comes back to a drained node: it tolerates the cordon"
        return [
            *(GateProblem("eviction-blocked", f"Pod {blocked.pod}", blocked.why) for blocked in self.blocked),
            *(problem for down in self.down_nodes for problem in down.iter_gate_problems()),
            *(group.gate_problem for group in self.unplaced),
            *(workload.gate_problem for workload in self.not_created),
            *(workload.gate_problem for workload in self.displaced_workloads if workload.outcome is QuotaOutcome.WAITS),
            *(
                GateProblem("lost", f"Pod {pod}", "no controller creates it again")
                for pod in (*self.lost, *self.lost_victims)
            ),
            *(GateProblem("not-scheduled", f"Pod {pod}", "can run only on a drained node") for pod in self.stranded),
            *(
                GateProblem("not-scheduled", f"Pod {pod}", "loses its nominated node")
                for pod in self.nominated
                if pod not in self.stranded
            ),
            *(GateProblem("returned", f"Pod {pod}", returned) for pod in self.returned),
            *self.harm_after_pending_pods.iter_gate_problems(),
            *(pod.gate_problem for pod in select_displaced_pods(self.evicted)),
        ]
