"""Workload-aware preemption: pods and groups of lower priority are evicted so that a whole group fits.

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
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import GroupResults, HierarchyCycle, complete_results
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    CONSTRAINED_PREEMPT,
    KEEPS_ITS_NODES,
    PROMISED,
    SAYS_WHO,
    WAITS_FOR_VICTIMS,
    never_preempts,
)
from kschedctl.scheduler.engine.pod_groups.state import get_group_priority, may_be_unread
from kschedctl.scheduler.engine.pod_groups.victims import AS_GROUPS, Victim, find_potential_victims
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
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


class GroupPreemption(NamedTuple):
    """The result of preempting for a group: its victims, and the nodes of its pods after they are gone."""

    status: Status
    victims: tuple[Position, ...] = ()
    promised: Mapping[Position, Row] = {}


def preempt_for_group(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """Try preemption for a group that does not fit, and return its result with the outcome.

    The result of a group that was not read stays as it is.
    """
    if may_be_unread(cycle.view, cycle.key):
        return result
    if SAYS_WHO.at(cycle.framework.release) != "nothing":
        return _run_post_filter(cycle, result)
    if _has_default_preemption(cycle):
        room = _try_preemption(cycle)
    else:
        room = GroupPreemption(Status(Code.UNSCHEDULABLE, (NOT_REGISTERED,)))
    if room.status.code is Code.SUCCESS:
        return replace(result, waiting_on_preemption=True, victims=room.victims)
    if room.status.code is Code.ERROR:
        return replace(result, status=room.status)
    reasons = (*result.status.reasons, ", ".join(room.status.reasons))
    return replace(result, status=Status(result.status.code, reasons))


def run_tree(cycle: HierarchyCycle, *, workload_aware: bool) -> GroupResults:
    """Run the cycle of a tree of groups and return the results of all its groups.

    With `workload_aware`, preemption is tried for a tree that does not fit.
    """
    results = cycle.run_groups()
    completed = complete_results(cycle.tree, results)
    unplaced = results[cycle.tree.key].status.code is Code.UNSCHEDULABLE
    return _preempt_for_tree(cycle, completed) if workload_aware and unplaced else completed


def _preempt_for_tree(cycle: HierarchyCycle, results: GroupResults) -> GroupResults:
    """Try preemption for a tree whose root does not fit, and return the results with the outcome.

    The reason is appended to the status of each group. If several groups share a status, it is appended several times.
    """
    if not _has_default_preemption(cycle):
        return results
    room = _try_preemption(cycle)
    shared = Counter(id(result.status) for result in results.values())
    results_after = {
        key: _add_preemption(cycle, result, room, shared[id(result.status)]) for key, result in results.items()
    }
    return {
        key: result if key == cycle.tree.key else replace(result, victims=()) for key, result in results_after.items()
    }


def _run_post_filter(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """Return the result after the PodGroupPostFilter of DefaultPreemption, unchanged without that plugin."""
    return _add_preemption(cycle, result, _try_preemption(cycle)) if _has_default_preemption(cycle) else result


def _add_preemption(cycle: AnyCycle, result: GroupResult, room: GroupPreemption, times: int = 1) -> GroupResult:
    """Return the result with the outcome of preemption, whose message is appended `times` times."""
    message = SAYS_WHO.at(cycle.framework.release) + ", ".join(room.status.reasons)
    if room.status.code is Code.ERROR:
        return replace(result, status=Status(Code.ERROR, (message,)))
    reasons = (*result.status.reasons, *[message] * times)
    return replace(
        result,
        status=Status(result.status.code, reasons),
        waiting_on_preemption=room.status.code is Code.SUCCESS,
        victims=room.victims,
        promised=room.promised if PROMISED.at(cycle.framework.release) else {},
        before_preemption=result.status,
    )


def _has_default_preemption(cycle: AnyCycle) -> bool:
    """Return whether the profile runs DefaultPreemption at PostFilter."""
    return any(plugin.name == DEFAULT_PREEMPTION for plugin in cycle.framework.plugins_at("postFilter"))


def _try_preemption(cycle: AnyCycle) -> GroupPreemption:
    """Check whether the group may preempt, and select its victims."""
    release, group = cycle.framework.release, cycle.preemptor
    if group is None:
        assert isinstance(cycle, PodGroupCycle)
        return GroupPreemption(Status(Code.ERROR, (NO_GROUP.format(cycle.key[1]),)))
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology and not CONSTRAINED_PREEMPT.at(release):
        return GroupPreemption(Status(Code.UNSCHEDULABLE, (CONSTRAINED,)))
    if never_preempts(group, (cycle.infos[member] for member in cycle.members), cycle.view):
        return GroupPreemption(Status(Code.UNSCHEDULABLE, (NEVER,)))
    potential = find_potential_victims(cycle.view, get_group_priority(group, cycle.view), release)
    if WAITS_FOR_VICTIMS.at(release) and _are_victims_leaving(cycle, potential):
        return GroupPreemption(Status(Code.SUCCESS, (ONGOING,)))
    if not potential:
        return GroupPreemption(Status(Code.UNRESOLVABLE, (NO_VICTIMS,)))
    return _select_victims(cycle, potential)


def _are_victims_leaving(cycle: AnyCycle, potential: Iterable[Victim]) -> bool:
    """Return whether potential victims are being evicted on nodes that are nominated for the group's pods."""
    view = cycle.view
    rows = {view.nodes.index.get(cycle.infos[member].pod.status.nominated_node_name) for member in cycle.members}
    return any(
        int(view.node[position]) in rows and is_being_preempted(view.pods.objects[position])
        for position in _iter_pods(potential)
    )


