"""The pod-group cycle: the waiting pods of a group are tried one after another and placed together or not at all.

Upstream: pkg/scheduler/schedule_one_podgroup.go (v1.36, v1.37). Upstream picks one of several equal nodes at random,
which `Choose` decides here.
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
from kschedctl.scheduler.engine.diagnosis import (
    NO_REJECTORS,
    PostFilterOutcome,
    Rejectors,
    build_fit_error,
    find_rejectors,
    format_histogram,
    run_post_filter,
)
from kschedctl.scheduler.engine.permit import PermitOutcome, run_permit
from kschedctl.scheduler.engine.pod_groups.placement import (
    GroupPlacement,
    PodGroupAssignments,
    ProposedAssignment,
    generate_placements,
    score_placements,
)
from kschedctl.scheduler.engine.pod_groups.since_1_37 import UNTIL_INFEASIBLE, GroupProgress, run_placement_feasible
from kschedctl.scheduler.engine.pod_groups.state import find_group_state, find_pod_group, may_group_be_unread
from kschedctl.scheduler.engine.preemption.evaluator import Preemption, clears_nomination
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.reserve import find_reserve_plugins, reserve_objects
from kschedctl.scheduler.engine.sampling import Sampling
from kschedctl.scheduler.framework import SUCCESS, Code, PluginError, Status
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import AnyGroupKey

UNSCHEDULABLE_GROUP = "pod group is unschedulable"
NO_PLACEMENTS = "no feasible placements found"
OTHER_FAILED = "failed to schedule other pod from a pod group: {}"
NOT_EVALUATED = "failed to evaluate placement feasibility: {}"
NO_FIT = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP,))
"""A rejection like upstream's: its first reason is the error that it carries."""
WAITS_FOR_PREEMPTION = Status(
    Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, "pod group is waiting for preemption to complete")
)
"""The rejection of a group that fits once the victims of its pods are gone."""
NO_GROUP_NOMINATIONS: Mapping[Position, Row] = {}
"""The nominations in a result of v1.37 or later in which the group as a whole nominates none of its pods."""

Choose = Callable[[Fork, Rows], Row]
"""Picks one of the rows that share the highest score."""


def choose_first_by_name(view: Fork, rows: Rows) -> Row:
    """Return the row whose node name comes first in the alphabet."""
    return Row(min(rows.tolist(), key=view.nodes.names.__getitem__))


class MemberResult(msgspec.Struct, frozen=True):
    """The result for one pod of the group."""

    position: Position
    status: Status = SUCCESS
    row: Row = NO_ROW
    """The node that the pod would get, or NO_ROW. With `requires_preemption`, the `victims` must leave first."""
    feasible: int = 0
    """Number of feasible nodes."""
    evaluated: int = 0
    """Number of nodes that were examined."""
    tied: int = 0
    """Number of feasible nodes that share the highest score."""
    nominated: str | None = None
    """Name of the nominated node, empty if the nomination is cleared, or None if it stays as it was."""
    requires_preemption: bool = False
    victims: tuple[Position, ...] = ()
    permit: Status | None = None
    """Permit's answer, which is set for a pod that has a row."""
    rejectors: Rejectors = NO_REJECTORS
    """The plugins that rejected the pod."""

    @property
    def placed(self) -> bool:
        """True if the pod fits without preemption."""
        return self.status.code is Code.SUCCESS


@dataclass(frozen=True)
class GroupResult:
    """The result for a group. If its status is Success, its placed members can be bound."""

    status: Status
    members: tuple[MemberResult, ...] = ()
    """The members that were tried, in order. If the attempt ended early, some are missing."""
    waiting_on_preemption: bool = False
    """True if the group would fit once its victims are gone."""
    placement: GroupPlacement | None = None
    """The placement on which the members were tried, or None if no placement was tried."""
    victims: tuple[Position, ...] = ()
    """The pods that the group as a whole preempts."""
    tried: tuple[GroupResult, ...] = ()
    """The results on all placements."""
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """Plugin -> score of each fitting placement."""
    nominated_rows: Mapping[Position, Row] | None = None
    """The nodes nominated for its pods after preemption, or None if each pod keeps its nomination in `members`."""
    before_preemption: Status | None = None
    """The status before preemption was tried."""
    after: Fork | None = field(default=None, compare=False, repr=False)
    """The fork in which the placed members are assumed, if it is needed."""

    @property
    def placed(self) -> bool:
        """True if the group fits."""
        return self.status.code is Code.SUCCESS

    @cached_property
    def message(self) -> str:
        """The reasons of the status as text."""
        return ", ".join(self.status.reasons)


