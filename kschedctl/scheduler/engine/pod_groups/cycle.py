"""The pod-group cycle: all pods of a group that wait are tried one after another, and placed together or not at all.

Upstream: pkg/scheduler/schedule_one_podgroup.go (v1.36, v1.37). Where upstream takes one of equals at random,
``Choose`` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np

from kschedctl.api.arrays import NO_ROW, Bools, Position, Row, Rows, Scores
from kschedctl.api.copying import replace
from kschedctl.api.gangs import GangKey
from kschedctl.api.objects import PodGroup
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.messages import fit_error, format_histogram
from kschedctl.scheduler.engine.permit import PermitOutcome, run_permit
from kschedctl.scheduler.engine.pod_groups.placement import (
    GroupPlacement,
    PodGroupAssignments,
    ProposedAssignment,
    generate_placements,
    placement_scores,
)
from kschedctl.scheduler.engine.pod_groups.since_1_37 import UNTIL_INFEASIBLE, GroupProgress, feasible
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group, is_unread, state_of
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.preemption.evaluator import Preemption
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.rejectors import NO_REJECTORS, Rejectors, find_rejectors
from kschedctl.scheduler.engine.reserve import find_reserve_plugins, reserve
from kschedctl.scheduler.engine.sampling import Sampling
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, Status
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey

UNSCHEDULABLE_GROUP = "pod group is unschedulable"
WAITING = "pod group is waiting for preemption to complete"
NO_PLACEMENTS = "no feasible placements found"
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"
NOT_EVALUATED = "failed to evaluate placement feasibility: {}"
NO_FIT = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP,))
"""A refusal like upstream's: its first reason is the error that it carries."""

Choose = Callable[[Fork, Rows], Row]
"""One of the rows that share the highest score."""


def first_by_name(view: Fork, rows: Rows) -> Row:
    """The row whose name comes first, among equals."""
    return Row(min(rows.tolist(), key=view.nodes.names.__getitem__))


class MemberResult(msgspec.Struct, frozen=True):
    """What one pod of the group came to.

    ``row``: where it would go, with ``requires_preemption`` once ``victims`` are gone. ``feasible`` of the
    ``evaluated`` nodes fit, and ``tied`` of them are equally good. ``nominated``: the name of the node that it is
    promised, empty for none any more, None where that stays as it was. ``permit`` is set for a pod that has a row.
    ``rejectors``: the plugins that refused it.
    """

    position: Position
    status: Status = SUCCESS
    row: Row = NO_ROW
    feasible: int = 0
    evaluated: int = 0
    tied: int = 0
    nominated: str | None = None
    requires_preemption: bool = False
    victims: tuple[Position, ...] = ()
    permit: Status | None = None
    rejectors: Rejectors = NO_REJECTORS

    @property
    def placed(self) -> bool:
        """Whether the member fits as things are."""
        return self.status.code is Code.SUCCESS


@dataclass(frozen=True)
class GroupResult:
    """What the group came to: with status Success its members that are placed can be bound.

    ``members`` are in the order in which they were tried; fewer than the group has where it ended before. ``placement``
    is where they were tried, None before there was any. ``waiting_on_preemption``: it would fit once its victims are
    gone. ``victims``: whom the group as a whole preempts. ``promised``: the nodes that its pods are nominated for then,
    None where each keeps the one that it has here. ``before_preemption``: the status before that was looked for.
    ``after``: what it was tried on with those that are placed assumed, where that is asked for.
    """

    status: Status
    members: tuple[MemberResult, ...] = ()
    waiting_on_preemption: bool = False
    placement: GroupPlacement | None = None
    victims: tuple[Position, ...] = ()
    tried: tuple[GroupResult, ...] = ()
    scores: Mapping[str, Scores] = field(default_factory=dict)
    promised: Mapping[Position, Row] | None = None
    before_preemption: Status | None = None
    after: Fork | None = field(default=None, compare=False, repr=False)

    @property
    def placed(self) -> bool:
        return self.status.code is Code.SUCCESS

    @cached_property
    def message(self) -> str:
        return ", ".join(self.status.reasons)