def _select_victims(cycle: AnyCycle, potential: list[Victim]) -> GroupPreemption:
    """Select the victims by removing all potential ones and putting back those that the group leaves room for.

    Victims whose eviction would violate a PDB are put back first.
    """
    view = cycle.view.fork()
    view.group_since = len(view.trail)
    for position in _iter_pods(potential):
        view.forget(position)
    result = cycle.run(view, post_filter=False)
    if not result.placed:
        return GroupPreemption(result.status)
    ordered = sorted(potential, key=lambda victim: victim.importance)
    violating = get_budgets(cycle.view).find_violating_units(
        (victim.pods for victim in ordered), whole=AS_GROUPS.at(cycle.framework.release)
    )
    protected = [victim for victim, breaks in zip(ordered, violating, strict=True) if breaks]
    unprotected = [victim for victim, breaks in zip(ordered, violating, strict=True) if not breaks]
    members = [member for member in result.members if member.placed]
    keeps_nodes = KEEPS_ITS_NODES.at(cycle.framework.release)
    evicted = [
        victim
        for victim in (*protected, *unprotected)
        if not _try_reprieve(cycle, view, victim, members if keeps_nodes else None)
    ]
    victims = tuple(_iter_pods(sorted(evicted, key=lambda victim: victim.importance)))
    reasons = (FOUND.format(len(victims)),) if keeps_nodes else ()
    return GroupPreemption(Status(Code.SUCCESS, reasons), victims, {member.position: member.row for member in members})


def _try_reprieve(cycle: AnyCycle, view: Fork, victim: Victim, members: Sequence[MemberResult] | None) -> bool:
    """Put a victim back if the group still fits, and return whether it does.

    With `members`, these must fit on their nodes. With None, the group may be placed anywhere.
    """
    for position in victim.pods:
        view.assume(position, Row(int(cycle.view.node[position])))
    if cycle.run(view, post_filter=False).placed if members is None else _do_members_still_pass(cycle, view, members):
        return True
    for position in victim.pods:
        view.forget(position)
    return False


def _do_members_still_pass(cycle: AnyCycle, view: Fork, members: Sequence[MemberResult]) -> bool:
    """Return whether the members pass the filters of their nodes, each with the earlier ones assumed."""
    view = view.fork()
    for member in members:
        tried = run_cycle(cycle.framework, cycle.infos[member.position], view)
        if tried.error is not None or not tried.filter.passing[member.row]:
            return False
        _, view = cycle.assume_member(view, tried, member)
    return True


def _iter_pods(victims: Iterable[Victim]) -> Iterator[Position]:
    """Yield the pods of the victims."""
    return (position for victim in victims for position in victim.pods)
