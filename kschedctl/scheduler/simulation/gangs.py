"""Pod groups of a simulation, Kubernetes' own and those of Coscheduling: the pods of one that wait are placed together
or not at all.

The answer is that of the pod-group cycle (scheduler/pod_groups/cycle.py). Most groups are placed faster: pod by pod,
as pods alone are, and taken back when there is no quorum. What members evict goes, also in vain, where the group does
not fit all the same; only outside of a queue, where nobody is tried again, it stays then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from kschedctl.api.arrays import NO_ROW, Position, Row, Rows
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.engine.pod_groups.cycle import NO_FIT, GroupResult, MemberResult, PodGroupCycle
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_plugin
from kschedctl.scheduler.engine.pod_groups.preemption import preempt_for_group
from kschedctl.scheduler.engine.pod_groups.since_1_37 import (
    LEFT_OVER_AT_ONCE,
    LIKE_ITS_PODS,
    UNTIL_INFEASIBLE,
    find_validation_error,
)
from kschedctl.scheduler.engine.pod_groups.state import (
    find_completing_pod,
    find_group_priority,
    find_pod_group,
    find_state,
    schedules_groups_together,
)
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure, find_failed_members
from kschedctl.scheduler.engine.rejectors import Rejectors
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.scheduler.plugins.gang_scheduling.plugin import GangScheduling
from kschedctl.scheduler.queueing.pods_on_nodes import PodsOnNodes
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey, group_key


class PlacedMember(NamedTuple):
    """Where a pod of a group is: on one of the ``tied`` best of so many ``feasible`` nodes.

    ``waits``: too few of the group had a node when it came.
    """

    row: Row
    tied: int
    feasible: int
    waits: bool


class GangAttempt(NamedTuple):
    """Which members were placed, none or enough, and what is known of the others, that ``failed``.

    ``victims``: who goes for it, by the member that preempts them. ``preempting``: the members that evict others for
    themselves, and where. ``again``: those that are tried again at once.
    """

    placed: Mapping[Position, PlacedMember]
    victims: Mapping[Position, tuple[Position, ...]] = {}
    preempting: Mapping[Position, Row] = {}
    failed: Mapping[Position, MemberFailure] = {}
    again: Sequence[Position] = ()


NOT_PLACED = GangAttempt({})
LEFT_OVER = MemberFailure(NO_FIT)
"""The failure of a pod that fits while others of its group do not."""
REFUSED = MemberFailure(NO_FIT, rejectors=Rejectors(frozenset({GangScheduling.name})))
"""The failure of a pod that does not fit; which plugins refuse it makes no difference to when it comes back."""


class Gangs:
    """``placements`` say where a pod goes, and it is among ``pods`` that it comes there.

    ``any``: some pod may be of a group; ``on``: those of Kubernetes' own groups are placed together.
    """

    def __init__(self, placements: Placements, pods: PodsOnNodes) -> None:
        self.scheduler, self.placements, self.pods, gates = pods.scheduler, placements, pods, pods.scheduler.gates
        self.on = schedules_groups_together(gates)
        self.any = self.on or bool(self.view.pods.by_gang)
        self.gated = gates.enabled(GangScheduling.gate)
        self.topology_aware = gates.enabled("TopologyAwareWorkloadScheduling")
        self.workload_aware = gates.enabled("WorkloadAwarePreemption")
        self._waiting_with: dict[int, GangKey | None] = {}

    @property
    def view(self) -> Fork:
        return self.placements.view

    def key(self, position: Position) -> AnyGroupKey | None:
        """The group with which a pod is placed; None for one that is placed alone."""
        number = int(self.view.pods.info[position])
        own = group_key(self.view.pods.infos[number].pod) if self.on else None
        return own or self._gang(number)

    def _gang(self, number: int) -> GangKey | None:
        """The gang of the pods of an info in whose profile somebody lets them wait for each other."""
        if number not in self._waiting_with:
            info = self.view.pods.infos[number]
            framework = self.scheduler.framework(info.spec.scheduler_name)
            plugin = find_gang_plugin(framework) if framework else None
            self._waiting_with[number] = plugin.gang(info.pod) if plugin else None
        return self._waiting_with[number]

    def together(self, positions: Iterable[Position]) -> dict[AnyGroupKey, list[Position]]:
        """The pod groups of those that are tried together, in turn."""
        groups = self.by_group(positions)
        return {key: self.in_turn(key, members) for key, members in groups.items() if not isinstance(key, GangKey)}

    def one_by_one(self, positions: Iterable[Position]) -> frozenset[Position]:
        """The pods that are tried by themselves, and wait for each other on their nodes."""
        return frozenset(position for position in positions if self.any and isinstance(self.key(position), GangKey))

    def by_group(self, positions: Iterable[Position]) -> dict[AnyGroupKey, list[Position]]:
        """The pods of pod groups, by their group, in their order."""
        groups: dict[AnyGroupKey, list[Position]] = {}
        for position in positions if self.any else ():
            if (key := self.key(position)) is not None:
                groups.setdefault(key, []).append(position)
        return groups

    def failures(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]
    ) -> dict[Position, MemberFailure]:
        """Why members are not bound as things are."""
        return self._failed(framework, key, members, self.result(framework, key, members))

    def messages(
        self, positions: Iterable[Position], framework: Callable[[Position], Framework]
    ) -> dict[Position, str]:
        """Why the group of a waiting pod does not fit now, by pod."""
        messages = {}
        for key, members in self.by_group(positions).items():
            failed = self.failures(framework(members[0]), key, members)
            messages.update({position: failure.message for position, failure in failed.items()})
        return messages

    def _failed(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position], result: GroupResult
    ) -> dict[Position, MemberFailure]:
        plugin = find_gang_plugin(framework) if isinstance(key, GangKey) else None
        return (plugin.failures if plugin else find_failed_members)(result, members, self.view)

    def priority(self, key: AnyGroupKey, members: Sequence[Position]) -> int:
        """The highest at which somebody preempts for the group."""
        pods, group = self.view.pods, find_pod_group(self.view, key)
        of_group = [find_group_priority(group, self.view)] if group and self.workload_aware else []
        of_members: list[int] = pods.priority[pods.info[list(members)]].tolist()
        return max(of_group + of_members)

    def preempt_alone(self, key: AnyGroupKey) -> bool:
        """Whether each pod of a group preempts for itself, and all wait for that."""
        return not (isinstance(key, GangKey) or self.topology_aware or self.workload_aware)

    def place(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position], alone: bool = False
    ) -> GangAttempt:
        """Place those that fit, if these are enough; if the others could preempt ``alone``, all or nobody.

        Raises PluginError.
        """
        if refused := self._refused(key, members):
            raise PluginError(refused)
        if not self._takes_search(key, members):
            return self._one_by_one(framework, key, members, alone)
        if alone:
            return _left_over(members, ())
        return self._adopt(self._cycle(framework, key, members).run(post_filter=False), members)

    def preempting(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GangAttempt:
        """Who goes for it, as the members preempt one by one, or the group as a whole; nothing has moved yet.

        Raises PluginError.
        """
        result = self.result(framework, key, members)
        if result.placed or result.status.code is Code.ERROR:  # of equal nodes it took others than before
            return self._adopt(result, members)
        victims = {member.position: member.victims for member in result.members if member.victims}
        rows = {member.position: member.row for member in result.members if member.victims}
        if result.victims:
            victims[members[0]] = (*victims.get(members[0], ()), *result.victims)
        return GangAttempt({}, _each_once(victims), rows, self._failed(framework, key, members, result))

    def at_once(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GangAttempt:
        """Try the members at once: the attempt, and where they are then if enough of them fit. Raises PluginError."""
        gang_attempt = self.preempting(framework, key, members)
        if gang_attempt.placed or not gang_attempt.victims:
            return gang_attempt
        view = self.view.fork()
        for victim in chain(*gang_attempt.victims.values()):
            view.forget(victim)
        afterwards = self._cycle(framework, key, members).run(view, post_filter=False)
        return gang_attempt._replace(placed=_placed(afterwards)) if afterwards.placed else NOT_PLACED

    def result(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GroupResult:
        """What the cycle of the group says as things are, with preemption."""
        if refused := self._refused(key, members):
            return GroupResult(Status(Code.ERROR, (refused,)))
        cycle = self._cycle(framework, key, members)
        result = cycle.run()
        if self.workload_aware and not isinstance(key, GangKey) and result.status.code is Code.UNSCHEDULABLE:
            return preempt_for_group(cycle, result)
        return result

    def _refused(self, key: AnyGroupKey, members: Sequence[Position]) -> str:
        """Why no pod of a group is tried."""
        if isinstance(key, GangKey) or not LIKE_ITS_PODS.at(self.scheduler.gates.release):
            return ""
        infos = {position: self.info(position) for position in members}
        return find_validation_error(find_pod_group(self.view, key), infos, self.view, self.scheduler.gates.release)

    def _cycle(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> PodGroupCycle:
        infos = {position: self.info(position) for position in members}
        topology_aware = self.topology_aware and not isinstance(key, GangKey)
        return PodGroupCycle(framework, self.view, key, members, infos, topology_aware, self._any_of)

    def in_turn(self, key: AnyGroupKey, members: Sequence[Position]) -> list[Position]:
        """The order in which members are tried that came in this one.

        Among equals the one first with which the group was complete: those before it were kept out of the queue.
        """
        if isinstance(key, GangKey) or not self.gated:
            return list(members)
        last = find_completing_pod(self.view, key, self.view.pods.by_group[key].tolist())
        priority = self.view.pods.priority[self.view.pods.info]
        return (
            list(members)
            if last is None
            else sorted(members, key=lambda member: (-int(priority[member]), member != last))
        )

    def info(self, position: Position) -> PodInfo:
        """What is asked for by the very pod, which pods alike share else."""
        info = self.placements.arriving(position)
        return PodInfo(self.placements.waiting(position), info.options, info.number, info.alike)

    def _any_of(self, view: Fork, rows: Rows) -> Row:
        return Row(int(rows[self.placements.random.randrange(len(rows))]))

    def _takes_search(self, key: AnyGroupKey, members: Sequence[Position]) -> bool:
        """Whether it is tried in several places, or takes what cannot be given back as easily as room on a node."""
        if self.topology_aware and not isinstance(key, GangKey):
            group = find_pod_group(self.view, key)
            if group is None or group.spec.scheduling_constraints is not None:
                return True
        numbers = {int(self.view.pods.info[position]) for position in members}
        infos = [self.view.pods.infos[number] for number in numbers]
        return any(_has_pod_affinity(info) or uses_claims(info, self.view) for info in infos)

    def _one_by_one(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position], all_of_them: bool
    ) -> GangAttempt:
        """Bind what fits; when no member's Permit succeeds, or some do not fit, nothing. Raises PluginError."""
        placed: dict[Position, PlacedMember] = {}
        promised = {position: row for position in members if (row := self.view.nominated_row(position)) != NO_ROW}
        quorum = False
        try:
            for position in members:
                choice = self.placements.choose(framework, position)
                if choice is None and all_of_them:
                    break
                if choice is None:
                    continue
                self.pods.bind(position, choice.row, choice.before)
                permit = run_permit(framework, self.info(position), self.view, choice.row).status
                waits = permit.code is Code.WAIT
                placed[position] = PlacedMember(choice.row, len(choice.tied), choice.feasible, waits)
                quorum = quorum or permit.code is Code.SUCCESS
                if permit.code not in (Code.SUCCESS, Code.WAIT):
                    self._take_back([position], promised)
                    del placed[position]
                if permit.code is Code.ERROR:
                    raise PluginError(permit.reasons[0])
        except PluginError:
            self._take_back(placed, promised)
            raise
        at_once = not isinstance(key, GangKey) and LEFT_OVER_AT_ONCE.at(self.scheduler.gates.release)
        quorum = quorum and self._feasible(key)
        if quorum and not (all_of_them and len(placed) < len(members)):
            return _bound(members, placed, left_over_at_once=at_once)
        self._take_back(placed, promised)
        return _left_over(members, placed)

    def _feasible(self, key: AnyGroupKey) -> bool:
        """Whether enough pods of a group have a node now, where Permit does not say it."""
        if isinstance(key, GangKey) or not self.gated or not UNTIL_INFEASIBLE.at(self.scheduler.gates.release):
            return True
        group = find_pod_group(self.view, key)
        gang = group.spec.scheduling_policy.gang if group else None
        return gang is None or len(find_state(self.view, key).scheduled) >= gang.min_count

    def _take_back(self, positions: Collection[Position], promised: Mapping[Position, Row]) -> None:
        """Pods leave their nodes, and wait again for those that they were promised."""
        for position in positions:
            self.view.forget(position)
            if position in promised:
                self.view.nominate(position, promised[position])
        self.pods.taken_back += 2 * len(positions)

    def _adopt(self, result: GroupResult, members: Sequence[Position]) -> GangAttempt:
        """Bind what a cycle placed. Raises PluginError."""
        if result.status.code is Code.ERROR:
            raise PluginError(result.message)
        placed = _placed(result)
        if not result.placed:
            return _left_over(members, placed)
        for position, member in placed.items():
            self.pods.bind(position, member.row)
        return _bound(members, placed, left_over_at_once=result.promised is not None)


