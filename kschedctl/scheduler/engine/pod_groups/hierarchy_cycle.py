"""The cycle of a group of groups: its groups are tried one after another, and placed together or not at all.

Upstream: podGroupSchedulingRecursiveAlgorithm and all below it in pkg/scheduler/schedule_one_podgroup.go (v1.37). There
the groups of one come in no order; here they come by name.
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
    NO_PLACEMENTS,
    UNSCHEDULABLE_GROUP,
    Choose,
    GroupResult,
    MemberResult,
    PodGroupCycle,
    first_by_name,
    mask,
    nowhere,
    unschedulable,
)
from kschedctl.scheduler.engine.pod_groups.hierarchy import EntityKey, GroupTree
from kschedctl.scheduler.engine.pod_groups.placement import (
    GroupPlacement,
    PodGroupAssignments,
    ProposedAssignment,
    generate_placements,
    placement_scores,
)
from kschedctl.scheduler.engine.pod_groups.since_1_37 import GroupProgress, feasible
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.sampling import Sampling
from kschedctl.scheduler.framework import Code, PluginError, Status
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

CHILD_FAILED = "composite pod group evaluation failed due to child error: {}"

Results = dict[EntityKey, GroupResult]
"""What the groups came to that were tried."""


class _Tried(NamedTuple):
    """What a group of groups, and those below it, came to on one placement; ``after``: what it left behind."""

    result: GroupResult
    below: Results
    after: Fork


class HierarchyCycle(msgspec.Struct, frozen=True):
    """One attempt to place a tree. The ``view`` stays as it is: what is assumed on the way is assumed on forks.

    ``waiting``: of each PodGroup the positions of the pods to place, in order, and ``infos``: what is scheduled for
    each; ``sampling``: where searches for nodes go on.
    """

    framework: FrameworkLike
    view: Fork
    tree: GroupTree
    waiting: Mapping[EntityKey, Sequence[Position]]
    infos: Mapping[Position, PodInfo]
    choose: Choose = first_by_name
    sampling: Sampling | None = None

    @property
    def members(self) -> list[Position]:
        """All pods to place."""
        return list(chain.from_iterable(self.waiting.get(leaf.key, ()) for leaf in self.tree.leaves))

    @property
    def preemptor(self) -> AnyGroup:
        """For whom others go."""
        return self.tree.group

    def run(self, view: Fork | None = None, post_filter: bool = False) -> GroupResult:
        """What the root comes to, with all pods that found a node, those of groups that are too few among them."""
        results = self.results(view)
        members = chain.from_iterable(results[leaf.key].members for leaf in self.tree.leaves if leaf.key in results)
        return replace(results[self.tree.key], members=tuple(members))

    def results(self, view: Fork | None = None) -> Results:
        """What the groups come to that are tried, as if ``view`` were how things are."""
        view = (self.view if view is None else view).fork()
        if view.group_since is None:
            view.group_since = len(view.trail)
        results: Results = {}
        root, _ = self._group(view, self.tree, results)
        if root.placed and not any(each.members for each in self._successful(self.tree, results)):
            results[self.tree.key] = replace(root, status=NO_FIT)
        return results

    def assumed(self, view: Fork, cycle: Cycle, member: MemberResult) -> tuple[MemberResult, Fork]:
        """Assume and reserve a pod, whichever group it is of."""
        return self._leaf(next(self.tree.leaves)).assumed(view, cycle, member)

    def _leaf(self, leaf: GroupTree) -> PodGroupCycle:
        waiting = self.waiting.get(leaf.key, ())
        return PodGroupCycle(
            self.framework,
            self.view,
            leaf.pod_group,
            waiting,
            self.infos,
            topology_aware=True,
            choose=self.choose,
            sampling=self.sampling,
            within=True,
        )

    def _group(self, view: Fork, tree: GroupTree, results: Results) -> tuple[GroupResult, Fork]:
        """What a group comes to, and what there is after it: one that does not fit leaves nothing behind."""
        if tree.key.composite:
            return self._on_placements(view, tree, results)
        result = self._leaf(tree).on_placements(view, post_filter=False)
        results[tree.key] = replace(result, after=None, tried=tuple(replace(each, after=None) for each in result.tried))
        return results[tree.key], _behind(result, view)

    def _on_placements(self, view: Fork, tree: GroupTree, results: Results) -> tuple[GroupResult, Fork]:
        """Try all placements and take the best of those on which it fits."""
        try:
            placements = generate_placements(self.framework, tree.group, view)
        except PluginError as failure:
            return self._refused(tree, results, Status(Code.ERROR, (str(failure),))), view
        if not placements:
            return self._refused(tree, results, Status(Code.UNSCHEDULABLE, (NO_PLACEMENTS,))), view
        tried = []
        for placement in placements:
            attempt = self._on(view, tree, placement)
            if attempt.result.status.code is Code.ERROR:
                return self._refused(tree, results, attempt.result.status), view
            tried.append(attempt)
        fitting = [attempt for attempt in tried if attempt.result.placed]
        if not fitting:
            first, why = tried[0], nowhere([attempt.result for attempt in tried])
            status = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE_GROUP, why))
            result = replace(first.result, status=status, tried=tuple(attempt.result for attempt in tried))
            results |= first.below | {tree.key: result}
            return result, view
        return self._best(view, tree, fitting, tried, results)

    def _refused(self, tree: GroupTree, results: Results, status: Status) -> GroupResult:
        results[tree.key] = GroupResult(status, promised={})
        return results[tree.key]

    def _on(self, view: Fork, tree: GroupTree, placement: GroupPlacement) -> _Tried:
        inside, below = view.fork(), Results()
        inside.placement = mask(placement, view)
        status, after = self._in_turn(inside, tree, below)
        return _Tried(GroupResult(status, placement=placement, promised={}), below, after)

    def _best(
        self, view: Fork, tree: GroupTree, fitting: Sequence[_Tried], tried: Sequence[_Tried], results: Results
    ) -> tuple[GroupResult, Fork]:
        """The one on the placement of the highest score, the first of those that share it."""
        best, scores = fitting[0], {}
        if len(fitting) > 1:
            try:
                proposals = [self._proposal(tree, attempt) for attempt in fitting]
                scores = placement_scores(self.framework, tree.group, view, proposals)
            except PluginError as failure:
                return self._refused(tree, results, Status(Code.ERROR, (str(failure),))), view
            total = np.sum([np.zeros(len(fitting), np.int64), *scores.values()], axis=0)
            best = fitting[int(total.argmax())]
        result = replace(best.result, tried=tuple(attempt.result for attempt in tried), scores=scores)
        results |= best.below | {tree.key: result}
        return result, _behind(replace(result, after=best.after), view)

    def _proposal(self, tree: GroupTree, attempt: _Tried) -> PodGroupAssignments:
        assert attempt.result.placement is not None
        successful = self._successful(tree, attempt.below | {tree.key: attempt.result})
        placed = (member for result in successful for member in result.members if member.placed)
        assignments = tuple(ProposedAssignment(self.infos[member.position], member.row) for member in placed)
        return PodGroupAssignments(attempt.result.placement, assignments)

    def _in_turn(self, view: Fork, tree: GroupTree, results: Results) -> tuple[Status, Fork]:
        """Try the groups in order, each with those before it assumed, as long as enough of them can still fit."""
        progress, after = GroupProgress(0, len(tree.children)), view
        status = feasible(self.framework, tree.group, progress)
        for child in tree.children:
            if status.code in (Code.UNSCHEDULABLE, Code.ERROR):
                break
            result, after = self._group(after, child, results)
            if result.status.code is Code.ERROR:
                return Status(Code.ERROR, (CHILD_FAILED.format(result.message),)), view
            progress = GroupProgress(progress.scheduled + result.placed, progress.remaining - 1)
            status = feasible(self.framework, tree.group, progress)
        status = unschedulable(status) if status.code is Code.WAIT else status
        return status, after if status.code is Code.SUCCESS else view

    def _successful(self, tree: GroupTree, results: Mapping[EntityKey, GroupResult]) -> Iterator[GroupResult]:
        """What the PodGroups came to that fit, as all above them do."""
        result = results.get(tree.key)
        if result is None or not result.placed:
            return
        if not tree.key.composite and any(member.placed for member in result.members):
            yield result
        for child in tree.children:
            yield from self._successful(child, results)


def _behind(result: GroupResult, view: Fork) -> Fork:
    """What there is after a group: it goes on in the placement of the one that it is of."""
    if not result.placed or result.after is None:
        return view
    result.after.placement = view.placement
    return result.after


def completed(tree: GroupTree, results: Mapping[EntityKey, GroupResult]) -> Results:
    """What all groups of a tree come to: with one that does not fit none below it does."""
    whole: Results = {}
    above: dict[EntityKey, GroupResult] = {}
    for node in tree.nodes:
        result, parent = results.get(node.key), above.get(node.key)
        if parent is not None and (result is None or (result.placed and not parent.placed)):
            result = GroupResult(parent.status, promised={})
        assert result is not None  # the root was tried
        whole[node.key] = result
        above |= {child.key: result for child in node.children}
    return whole
