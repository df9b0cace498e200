"""Workload-aware preemption: room made for a whole group, by evicting pods and groups of lower priority anywhere.

Upstream: pkg/scheduler/framework/preemption/{podgrouppreemption,types}.go and runWorkloadAwarePreemption in
pkg/scheduler/schedule_one_podgroup.go (v1.36; of v1.37 as in since_1_37.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Row
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, MemberResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    CONSTRAINED_PREEMPT,
    KEEPS_ITS_NODES,
    PROMISED,
    SAYS_WHO,
    WAITS_FOR_VICTIMS,
)
from kschedctl.scheduler.engine.pod_groups.state import NO_MEMBERS, find_pod_group, group_priority, is_unread
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.scheduler.engine.preemption.evaluator import DEFAULT_PREEMPTION, NEVER, being_preempted
from kschedctl.scheduler.framework import Code, Status
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pods import GroupKey, group_key

NOT_REGISTERED = "default preemption plugin is not registered, workload aware preemption is disabled"
CONSTRAINED = "workload aware preemption is not supported for pod groups with scheduling constraints"
NO_VICTIMS = "No preemption victims found for incoming preemptor"
ONGOING = "ongoing preemption on nominated nodes"
FOUND = "found a placement for podgroup, preempting {} victims"
NO_GROUP = 'failed to get pod group object: podgroup.scheduling.k8s.io "{}" not found'


class Victim(NamedTuple):
    """Pods that go together. ``grouped``: they are of a group; ``start``: when the first of them started."""

    pods: tuple[Position, ...]
    priority: int
    grouped: bool
    start: int

    @property
    def importance(self) -> tuple[int, bool, int, int]:
        """The most important is the smallest; among equals the order stays."""
        size = len(self.pods) if self.grouped else 0
        return (-self.priority, not self.grouped, -size, self.start)


class RoomForGroup(NamedTuple):
    """Who goes for a group, and where its pods go then."""

    status: Status
    victims: tuple[Position, ...] = ()
    promised: Mapping[Position, Row] = {}


def preempt_for_group(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """The result of a group that does not fit, with what evicting others could do for it, if it is known."""
    if is_unread(cycle.view, cycle.key):
        return result
    if SAYS_WHO.at(cycle.framework.release) != "nothing":
        return _post_filtered(cycle, result)
    room = _preempt(cycle) if _has_plugin(cycle) else RoomForGroup(Status(Code.UNSCHEDULABLE, (NOT_REGISTERED,)))
    if room.status.code is Code.SUCCESS:
        return replace(result, waiting_on_preemption=True, victims=room.victims)
    if room.status.code is Code.ERROR:
        return replace(result, status=room.status)
    reasons = (*result.status.reasons, ", ".join(room.status.reasons))
    return replace(result, status=Status(result.status.code, reasons))


def _post_filtered(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """What the plugin's PodGroupPostFilter makes of it."""
    if not _has_plugin(cycle):
        return result
    room = _preempt(cycle)
    said = SAYS_WHO.at(cycle.framework.release) + ", ".join(room.status.reasons)
    if room.status.code is Code.ERROR:
        return replace(result, status=Status(Code.ERROR, (said,)))
    return replace(
        result,
        status=Status(result.status.code, (*result.status.reasons, said)),
        waiting_on_preemption=room.status.code is Code.SUCCESS,
        victims=room.victims,
        promised=room.promised if PROMISED.at(cycle.framework.release) else {},
        before_preemption=result.status,
    )


def _has_plugin(cycle: PodGroupCycle) -> bool:
    return any(plugin.name == DEFAULT_PREEMPTION for plugin in cycle.framework.at("postFilter"))


def _preempt(cycle: PodGroupCycle) -> RoomForGroup:
    release = cycle.framework.release
    group = find_pod_group(cycle.view, cycle.key)
    if group is None:
        return RoomForGroup(Status(Code.ERROR, (NO_GROUP.format(cycle.key[1]),)))
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology and not CONSTRAINED_PREEMPT.at(release):
        return RoomForGroup(Status(Code.UNSCHEDULABLE, (CONSTRAINED,)))
    if any(cycle.infos[member].spec.preemption_policy == "Never" for member in cycle.members):
        return RoomForGroup(Status(Code.UNSCHEDULABLE, (NEVER,)))
    potential = victims_below(cycle.view, group_priority(group, cycle.view))
    if WAITS_FOR_VICTIMS.at(release) and _victims_leave(cycle, potential):
        return RoomForGroup(Status(Code.SUCCESS, (ONGOING,)))
    if not potential:
        return RoomForGroup(Status(Code.UNRESOLVABLE, (NO_VICTIMS,)))
    return _select(cycle, potential)


