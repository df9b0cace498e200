"""A pod's group that is of a group of groups: what placing the whole tree comes to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.cluster import Gap
from kschedctl.commands.explain.pod_group import GroupMembers, info_of, keys, members_of, report_of, verdict_of
from kschedctl.commands.explain.pod_group_report import GroupOfTree, GroupTreeReport, PodGroupReport
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult
from kschedctl.scheduler.engine.pod_groups.hierarchy import EntityKey, GroupTree, orders, parent_of
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import HierarchyCycle, Results
from kschedctl.scheduler.engine.pod_groups.preemption import place_tree
from kschedctl.scheduler.engine.pod_groups.since_1_37 import CONDITION, refused_before
from kschedctl.scheduler.engine.pod_groups.state import state_of
from kschedctl.scheduler.framework import Code, Status
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import GroupKey

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
            groups=tuple(_group(node, self.results.get(node.key)) for node in self.tree.nodes),
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


def _group(node: GroupTree, result: GroupResult | None) -> GroupOfTree:
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
