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
from kschedctl.scheduler.engine.pod_groups.hierarchy_cycle import (
    GroupResults,
    HierarchyCycle,
    derive_results_of_all_groups,
)
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    CONSTRAINED_PREEMPT,
    KEEPS_ITS_NODES,
    MESSAGE_PREFIX,
    NO_PREFIX,
    NOMINATES_MEMBERS,
    WAITS_FOR_VICTIMS,
    never_preempts,
)
from kschedctl.scheduler.engine.pod_groups.state import get_group_priority, may_group_be_unread
from kschedctl.scheduler.engine.pod_groups.victims import CHARGES_ALL_PODS, Victim, find_potential_victims
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
    nominated_rows: Mapping[Position, Row] = {}


def preempt_for_group(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """Try preemption for a group that does not fit, and return its result with the outcome of preemption added.

    If the group's object was not read, return the result unchanged.
    """
    if may_group_be_unread(cycle.view, cycle.key):
        return result
    if _is_version_with_group_post_filter(cycle):
        return _preempt_since_1_37(cycle, result)
    return _preempt_before_1_37(cycle, result)


def _is_version_with_group_post_filter(cycle: PodGroupCycle) -> bool:
    """Return whether the version is v1.37 or later, in which DefaultPreemption has a PodGroupPostFilter.

    This version also introduced the prefix of messages about preemption.
    """
    return MESSAGE_PREFIX.at(cycle.framework.release) != NO_PREFIX


def _preempt_before_1_37(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """Return the result with the outcome of preemption, as in versions before v1.37.

    If victims are found, the group waits for them to leave. Otherwise, preemption's reasons are appended to the
    result's reasons. An error of preemption becomes the result's status.
    """
    if _has_default_preemption(cycle):
        preemption = _try_preemption(cycle)
    else:
        preemption = GroupPreemption(Status(Code.UNSCHEDULABLE, (NOT_REGISTERED,)))
    if preemption.status.code is Code.SUCCESS:
        return replace(result, waiting_on_preemption=True, victims=preemption.victims)
    if preemption.status.code is Code.ERROR:
        return replace(result, status=preemption.status)
    reasons = (*result.status.reasons, ", ".join(preemption.status.reasons))
    return replace(result, status=Status(result.status.code, reasons))


def _preempt_since_1_37(cycle: PodGroupCycle, result: GroupResult) -> GroupResult:
    """Return the result with the outcome of DefaultPreemption's PodGroupPostFilter.

    If the profile lacks this plugin, the result is returned unchanged.
    """
    if not _has_default_preemption(cycle):
        return result
    return _add_preemption_outcome(cycle, result, _try_preemption(cycle))


def run_tree_cycle(cycle: HierarchyCycle, *, workload_aware: bool) -> GroupResults:
    """Run the cycle of a tree of groups and return the results of all its groups.

    With `workload_aware`, preemption is tried for a tree that does not fit.
    """
    results = cycle.run_groups()
    completed = derive_results_of_all_groups(cycle.tree, results)
    unplaced = results[cycle.tree.key].status.code is Code.UNSCHEDULABLE
    return _preempt_for_tree(cycle, completed) if workload_aware and unplaced else completed


def _preempt_for_tree(cycle: HierarchyCycle, results: GroupResults) -> GroupResults:
    """Try preemption for a tree whose root does not fit, and return the results with the outcome added.

    The outcome's reason is appended to the status of each group, and appended several times if several groups share the
    status. Only the root's result has the victims. Without DefaultPreemption, the results are returned unchanged.
    """
    if not _has_default_preemption(cycle):
        return results
    preemption = _try_preemption(cycle)
    # Upstream appends to shared status objects, once for each group that shares one.
    groups_by_status = Counter(id(result.status) for result in results.values())
    results_after = {}
    for key, result in results.items():
        result_after = _add_preemption_outcome(cycle, result, preemption, groups_by_status[id(result.status)])
        is_root = key == cycle.tree.key
        results_after[key] = result_after if is_root else replace(result_after, victims=())
    return results_after


def _add_preemption_outcome(
    cycle: AnyCycle, result: GroupResult, preemption: GroupPreemption, times: int = 1
) -> GroupResult:
    """Return the result with the outcome of preemption, whose message is appended to the reasons.

    The message is appended `times` times, since upstream appends it to a status object once for each group that shares
    the object. An error of preemption becomes the result's status instead, and nothing else changes. Only some versions
    nominate the members for their nodes.
    """
    release = cycle.framework.release
    nominates_members = NOMINATES_MEMBERS.at(release)
    message = MESSAGE_PREFIX.at(release) + ", ".join(preemption.status.reasons)
    if preemption.status.code is Code.ERROR:
        return replace(result, status=Status(Code.ERROR, (message,)))
    reasons = (*result.status.reasons, *[message] * times)
    return replace(
        result,
        status=Status(result.status.code, reasons),
        waiting_on_preemption=preemption.status.code is Code.SUCCESS,
        victims=preemption.victims,
        nominated_rows=preemption.nominated_rows if nominates_members else {},
        before_preemption=result.status,
    )


def _has_default_preemption(cycle: AnyCycle) -> bool:
    """Return whether the profile runs DefaultPreemption at PostFilter."""
    return any(plugin.name == DEFAULT_PREEMPTION for plugin in cycle.framework.plugins_at("postFilter"))


def _try_preemption(cycle: AnyCycle) -> GroupPreemption:
    """Select the victims of a group, or return a status with the reason why none are selected.

    The status is an error if the group does not exist, and Success without victims if earlier victims are still
    leaving. Otherwise, it says that the group must not preempt, has no potential victims, or would not fit without
    them.
    """
    # The group must exist and be allowed to preempt.
    release, group = cycle.framework.release, cycle.preemptor
    if group is None:
        assert isinstance(cycle, PodGroupCycle)
        *_, name = cycle.key
        return GroupPreemption(Status(Code.ERROR, (NO_GROUP.format(name),)))
    constraints = group.spec.scheduling_constraints
    is_constrained = constraints is not None and bool(constraints.topology)
    if is_constrained and not CONSTRAINED_PREEMPT.at(release):
        return GroupPreemption(Status(Code.UNSCHEDULABLE, (CONSTRAINED,)))
    if never_preempts(group, (cycle.infos[member] for member in cycle.members), cycle.view):
        return GroupPreemption(Status(Code.UNSCHEDULABLE, (NEVER,)))

    # There must be potential victims, and none of them may be leaving for this group already.
    potential = find_potential_victims(cycle.view, get_group_priority(group, cycle.view), release)
    if WAITS_FOR_VICTIMS.at(release) and _is_any_victim_leaving(cycle, potential):
        return GroupPreemption(Status(Code.SUCCESS, (ONGOING,)))
    if not potential:
        return GroupPreemption(Status(Code.UNRESOLVABLE, (NO_VICTIMS,)))
    return _select_victims(cycle, potential)


def _is_any_victim_leaving(cycle: AnyCycle, potential: Iterable[Victim]) -> bool:
    """Return whether a potential victim is already being preempted on the nominated node of one of the group's pods."""
    view = cycle.view
    nominated_names = (cycle.infos[member].pod.status.nominated_node_name for member in cycle.members)
    nominated_rows = {view.nodes.index.get(name) for name in nominated_names}
    return any(
        int(view.node[position]) in nominated_rows and is_being_preempted(view.pods.objects[position])
        for position in _iter_pods(potential)
    )


def _select_victims(cycle: AnyCycle, potential: list[Victim]) -> GroupPreemption:
    """Select the victims by removing all potential victims and putting back as many as possible.

    A victim is put back if the group still fits. Victims whose eviction would violate a PDB are put back first. If the
    group does not fit even with all potential victims removed, return the status of that attempt.
    """
    # Place the group without any potential victim.
    view = _fork_without_victims(cycle, potential)
    result = cycle.run(view, post_filter=False)
    if not result.placed:
        return GroupPreemption(result.status)
    placed_members = [member for member in result.members if member.placed]

    # Put the victims back one by one. Before v1.37, the group may move to other nodes meanwhile.
    keeps_nodes = KEEPS_ITS_NODES.at(cycle.framework.release)
    members_on_nodes = placed_members if keeps_nodes else None
    evicted = []
    for victim in _sort_for_reprieve(cycle, potential):
        is_put_back = _try_reprieve(cycle, view, victim, members_on_nodes)
        if not is_put_back:
            evicted.append(victim)

    victims = tuple(_iter_pods(sorted(evicted, key=lambda victim: victim.importance)))
    # The releases in which the group keeps its nodes also report the number of victims.
    reasons = (FOUND.format(len(victims)),) if keeps_nodes else ()
    nominated_rows = {member.position: member.row for member in placed_members}
    return GroupPreemption(Status(Code.SUCCESS, reasons), victims, nominated_rows)


def _fork_without_victims(cycle: AnyCycle, potential: Iterable[Victim]) -> Fork:
    """Fork the cycle's view for a cycle of the group, and take all potential victims off their nodes."""
    view = cycle.view.fork()
    view.group_since = len(view.trail)  # the victims leave during the cycle, so they count as placed before it
    for position in _iter_pods(potential):
        view.forget(position)
    return view


def _sort_for_reprieve(cycle: AnyCycle, potential: list[Victim]) -> list[Victim]:
    """Return the victims in the order in which the group's preemption tries to put them back.

    Victims whose eviction would violate a PDB come first. Within both parts, more important victims come first.
    """
    charges_all_pods = CHARGES_ALL_PODS.at(cycle.framework.release)
    by_importance = sorted(potential, key=lambda victim: victim.importance)
    violating = get_budgets(cycle.view).find_units_violating_budgets(
        (victim.pods for victim in by_importance), charges_all_pods=charges_all_pods
    )
    protected = [victim for victim, violates in zip(by_importance, violating, strict=True) if violates]
    unprotected = [victim for victim, violates in zip(by_importance, violating, strict=True) if not violates]
    return [*protected, *unprotected]


def _try_reprieve(cycle: AnyCycle, view: Fork, victim: Victim, members: Sequence[MemberResult] | None) -> bool:
    """Put a victim back in `view`, and return whether the group still fits. If it does not, remove the victim again.

    With `members`, these pods must fit on their present nodes. Otherwise, the group may be placed anywhere.
    """
    for position in victim.pods:
        view.assume(position, Row(int(cycle.view.node[position])))
    if members is None:
        group_fits = cycle.run(view, post_filter=False).placed
    else:
        group_fits = _do_members_still_pass(cycle, view, members)
    if group_fits:
        return True
    for position in victim.pods:
        view.forget(position)
    return False


def _do_members_still_pass(cycle: AnyCycle, view: Fork, members: Sequence[MemberResult]) -> bool:
    """Return whether each member still passes the filters on its node once the members before it are placed."""
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
