"""A pod's group: who is there, who is missing, and what placing its pods together comes to."""

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
from kschedctl.scheduler.engine.pod_groups.crossing import crossing
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.deadlock import deadlocked_with
from kschedctl.scheduler.engine.pod_groups.hierarchy import EntityKey, GroupTree, composite_tree, orders, parent_of
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import HierarchyCycle, Results
from kschedctl.scheduler.engine.pod_groups.preemption import place_tree, preempt_for_group
from kschedctl.scheduler.engine.pod_groups.since_1_37 import CONDITION, refused_before
from kschedctl.scheduler.engine.pod_groups.state import (
    NO_MEMBERS,
    PodGroupState,
    completing,
    find_pod_group,
    placed_in_groups,
    state_of,
)
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure, failed_members
from kschedctl.scheduler.framework import Code, PreEnqueuePlugin, Status, offers
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.plugins.gang_scheduling.plugin import GangScheduling
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey, GroupKey, group_key

PLACED, PREEMPTING, UNSCHEDULABLE, GATED = "Placed", "Preempting", "Unschedulable", "Gated"
ERROR, NOT_TRIED, WAITS, INCOMPLETE = "Error", "NotTried", "WaitsForPreemption", "Incomplete"


class GroupMembers(NamedTuple):
    """The pods of the group that wait for a node, in the order in which they are tried, and why others are not."""

    tried: list[Position]
    gated: dict[Position, Status]


def pod_group_report(scheduler: Scheduler, framework: Framework, pod: Pod) -> PodGroupReport | None:
    """The group of a pod, as the API server holds it; None for one that is scheduled by itself."""
    key = group_key(pod) if placed_in_groups(scheduler.gates) else None
    if key is None:
        return None
    scheduler = with_pod(scheduler, pod)
    view = scheduler.view
    infos = {position: info_of(view, position, pod) for position in state_of(view, key).unscheduled.tolist()}
    members = members_of(framework, view, infos, _last_to_come(scheduler, key))
    topology_aware = scheduler.gates.enabled("TopologyAwareWorkloadScheduling")

    def report(result: GroupResult | None) -> PodGroupReport:
        return replace(
            report_of(view, key, members, result, topology_aware=topology_aware),
            condition=CONDITION.at(scheduler.gates.release),
        )

    if not members.tried:
        return report(None)
    tried = {position: infos[position] for position in members.tried}
    if refused := refused_before(find_pod_group(view, key), tried, view, scheduler.gates.release):
        return report(GroupResult(Status(Code.ERROR, (refused,))))
    cycle = PodGroupCycle(framework, view, key, members.tried, infos, topology_aware)
    result = cycle.run()
    if scheduler.gates.enabled("WorkloadAwarePreemption") and result.status.code is Code.UNSCHEDULABLE:
        result = preempt_for_group(cycle, result)
    others = () if result.placed else deadlocked_with(cycle)
    return replace(report(result), deadlocked_with=in_words(others), **crossed(cycle, result, own_groups=True))


def with_pod(scheduler: Scheduler, pod: Pod) -> Scheduler:
    """It with the pod in its cluster, where that is a manifest that is asked about."""
    if scheduler.view.pods.find_position(pod.key) is not None:
        return scheduler
    return Scheduler(scheduler.cluster.with_objects({"Pod": [pod]}), scheduler.call_extender)


class OtherGroups(TypedDict, total=False):
    """The fields of a report that tell of other groups of the pods."""

    waits_for: tuple[str, ...]
    apart: tuple[str, ...]


def crossed(cycle: PodGroupCycle, result: GroupResult, *, own_groups: bool) -> OtherGroups:
    crossed = crossing(cycle, result, own_groups=own_groups)
    return {"waits_for": in_words(crossed.awaited), "apart": in_words(crossed.apart)}


def in_words(gangs: Iterable[AnyGroupKey]) -> tuple[str, ...]:
    """``namespace/name`` of each."""
    return tuple("/".join(key[-2:]) for key in gangs)


