"""DefaultPreemption plugin: finds a node where preempting pods of lower priority makes room for a pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import ClassVar, Self

from kschedctl.api.arrays import Position
from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import PostFilterOutcome
from kschedctl.scheduler.engine.pod_groups.since_1_37 import IN_PREEMPTION
from kschedctl.scheduler.engine.pod_groups.victims import (
    AS_GROUPS,
    CHARGES_ALL_PODS,
    find_member_ineligibility,
    get_preemptor_key,
)
from kschedctl.scheduler.engine.preemption.evaluator import (
    DEFAULT_PREEMPTION,
    NEVER,
    TERMINATING,
    Ineligible,
    PreemptionPlugin,
    is_being_preempted,
)
from kschedctl.scheduler.engine.preemption.victims import SORTED_AGAIN, LowerPriority
from kschedctl.scheduler.framework import SUCCESS, Code, Status
from kschedctl.scheduler.framework.arguments import PluginArgs, invalid
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import Int32
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

PREEMPTION_UNDER_WAY = "waiting for the preemption for this pod to be finished"
GROUP_PREEMPTION_UNDER_WAY = "waiting for the preemption for this pod group to be finished"
REGISTERS_POD_EVENTS = ByVersion(
    "the plugin registers for pod deletions, but its queueing hint ignores all of them, so they cause no extra retries",
    (("", False), ("1.34", True)),
)


class PreemptionMessage(StrEnum):
    """The templates of the message that PostFilter adds for a pod that preempts."""

    NONE = "none"
    PLACEMENT_FOUND = "found a potential placement for pod on node {}, preempting {} victims"


PREEMPTION_MESSAGE = ByVersion(
    "message for a pod that preempts others",
    (("", PreemptionMessage.NONE), ("1.37", PreemptionMessage.PLACEMENT_FOUND)),
    "#140180",
)


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """The minimum number of candidate nodes that a preemption dry-runs, relative and absolute."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield an error for each number that is out of range, and one error for each number if both are 0."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            yield invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            not_both_zero = "cannot be zero at the same time as"
            yield invalid("minCandidateNodesPercentage", percentage, f"{not_both_zero} minCandidateNodesAbsolute")
            yield invalid("minCandidateNodesAbsolute", absolute, f"{not_both_zero} minCandidateNodesPercentage")


