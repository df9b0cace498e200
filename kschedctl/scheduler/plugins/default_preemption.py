"""DefaultPreemption: room made by evicting pods of lower priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.labels import aggregate
from kschedctl.api.objects import Pod
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.plugin_args import DefaultPreemptionArgs
from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.extenders.preemption import call_extenders
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, PostFilterResult, Status
from kschedctl.scheduler.leaning import Effect, Lean
from kschedctl.scheduler.messages import histogram
from kschedctl.scheduler.pod_groups.of_members import not_by_itself, preempting_as
from kschedctl.scheduler.preemption.candidates import NO_CANDIDATES, BestCandidates, Candidates, choose
from kschedctl.scheduler.preemption.dry_run import dry_run
from kschedctl.scheduler.queueing.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NEVER = "not eligible due to preemptionPolicy=Never."
UNDER_WAY = "waiting for the preemption for this pod to be finished"
GROUP_UNDER_WAY = "waiting for the preemption for this pod group to be finished"
HEARS_OF_PODS = ByVersion("whether DefaultPreemption asks to be told of deleted pods", (("", False), ("1.34", True)))
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE = "no candidate node for preemption"
DROPPED_MAY_HELP = ByVersion(
    "whether preemption is tried on nodes that extenders left out without a word", (("", True), ("1.32", False))
)


@dataclass(frozen=True)
class Preemption:
    """The plugin's account: whether the pod may preempt at all, every candidate, and the choice among them.

    ``allowed``: the choice among those that extenders leave, None where they leave none.

    ``unhelpful``: reason -> nodes that preemption does not help. Of ``potential`` nodes upstream, which starts at a
    random one, looks at no more than it needs for ``wanted`` candidates; here all are tried.
    """

    eligible: bool
    why: str = ""
    candidates: Candidates = NO_CANDIDATES
    unhelpful: Mapping[str, int] = field(default_factory=dict)
    choice: BestCandidates | None = None
    allowed: BestCandidates | None = None
    potential: int = 0
    wanted: int = 0


def tied_candidates(result: PostFilterResult) -> Candidates:
    """The equally good candidates, where this is what the plugin said."""
    report = result.report
    return report.allowed.tied if isinstance(report, Preemption) and report.allowed is not None else NO_CANDIDATES


class DefaultPreemption(DeclaredPlugin):
    """Finds nodes where the pod would fit if pods of lower priority went, and chooses the one that costs least.

    Upstream: pkg/scheduler/framework/plugins/defaultpreemption (v1.36).
    """

    name = "DefaultPreemption"
    kinds = ("PodDisruptionBudget",)
    points_since: ClassVar[Mapping[str, int]] = {"preEnqueue": 32}  # #128170: preemption without waiting for it
    args_type = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, topology_aware: bool = False, workload_aware: bool = False) -> None:
        self.args, self.topology_aware, self.workload_aware = args, topology_aware, workload_aware

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        if gates.enabled("SchedulerAsyncPreemption") and HEARS_OF_PODS.at(gates.release):
            yield ClusterEventWithHint(POD, ActionType.DELETE, self._after_pod_deletion)

    def _after_pod_deletion(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Never: whether to try again is for the plugins to say that refused the pod."""
        return False

    @classmethod
    def make(cls, args: DefaultPreemptionArgs, gates: FeatureGates) -> Self:
        names = ("TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption")
        return cls(args, *map(gates.enabled, names))

    def leans(self, info: PodInfo, view: Fork) -> Iterator[Lean]:
        yield Lean("PodDisruptionBudget", Effect.VICTIMS)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Holds a pod back while evictions for it are under way, which no snapshot shows, but a run of the queue."""
        if not view.preempting or preempting_as(info.pod, self.workload_aware) not in view.preempting:
            return SUCCESS
        grouped = self.workload_aware and info.spec.scheduling_group is not None
        return Status(Code.UNRESOLVABLE, (GROUP_UNDER_WAY if grouped else UNDER_WAY,))

    def post_filter(self, cycle: Cycle) -> PostFilterResult:
        found = self.before_extenders(cycle)
        if found.status.code is not Code.SUCCESS or not isinstance(found.report, Preemption):
            return found
        try:
            left = call_extenders(cycle.consultation, cycle.view, found.report.candidates)
        except PluginError as failure:
            return PostFilterResult(Status(Code.ERROR, (f"preemption: {failure}",)), report=_allowing(found, None))
        if left is found.report.candidates:
            return found
        if not len(left):
            status = Status(Code.UNSCHEDULABLE, (f"preemption: {NO_CANDIDATE}",))
            return PostFilterResult(status, report=_allowing(found, None))
        allowed = choose(cycle.view, left)
        return PostFilterResult(SUCCESS, _first_by_name(allowed, cycle), _allowing(found, allowed))

    def before_extenders(self, cycle: Cycle) -> PostFilterResult:
        """The answer if there were no extenders."""
        pod, view = cycle.info.pod, cycle.view
        why = not_by_itself(pod, view, self.topology_aware, self.workload_aware) or _not_eligible(cycle)
        if why:
            status = Status(Code.UNSCHEDULABLE, (f"preemption: {why}",))
            return PostFilterResult(status, report=Preemption(eligible=False, why=why))
        potential = _potential(cycle)
        found = dry_run(cycle, potential)
        wanted = self._wanted(int(potential.sum()))
        helpful = found.candidates.take(np.flatnonzero(found.candidates.sizes)) if wanted else NO_CANDIDATES
        counts = found.reason_counts(kept=bool(wanted))
        best = choose(cycle.view, helpful) if len(helpful) else None
        report = Preemption(
            eligible=True,
            candidates=helpful,
            unhelpful=counts,
            choice=best,
            allowed=best,
            potential=int(potential.sum()),
            wanted=wanted,
        )
        if best is not None:
            return PostFilterResult(SUCCESS, _first_by_name(best, cycle), report)
        if errors := found.errors(cycle.view.nodes.names):
            return PostFilterResult(Status(Code.ERROR, (f"preemption: {aggregate(errors)}",)), report=report)
        message = f"preemption: {histogram(len(cycle.view.nodes), counts)}"
        return PostFilterResult(Status(Code.UNSCHEDULABLE, (message,)), report=report)

    def _wanted(self, nodes: int) -> int:
        share = nodes * self.args.min_candidate_nodes_percentage // 100
        return min(max(share, self.args.min_candidate_nodes_absolute), nodes)


def _allowing(found: PostFilterResult, allowed: BestCandidates | None) -> Preemption:
    report: Preemption = found.report
    return replace(report, allowed=allowed)


def _first_by_name(best: BestCandidates, cycle: Cycle) -> str:
    names = cycle.view.nodes.names
    by_name = cycle.view.memo("rows by name", lambda: np.argsort(np.argsort(np.array(names, dtype=object))))
    rows = best.tied.row
    return names[int(rows[by_name[rows].argmin()])]


def _not_eligible(cycle: Cycle) -> str:
    """Why the pod may not preempt: it must not, or its earlier victims are still leaving."""
    pod, view = cycle.info.pod, cycle.view
    if pod.spec.preemption_policy == "Never":
        return NEVER
    row = view.nodes.index.get(pod.status.nominated_node_name)
    if row is None or cycle.status(row).code is Code.UNRESOLVABLE:
        return ""
    for position in view.pods_on(row):
        lower = view.pods.infos[view.pods.info[position]].priority < cycle.info.priority
        if lower and _being_preempted(view.pods.objects[position]):
            return TERMINATING
    return ""


def _being_preempted(pod: Pod) -> bool:
    target = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return (
        pod.metadata.deletion_timestamp is not None
        and target is not None
        and (target.status, target.reason) == ("True", "PreemptionByScheduler")
    )


def _potential(cycle: Cycle) -> Bools:
    """(N,): the nodes that fewer pods could make fit: refused as Unschedulable."""
    refused = cycle.considered & ~cycle.filter.passing & ~cycle.filter.unresolvable
    if cycle.absent_status().code is Code.UNSCHEDULABLE:
        refused |= ~cycle.considered
    if DROPPED_MAY_HELP.at(cycle.framework.release):
        refused |= cycle.dropped
    for row, status in cycle.told.items():
        refused[row] = status.code is Code.UNSCHEDULABLE
    return refused
