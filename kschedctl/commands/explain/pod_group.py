"""Report on a pod's PodGroup and its tree: existing and missing pods, and the result of placing them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import NamedTuple, TypedDict

from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.api.objects import Pod, PodGroup
from kschedctl.cluster import Gap
from kschedctl.commands.explain.pod_group_report import (
    GroupOfTree,
    GroupTreeReport,
    MemberReport,
    PlacementReport,
    PodGroupReport,
)
from kschedctl.commands.explain.report import Explanation
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, MemberResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.deadlock import find_blocking_gangs, find_groups_sharing_pods
from kschedctl.scheduler.engine.pod_groups.hierarchy import (
    EntityKey,
    GroupTree,
    find_composite_tree,
    find_parent_key,
    iter_child_orders,
)
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import GroupResults, HierarchyCycle
from kschedctl.scheduler.engine.pod_groups.preemption import preempt_for_group, run_tree_cycle
from kschedctl.scheduler.engine.pod_groups.since_1_37 import CONDITION, find_validation_error
from kschedctl.scheduler.engine.pod_groups.state import (
    NO_MEMBERS,
    PodGroupState,
    find_completing_pod,
    find_group_state,
    find_pod_group,
    schedules_groups_together,
)
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure, find_failed_members
from kschedctl.scheduler.framework import Code, PreEnqueuePlugin, Status, offers
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.plugins.gang_scheduling import GangScheduling
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey, GroupKey, get_group_key

PLACED, PREEMPTING, UNSCHEDULABLE, GATED = "Placed", "Preempting", "Unschedulable", "Gated"
ERROR, NOT_TRIED, WAITS, INCOMPLETE = "Error", "NotTried", "WaitsForPreemption", "Incomplete"


class GroupMembers(NamedTuple):
    """The unscheduled pods of a group."""

    tried: list[Position]
    """The pods that are tried, in order."""
    gated: dict[Position, Status]
    """The pods that a PreEnqueue plugin rejects, each with the plugin's status."""


def report_pod_group(scheduler: Scheduler, framework: Framework, pod: Pod) -> PodGroupReport | None:
    """Report on the pod's PodGroup without its tree.

    Return None if the pod belongs to no group, or if the release does not schedule groups together. All pods of the
    group are tried together. If they do not fit, the group may preempt other pods. A group that is not placed is
    checked for a deadlock with other groups. An invalid group is not tried, and gets the verdict Error.
    """
    key = get_group_key(pod) if schedules_groups_together(scheduler.gates) else None
    if key is None:
        return None
    scheduler = add_pod_to_cluster(scheduler, pod)
    view = scheduler.view
    infos = {
        position: build_pod_info(view, position, pod) for position in find_group_state(view, key).unscheduled.tolist()
    }
    members = order_members(framework, view, infos, _find_completing_pod(scheduler, key))
    topology_aware = scheduler.gates.enabled("TopologyAwareWorkloadScheduling")

    def build_report(result: GroupResult | None) -> PodGroupReport:
        """Build the group's report. `result` is None if the group was not tried."""
        return replace(
            build_group_report(view, key, members, result, topology_aware=topology_aware),
            condition=CONDITION.at(scheduler.gates.release),
        )

    if not members.tried:
        return build_report(None)

    tried = {position: infos[position] for position in members.tried}
    if error := find_validation_error(find_pod_group(view, key), tried, view, scheduler.gates.release):
        return build_report(GroupResult(Status(Code.ERROR, (error,))))

    cycle = PodGroupCycle(framework, view, key=key, members=members.tried, infos=infos, topology_aware=topology_aware)
    result = cycle.run()
    if scheduler.gates.enabled("WorkloadAwarePreemption") and result.status.code is Code.UNSCHEDULABLE:
        result = preempt_for_group(cycle, result)
    deadlocked = () if result.placed else find_blocking_gangs(cycle)
    return replace(
        build_report(result),
        deadlocked_with=format_group_keys(deadlocked),
        **find_groups_waiting_for_each_other(cycle, result, includes_pod_groups=True),
    )


