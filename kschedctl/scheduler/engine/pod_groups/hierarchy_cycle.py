"""The cycle of a group of groups: its groups are tried one after another and placed together or not at all.

Upstream: podGroupSchedulingRecursiveAlgorithm and the functions below it in pkg/scheduler/schedule_one_podgroup.go
(v1.37). There, child groups have no order; here, they are tried by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.objects import AnyGroup
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.pod_groups.cycle import (
    NO_FIT,
    NO_GROUP_NOMINATIONS,
    NO_PLACEMENTS,
    UNSCHEDULABLE_GROUP,
    Choose,
    GroupResult,
    MemberResult,
    PodGroupCycle,
    build_placement_mask,
    choose_first_by_name,
    format_no_fitting_placement,
    wrap_as_group_rejection,
)
from kschedctl.scheduler.engine.pod_groups.hierarchy import EntityKey, GroupTree
from kschedctl.scheduler.engine.pod_groups.placement import (
    GroupPlacement,
    PodGroupAssignments,
    ProposedAssignment,
    generate_placements,
    score_placements,
)
from kschedctl.scheduler.engine.pod_groups.since_1_37 import GroupProgress, run_placement_feasible
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.sampling import Sampling
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

CHILD_FAILED = "composite pod group evaluation failed due to child error: {}"

GroupResults = dict[EntityKey, GroupResult]
"""The results of the groups that were tried."""


class _PlacementAttempt(NamedTuple):
    """The result of a group of groups on one placement."""

    result: GroupResult
    below: GroupResults
    """The results of the groups below it."""
    after: Fork
    """The fork with its pods assumed."""


class HierarchyCycle(msgspec.Struct, frozen=True):
    """One attempt to place a tree of groups. The `view` does not change, since pods are assumed on forks."""

    framework: FrameworkLike
    view: Fork
    tree: GroupTree
    waiting: Mapping[EntityKey, Sequence[Position]]
    """PodGroup -> positions of its pods to place, in order."""
    infos: Mapping[Position, PodInfo]
    """The pod that is scheduled for each position."""
    choose: Choose = choose_first_by_name
    sampling: Sampling | None = None

    @property
    def members(self) -> list[Position]:
        """The positions of all pods to place."""
        return list(chain.from_iterable(self.waiting.get(leaf.key, ()) for leaf in self.tree.leaves))

    @property
    def preemptor(self) -> AnyGroup:
        """The root's object."""
        return self.tree.group

    def run(self, view: Fork | None = None, post_filter: bool = False) -> GroupResult:
        """Run the cycles of all groups, and return the root's result with all pods that were tried.

        Pods whose own group does not fit are included. `post_filter` has no effect, because pods of these groups do not
        preempt as single pods.
        """
        results = self.run_groups(view)
        members = chain.from_iterable(results[leaf.key].members for leaf in self.tree.leaves if leaf.key in results)
        return replace(results[self.tree.key], members=tuple(members))

    def run_groups(self, view: Fork | None = None) -> GroupResults:
        """Try the groups of the tree in a fork of `view`, and return the results of the groups that were tried.

        Without `view`, the cycle's own view is used. If no pod under the root is placed, the root does not fit.
        """
        view = (self.view if view is None else view).fork()
        if view.group_since is None:
            view.group_since = len(view.trail)  # from here on, the trail has pods assumed for this group
        results: GroupResults = {}
        root, _ = self._try_group(view, self.tree, results)
        if root.placed and not any(result.members for result in self._iter_fitting_pod_groups(self.tree, results)):
            results[self.tree.key] = replace(root, status=NO_FIT)
        return results

    def assume_member(self, view: Fork, cycle: Cycle, member: MemberResult) -> tuple[MemberResult, Fork]:
        """Assume a pod on its node and reserve its objects, as in the cycle of a single PodGroup.

        Return the pod's result and the fork to continue with.
        """
        return self._build_leaf_cycle(next(self.tree.leaves)).assume_member(view, cycle, member)

    def _build_leaf_cycle(self, leaf: GroupTree) -> PodGroupCycle:
        """Build the pod-group cycle of a PodGroup in the tree."""
        waiting = self.waiting.get(leaf.key, ())
        return PodGroupCycle(
            self.framework,
            self.view,
            leaf.pod_group,
            members=waiting,
            infos=self.infos,
            topology_aware=True,
            choose=self.choose,
            sampling=self.sampling,
            within=True,  # the result then has the fork with the group's pods
        )

    def _try_group(self, view: Fork, tree: GroupTree, results: GroupResults) -> tuple[GroupResult, Fork]:
        """Try one group, and return its result with the fork to continue with.

        If the group does not fit, this fork has none of its pods. The results of the group and of all groups below it
        are added to `results`.
        """
        if tree.key.composite:
            return self._try_placements(view, tree, results)
        result = self._build_leaf_cycle(tree).try_placements(view, post_filter=False)

        # Forks are large and not needed in the results.
        tried_without_forks = tuple(replace(attempt, after=None) for attempt in result.tried)
        results[tree.key] = replace(result, after=None, tried=tried_without_forks)
        return results[tree.key], _get_next_fork(result, view)

    def _try_placements(self, view: Fork, tree: GroupTree, results: GroupResults) -> tuple[GroupResult, Fork]:
        """Try all placements of a CompositePodGroup, and return the best result with the fork to continue with.

        If the group fits on no placement, its result has upstream's message, and the groups below it have their results
        on the first placement. All these results are added to `results`. An error ends the attempt and becomes the
        group's result.
        """
        try:
            placements = generate_placements(self.framework, tree.group, view)
        except PluginError as failure:
            return self._add_unfit_result(tree, results, Status(Code.ERROR, (str(failure),))), view
        if not placements:
            return self._add_unfit_result(tree, results, Status(Code.UNSCHEDULABLE, (NO_PLACEMENTS,))), view

        tried = []
        for placement in placements:
            attempt = self._try_placement(view, tree, placement)
            if attempt.result.status.code is Code.ERROR:
                return self._add_unfit_result(tree, results, attempt.result.status), view
            tried.append(attempt)

        fitting = [attempt for attempt in tried if attempt.result.placed]
        if not fitting:
            first = tried[0]
            message = format_no_fitting_placement([attempt.result for attempt in tried])
            status = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, message))
            result = replace(first.result, status=status, tried=tuple(attempt.result for attempt in tried))
            results |= first.below | {tree.key: result}
            return result, view
        return self._choose_best_placement(view, tree, fitting, tried, results)

    def _add_unfit_result(self, tree: GroupTree, results: GroupResults, status: Status) -> GroupResult:
        """Add a result with this rejection or error for the group to `results`, and return the result."""
        results[tree.key] = GroupResult(status, nominated_rows=NO_GROUP_NOMINATIONS)
        return results[tree.key]

    def _try_placement(self, view: Fork, tree: GroupTree, placement: GroupPlacement) -> _PlacementAttempt:
        """Try the child groups on one placement, on a fork of the view.

        The returned attempt has the results and the fork to continue with.
        """
        inner_view = view.fork()
        below = GroupResults()
        inner_view.placement = build_placement_mask(placement, view)
        status, view_after = self._try_children(inner_view, tree, below)
        return _PlacementAttempt(
            GroupResult(status, placement=placement, nominated_rows=NO_GROUP_NOMINATIONS), below, view_after
        )

    def _choose_best_placement(
        self,
        view: Fork,
        tree: GroupTree,
        fitting: Sequence[_PlacementAttempt],
        tried: Sequence[_PlacementAttempt],
        results: GroupResults,
    ) -> tuple[GroupResult, Fork]:
        """Return the result of the placement with the highest score, and the fork to continue with.

        Of equal scores, the first wins. A single fitting placement is not scored. The result and the results of the
        groups below are added to `results`. If scoring fails, the result is an error.
        """
        best = fitting[0]
        scores = {}
        if len(fitting) > 1:
            try:
                proposals = [self._build_proposal(tree, attempt) for attempt in fitting]
                scores = score_placements(self.framework, tree.group, view, proposals)
            except PluginError as failure:
                return self._add_unfit_result(tree, results, Status(Code.ERROR, (str(failure),))), view
            no_scores = np.zeros(len(fitting), np.int64)  # the sum if no plugin scores placements
            total = np.sum([no_scores, *scores.values()], axis=0)
            best = fitting[int(total.argmax())]
        result = replace(best.result, tried=tuple(attempt.result for attempt in tried), scores=scores)
        results |= best.below | {tree.key: result}
        return result, _get_next_fork(replace(result, after=best.after), view)

    def _build_proposal(self, tree: GroupTree, attempt: _PlacementAttempt) -> PodGroupAssignments:
        """Build the input of PlacementScore plugins: the placement, and the pods that would run on its nodes.

        These pods are the placed pods of each PodGroup that fits.
        """
        assert attempt.result.placement is not None
        assignments = []
        for result in self._iter_fitting_pod_groups(tree, attempt.below | {tree.key: attempt.result}):
            for member in result.members:
                if member.placed:
                    assignments.append(ProposedAssignment(self.infos[member.position], member.row))
        return PodGroupAssignments(attempt.result.placement, tuple(assignments))

    def _try_children(self, view: Fork, tree: GroupTree, results: GroupResults) -> tuple[Status, Fork]:
        """Try the child groups in order, as long as enough of them can still fit.

        Each child that fits is assumed before the next child is tried. Return the parent's status and the fork to
        continue with. The fork is `view` itself unless the parent fits.
        """
        progress = GroupProgress(scheduled=0, remaining=len(tree.children))
        view_after = view
        status = run_placement_feasible(self.framework, tree.group, progress)
        for child in tree.children:
            if status.code in (Code.UNSCHEDULABLE, Code.ERROR):
                break
            result, view_after = self._try_group(view_after, child, results)
            if result.status.code is Code.ERROR:
                return Status(Code.ERROR, (CHILD_FAILED.format(result.message),)), view
            progress = GroupProgress(progress.scheduled + result.placed, progress.remaining - 1)
            status = run_placement_feasible(self.framework, tree.group, progress)
        if status.code is Code.WAIT:  # all groups were tried, and too few of them fit
            status = wrap_as_group_rejection(status)
        if status.code is Code.SUCCESS:
            return status, view_after
        return status, view

    def _iter_fitting_pod_groups(
        self, tree: GroupTree, results: Mapping[EntityKey, GroupResult]
    ) -> Iterator[GroupResult]:
        """Yield the result of each PodGroup that fits and has a placed pod.

        All groups above the PodGroup must fit too.
        """
        result = results.get(tree.key)
        if result is None or not result.placed:
            return
        if not tree.key.composite and any(member.placed for member in result.members):
            yield result
        for child in tree.children:
            yield from self._iter_fitting_pod_groups(child, results)