def _has_pod_affinity(info: PodInfo) -> bool:
    """Upstream does not see all terms of members that it has just assumed: see TopologyCounts.as_listed."""
    affinity = info.spec.affinity
    return affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)


def _bound(
    members: Sequence[Position], placed: Mapping[Position, PlacedMember], *, left_over_at_once: bool
) -> GangAttempt:
    """A member that waits, as long as too few have a node, has those tried again that came back before."""
    last = max((turn for turn, member in enumerate(members) if member in placed and placed[member].waits), default=0)
    last = len(members) if left_over_at_once else last
    again = tuple(member for member in members[:last] if member not in placed)
    return GangAttempt(placed, failed={member: REFUSED for member in members if member not in placed}, again=again)


def _left_over(members: Sequence[Position], fitting: Container[Position]) -> GangAttempt:
    return GangAttempt({}, failed={member: LEFT_OVER if member in fitting else REFUSED for member in members})


def _placed(result: GroupResult) -> dict[Position, PlacedMember]:
    return {member.position: _placed_member(member) for member in result.members if member.placed}


def _placed_member(member: MemberResult) -> PlacedMember:
    waits = member.permit is not None and member.permit.code is Code.WAIT
    return PlacedMember(member.row, member.tied, member.feasible, waits)


def _each_once(victims: Mapping[Position, Sequence[Position]]) -> dict[Position, tuple[Position, ...]]:
    """Whom several members preempt goes for the first of them."""
    by: dict[Position, Position] = {}
    for member, gone in victims.items():
        for victim in gone:
            by.setdefault(victim, member)
    return {member: tuple(victim for victim in gone if by[victim] == member) for member, gone in victims.items()}