@dataclass(frozen=True)
class PodGroupCycle:
    """One attempt to place a group. The `view` does not change, since pods are assumed on forks."""

    framework: FrameworkLike
    view: Fork
    key: AnyGroupKey
    members: Sequence[Position]
    """Positions of the pods to place, in order."""
    infos: Mapping[Position, PodInfo]
    """The pod that is scheduled for each member."""
    topology_aware: bool
    """Feature gate TopologyAwareWorkloadScheduling."""
    choose: Choose = choose_first_by_name
    """Picks one of the best nodes."""
    sampling: Sampling | None = None
    """The position at which the searches for nodes continue."""
    within: bool = False
    """True if the group is part of a group of groups, which continues with its assumed pods."""

    @property
    def preemptor(self) -> PodGroup | None:
        """The group's object, or None if it does not exist."""
        return find_pod_group(self.view, self.key)

    def run(self, view: Fork | None = None, post_filter: bool = True) -> GroupResult:
        """Try to place the group in `view`, or in the cycle's own view, and return the result.

        A topology-aware cycle tries each placement, unless the group's object is missing because not all PodGroups were
        read. Without `post_filter`, pods do not preempt. If no pod is placed, the group does not fit.
        """
        view = self.view if view is None else view
        if self.topology_aware and not may_group_be_unread(view, self.key):
            result = self.try_placements(view, post_filter=post_filter)
        else:
            result = self._try_members(view, post_filter=post_filter)
        if result.placed and not any(member.placed for member in result.members):
            return replace(result, status=NO_FIT)
        return result

    @cached_property
    def checks_feasibility(self) -> bool:
        """True if PlacementFeasible plugins, and not Permit, decide if enough pods have a node."""
        return not isinstance(self.key, GangKey) and UNTIL_INFEASIBLE.at(self.framework.release)

    # -- placements ----------------------------------------------------------------------------------------------

    def try_placements(self, view: Fork, *, post_filter: bool) -> GroupResult:
        """Try all placements, and return the result of the best placement on which the group fits.

        If the group fits on no placement, return the result of the first placement, with upstream's message. Without
        any placement, the group is Unschedulable. An error ends the attempt and becomes the result. With `post_filter`,
        pods that do not fit try preemption.
        """
        try:
            group = self._get_required_group(view)
            placements = generate_placements(self.framework, group, view)
        except PluginError as failure:
            return GroupResult(Status(Code.ERROR, (str(failure),)))
        if not placements:
            return GroupResult(Status(Code.UNSCHEDULABLE, (NO_PLACEMENTS,)))

        results = []
        for placement in placements:
            result = replace(self._try_members(view, post_filter=post_filter, placement=placement), placement=placement)
            if result.status.code is Code.ERROR:
                return result
            results.append(result)

        fitting = [result for result in results if result.placed or result.waiting_on_preemption]
        if not fitting:
            message = format_no_fitting_placement(results)
            reasons = (UNSCHEDULABLE_GROUP, message) if self.checks_feasibility else (message,)
            return replace(results[0], status=Status(Code.UNSCHEDULABLE, reasons), tried=tuple(results))
        return self._choose_best_placement(group, view, fitting, tuple(results))

    def _get_required_group(self, view: Fork) -> PodGroup:
        """Return the group's object. Raises PluginError if it does not exist."""
        group = find_pod_group(view, self.key)
        if group is None:
            *_, name = self.key
            raise PluginError(f'podgroup.scheduling.k8s.io "{name}" not found')
        return group

    def _choose_best_placement(
        self, group: PodGroup, view: Fork, fitting: Sequence[GroupResult], tried: tuple[GroupResult, ...]
    ) -> GroupResult:
        """Return the result of the placement with the highest score. Of equal scores, the first wins.

        A single fitting placement is not scored. If scoring fails, return a result with the error. The results of all
        `tried` placements are attached.
        """
        if len(fitting) == 1:
            return replace(fitting[0], tried=tried)
        try:
            scores = score_placements(self.framework, group, view, [self._build_proposal(result) for result in fitting])
        except PluginError as failure:
            return GroupResult(Status(Code.ERROR, (str(failure),)), tried=tried)
        no_scores = np.zeros(len(fitting), np.int64)  # the sum if no plugin scores placements
        total = np.sum([no_scores, *scores.values()], axis=0)
        return replace(fitting[int(total.argmax())], tried=tried, scores=scores)

    def _build_proposal(self, result: GroupResult) -> PodGroupAssignments:
        """Build the input of PlacementScore plugins: the placement, and the pods that would run on its nodes.

        These pods are the group's members that have a node in the result.
        """
        assert result.placement is not None
        with_row = [member for member in result.members if member.row != NO_ROW]
        assignments = tuple(ProposedAssignment(self.infos[member.position], member.row) for member in with_row)
        return PodGroupAssignments(result.placement, assignments)

    # -- the pods one after another ------------------------------------------------------------------------------

    def _try_members(self, view: Fork, *, post_filter: bool, placement: GroupPlacement | None = None) -> GroupResult:
        """Try the pods in order, and assume each placed pod before the next is tried.

        The group fits once Permit succeeds for a pod. If this pod or an earlier one needs preemption, the group waits
        for the preemption instead. A pod that does not fit is skipped, and an error ends the attempt. Since v1.37,
        PlacementFeasible plugins decide in place of Permit, and pods do not preempt.

        With `placement`, only its nodes are used. With `post_filter`, pods that do not fit try preemption.
        """
        assumed = view.fork()
        assumed.placement = build_placement_mask(placement, view)
        if assumed.group_since is None:
            assumed.group_since = len(assumed.trail)  # from here on, the trail has pods assumed for this group
        if self.checks_feasibility:
            return self._try_members_while_feasible(assumed)

        results: list[MemberResult] = []
        requires_preemption = False
        status = NO_FIT
        for position in self.members:
            member, assumed = self._try_member(assumed, position, post_filter=post_filter)
            results.append(member)
            has_node = member.placed or member.requires_preemption
            if not has_node:
                if member.status.rejected:
                    continue
                return GroupResult(_build_group_error(member), tuple(results))
            requires_preemption |= member.requires_preemption
            if member.permit is not None and member.permit.code is Code.SUCCESS:
                status = WAITS_FOR_PREEMPTION if requires_preemption else SUCCESS
        return GroupResult(status, tuple(results), waiting_on_preemption=status is WAITS_FOR_PREEMPTION)

    def _try_members_while_feasible(self, view: Fork) -> GroupResult:
        """Try the pods in order, as long as the group can still be bound.

        Each placed pod is assumed before the next is tried. PlacementFeasible plugins decide whether the group can
        still be bound, before the first pod and after each pod. Pods do not preempt. An error ends the attempt. For a
        group in a tree, the result has the fork with the assumed pods.
        """
        group = find_pod_group(view, self.key)
        results: list[MemberResult] = []
        progress = GroupProgress(scheduled=self._count_placed_pods(view), remaining=len(self.members))
        status = self._check_feasibility(group, progress)
        if status.code is Code.UNSCHEDULABLE:
            return GroupResult(wrap_as_group_rejection(status), nominated_rows=NO_GROUP_NOMINATIONS)
        if status.code is Code.ERROR:
            return GroupResult(status, nominated_rows=NO_GROUP_NOMINATIONS)

        for position in self.members:
            member, view = self._try_member(view, position, post_filter=False)
            results.append(member)
            if not member.placed and not member.status.rejected:
                status = _build_group_error(member)
                break
            progress = GroupProgress(progress.scheduled + member.placed, progress.remaining - 1)
            status = self._check_feasibility(group, progress)
            if status.code in (Code.UNSCHEDULABLE, Code.ERROR):
                break
        if status.code is Code.WAIT:  # all pods were tried, and too few of them have a node
            status = wrap_as_group_rejection(status)
        return GroupResult(
            status, tuple(results), nominated_rows=NO_GROUP_NOMINATIONS, after=view if self.within else None
        )

    def _count_placed_pods(self, view: Fork) -> int:
        """Return how many pods of the PodGroup already have a node. The group must not be a gang of another project."""
        assert len(self.key) == 2
        return len(find_group_state(view, self.key).scheduled)

    def _check_feasibility(self, group: PodGroup | None, progress: GroupProgress) -> Status:
        """Return the first status of a PlacementFeasible plugin that is not Success, otherwise Success.

        An error's message gets upstream's prefix. A group whose object does not exist is feasible.
        """
        status = SUCCESS if group is None else run_placement_feasible(self.framework, group, progress)
        if status.code is Code.ERROR:
            return Status(Code.ERROR, (NOT_EVALUATED.format(_join_reasons(status)),))
        return status

    def _try_member(self, view: Fork, position: Position, *, post_filter: bool) -> tuple[MemberResult, Fork]:
        """Run the scheduling cycle of one pod and assume the pod on the chosen node.

        Return the pod's result and the fork to continue with. With `post_filter`, a pod that fits nowhere may preempt,
        and is then assumed on its nominated node. A pod without a node leaves the fork as it is.
        """
        cycle = run_cycle(self.framework, self.infos[position], view, self.sampling)
        if cycle.schedulable:
            member = _build_placed_member_result(cycle, position, self.choose(view, cycle.scores.best))
        else:
            member = _build_failed_member_result(cycle, position, run_post_filter(cycle) if post_filter else None)
        if member.row == NO_ROW:
            return member, view
        return self.assume_member(view, cycle, member)

    def assume_member(self, view: Fork, cycle: Cycle, member: MemberResult) -> tuple[MemberResult, Fork]:
        """Assume a pod on its node, and run the Reserve and Permit plugins for it.

        Permit is skipped if PlacementFeasible plugins decide. Return the pod's result and the fork to continue with. If
        Reserve or Permit fails or rejects the pod, the pod is not assumed in this fork.
        """
        position, row = member.position, member.row
        info = self.infos[position]
        plugins = find_reserve_plugins(self.framework, info.spec)
        # Reservations cannot be undone, so they are made on a fork.
        trial = view.fork() if plugins else view
        try:
            reserve_objects(plugins, info, info.pod, trial, row, pre_filter_results=cycle.pre_filter.results)
        except PluginError as failure:
            return MemberResult(position, Status(Code.ERROR, (str(failure),)), nominated=""), view
        trial.assume(position, row)
        if self.checks_feasibility:
            return member, trial
        outcome = run_permit(self.framework, info, trial, row)
        if outcome.status.code in (Code.SUCCESS, Code.WAIT):
            return replace(member, permit=outcome.status), trial
        if trial is view:  # a fork is just left behind
            view.forget(position)
        return _build_rejected_member_result(position, outcome), view