@dataclass(frozen=True)
class PodGroupCycle:
    """One attempt to place a group. The ``view`` stays as it is: what is assumed on the way is assumed on forks.

    ``members``: the positions of the pods to place, in order, and ``infos``: what is scheduled for each.
    ``topology_aware``: gate TopologyAwareWorkloadScheduling; ``sampling``: where searches for nodes go on.
    ``within``: the group is of a group of groups, which goes on with what it leaves behind.
    """

    framework: FrameworkLike
    view: Fork
    key: AnyGroupKey
    members: Sequence[Position]
    infos: Mapping[Position, PodInfo]
    topology_aware: bool
    choose: Choose = first_by_name
    sampling: Sampling | None = None
    within: bool = False

    @property
    def preemptor(self) -> PodGroup | None:
        """For whom others go, None where it is not there."""
        return find_pod_group(self.view, self.key)

    def run(self, view: Fork | None = None, post_filter: bool = True) -> GroupResult:
        """Place it, as if ``view`` were how things are; without ``post_filter`` no pod may preempt by itself."""
        view = self.view if view is None else view
        if self.topology_aware and not is_unread(view, self.key):
            result = self.on_placements(view, post_filter)
        else:
            result = self._default(view, post_filter)
        nobody = result.placed and not any(member.placed for member in result.members)
        return replace(result, status=NO_FIT) if nobody else result

    @cached_property
    def until_infeasible(self) -> bool:
        """Whether PlacementFeasible plugins say if enough pods have a node: of the gangs of others it is Permit."""
        return not isinstance(self.key, GangKey) and UNTIL_INFEASIBLE.at(self.framework.release)

    # -- placements ----------------------------------------------------------------------------------------------

    def on_placements(self, view: Fork, post_filter: bool) -> GroupResult:
        """Try all placements and take the best of those on which the group fits."""
        try:
            group = self._group(view)
            placements = generate_placements(self.framework, group, view)
        except PluginError as failure:
            return GroupResult(Status(Code.ERROR, (str(failure),)))
        if not placements:
            return GroupResult(Status(Code.UNSCHEDULABLE, (NO_PLACEMENTS,)))
        results = []
        for placement in placements:
            result = replace(self._default(view, post_filter, placement), placement=placement)
            if result.status.code is Code.ERROR:
                return result
            results.append(result)
        fitting = [result for result in results if result.placed or result.waiting_on_preemption]
        if not fitting:
            why = nowhere(results)
            reasons = (UNSCHEDULABLE_GROUP, why) if self.until_infeasible else (why,)
            return replace(results[0], status=Status(Code.UNSCHEDULABLE, reasons), tried=tuple(results))
        return self._best(group, view, fitting, tuple(results))

    def _group(self, view: Fork) -> PodGroup:
        group = find_pod_group(view, self.key)
        if group is None:
            raise PluginError(f'podgroup.scheduling.k8s.io "{self.key[1]}" not found')
        return group

    def _best(
        self, group: PodGroup, view: Fork, fitting: Sequence[GroupResult], tried: tuple[GroupResult, ...]
    ) -> GroupResult:
        """The result on the placement of the highest score, the first of those that share it."""
        if len(fitting) == 1:
            return replace(fitting[0], tried=tried)
        try:
            scores = placement_scores(self.framework, group, view, [self._proposal(result) for result in fitting])
        except PluginError as failure:
            return GroupResult(Status(Code.ERROR, (str(failure),)), tried=tried)
        total = np.sum([np.zeros(len(fitting), np.int64), *scores.values()], axis=0)
        return replace(fitting[int(total.argmax())], tried=tried, scores=scores)

    def _proposal(self, result: GroupResult) -> PodGroupAssignments:
        assert result.placement is not None
        placed = [member for member in result.members if member.row != NO_ROW]
        return PodGroupAssignments(
            result.placement, tuple(ProposedAssignment(self.infos[member.position], member.row) for member in placed)
        )

    # -- the pods one after another ------------------------------------------------------------------------------

    def _default(self, view: Fork, post_filter: bool, placement: GroupPlacement | None = None) -> GroupResult:
        """Try the pods in order, each with those before it assumed; one whose Permit succeeds is enough."""
        assumed = view.fork()
        assumed.placement = mask(placement, view)
        if assumed.group_since is None:
            assumed.group_since = len(assumed.trail)
        if self.until_infeasible:
            return self._while_feasible(assumed)
        results: list[MemberResult] = []
        status, waiting, preempts = NO_FIT, False, False
        for position in self.members:
            member, assumed = self._member(assumed, position, post_filter)
            results.append(member)
            if not member.placed and not member.requires_preemption:
                if member.status.rejected:
                    continue
                status, waiting = Status(Code.ERROR, (OTHER_FAILED.format(_message(member.status)),)), False
                break
            preempts |= member.requires_preemption
            if member.permit is not None and member.permit.code is Code.SUCCESS:
                waiting = preempts
                status = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, WAITING)) if preempts else SUCCESS
        return GroupResult(status, tuple(results), waiting)

    def _while_feasible(self, view: Fork) -> GroupResult:
        """Try the pods in order, each with those before it assumed, as long as the group can still be bound."""
        group, results = find_pod_group(view, self.key), list[MemberResult]()
        progress = GroupProgress(self._placed_before(view), len(self.members))
        status = self._feasible(group, progress)
        if status.code in (Code.UNSCHEDULABLE, Code.ERROR):
            return GroupResult(status if status.code is Code.ERROR else unschedulable(status), promised={})
        for position in self.members:
            member, view = self._member(view, position, post_filter=False)
            results.append(member)
            if not member.placed and not member.status.rejected:
                status = Status(Code.ERROR, (OTHER_FAILED.format(_message(member.status)),))
                break
            progress = GroupProgress(progress.scheduled + member.placed, progress.remaining - 1)
            status = self._feasible(group, progress)
            if status.code in (Code.UNSCHEDULABLE, Code.ERROR):
                break
        status = unschedulable(status) if status.code is Code.WAIT else status
        return GroupResult(status, tuple(results), promised={}, after=view if self.within else None)

    def _placed_before(self, view: Fork) -> int:
        assert len(self.key) == 2
        return len(state_of(view, self.key).scheduled)

    def _feasible(self, group: PodGroup | None, progress: GroupProgress) -> Status:
        """What the first plugin says that does not find it feasible, or fails."""
        status = SUCCESS if group is None else feasible(self.framework, group, progress)
        failed = status.code is Code.ERROR
        return Status(Code.ERROR, (NOT_EVALUATED.format(_message(status)),)) if failed else status

    def _member(self, view: Fork, position: Position, post_filter: bool) -> tuple[MemberResult, Fork]:
        """Try one pod, and the fork to go on with."""
        cycle = run_cycle(self.framework, self.infos[position], view, self.sampling)
        if cycle.schedulable:
            member = _fitting(cycle, position, self.choose(view, cycle.scores.best))
        else:
            member = _failed(cycle, position, run_post_filter(cycle) if post_filter else None)
        return (member, view) if member.row == NO_ROW else self.assumed(view, cycle, member)

    def assumed(self, view: Fork, cycle: Cycle, member: MemberResult) -> tuple[MemberResult, Fork]:
        """Assume and reserve it, and ask Permit; what is refused leaves nothing behind."""
        info, position, row = self.infos[member.position], member.position, member.row
        plugins = find_reserve_plugins(self.framework, info.spec)
        trial = view.fork() if plugins else view
        try:
            reserve(plugins, info, info.pod, trial, row, pre_filter_results=cycle.pre_filter.results)
        except PluginError as failure:
            return MemberResult(position, Status(Code.ERROR, (str(failure),)), nominated=""), view
        trial.assume(position, row)
        if self.until_infeasible:
            return member, trial
        outcome = run_permit(self.framework, info, trial, row)
        if outcome.status.code in (Code.SUCCESS, Code.WAIT):
            return replace(member, permit=outcome.status), trial
        if trial is view:
            view.forget(position)
        return _refused(position, outcome), view