def add_pod_to_cluster(scheduler: Scheduler, pod: Pod) -> Scheduler:
    """Return a scheduler whose cluster contains the pod. A pod from a manifest is added."""
    if scheduler.view.pods.find_position(pod.key) is not None:
        return scheduler
    return Scheduler(scheduler.cluster.with_objects({"Pod": [pod]}), scheduler.call_extender)


class CrossedGroupFields(TypedDict, total=False):
    """The report fields about groups that wait for each other at Permit."""

    waits_for: tuple[str, ...]
    apart: tuple[str, ...]


def find_groups_waiting_for_each_other(
    cycle: PodGroupCycle, result: GroupResult, *, includes_pod_groups: bool
) -> CrossedGroupFields:
    """Find the groups that the cycle's pods would wait for at Permit, and the groups that these wait for in turn."""
    crossed = find_groups_sharing_pods(cycle, result, includes_pod_groups=includes_pod_groups)
    return {"waits_for": format_group_keys(crossed.awaited), "apart": format_group_keys(crossed.apart)}


def format_group_keys(gangs: Iterable[AnyGroupKey]) -> tuple[str, ...]:
    """Format each group as `namespace/name`, which are the last two parts of every kind of key."""
    return tuple("/".join(key[-2:]) for key in gangs)


def build_pod_info(view: Fork, position: Position, target_pod: Pod) -> PodInfo:
    """Build the pod info of a group member. For the explained pod, use `target_pod` instead of the stored pod."""
    pod = view.build_stored_pod(view.pods.objects[position])
    return PodInfo(target_pod if pod.key == target_pod.key else pod, view.settings.requests)


def order_members(
    framework: Framework, view: Fork, infos: Mapping[Position, PodInfo], completing_pod: Position | None
) -> GroupMembers:
    """Order the members by priority and age, and separate the gated ones. Terminating pods are left out.

    `completing_pod`, whose creation completed the gang, comes first among pods of its priority.
    """
    statuses = {position: find_pre_enqueue_rejection(framework, info, view) for position, info in infos.items()}
    gated = {position: status for position, status in statuses.items() if status is not None}
    ungated = (position for position, info in infos.items() if position not in gated and not info.terminating)
    tried = sort_by_priority_and_age(infos, ungated)
    if completing_pod is not None:
        tried.sort(key=lambda position: (-infos[position].priority, position != completing_pod))
    return GroupMembers(tried, gated)


def _find_completing_pod(scheduler: Scheduler, key: GroupKey) -> Position | None:
    """Find the pod that completed the gang when it was created. Earlier pods had to wait for it.

    Return None if there is no such pod, or if the release does not make pods wait.
    """
    if not scheduler.gates.enabled(GangScheduling.gate):
        return None
    pods = scheduler.view.pods
    by_creation = pods.positions_by_group.get(key, NO_MEMBERS).tolist()
    by_creation.sort(key=lambda position: pods.objects[position].metadata.creation_timestamp or "")
    return find_completing_pod(scheduler.view, key, by_creation)


def sort_by_priority_and_age(infos: Mapping[Position, PodInfo], positions: Iterable[Position]) -> list[Position]:
    """Sort pods by priority, highest first, then by age, oldest first. Pods of unknown age come first."""
    order = list(positions)
    created = {position: infos[position].pod.metadata.creation_timestamp or "" for position in order}
    order.sort(key=lambda position: (-infos[position].priority, created[position], position))
    return order


def find_pre_enqueue_rejection(framework: Framework, info: PodInfo, view: Fork) -> Status | None:
    """Return the first rejection by a PreEnqueue plugin, or None if all admit the pod to the queue."""
    for plugin in framework.plugins_at("preEnqueue"):
        if offers(plugin, PreEnqueuePlugin):
            status = plugin.pre_enqueue(info, view)
            if status.rejected:
                return status
    return None


