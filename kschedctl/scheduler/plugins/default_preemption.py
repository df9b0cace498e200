"""DefaultPreemption: room made by evicting pods of lower priority."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Self

from kschedctl.api.arrays import Position
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.configuration.plugin_args import DefaultPreemptionArgs
from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.framework import SUCCESS, Code, Status
from kschedctl.scheduler.leaning import Effect, Lean
from kschedctl.scheduler.pod_groups.of_members import not_by_itself, preempting_as
from kschedctl.scheduler.post_filter import PostFilterOutcome
from kschedctl.scheduler.preemption.evaluator import NEVER, TERMINATING, Ineligible, PreemptionPlugin
from kschedctl.scheduler.preemption.selection import LowerPriority
from kschedctl.scheduler.queueing.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

UNDER_WAY = "waiting for the preemption for this pod to be finished"
GROUP_UNDER_WAY = "waiting for the preemption for this pod group to be finished"
HEARS_OF_PODS = ByVersion("whether DefaultPreemption asks to be told of deleted pods", (("", False), ("1.34", True)))


class DefaultPreemption(PreemptionPlugin):
    """Finds nodes where the pod would fit if pods of lower priority went, and chooses the one that costs least.

    Upstream: pkg/scheduler/framework/plugins/defaultpreemption (v1.36).
    """

    name = "DefaultPreemption"
    prefix = "preemption: "
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

    def ineligible(self, cycle: Cycle) -> Ineligible | None:
        """It must not, is part of a group, or its earlier victims are still leaving."""
        pod, view = cycle.info.pod, cycle.view
        if why := not_by_itself(pod, view, self.topology_aware, self.workload_aware):
            return Ineligible(why)
        if pod.spec.preemption_policy == "Never":
            return Ineligible(NEVER)
        row = view.nodes.index.get(pod.status.nominated_node_name)
        if row is None or cycle.status(row).code is Code.UNRESOLVABLE:
            return None
        lower = [p for p in view.pods_on(row) if view.pods.infos[view.pods.info[p]].priority < cycle.info.priority]
        if any(_being_preempted(view.pods.objects[position]) for position in lower):
            return Ineligible(TERMINATING, tuple(_leaving(lower, view)))
        return None

    def selection(self, cycle: Cycle) -> LowerPriority:
        return LowerPriority(cycle.view, cycle.info.priority)

    def wanted(self, nodes: int) -> int:
        share = nodes * self.args.min_candidate_nodes_percentage // 100
        return min(max(share, self.args.min_candidate_nodes_absolute), nodes)


def evicted_later(outcome: PostFilterOutcome, gates: FeatureGates) -> bool:
    """Whether those that PostFilter evicts go while the scheduler does something else."""
    found = outcome.results.get(DefaultPreemption.name)
    return bool(found and found.nominated_node) and gates.enabled("SchedulerAsyncPreemption")


def _leaving(positions: Iterable[Position], view: Fork) -> Iterator[Position]:
    return (p for p in positions if view.pods.objects[p].metadata.deletion_timestamp is not None)


def _being_preempted(pod: Pod) -> bool:
    target = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return (
        pod.metadata.deletion_timestamp is not None
        and target is not None
        and (target.status, target.reason) == ("True", "PreemptionByScheduler")
    )