def format_no_fitting_placement(results: Sequence[GroupResult]) -> str:
    """Return upstream's message for a group that fits on no placement, with the first placement's reason."""
    return f"0/{len(results)} placements are available, first placement status: {results[0].status.reasons[0]}"


def wrap_as_group_rejection(status: Status) -> Status:
    """Return a status that rejects the group for the reasons of another status."""
    return Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, *status.reasons))


def build_placement_mask(placement: GroupPlacement | None, view: Fork) -> Bools | None:
    """Return a mask (N,) of a placement's nodes, or None if there is no placement or it covers all nodes."""
    if placement is None or len(placement.rows) == len(view.nodes):
        return None
    mask = np.zeros(len(view.nodes), np.bool_)
    mask[placement.rows] = True
    return mask


def _join_reasons(status: Status) -> str:
    """Return the reasons of a status as text."""
    return ", ".join(status.reasons)


def _build_group_error(member: MemberResult) -> Status:
    """Build the error status of a group in which a pod failed with an error."""
    return Status(Code.ERROR, (OTHER_FAILED.format(_join_reasons(member.status)),))


def _build_placed_member_result(cycle: Cycle, position: Position, row: Row) -> MemberResult:
    """Build the result for a pod that is placed on the feasible node in this row.

    If the pod's nominated node passed the filters, it was the only node that was evaluated.
    """
    uses_nominated = cycle.nominated_row is not None and bool(cycle.filter.passing[cycle.nominated_row])
    evaluated = 1 if uses_nominated else int(cycle.considered.sum())
    return MemberResult(
        position, SUCCESS, row=row, feasible=len(cycle.feasible), evaluated=evaluated, tied=len(cycle.scores.best)
    )