def build_group_report(
    view: Fork, key: GroupKey, members: GroupMembers, result: GroupResult | None, *, topology_aware: bool
) -> PodGroupReport:
    """Build the report on a PodGroup. `result` is None if none of its pods was tried."""
    group = find_pod_group(view, key)
    state = find_group_state(view, key)
    return PodGroupReport(
        name="/".join(key),
        verdict=get_group_verdict(result),
        **_build_policy_fields(group, state, topology_aware),
        pods=state.size,
        scheduled=len(state.scheduled),
        message=result.message if result else "",
        members=tuple(_iter_member_reports(view, members, result)),
        placements=tuple(_iter_placement_reports(view, result)) if result else (),
        victims=tuple(iter_pod_keys(view, iter_victims(result))) if result else (),
    )


class _PolicyFields(TypedDict, total=False):
    """The fields of a report that come from the group's scheduling policy."""

    policy: str
    min_count: int
    missing: int
    topology: str


def _build_policy_fields(group: PodGroup | None, state: PodGroupState, topology_aware: bool) -> _PolicyFields:
    """Build the report fields about the group's policy and topology.

    Return {} if the PodGroup does not exist. Without `topology_aware`, the topology is ignored.
    """
    if group is None:
        return {}
    topology = ""
    constraints = group.spec.scheduling_constraints
    if topology_aware and constraints is not None and constraints.topology:
        topology = constraints.topology[0].key
    gang = group.spec.scheduling_policy.gang
    if gang is None:
        return {"policy": "basic", "topology": topology}
    missing_count = max(gang.min_count - state.size, 0)
    return {"policy": "gang", "min_count": gang.min_count, "missing": missing_count, "topology": topology}


def get_group_verdict(result: GroupResult | None) -> str:
    """Return the verdict for the result of a group. Without a result, the group was not tried and is Incomplete."""
    if result is None:
        return INCOMPLETE
    if result.waiting_on_preemption:
        return WAITS
    if result.placed:
        return PLACED
    return ERROR if result.status.code is Code.ERROR else UNSCHEDULABLE


def _iter_member_reports(view: Fork, members: GroupMembers, result: GroupResult | None) -> Iterator[MemberReport]:
    """Yield a report on each tried and each gated pod. Without a result, yield only the reports on gated pods."""
    pods = view.pods.objects
    if result:
        yield from iter_tried_member_reports(
            view, members.tried, result, find_failed_members(result, members.tried, view)
        )
    for position, status in members.gated.items():
        yield MemberReport(pods[position].key, GATED, message=", ".join(status.reasons))


def iter_tried_member_reports(
    view: Fork, tried: Iterable[Position], result: GroupResult, failed: Mapping[Position, MemberFailure]
) -> Iterator[MemberReport]:
    """Yield a report on each tried pod, with its node or the reason why it was not placed."""
    result_by_position = {member.position: member for member in result.members}
    for position in tried:
        member = result_by_position.get(position)
        node = view.nodes.names[member.row] if member and member.row != NO_ROW else ""
        message = failed[position].message if position in failed else ""
        yield MemberReport(view.pods.objects[position].key, _get_member_verdict(member), node, message)


def _get_member_verdict(member: MemberResult | None) -> str:
    """Return the verdict on one member of the group. A member without a result was not tried."""
    if member is None:
        return NOT_TRIED
    if member.placed:
        return PLACED
    if member.requires_preemption:
        return PREEMPTING
    return ERROR if member.status.code is Code.ERROR else UNSCHEDULABLE


def _iter_placement_reports(view: Fork, result: GroupResult) -> Iterator[PlacementReport]:
    """Yield a report on each topology domain in which the group was tried.

    If plugins scored the domains, the report on a domain in which the group fits has the sum of their scores.
    """
    # Each plugin has an array with one score per fitting domain, in the order of `result.tried`
    scores_by_plugin = [scores.tolist() for scores in result.scores.values()]
    total_scores = (sum(scores_of_domain) for scores_of_domain in zip(*scores_by_plugin, strict=True))
    for tried in result.tried:
        fits = tried.placed or tried.waiting_on_preemption
        # Every fitting domain takes the next score, even if it is not reported. Without scoring plugins, there is none
        score = next(total_scores, None) if fits else None
        placement = tried.placement
        if placement is None or not placement.name:
            continue
        blocking = next((member for member in tried.members if member.row == NO_ROW), None)
        yield PlacementReport(
            placement.name,
            len(placement.rows),
            pods=sum(member.row != NO_ROW for member in tried.members),
            fits=fits,
            blocking=view.pods.objects[blocking.position].key if blocking else "",
            message=", ".join(blocking.status.reasons) if blocking else "",
            score=score,
        )


