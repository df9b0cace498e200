"""Workload-aware preemption: room made for a whole group, by evicting pods and groups of lower priority anywhere.

Upstream: pkg/scheduler/framework/preemption/{podgrouppreemption,types}.go and runWorkloadAwarePreemption in
pkg/scheduler/schedule_one_podgroup.go (v1.36; of v1.37 as in since_1_37.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from kschedctl.api.arrays import Position, Row
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.engine.pod_groups.cycle import GroupResult, MemberResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import HierarchyCycle, Results, completed
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    CONSTRAINED_PREEMPT,
    KEEPS_ITS_NODES,
    PROMISED,
    SAYS_WHO,
    WAITS_FOR_VICTIMS,
    never_preempts,
)
from kschedctl.scheduler.engine.pod_groups.state import group_priority, is_unread
from kschedctl.scheduler.engine.pod_groups.victims import AS_GROUPS, Victim, victims_below
from kschedctl.scheduler.engine.preemption.budgets import find_budgets
from kschedctl.scheduler.engine.preemption.evaluator import DEFAULT_PREEMPTION, NEVER, is_being_preempted
from kschedctl.scheduler.framework import Code, Status
from kschedctl.snapshot.fork import Fork

NOT_REGISTERED = "default preemption plugin is not registered, workload aware preemption is disabled"
CONSTRAINED = "workload aware preemption is not supported for pod groups with scheduling constraints"
NO_VICTIMS = "No preemption victims found for incoming preemptor"
ONGOING = "ongoing preemption on nominated nodes"
FOUND = "found a placement for podgroup, preempting {} victims"
AnyCycle: TypeAlias = PodGroupCycle | HierarchyCycle
NO_GROUP = 'failed to get pod group object: podgroup.scheduling.k8s.io "{}" not found'


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


def place_tree(cycle: HierarchyCycle, *, workload_aware: bool) -> Results:
    """What all groups of a tree come to; ``workload_aware``: others may be evicted for it."""
    results = cycle.results()
    whole = completed(cycle.tree, results)
    unplaced = results[cycle.tree.key].status.code is Code.UNSCHEDULABLE
    return _preempt_for_tree(cycle, whole) if workload_aware and unplaced else whole


def _preempt_for_tree(cycle: HierarchyCycle, results: Results) -> Results:
    """With what evicting others could do for a tree whose root does not fit.

    A reason is added to the status of each, and so several times to one that some of them share.
    """
    if not _has_plugin(cycle):
        return results
    room, shared = _preempt(cycle), Counter(id(result.status) for result in results.values())
    after = {key: _with_room(cycle, result, room, shared[id(result.status)]) for key, result in results.items()}
    return {key: result if key == cycle.tree.key else replace(result, victims=()) for key, result in after.items()}


def _post_filtered(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """What the plugin's PodGroupPostFilter makes of it."""
    return _with_room(cycle, result, _preempt(cycle)) if _has_plugin(cycle) else result


def _with_room(cycle: AnyCycle, result: GroupResult, room: RoomForGroup, times: int = 1) -> GroupResult:
    said = SAYS_WHO.at(cycle.framework.release) + ", ".join(room.status.reasons)
    if room.status.code is Code.ERROR:
        return replace(result, status=Status(Code.ERROR, (said,)))
    return replace(
        result,
        status=Status(result.status.code, (*result.status.reasons, *[said] * times)),
        waiting_on_preemption=room.status.code is Code.SUCCESS,
        victims=room.victims,
        promised=room.promised if PROMISED.at(cycle.framework.release) else {},
        before_preemption=result.status,
    )


def _has_plugin(cycle: AnyCycle) -> bool:
    return any(plugin.name == DEFAULT_PREEMPTION for plugin in cycle.framework.plugins_at("postFilter"))


def _preempt(cycle: AnyCycle) -> RoomForGroup:
    release, group = cycle.framework.release, cycle.preemptor
    if group is None:
        assert isinstance(cycle, PodGroupCycle)
        return RoomForGroup(Status(Code.ERROR, (NO_GROUP.format(cycle.key[1]),)))
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology and not CONSTRAINED_PREEMPT.at(release):
        return RoomForGroup(Status(Code.UNSCHEDULABLE, (CONSTRAINED,)))
    if never_preempts(group, (cycle.infos[member] for member in cycle.members), cycle.view):
        return RoomForGroup(Status(Code.UNSCHEDULABLE, (NEVER,)))
    potential = victims_below(cycle.view, group_priority(group, cycle.view), release)
    if WAITS_FOR_VICTIMS.at(release) and _victims_leave(cycle, potential):
        return RoomForGroup(Status(Code.SUCCESS, (ONGOING,)))
    if not potential:
        return RoomForGroup(Status(Code.UNRESOLVABLE, (NO_VICTIMS,)))
    return _select(cycle, potential)


def _victims_leave(cycle: AnyCycle, potential: Iterable[Victim]) -> bool:
    """Whether the nodes that its pods are nominated for have some that are being evicted."""
    view = cycle.view
    rows = {view.nodes.index.get(cycle.infos[member].pod.status.nominated_node_name) for member in cycle.members}
    return any(
        int(view.node[position]) in rows and is_being_preempted(view.pods.objects[position])
        for position in _pods(potential)
    )


def _select(cycle: AnyCycle, potential: list[Victim]) -> RoomForGroup:
    """Take all away, and put back those that the group leaves room for: first whom a budget protects."""
    view = cycle.view.fork()
    view.group_since = len(view.trail)
    for position in _pods(potential):
        view.forget(position)
    placed = cycle.run(view, post_filter=False)
    if not placed.placed:
        return RoomForGroup(placed.status)
    ordered = sorted(potential, key=lambda victim: victim.importance)
    violating = find_budgets(cycle.view).find_violating_units(
        (victim.pods for victim in ordered), whole=AS_GROUPS.at(cycle.framework.release)
    )
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


def _reprieved(cycle: AnyCycle, view: Fork, victim: Victim, members: Sequence[MemberResult] | None) -> bool:
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


def _all_pass(cycle: AnyCycle, view: Fork, members: Sequence[MemberResult]) -> bool:
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