def _build_failed_member_result(cycle: Cycle, position: Position, outcome: PostFilterOutcome | None) -> MemberResult:
    """Build the result for a pod without feasible nodes. `outcome` is None if PostFilter did not run.

    If preemption found victims, the result has the nominated node and requires preemption. An error of the cycle, or a
    placement without nodes, clears the nomination.
    """
    if cycle.error is not None:
        return MemberResult(position, Status(Code.ERROR, (cycle.error,)), nominated="")
    if not cycle.view.nodes_in_placement:
        return MemberResult(position, Status(Code.UNRESOLVABLE, (build_fit_error(cycle),)), nominated="")

    outcome = outcome or PostFilterOutcome()
    status = Status(Code.UNSCHEDULABLE, (build_fit_error(cycle, outcome.message),))
    failure = MemberResult(position, status, rejectors=find_rejectors(cycle))
    for result in outcome.results.values():
        node = result.nominated_node
        if result.status.code is Code.SUCCESS and node and isinstance(result.report, Preemption):
            row = Row(cycle.view.nodes.index[node])
            victims = _get_victims_on_row(result.report, row)
            return replace(failure, row=row, nominated=node, requires_preemption=True, victims=victims)
    return replace(failure, nominated=_find_nomination_after_post_filter(outcome))