def iter_victims(result: GroupResult) -> Iterator[Position]:
    """Yield the position of each distinct pod that the group's members, or the group as a whole, would preempt."""
    member_victims = (victim for member in result.members for victim in member.victims)
    yield from dict.fromkeys((*member_victims, *result.victims))


def iter_pod_keys(view: Fork, positions: Iterable[Position]) -> Iterator[str]:
    """Yield the keys (`namespace/name`) of the pods at these positions."""
    return (view.pods.objects[position].key for position in positions)


def _is_bound_together(group: PodGroupReport) -> bool:
    """Return whether kube-scheduler binds the group's pods only together."""
    return not group.project or (group.policy == "gang" and not group.decided_by)


def add_group_report(report: Explanation, group: PodGroupReport | None) -> Explanation:
    """Add the group's report to a member's explanation, and let the group decide the member's verdict.

    The verdict stays if the pod is gated, fails with an error, or is not bound together with the group. Return the
    explanation unchanged if there is no group.
    """
    if group is None:
        return report
    own_member = next((member for member in group.members if member.pod == report.pod), None)
    if own_member is None or report.verdict in (GATED, ERROR) or not _is_bound_together(group):
        return replace(report, pod_group=group)
    if group.verdict == PLACED and own_member.verdict == PLACED:
        return replace(report, verdict="Schedulable", message=None, pod_group=group)
    verdict = ERROR if group.verdict == ERROR else UNSCHEDULABLE
    return replace(report, verdict=verdict, message=own_member.message or group.message, pod_group=group)


MAX_ORDERS = 24
"""The maximum number of orders in which the groups of a tree are tried."""
ORDER_MATTERS = "try their groups in random order: in another order, the outcome for this pod differs"
ORDER_MAY_MATTER = "try their groups in random order: not all orders were tried here"


def _report_pod_group_in_tree(
    scheduler: Scheduler, framework: Framework, tree: GroupTree, key: GroupKey, pod: Pod
) -> PodGroupReport:
    """Report on the pod's PodGroup and the tree of groups that contains it."""
    trial = _TreeTrial(scheduler, framework, tree, pod)
    own_leaf = next(leaf for leaf in tree.leaves if leaf.pod_group == key)
    result = trial.results.get(own_leaf.key)
    report = build_group_report(scheduler.view, key, trial.members[own_leaf.key], result, topology_aware=True)
    return replace(report, tree=trial.report, condition=CONDITION.at(scheduler.gates.release))


def iter_unknowns_of_group_order(group: PodGroupReport | None) -> Iterator[Unknown]:
    """Yield an Unknown if the result may depend on the order in which the groups of a tree are tried.

    Kube-scheduler tries them in random order.
    """
    tree = group.tree if group else None
    if tree is None:
        return
    if tree.by_chance:  # the orders that were tried have different outcomes
        yield Unknown(Dependency("CompositePodGroup", Effect.EITHER), Gap(ORDER_MATTERS))
    elif not tree.all_orders:  # an order that was not tried may have another outcome
        yield Unknown(Dependency("CompositePodGroup", Effect.EITHER), Gap(ORDER_MAY_MATTER))