def _victims_leave(cycle: PodGroupCycle, potential: Iterable[Victim]) -> bool:
    """Whether the nodes that its pods are nominated for have some that are being evicted."""
    view = cycle.view
    rows = {view.nodes.index.get(cycle.infos[member].pod.status.nominated_node_name) for member in cycle.members}
    return any(
        int(view.node[position]) in rows and being_preempted(view.pods.objects[position])
        for position in _pods(potential)
    )


def _select(cycle: PodGroupCycle, potential: list[Victim]) -> RoomForGroup:
    """Take all away, and put back those that the group leaves room for: first whom a budget protects."""
    view = cycle.view.fork()
    view.group_since = len(view.trail)
    for position in _pods(potential):
        view.forget(position)
    placed = cycle.run(view, post_filter=False)
    if not placed.placed:
        return RoomForGroup(placed.status)
    ordered = sorted(potential, key=lambda victim: victim.importance)
    violating = budgets(cycle.view).violated_by(victim.pods for victim in ordered)
    protected = [victim for victim, breaks in zip(ordered, violating, strict=True) if breaks]
    others = [victim for victim, breaks in zip(ordered, violating, strict=True) if not breaks]
    members = [member for member in placed.members if member.placed]
    keeps = KEEPS_ITS_NODES.at(cycle.framework.release)
    gone = [
        victim for victim in (*protected, *others) if not _reprieved(cycle, view, victim, members if keeps else None)
    ]
    victims = tuple(_pods(sorted(gone, key=lambda victim: victim.importance)))
    said = (FOUND.format(len(victims)),) if keeps else ()
    return RoomForGroup(Status(Code.SUCCESS, said), victims, {member.position: member.row for member in members})


def _reprieved(cycle: PodGroupCycle, view: Fork, victim: Victim, members: Sequence[MemberResult] | None) -> bool:
    """Whether the group fits beside the victim, which then stays where it is.

    ``members``: on the nodes that they have; None: wherever they go then.
    """
    for position in victim.pods:
        view.assume(position, Row(int(cycle.view.node[position])))
    if cycle.run(view, post_filter=False).placed if members is None else _all_pass(cycle, view, members):
        return True
    for position in victim.pods:
        view.forget(position)
    return False


def _all_pass(cycle: PodGroupCycle, view: Fork, members: Sequence[MemberResult]) -> bool:
    """Whether the members pass the filters of their nodes, each with those before it assumed."""
    view = view.fork()
    for member in members:
        tried = run_cycle(cycle.framework, cycle.infos[member.position], view)
        if tried.error is not None or not tried.filter.passing[member.row]:
            return False
        _, view = cycle.assumed(view, tried, member)
    return True


def _pods(victims: Iterable[Victim]) -> Iterator[Position]:
    return (position for victim in victims for position in victim.pods)


def victims_below(view: Fork, priority: int) -> list[Victim]:
    """The pods of lower priority that have a node, and the groups that go as a whole, node after node.

    Upstream takes a group's start from the first of its pods that it meets.
    """
    together = _groups_disrupted_together(view)
    victims: dict[GroupKey | Position, Victim] = {}
    for position in _by_node(view, priority, together):
        info = view.pods.infos[view.pods.info[position]]
        key = group_key(info.pod)
        unit: GroupKey | Position = key if key in together else position
        if unit in victims:
            victims[unit] = victims[unit]._replace(pods=(*victims[unit].pods, position))
        else:
            own = together.get(key, info.priority) if key else info.priority
            victims[unit] = Victim((position,), own, key is not None, int(view.pods.start[position]))
    return list(victims.values())


def _groups_disrupted_together(view: Fork) -> dict[GroupKey, int]:
    """The groups that go as a whole, with their priority."""
    groups = (group for group in view.objects.of("PodGroup") if group.spec.disrupted_together)
    return {(group.metadata.namespace, group.metadata.name): group_priority(group, view) for group in groups}


def _by_node(view: Fork, priority: int, together: Mapping[GroupKey, int]) -> list[Position]:
    """The pods that have a node and go, node after node, on each as they came there."""
    goes = (view.pods.priority < priority)[view.pods.info]
    for key, of_group in together.items():
        goes[view.pods.by_group.get(key, NO_MEMBERS)] = of_group < priority
    placed = np.flatnonzero(goes & (view.node >= 0))
    positions: list[Position] = placed[np.lexsort((view.arrivals.place[placed], view.node[placed]))].tolist()
    return positions