class DefaultPreemption(PreemptionPlugin):
    """Plugin that finds nodes where the pod fits if pods of lower priority are preempted.

    It chooses the node whose victims cost least.

    Upstream: pkg/scheduler/framework/plugins/defaultpreemption (v1.36).
    """

    name = DEFAULT_PREEMPTION
    changed = (
        SORTED_AGAIN,
        REGISTERS_POD_EVENTS,
        PREEMPTION_MESSAGE,
        *IN_PREEMPTION,
        AS_GROUPS,
        CHARGES_ALL_PODS,
    )
    without = "pods of high priority evict nobody"
    takes_less_time = "set preemptionPolicy: Never for pods that preemption cannot help"
    prefix = "preemption: "
    kinds = ("PodDisruptionBudget",)
    points_since: ClassVar[Mapping[str, int]] = {"preEnqueue": 32}  # #128170: preemption without waiting for it
    args_type = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, topology_aware: bool = False, workload_aware: bool = False) -> None:
        self.args, self.topology_aware, self.workload_aware = args, topology_aware, workload_aware

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the deletion of pods, if preemption is asynchronous and the version registers for the event."""
        if gates.enabled("SchedulerAsyncPreemption") and REGISTERS_POD_EVENTS.at(gates.release):
            yield ClusterEventWithHint(POD, ActionType.DELETE, self._is_schedulable_after_pod_deletion)

    def _is_schedulable_after_pod_deletion(self, info: PodInfo, change: ChangedObject, view: Fork) -> bool:
        """Return False. Only the hints of the plugins that rejected the pod decide whether it is tried again."""
        return False

    @classmethod
    def make(cls, args: DefaultPreemptionArgs, gates: FeatureGates) -> Self:
        """Build the plugin from its arguments and the feature gates that concern groups of pods."""
        return cls(
            args,
            topology_aware=gates.enabled("TopologyAwareWorkloadScheduling"),
            workload_aware=gates.enabled("WorkloadAwarePreemption"),
        )

    def format_success_message(self, cycle: Cycle, node: str, victims: int) -> str:
        """Return PostFilter's message about the number of victims that the pod preempts on the node.

        It is empty in versions without a message.
        """
        message: PreemptionMessage = PREEMPTION_MESSAGE.at(cycle.framework.release)
        if message is PreemptionMessage.NONE:
            return ""
        return str(message).format(node, victims)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield the dependency on PodDisruptionBudgets, which influence the choice of victims."""
        yield Dependency("PodDisruptionBudget", Effect.VICTIMS)

    def pre_enqueue(self, info: PodInfo, view: Fork) -> Status:
        """Return Success, or a rejection that keeps the pod out of the queue while its victims are being evicted.

        With workload-aware preemption, victims of the pod's group count as well. Evictions in progress are known only
        in a replay of the queue, never from a snapshot.
        """
        is_preempting = (
            bool(view.preempting) and get_preemptor_key(info.pod, workload_aware=self.workload_aware) in view.preempting
        )
        if not is_preempting:
            return SUCCESS
        is_grouped = self.workload_aware and info.spec.scheduling_group is not None
        reason = GROUP_PREEMPTION_UNDER_WAY if is_grouped else PREEMPTION_UNDER_WAY
        return Status(Code.UNRESOLVABLE, (reason,))

    def find_ineligibility(self, cycle: Cycle) -> Ineligible | None:
        """Return the reason why the pod may not preempt, or None if it may.

        A pod may not preempt if its preemptionPolicy or its pod group forbids it. It must also wait while victims of an
        earlier preemption are terminating on its nominated node, unless it can never fit on that node.
        """
        pod, view = cycle.info.pod, cycle.view
        group_reason = find_member_ineligibility(
            pod, view, topology_aware=self.topology_aware, workload_aware=self.workload_aware
        )
        if group_reason:
            return Ineligible(group_reason)
        if pod.spec.preemption_policy == "Never":
            return Ineligible(NEVER)
        row = view.nodes.index.get(pod.status.nominated_node_name)
        if row is None or cycle.get_node_status(row).code is Code.UNRESOLVABLE:
            return None
        lower_priority_pods = [
            position for position in view.pods_on(row) if view.pods.get_info(position).priority < cycle.info.priority
        ]
        if any(is_being_preempted(view.pods.objects[position]) for position in lower_priority_pods):
            return Ineligible(TERMINATING, tuple(_iter_terminating_pods(lower_priority_pods, view)))
        return None

    def build_selection(self, cycle: Cycle) -> LowerPriority:
        """Build the selection of the pods that may be evicted: all pods with a lower priority than this pod."""
        return LowerPriority(cycle.view, cycle.info.priority)

    def count_candidates_wanted(self, nodes: int) -> int:
        """Return the number of candidate nodes, out of `nodes` in total, after which the dry run stops.

        The number is the larger of the two minimums in the arguments, but at most `nodes`.
        """
        share = nodes * self.args.min_candidate_nodes_percentage // 100
        return min(max(share, self.args.min_candidate_nodes_absolute), nodes)


def are_victims_evicted_asynchronously(outcome: PostFilterOutcome, gates: FeatureGates) -> bool:
    """Return whether DefaultPreemption nominated a node and evicts the victims while the scheduler continues.

    Asynchronous eviction depends on the gate SchedulerAsyncPreemption.
    """
    result = outcome.results.get(DefaultPreemption.name)
    if result is None or not result.nominated_node:
        return False
    return gates.enabled("SchedulerAsyncPreemption")


def _iter_terminating_pods(positions: Iterable[Position], view: Fork) -> Iterator[Position]:
    """Yield the positions among `positions` whose pods are being deleted."""
    for position in positions:
        if view.pods.objects[position].metadata.deletion_timestamp is not None:
            yield position