class _TreeTrial:
    """A tree of groups whose unscheduled pods are tried together."""

    def __init__(self, scheduler: Scheduler, framework: Framework, tree: GroupTree, pod: Pod) -> None:
        self.scheduler, self.framework, self.tree, self.pod = scheduler, framework, tree, pod
        self.infos: dict[Position, PodInfo] = {}
        self.members: dict[EntityKey, GroupMembers] = {}
        for leaf in tree.leaves:
            waiting = [
                Position(position) for position in find_group_state(scheduler.view, leaf.pod_group).unscheduled.tolist()
            ]
            infos = {position: build_pod_info(scheduler.view, position, pod) for position in waiting}
            self.members[leaf.key] = order_members(framework, scheduler.view, infos, completing_pod=None)
            self.infos |= infos

    @cached_property
    def results(self) -> GroupResults:
        """The result of each group, or no results if there are no pods to try.

        If the tree is invalid, every group has the validation error as its result.
        """
        tried = {position: self.infos[position] for members in self.members.values() for position in members.tried}
        if not tried:
            return {}
        if error := find_validation_error(self.tree.group, tried, self.scheduler.view, self.scheduler.gates.release):
            status = Status(Code.ERROR, (error,))
            return {subtree.key: GroupResult(status, nominated_rows={}) for subtree in self.tree.subtrees}
        workload_aware = self.scheduler.gates.enabled("WorkloadAwarePreemption")
        return run_tree_cycle(self._build_cycle(self.tree), workload_aware=workload_aware)

    @cached_property
    def report(self) -> GroupTreeReport:
        """The report on the tree. It records whether the pod's outcome depends on the order of the groups.

        At most MAX_ORDERS orders are tried.
        """
        root = self.results.get(self.tree.key)
        orders: list[GroupTree] = []
        if root and root.status.code is not Code.ERROR:
            # One more order than is tried, to see whether there are more
            orders = list(islice(iter_child_orders(self.tree), MAX_ORDERS + 1))
        outcomes = {self._is_placed_in_order(order) for order in orders[:MAX_ORDERS]}
        return GroupTreeReport(
            name=f"{self.tree.key.namespace}/{self.tree.key.name}",
            verdict=get_group_verdict(root),
            groups=tuple(_report_tree_group(subtree, self.results.get(subtree.key)) for subtree in self.tree.subtrees),
            victims=tuple(iter_pod_keys(self.scheduler.view, root.victims)) if root else (),
            by_chance=len(outcomes) > 1,
            all_orders=len(orders) <= MAX_ORDERS,
        )

    def _build_cycle(self, order: GroupTree) -> HierarchyCycle:
        """Build the cycle that tries the groups in the given order."""
        tried = {key: members.tried for key, members in self.members.items()}
        return HierarchyCycle(self.framework, self.scheduler.view, order, tried, self.infos)

    def _is_placed_in_order(self, order: GroupTree) -> bool:
        """Return whether the pod is placed if the groups are tried in the given order, without preemption."""
        position = self.scheduler.view.pods.find_position(self.pod.key)
        results = run_tree_cycle(self._build_cycle(order), workload_aware=False).values()
        members = (member for result in results if result.placed for member in result.members)
        return any(member.placed and member.position == position for member in members)


def _report_tree_group(node: GroupTree, result: GroupResult | None) -> GroupOfTree:
    """Report on one group of the tree: its policy, parent, topology and verdict.

    `result` is None if the group was not tried.
    """
    constraints = node.group.spec.scheduling_constraints
    parent = find_parent_key(node.group)
    return GroupOfTree(
        kind="CompositePodGroup" if node.key.composite else "PodGroup",
        name=node.key.name,
        policy="basic" if node.group.spec.scheduling_policy.gang is None else "gang",
        least=node.min_count,
        verdict=get_group_verdict(result),
        message=result.message if result else "",
        parent=parent.name if parent else "",
        topology=constraints.topology[0].key if constraints and constraints.topology else "",
    )


def report_pod_group_with_tree(scheduler: Scheduler, framework: Framework, pod: Pod) -> PodGroupReport | None:
    """Report on the pod's PodGroup, with its tree if it has one.

    Return None if the pod belongs to no group, or if the release does not schedule groups together.
    """
    key = get_group_key(pod) if schedules_groups_together(scheduler.gates) else None
    if key is None:
        return None
    scheduler = add_pod_to_cluster(scheduler, pod)
    tree = find_composite_tree(scheduler.view, key)
    if tree is None:
        return report_pod_group(scheduler, framework, pod)
    return _report_pod_group_in_tree(scheduler, framework, tree, key, pod)
