"""Pod groups of a simulation, Kubernetes' own and those of Coscheduling: the pods of one that wait are placed together
or not at all.

The answer is that of the pod-group cycle (scheduler/pod_groups/cycle.py). Most groups are placed faster: pod by pod,
as pods alone are, and taken back when there is no quorum. Pods that the members of a group would evict in vain, since
the group does not fit all the same, stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.arrays import Position, Row, Rows
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.framework import Code, PluginError, PreFilterResult
from kschedctl.scheduler.permit import run_permit
from kschedctl.scheduler.pod_groups.cycle import GroupResult, PodGroupCycle
from kschedctl.scheduler.pod_groups.gangs import gang_plugin
from kschedctl.scheduler.pod_groups.preemption import group_priority, preempt_for_group
from kschedctl.scheduler.pod_groups.state import find_pod_group, placed_in_groups
from kschedctl.scheduler.pod_groups.submission import MemberFailure, failed_members
from kschedctl.scheduler.reserve import NOTHING_ASKED, uses_claims
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey, group_key

Bind = Callable[[Position, Row, Mapping[str, PreFilterResult]], None]


class PlacedMember(NamedTuple):
    """Where a pod of a group is: on one of the ``tied`` best of so many ``feasible`` nodes."""

    row: Row
    tied: int
    feasible: int


class GangAttempt(NamedTuple):
    """Which members were placed, none or enough, and ``victims`` whose eviction makes that possible."""

    placed: Mapping[Position, PlacedMember]
    victims: tuple[Position, ...] = ()


NOT_PLACED = GangAttempt({})


class Gangs:
    """``placements`` say where a pod goes, ``bind`` puts it there. ``taken_back``: how many moves were undone.

    ``any``: some pod may be of a group; ``on``: those of Kubernetes' own groups are placed together.
    """

    def __init__(self, scheduler: Scheduler, placements: Placements, bind: Bind) -> None:
        gates = scheduler.gates
        self.scheduler, self.placements, self._bind = scheduler, placements, bind
        self.on = placed_in_groups(gates)
        self.any = self.on or bool(self.view.pods.by_gang)
        self.topology_aware = gates.enabled("TopologyAwareWorkloadScheduling")
        self.workload_aware = gates.enabled("WorkloadAwarePreemption")
        self.taken_back = 0
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
            plugin = gang_plugin(framework) if framework else None
            self._waiting_with[number] = plugin.gang(info.pod) if plugin else None
        return self._waiting_with[number]

    def failures(
        self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]
    ) -> dict[Position, MemberFailure]:
        """Why members are not bound as things are."""
        result = self.result(framework, key, members)
        plugin = gang_plugin(framework) if isinstance(key, GangKey) else None
        return (plugin.failures if plugin else failed_members)(result, members, self.view)

    def priority(self, key: AnyGroupKey, members: Sequence[Position]) -> int:
        """The highest at which somebody preempts for the group."""
        pods, group = self.view.pods, find_pod_group(self.view, key)
        of_group = [group_priority(group, self.view)] if group and self.workload_aware else []
        of_members: list[int] = pods.priority[pods.info[list(members)]].tolist()
        return max(of_group + of_members)

    def place(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GangAttempt:
        """Place those that fit, if these are enough. Raises PluginError."""
        if not self._takes_search(key, members):
            return GangAttempt(self._one_by_one(framework, members))
        result = self._cycle(framework, key, members).run(post_filter=False)
        return self._adopt(result)

    def preempting(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GangAttempt:
        """Whom it would take to go, and where the members are then; nothing has moved yet. Raises PluginError."""
        result = self.result(framework, key, members)
        _raise_error(result)
        if not result.waiting_on_preemption:
            return NOT_PLACED
        evicted = dict.fromkeys(victim for member in result.members for victim in member.victims)
        evicted |= dict.fromkeys(result.victims)
        view = self.view.fork()
        for victim in evicted:
            view.forget(victim)
        afterwards = self._cycle(framework, key, members).run(view, post_filter=False)
        return GangAttempt(_placed(afterwards), tuple(evicted)) if afterwards.placed else NOT_PLACED

    def result(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> GroupResult:
        """What the cycle of the group says as things are, with preemption."""
        cycle = self._cycle(framework, key, members)
        result = cycle.run()
        if self.workload_aware and not isinstance(key, GangKey) and result.status.code is Code.UNSCHEDULABLE:
            return preempt_for_group(cycle, result)
        return result

    def _cycle(self, framework: Framework, key: AnyGroupKey, members: Sequence[Position]) -> PodGroupCycle:
        infos = {position: self._info(position) for position in members}
        topology_aware = self.topology_aware and not isinstance(key, GangKey)
        return PodGroupCycle(framework, self.view, key, members, infos, topology_aware, self._any_of)

    def _info(self, position: Position) -> PodInfo:
        info = self.placements.arriving(position)
        return PodInfo(self.placements.stored(position), info.options, info.number, info.alike)

    def _any_of(self, view: Fork, rows: Rows) -> Row:
        return Row(int(rows[self.placements.random.randrange(len(rows))]))

    def _takes_search(self, key: AnyGroupKey, members: Sequence[Position]) -> bool:
        """Whether it is tried in several places, or takes what cannot be given back as easily as room on a node."""
        if self.topology_aware and not isinstance(key, GangKey):
            group = find_pod_group(self.view, key)
            if group is None or group.spec.scheduling_constraints is not None:
                return True
        numbers = {int(self.view.pods.info[position]) for position in members}
        return any(uses_claims(self.view.pods.infos[number], self.view) for number in numbers)

    def _one_by_one(self, framework: Framework, members: Sequence[Position]) -> dict[Position, PlacedMember]:
        """Bind what fits; when no member's Permit succeeds, nothing. Raises PluginError."""
        placed: dict[Position, PlacedMember] = {}
        quorum = False
        try:
            for position in members:
                choice = self.placements.choose(framework, position)
                if choice is None:
                    continue
                self._bind(position, choice.row, choice.before)
                placed[position] = PlacedMember(choice.row, len(choice.tied), choice.feasible)
                permit = run_permit(framework, self.placements.arriving(position), self.view, choice.row).status
                quorum = quorum or permit.code is Code.SUCCESS
                if permit.code not in (Code.SUCCESS, Code.WAIT):
                    self._take_back([position])
                    del placed[position]
                if permit.code is Code.ERROR:
                    raise PluginError(permit.reasons[0])
        except PluginError:
            self._take_back(placed)
            raise
        if quorum:
            return placed
        self._take_back(placed)
        return {}

    def _take_back(self, positions: Collection[Position]) -> None:
        for position in positions:
            self.view.forget(position)
        self.taken_back += 2 * len(positions)

    def _adopt(self, result: GroupResult) -> GangAttempt:
        """Bind what a cycle placed. Raises PluginError."""
        _raise_error(result)
        placed = _placed(result) if result.placed else {}
        for position, member in placed.items():
            self._bind(position, member.row, NOTHING_ASKED)
        return GangAttempt(placed)


def _placed(result: GroupResult) -> dict[Position, PlacedMember]:
    return {each.position: PlacedMember(each.row, each.tied, each.feasible) for each in result.members if each.placed}


def _raise_error(result: GroupResult) -> None:
    if result.status.code is Code.ERROR:
        raise PluginError(result.message)