def _build_rejected_member_result(position: Position, outcome: PermitOutcome) -> MemberResult:
    """Build the result for a pod that Permit rejects or for which Permit fails. The pod's nomination is cleared."""
    if outcome.status.code is Code.ERROR:
        return MemberResult(position, outcome.status, nominated="")
    status = Status(outcome.status.code, (format_histogram(1, dict.fromkeys(outcome.status.reasons, 1)),))
    return MemberResult(position, status, nominated="", rejectors=_build_permit_rejectors(outcome))


def _build_permit_rejectors(outcome: PermitOutcome) -> Rejectors:
    """Build the rejectors of a pod that a Permit plugin rejected.

    A plugin that returned Pending is also recorded as pending, so that the pod waits for the events that the plugin
    registered, and then does not back off.
    """
    plugin = frozenset((outcome.plugin,))
    if outcome.status.code is Code.PENDING:
        return Rejectors(unschedulable=plugin, pending=plugin)
    return Rejectors(unschedulable=plugin)


def _find_nomination_after_post_filter(outcome: PostFilterOutcome) -> str | None:
    """Return "" if PostFilter clears the pod's nomination, or None if the nomination stays as it was.

    The nomination is cleared if preemption was tried without success or no PostFilter plugin ran.
    """
    return "" if clears_nomination(outcome) else None


def _get_victims_on_row(report: Preemption, row: int) -> tuple[Position, ...]:
    """Return the victims of the best candidate on this row, which must exist."""
    assert report.choice is not None
    return next(candidate.victims for candidate in report.choice.tied if candidate.row == row)