def info_of(view: Fork, position: Position, asked: Pod) -> PodInfo:
    """What is scheduled: of the pod that is asked about as it was asked."""
    pod = view.stored(view.pods.objects[position])
    return PodInfo(asked if pod.key == asked.key else pod, view.settings.requests)


def members_of(
    framework: Framework, view: Fork, infos: Mapping[Position, PodInfo], last: Position | None
) -> GroupMembers:
    """By priority, then by age, but first the one that came ``last`` to make a gang; pods that leave are not tried."""
    gated = {position: status for position, info in infos.items() if (status := gate_of(framework, info, view))}
    tried = by_age(infos, (info for info in infos if info not in gated and not infos[info].terminating))
    return GroupMembers(tried if last is None else sorted(tried, key=lambda p: (-infos[p].priority, p != last)), gated)


def _last_to_come(scheduler: Scheduler, key: GroupKey) -> Position | None:
    """The pod that completed a gang: those before it were kept out of the queue."""
    if not scheduler.gates.enabled(GangScheduling.gate):
        return None
    pods = scheduler.view.pods
    came = pods.by_group.get(key, NO_MEMBERS).tolist()
    came.sort(key=lambda position: pods.objects[position].metadata.creation_timestamp or "")
    return completing(scheduler.view, key, came)


def by_age(infos: Mapping[Position, PodInfo], positions: Iterable[Position]) -> list[Position]:
    """The highest priority first, of equals the oldest."""
    order = list(positions)
    created = {position: infos[position].pod.metadata.creation_timestamp or "" for position in order}
    order.sort(key=lambda position: (-infos[position].priority, created[position], position))
    return order


def gate_of(framework: Framework, info: PodInfo, view: Fork) -> Status | None:
    plugins = (plugin for plugin in framework.plugins_at("preEnqueue") if offers(plugin, PreEnqueuePlugin))
    said = (plugin.pre_enqueue(info, view) for plugin in plugins)
    return next((status for status in said if status.rejected), None)


def report_of(
    view: Fork, key: GroupKey, members: GroupMembers, result: GroupResult | None, *, topology_aware: bool
) -> PodGroupReport:
    group, state = find_pod_group(view, key), state_of(view, key)
    return PodGroupReport(
        name="/".join(key),
        verdict=verdict_of(result),
        **_policy_of(group, state, topology_aware),
        pods=state.size,
        scheduled=len(state.scheduled),
        message=result.message if result else "",
        members=tuple(_member_reports(view, members, result)),
        placements=tuple(_placement_reports(view, result)) if result else (),
        victims=tuple(keys(view, victims_of(result))) if result else (),
    )


class _Policy(TypedDict, total=False):
    policy: str
    min_count: int
    missing: int
    topology: str


def _policy_of(group: PodGroup | None, state: PodGroupState, topology_aware: bool) -> _Policy:
    if group is None:
        return {}
    policy, constraints = group.spec.scheduling_policy, group.spec.scheduling_constraints
    constrained = topology_aware and constraints is not None and constraints.topology
    topology = constraints.topology[0].key if constraints and constrained else ""
    if policy.gang is None:
        return {"policy": "basic", "topology": topology}
    missing = max(policy.gang.min_count - state.size, 0)
    return {"policy": "gang", "min_count": policy.gang.min_count, "missing": missing, "topology": topology}


def verdict_of(result: GroupResult | None) -> str:
    if result is None:
        return INCOMPLETE
    if result.waiting_on_preemption:
        return WAITS
    return PLACED if result.placed else ERROR if result.status.code is Code.ERROR else UNSCHEDULABLE


def _member_reports(view: Fork, members: GroupMembers, result: GroupResult | None) -> Iterator[MemberReport]:
    pods = view.pods.objects
    if result:
        yield from tried_members(view, members.tried, result, failed_members(result, members.tried, view))
    for position, status in members.gated.items():
        yield MemberReport(pods[position].key, GATED, message=", ".join(status.reasons))


