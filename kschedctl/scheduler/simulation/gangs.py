"""Pod groups of a simulation, Kubernetes' own and Coscheduling's, whose waiting pods are placed together or not at all.

The result is the same as that of the pod-group cycle (scheduler/engine/pod_groups/cycle.py). Most groups are placed
faster: pod by pod, like pods without a group, and taken back if there is no quorum. The victims of members are evicted
even if the group does not fit in the end, except outside of a queue, where nothing is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from kschedctl.api.arrays import NO_ROW, Position, Row, Rows
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.diagnosis import Rejectors
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.engine.pod_groups.cycle import NO_FIT, GroupResult, MemberResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_plugin
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    LEFT_OVER_AT_ONCE,
    LIKE_ITS_PODS,
    UNTIL_INFEASIBLE,
    find_validation_error,
)
from kschedctl.scheduler.engine.pod_groups.state import (
    find_completing_pod,
    find_group_state,
    find_pod_group,
    get_group_priority,
    schedules_groups_together,
)
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure, find_failed_members
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.plugins.gang_scheduling import GangScheduling
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, PodsOnNodes
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey, get_group_key


class PlacedMember(NamedTuple):
    """A placed pod of a group."""

    row: Row
    tied: int
    """Number of nodes that were equally good."""
    feasible: int
    """Number of feasible nodes."""
    waits: bool
    """True if the pod waits at Permit because too few pods of the group have a node."""


class GangAttempt(NamedTuple):
    """The result of trying a group.

    It has the members that were placed, and why the other members were not. Either no members are placed, or enough for
    the group.
    """

    placed: Mapping[Position, PlacedMember]
    victims: Mapping[Position, tuple[Position, ...]] = {}
    """The pods to evict, by the member that preempts them."""
    nominated_rows: Mapping[Position, Row] = {}
    """The nodes on which members preempt other pods for themselves."""
    failed: Mapping[Position, MemberFailure] = {}
    """The reasons why members were not placed."""
    retried_at_once: Sequence[Position] = ()
    """Members that are tried again at once."""


NOT_PLACED = GangAttempt({})
FITTING_MEMBER = MemberFailure(NO_FIT)
"""The failure of a pod that fits while others of its group do not."""
UNFIT_MEMBER = MemberFailure(NO_FIT, rejectors=Rejectors(frozenset({GangScheduling.name})))
"""The failure of a pod that does not fit. Its rejectors do not affect when it comes back."""


class Gangs:
    """Places the pods of groups together. `placements` choose nodes, and `pods` bind to them."""

    def __init__(self, placements: Placements, pods: PodsOnNodes) -> None:
        self.scheduler, self.placements, self.pods, gates = pods.scheduler, placements, pods, pods.scheduler.gates
        self.places_groups_together = schedules_groups_together(gates)
        """True if pods of Kubernetes' own groups are placed together."""
        self.has_groups = self.places_groups_together or bool(self.view.pods.positions_by_gang)
        """True if any pod may belong to a group."""
        self.is_gang_scheduling_enabled = gates.enabled(GangScheduling.gate)
        self.topology_aware = gates.enabled("TopologyAwareWorkloadScheduling")
        self.workload_aware = gates.enabled("WorkloadAwarePreemption")
        self._gang_of_info: dict[int, GangKey | None] = {}

    @property
    def view(self) -> Fork:
        """The fork on which pods are placed."""
        return self.placements.view

    def find_group_key(self, position: Position) -> AnyGroupKey | None:
        """Return the group that a pod is placed with, or None if it is placed alone."""
        number = self.view.pods.get_info_number(position)
        pod_group = get_group_key(self.view.pods.infos[number].pod) if self.places_groups_together else None
        return pod_group or self._find_gang_key(number)

    def _find_gang_key(self, info_number: int) -> GangKey | None:
        """Return the key of the gang that pods with this PodInfo belong to, from a cache if possible.

        Return None if the pods name no gang, or if no plugin of their profile makes them wait for each other.
        """
        if info_number not in self._gang_of_info:
            info = self.view.pods.infos[info_number]
            framework = self.scheduler.find_framework(info.spec.scheduler_name)
            plugin = find_gang_plugin(framework) if framework else None
            self._gang_of_info[info_number] = plugin.find_gang(info.pod) if plugin else None
        return self._gang_of_info[info_number]

    def group_pods_for_queue(self, positions: Iterable[Position]) -> dict[AnyGroupKey, list[Position]]:
        """Return the pods of Kubernetes' PodGroups, by group and in the order in which they are tried together.

        Gangs of Coscheduling are left out, because their pods are tried one by one.
        """
        groups = self.group_pods_by_gang(positions)
        return {
            key: self.sort_members_for_attempt(key, members)
            for key, members in groups.items()
            if not isinstance(key, GangKey)
        }

    def find_gang_pods(self, positions: Iterable[Position]) -> frozenset[Position]:
        """Return the pods of gangs that are tried one by one.

        Such pods wait on their nodes for the rest of their gang.
        """
        return frozenset(
            position for position in positions if self.has_groups and isinstance(self.find_group_key(position), GangKey)
        )

    def group_pods_by_gang(self, positions: Iterable[Position]) -> dict[AnyGroupKey, list[Position]]:
        """Group pods by their PodGroup or gang, and keep their order. Pods without a group are left out."""
        groups: dict[AnyGroupKey, list[Position]] = {}
        if not self.has_groups:
            return groups
        for position in positions:
            if (key := self.find_group_key(position)) is not None:
                groups.setdefault(key, []).append(position)
        return groups

    def find_member_failures_now(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]
    ) -> dict[Position, MemberFailure]:
        """Return, by position, why members of a group would not be bound if the group were tried now."""
        return self._find_member_failures(framework, key, members, self.run_group_cycle(framework, key, members))

    def build_messages_for_groups(
        self, positions: Iterable[Position], get_framework: Callable[[Position], Framework]
    ) -> dict[Position, str]:
        """Return the message for each pod whose group does not fit now, by position.

        `get_framework` returns the profile of a pod. Pods without a group are left out.
        """
        messages = {}
        for key, members in self.group_pods_by_gang(positions).items():
            failures = self.find_member_failures_now(get_framework(members[0]), key, members)
            messages.update({position: failure.message for position, failure in failures.items()})
        return messages

    def _find_member_failures(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position], result: GroupResult
    ) -> dict[Position, MemberFailure]:
        """Return, by position, why members are not bound given this result of their group.

        The reasons come from the gang's plugin or, for Kubernetes' own groups, from the pod-group cycle.
        """
        plugin = find_gang_plugin(framework) if isinstance(key, GangKey) else None
        if plugin is not None:
            return plugin.find_member_failures(result, members, self.view)
        return find_failed_members(result, members, self.view)

    def find_preemption_priority(self, key: AnyGroupKey, members: Sequence[Position]) -> int:
        """Return the highest priority at which a member may preempt.

        With workload-aware preemption, the priority of the group as a whole counts as well.
        """
        pods = self.view.pods
        group = find_pod_group(self.view, key)
        group_priorities = [get_group_priority(group, self.view)] if group and self.workload_aware else []
        member_priorities: list[int] = pods.get_priorities(list(members)).tolist()
        return max(group_priorities + member_priorities)

    def preempts_per_pod(self, key: AnyGroupKey) -> bool:
        """Return whether each pod of the group preempts for itself, and the group waits until all victims are gone."""
        return not (isinstance(key, GangKey) or self.topology_aware or self.workload_aware)

    def place_members(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position], *, all_or_none: bool = False
    ) -> GangAttempt:
        """Place as many members as fit, if these are enough for the group. Otherwise, place none.

        With `all_or_none`, place either all members or none, because the caller preempts for the members that do not
        fit. A group that needs a pod-group cycle is then never placed. Raises PluginError if the group is invalid or a
        plugin fails.
        """
        if error := self._find_validation_error(key, members):
            raise PluginError(error)
        if not self._needs_group_cycle(key, members):
            return self._place_one_by_one(framework, key, members, all_or_none=all_or_none)
        if all_or_none:  # the cycle might place only some of the members
            return _build_failure(members, fitting=())
        result = self._build_cycle(framework, key, members).run(post_filter=False)
        return self._bind_result(result, members)

    def bind_or_find_victims(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GangAttempt:
        """Bind the members if their group fits now, or else find the victims of preemption without evicting them.

        There may be victims for each member and for the group as a whole. Victims for the group count as victims of its
        first member. Raises PluginError if a plugin fails.
        """
        result = self.run_group_cycle(framework, key, members)
        # The group may fit now, since this cycle may choose other nodes than the one before among equal ones.
        if result.placed or result.status.code is Code.ERROR:
            return self._bind_result(result, members)
        victims = {member.position: member.victims for member in result.members if member.victims}
        rows = {member.position: member.row for member in result.members if member.victims}
        if result.victims:  # victims of the group as a whole count as victims of its first member
            victims[members[0]] = (*victims.get(members[0], ()), *result.victims)
        failed = self._find_member_failures(framework, key, members, result)
        return GangAttempt(placed={}, victims=_assign_victims_once(victims), nominated_rows=rows, failed=failed)

    def find_victims_and_placement(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]
    ) -> GangAttempt:
        """Find the pods to preempt for a group, and the nodes that its members then get.

        If the group fits without preemption, its members are bound. If there are no victims, or if too few members fit
        even without them, no member is placed. Raises PluginError if a plugin fails.
        """
        gang_attempt = self.bind_or_find_victims(framework, key, members)
        if gang_attempt.placed or not gang_attempt.victims:
            return gang_attempt
        view = self.view.fork()
        for victim in chain(*gang_attempt.victims.values()):
            view.forget(victim)
        afterwards = self._build_cycle(framework, key, members).run(view, post_filter=False)
        if not afterwards.placed:
            return NOT_PLACED
        return gang_attempt._replace(placed=_collect_placed_members(afterwards))

    def run_group_cycle(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GroupResult:
        """Run the group's cycle in the current state, with preemption, and return its result.

        An invalid group gets an error without a cycle. With workload-aware preemption, a group that does not fit
        preempts as a whole.
        """
        if error := self._find_validation_error(key, members):
            return GroupResult(Status(Code.ERROR, (error,)))
        cycle = self._build_cycle(framework, key, members)
        result = cycle.run()
        # Workload-aware preemption is for kube-scheduler's own PodGroups. Members of gangs preempt pod by pod
        may_preempt_as_group = self.workload_aware and not isinstance(key, GangKey)
        if may_preempt_as_group and result.status.code is Code.UNSCHEDULABLE:
            from kschedctl.scheduler.engine.pod_groups.preemption import preempt_for_group  # noqa: PLC0415 - for few pods

            return preempt_for_group(cycle, result)
        return result

    def _find_validation_error(self, key: AnyGroupKey, members: Sequence[Position]) -> str:
        """Return why kube-scheduler rejects the group without trying its pods, or "" if the group is valid.

        Upstream validates PodGroups from v1.37 on. Gangs of Coscheduling are always valid.
        """
        # Upstream began to validate when it required the pods of a group to have the group's priority
        is_validated_upstream = LIKE_ITS_PODS.at(self.scheduler.gates.release)
        if isinstance(key, GangKey) or not is_validated_upstream:
            return ""
        infos = {position: self.build_own_info(position) for position in members}
        return find_validation_error(find_pod_group(self.view, key), infos, self.view, self.scheduler.gates.release)

    def _build_cycle(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> PodGroupCycle:
        """Build the pod-group cycle that tries these members.

        Of several best nodes for a member, the cycle takes one by seeded random choice.
        """
        infos = {position: self.build_own_info(position) for position in members}
        topology_aware = self.topology_aware and not isinstance(key, GangKey)
        return PodGroupCycle(
            framework,
            self.view,
            key=key,
            members=members,
            infos=infos,
            topology_aware=topology_aware,
            choose=self._choose_row,
        )

    def sort_members_for_attempt(self, key: AnyGroupKey, members: Sequence[Position]) -> list[Position]:
        """Return the members in the order in which they are tried.

        The members of a complete group are sorted by priority. Among pods of equal priority, the pod that completed the
        group comes first, because the pods before it were kept out of the queue. Gangs of Coscheduling and incomplete
        groups keep the given order. If gang scheduling is off, all groups keep the given order.
        """
        if isinstance(key, GangKey) or not self.is_gang_scheduling_enabled:
            return list(members)
        completing = find_completing_pod(self.view, key, self.view.pods.positions_by_group[key].tolist())
        if completing is None:
            return list(members)
        return sorted(members, key=lambda member: (-self.view.pods.get_priority(member), member != completing))

    def build_own_info(self, position: Position) -> PodInfo:
        """Build the PodInfo of this very pod, instead of the one that identical pods share."""
        info = self.placements.build_arriving_info(position)
        return PodInfo(self.placements.build_waiting_pod(position), info.options, info.number, info.alike)

    def _choose_row(self, view: Fork, rows: Rows) -> Row:
        """Return one of the rows, chosen at random by the seed."""
        return Row(int(rows[self.placements.random.randrange(len(rows))]))

    def _needs_group_cycle(self, key: AnyGroupKey, members: Sequence[Position]) -> bool:
        """Return whether the group needs a pod-group cycle and cannot be placed pod by pod.

        A cycle is needed if several placements have to be tried, or if the group's object is missing so that this is
        unknown. A cycle is also needed if members have pod affinity or claims, because their effects are hard to undo.
        """
        if self.topology_aware and not isinstance(key, GangKey):
            group = find_pod_group(self.view, key)
            if group is None or group.spec.scheduling_constraints is not None:
                return True
        numbers = {self.view.pods.get_info_number(position) for position in members}
        infos = [self.view.pods.infos[number] for number in numbers]
        return any(_has_pod_affinity(info) or uses_claims(info, self.view) for info in infos)

    def _place_one_by_one(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position], *, all_or_none: bool
    ) -> GangAttempt:
        """Bind the members that fit one by one, and undo the placements if too few of them fit.

        Enough members fit if Permit allows one of them and at least minCount pods have a node. With `all_or_none`, all
        members have to fit. Members that Permit rejects lose their node. Raises PluginError if a plugin fails, after
        undoing all placements.
        """
        # Bind all members that fit, unless Permit rejects them.
        placed: dict[Position, PlacedMember] = {}
        nominated_rows = {position: self.view.get_nominated_row(position) for position in members}
        try:
            for position in members:
                choice = self.placements.choose_node(framework, position)
                if choice is None and all_or_none:
                    break
                if choice is None:
                    continue
                member = self._bind_if_permitted(framework, position, choice, nominated_rows)
                if member is not None:
                    placed[position] = member
        except PluginError:
            self._undo_placements(placed, nominated_rows)
            raise

        # Keep them only if they are enough.
        has_quorum = any(not member.waits for member in placed.values())
        lacks_members = all_or_none and len(placed) < len(members)
        if lacks_members or not has_quorum or not self._has_enough_placed_pods(key):
            self._undo_placements(placed, nominated_rows)
            return _build_failure(members, placed)
        left_over_at_once = not isinstance(key, GangKey) and LEFT_OVER_AT_ONCE.at(self.scheduler.gates.release)
        return _build_successful_attempt(members, placed, left_over_at_once=left_over_at_once)

    def _has_enough_placed_pods(self, key: AnyGroupKey) -> bool:
        """Return whether at least minCount pods of the group have a node now.

        Also return True if the group has no minCount, if Permit checks the minimum, or if gang scheduling is off.
        """
        # Old versions check the minimum at Permit. Newer versions check it with PlacementFeasible plugins, which do not
        # run while pods are placed one by one.
        checks_in_permit = not UNTIL_INFEASIBLE.at(self.scheduler.gates.release)
        if isinstance(key, GangKey) or checks_in_permit or not self.is_gang_scheduling_enabled:
            return True
        group = find_pod_group(self.view, key)
        gang = group.spec.scheduling_policy.gang if group else None
        return gang is None or len(find_group_state(self.view, key).scheduled) >= gang.min_count

    def _bind_if_permitted(
        self, framework: Framework, position: Position, choice: Choice, nominated_rows: Mapping[Position, Row]
    ) -> PlacedMember | None:
        """Bind a member to its chosen node, or return None if Permit rejects the member, which then loses the node.

        `nominated_rows` has the row for which each member was nominated before. Raises PluginError if a plugin fails,
        in which case the member is not bound.
        """
        self.pods.bind(position, choice.row, choice.claim_results)
        permit = run_permit(framework, self.build_own_info(position), self.view, choice.row).status
        if permit.code in (Code.SUCCESS, Code.WAIT):
            waits = permit.code is Code.WAIT
            return PlacedMember(choice.row, tied=len(choice.tied), feasible=choice.feasible, waits=waits)
        self._undo_placements([position], nominated_rows)
        if permit.code is Code.ERROR:
            raise PluginError(permit.reasons[0])
        return None

    def _undo_placements(self, positions: Collection[Position], nominated_rows: Mapping[Position, Row]) -> None:
        """Take pods off their nodes, and restore the nominations that they had before.

        `nominated_rows` has the row for which each pod was nominated, or NO_ROW. Each placement and its undoing are
        counted in `taken_back` of the pods.
        """
        for position in positions:
            self.view.forget(position)
            if nominated_rows[position] != NO_ROW:
                self.view.nominate(position, nominated_rows[position])
        self.pods.taken_back += 2 * len(positions)  # the placement and its undoing

    def _bind_result(self, result: GroupResult, members: Sequence[Position]) -> GangAttempt:
        """Bind the members that a cycle placed if enough of the group fit, and return the attempt.

        Raises PluginError if the cycle ended with an error or a reservation fails.
        """
        if result.status.code is Code.ERROR:
            raise PluginError(result.message)
        placed = _collect_placed_members(result)
        if not result.placed:
            return _build_failure(members, placed)
        for position, member in placed.items():
            self.pods.bind(position, member.row)
        is_result_since_1_37 = result.nominated_rows is not None
        return _build_successful_attempt(members, placed, left_over_at_once=is_result_since_1_37)


def _has_pod_affinity(info: PodInfo) -> bool:
    """Return whether the pod has pod affinity or anti-affinity terms.

    Upstream does not see all terms of members that it has just assumed. See
    `TopologyCounts.without_pods_overlooked_upstream`.
    """
    affinity = info.spec.affinity
    return affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)