def _get_next_fork(result: GroupResult, view: Fork) -> Fork:
    """Return the fork to continue with after a group was tried in `view`.

    If the group was placed, this is `result.after`, which gets the placement of `view` again. Otherwise, it is `view`.
    """
    if not result.placed or result.after is None:
        return view
    # The group was tried on a part of the nodes of `view`. The next group may use all of them again.
    result.after.placement = view.placement
    return result.after


def derive_results_of_all_groups(tree: GroupTree, results: Mapping[EntityKey, GroupResult]) -> GroupResults:
    """Return results for all groups of a tree, including groups that were not tried.

    A group without a result gets the status of its parent. A group that fits also gets the status of its parent if the
    parent does not fit.
    """
    completed: GroupResults = {}
    parent_results: dict[EntityKey, GroupResult] = {}
    for subtree in tree.subtrees:
        result, parent = results.get(subtree.key), parent_results.get(subtree.key)
        if parent is not None:
            fits_without_parent = result is not None and result.placed and not parent.placed
            if result is None or fits_without_parent:
                result = GroupResult(parent.status, nominated_rows=NO_GROUP_NOMINATIONS)
        assert result is not None  # the root was tried
        completed[subtree.key] = result
        parent_results |= {child.key: result for child in subtree.children}
    return completed