def tried_members(
    view: Fork, tried: Iterable[Position], result: GroupResult, failed: Mapping[Position, MemberFailure]
) -> Iterator[MemberReport]:
    """What became of each; of those that failed, why."""
    member_results = {member_result.position: member_result for member_result in result.members}
    for position in tried:
        member = member_results.get(position)
        node = view.nodes.names[member.row] if member and member.row != NO_ROW else ""
        message = failed[position].message if position in failed else ""
        yield MemberReport(view.pods.objects[position].key, _member_verdict(result, position), node, message)


def _member_verdict(result: GroupResult, position: Position) -> str:
    """What the pod by itself came to, after those before it."""
    member = next((member_result for member_result in result.members if member_result.position == position), None)
    if member is None:
        return NOT_TRIED
    if member.placed:
        return PLACED
    if member.requires_preemption:
        return PREEMPTING
    return ERROR if member.status.code is Code.ERROR else UNSCHEDULABLE


def _placement_reports(view: Fork, result: GroupResult) -> Iterator[PlacementReport]:
    """One for each domain; none for a group that may be anywhere."""
    fitting = [
        group_result for group_result in result.tried if group_result.placed or group_result.waiting_on_preemption
    ]
    scores = {
        id(group_result): sum(int(s[i]) for s in result.scores.values()) for i, group_result in enumerate(fitting)
    }
    for tried in result.tried:
        placement = tried.placement
        if placement is None or not placement.name:
            continue
        blocking = next((member for member in tried.members if member.row == NO_ROW), None)
        yield PlacementReport(
            placement.name,
            len(placement.rows),
            sum(member.row != NO_ROW for member in tried.members),
            tried in fitting,
            view.pods.objects[blocking.position].key if blocking else "",
            ", ".join(blocking.status.reasons) if blocking else "",
            scores.get(id(tried)) if result.scores else None,
        )


def victims_of(result: GroupResult) -> Iterator[Position]:
    """Whom the members and the group would evict, each once."""
    of_members = (victim for member in result.members for victim in member.victims)
    return iter(dict.fromkeys((*of_members, *result.victims)))


def keys(view: Fork, positions: Iterable[Position]) -> Iterator[str]:
    return (view.pods.objects[position].key for position in positions)


def _decides(group: PodGroupReport) -> bool:
    """Whether kube-scheduler binds the pods of the group together."""
    return not group.project or (group.policy == "gang" and not group.decided_by)


def in_group(report: Explanation, group: PodGroupReport | None) -> Explanation:
    """The explanation of a member: it is bound only with its group, whatever nodes it fits by itself."""
    mine = next((member for member in group.members if member.pod == report.pod), None) if group else None
    if group is None or mine is None or report.verdict in (GATED, ERROR) or not _decides(group):
        return replace(report, pod_group=group)
    if group.verdict == PLACED and mine.verdict == PLACED:
        return replace(report, verdict="Schedulable", message=None, pod_group=group)
    verdict = ERROR if group.verdict == ERROR else UNSCHEDULABLE
    return replace(report, verdict=verdict, message=mine.message or group.message, pod_group=group)


MOST_ORDERS = 24
"""In how many orders the groups of a tree are tried."""
CHANCE = "try their groups in an order that is up to chance: in another one this pod fares otherwise"
MAY_BE = "try their groups in an order that is up to chance: not all of them were tried here"


def tree_report(
    scheduler: Scheduler, framework: Framework, tree: GroupTree, key: GroupKey, pod: Pod
) -> PodGroupReport | None:
    """The PodGroup of a pod, and the tree that it is of."""
    tried = _TriedTree(scheduler, framework, tree, pod)
    own = next(leaf for leaf in tree.leaves if leaf.pod_group == key)
    result = tried.results.get(own.key)
    report = report_of(scheduler.view, key, tried.members[own.key], result, topology_aware=True)
    return replace(report, tree=tried.report, condition=CONDITION.at(scheduler.gates.release))


def chance(group: PodGroupReport | None) -> Iterator[Unknown]:
    """What an answer about a pod leans on that is up to chance."""
    tree = group.tree if group else None
    if tree is not None and (tree.by_chance or not tree.all_orders):
        why = CHANCE if tree.by_chance else MAY_BE
        yield Unknown(Dependency("CompositePodGroup", Effect.EITHER), Gap(why))