def _build_successful_attempt(
    members: Sequence[Position], placed: Mapping[Position, PlacedMember], *, left_over_at_once: bool
) -> GangAttempt:
    """Build the attempt of a group in which some members were placed, and decide which others are tried again at once.

    With `left_over_at_once`, all members that were not placed are tried again. Otherwise, only those that come before
    the last member that waits at Permit are tried again.
    """
    if left_over_at_once:
        retried_count = len(members)
    else:
        waiting_turns = (turn for turn, member in enumerate(members) if member in placed and placed[member].waits)
        retried_count = max(waiting_turns, default=0)
    retried = tuple(member for member in members[:retried_count] if member not in placed)
    failed = {member: UNFIT_MEMBER for member in members if member not in placed}
    return GangAttempt(placed, failed=failed, retried_at_once=retried)


def _build_failure(members: Sequence[Position], fitting: Container[Position]) -> GangAttempt:
    """Build an attempt that placed no member. The members in `fitting` would fit individually."""
    return GangAttempt({}, failed={member: FITTING_MEMBER if member in fitting else UNFIT_MEMBER for member in members})


def _collect_placed_members(result: GroupResult) -> dict[Position, PlacedMember]:
    """Return the placed members of a group's result by position."""
    return {member.position: _build_placed_member(member) for member in result.members if member.placed}


def _build_placed_member(member: MemberResult) -> PlacedMember:
    """Convert the result of a placed member."""
    waits = member.permit is not None and member.permit.code is Code.WAIT
    return PlacedMember(member.row, member.tied, member.feasible, waits)


def _assign_victims_once(victims: Mapping[Position, Sequence[Position]]) -> dict[Position, tuple[Position, ...]]:
    """Return the victims of each member, with each victim assigned to one member only.

    A victim that several members share is assigned to the first of them.
    """
    assigned: set[Position] = set()
    victims_once = {}
    for member, member_victims in victims.items():
        victims_once[member] = tuple(victim for victim in member_victims if victim not in assigned)
        assigned.update(member_victims)
    return victims_once