def nowhere(results: Sequence[GroupResult]) -> str:
    """What is said of a group that fits on no placement."""
    return f"0/{len(results)} placements are available, first placement status: {results[0].status.reasons[0]}"


def unschedulable(status: Status) -> Status:
    """A refusal with the error that it carries."""
    return Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, *status.reasons))


def mask(placement: GroupPlacement | None, view: Fork) -> Bools | None:
    """(N,): the nodes of a placement that is not all of them."""
    if placement is None or len(placement.rows) == len(view.nodes):
        return None
    mask = np.zeros(len(view.nodes), np.bool_)
    mask[placement.rows] = True
    return mask


def _message(status: Status) -> str:
    return ", ".join(status.reasons)


def _fitting(cycle: Cycle, position: Position, row: Row) -> MemberResult:
    promised = cycle.nominated_row is not None and bool(cycle.filter.passing[cycle.nominated_row])
    evaluated = 1 if promised else int(cycle.considered.sum())
    return MemberResult(position, SUCCESS, row, len(cycle.feasible), evaluated, len(cycle.scores.best))


def _failed(cycle: Cycle, position: Position, outcome: PostFilterOutcome | None) -> MemberResult:
    """A pod that fits nowhere, with what PostFilter could do for it; None: it was not asked."""
    if cycle.error is not None:
        return MemberResult(position, Status(Code.ERROR, (cycle.error,)), nominated="")
    if not cycle.view.nodes_in_placement:
        return MemberResult(position, Status(Code.UNRESOLVABLE, (fit_error(cycle),)), nominated="")
    outcome = outcome or PostFilterOutcome()
    status = Status(Code.UNSCHEDULABLE, (fit_error(cycle, outcome.message),))
    rejectors = find_rejectors(cycle)
    for result in outcome.results.values():
        if result.status.code is Code.SUCCESS and result.nominated_node and isinstance(result.report, Preemption):
            row = cycle.view.nodes.index[result.nominated_node]
            return MemberResult(
                position,
                status,
                Row(row),
                nominated=result.nominated_node,
                requires_preemption=True,
                victims=_victims(result.report, row),
                rejectors=rejectors,
            )
    return MemberResult(position, status, nominated=_kept(outcome), rejectors=rejectors)


def _refused(position: Position, outcome: PermitOutcome) -> MemberResult:
    """A pod that Permit refuses on its node, or fails for."""
    if outcome.status.code is Code.ERROR:
        return MemberResult(position, outcome.status, nominated="")
    status = Status(outcome.status.code, (format_histogram(1, dict.fromkeys(outcome.status.reasons, 1)),))
    return MemberResult(position, status, nominated="", rejectors=_of_permit(outcome))


def _of_permit(outcome: PermitOutcome) -> Rejectors:
    plugin = frozenset((outcome.plugin,))
    return Rejectors(plugin, plugin if outcome.status.code is Code.PENDING else frozenset())


def _kept(outcome: PostFilterOutcome) -> str | None:
    """What becomes of an earlier nomination: it goes where preemption was tried in vain, else it stays."""
    reports = [result.report for result in outcome.results.values() if isinstance(result.report, Preemption)]
    in_vain = any(report.eligible for report in reports) and outcome.status.code is Code.UNSCHEDULABLE
    return "" if in_vain or not outcome.results else None


def _victims(report: Preemption, row: int) -> tuple[Position, ...]:
    assert report.choice is not None
    return next(candidate.victims for candidate in report.choice.tied if candidate.row == row)