class _TriedTree:
    """A tree of groups of which those pods are tried that wait; ``pod``: the one that is asked about."""

    def __init__(self, scheduler: Scheduler, framework: Framework, tree: GroupTree, pod: Pod) -> None:
        self.scheduler, self.framework, self.tree, self.pod = scheduler, framework, tree, pod
        self.infos: dict[Position, PodInfo] = {}
        self.members: dict[EntityKey, GroupMembers] = {}
        for leaf in tree.leaves:
            waiting = [Position(position) for position in state_of(scheduler.view, leaf.pod_group).unscheduled.tolist()]
            infos = {position: info_of(scheduler.view, position, pod) for position in waiting}
            self.members[leaf.key] = members_of(framework, scheduler.view, infos, None)
            self.infos |= infos

    @cached_property
    def results(self) -> Results:
        """What the groups come to, nothing where no pod is tried."""
        tried = {position: self.infos[position] for members in self.members.values() for position in members.tried}
        if not tried:
            return {}
        if said := refused_before(self.tree.group, tried, self.scheduler.view, self.scheduler.gates.release):
            status = Status(Code.ERROR, (said,))
            return {node.key: GroupResult(status, promised={}) for node in self.tree.nodes}
        workload_aware = self.scheduler.gates.enabled("WorkloadAwarePreemption")
        return place_tree(self._cycle(self.tree), workload_aware=workload_aware)

    @cached_property
    def report(self) -> GroupTreeReport:
        root = self.results.get(self.tree.key)
        several = (
            list(islice(orders(self.tree), MOST_ORDERS + 1)) if root and root.status.code is not Code.ERROR else []
        )
        return GroupTreeReport(
            name=f"{self.tree.key.namespace}/{self.tree.key.name}",
            verdict=verdict_of(root),
            groups=tuple(_report_tree_group(node, self.results.get(node.key)) for node in self.tree.nodes),
            victims=tuple(keys(self.scheduler.view, root.victims)) if root else (),
            by_chance=len({self._placed_in(order) for order in several[:MOST_ORDERS]}) > 1,
            all_orders=len(several) <= MOST_ORDERS,
        )

    def _cycle(self, order: GroupTree) -> HierarchyCycle:
        tried = {key: members.tried for key, members in self.members.items()}
        return HierarchyCycle(self.framework, self.scheduler.view, order, tried, self.infos)

    def _placed_in(self, order: GroupTree) -> bool:
        """Whether the pod gets a node if the groups are tried in this order."""
        position = self.scheduler.view.pods.find_position(self.pod.key)
        results = place_tree(self._cycle(order), workload_aware=False).values()
        return any(
            member.placed and member.position == position
            for result in results
            if result.placed
            for member in result.members
        )


def _report_tree_group(node: GroupTree, result: GroupResult | None) -> GroupOfTree:
    constraints, parent = node.group.spec.scheduling_constraints, parent_of(node.group)
    return GroupOfTree(
        kind="CompositePodGroup" if node.key.composite else "PodGroup",
        name=node.key.name,
        policy="basic" if node.group.spec.scheduling_policy.gang is None else "gang",
        least=node.least,
        verdict=verdict_of(result),
        message=result.message if result else "",
        parent=parent.name if parent else "",
        topology=constraints.topology[0].key if constraints and constraints.topology else "",
    )


def own_group_report(scheduler: Scheduler, framework: Framework, pod: Pod) -> PodGroupReport | None:
    """The group of a pod, as the API server holds it; None for one that is scheduled by itself."""
    key = group_key(pod) if placed_in_groups(scheduler.gates) else None
    if key is None:
        return None
    scheduler = with_pod(scheduler, pod)
    tree = composite_tree(scheduler.view, key)
    if tree is None:
        return pod_group_report(scheduler, framework, pod)
    return tree_report(scheduler, framework, tree, key, pod)
