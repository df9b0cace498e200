"""Search for fixes: the smallest sets of changes first, each verified by replay, none with an unnecessary change."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice

import msgspec

from kschedctl.api.arrays import Row
from kschedctl.api.objects import Struct
from kschedctl.fixes.proposals import MOST_NODES_OF_TRIAL, count_minimum_changes, get_plugin_remedies, iter_nodes_to_try
from kschedctl.fixes.ranking import harms_nobody, is_manifest_correction, keeps_workload, needs_values
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.guesses import lacks_feasible_node_for_image
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.fixes.trial.trials import RemedyTrial, Trials
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.in_tree_plugins import AnyFact
from kschedctl.scheduler.plugins.helper.volume_listers import get_listers
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient

FixProposer = Callable[[TrialNode], Iterable[Fix]]
"""Proposes the changes that might clear the first rejection of a tried node."""
TrialPlace = tuple[frozenset[Fix], Row | None]
"""The changes of a trial, and a node in it or None for no particular node."""
MOST_TRIALS = 2000
"""The most trials that one search replays."""
SEARCH_BUDGET = 5000
"""The replays that one search may cost, as `count_affordable_replays` counts them: about five seconds."""
NODES_PER_REPLAY_COST = 500
"""A replay costs one more for each so many nodes."""
MAX_SEARCH_SECONDS = 300.0
"""The outer time limit of a search, which only a slow machine reaches before the budget is used up."""
REQUEST_KINDS = frozenset({FixKind.LOWER_REQUEST, FixKind.DROP_REQUEST})
"""The kinds of changes that each lower the request for one resource."""


@dataclass(frozen=True)
class RemedyCriteria:
    """The kinds and sizes of the sets of changes to search for."""

    max_changes: int = 3
    """The most changes in one set."""
    smallest: bool = False
    """True to stop at the smallest size with a set that harms nobody. Corrections of the manifest are then still
    searched for.
    """
    by: str = ""
    """Only changes that this person can make, `author` or `operator`; empty for both."""
    only: frozenset[str] = frozenset()
    """Kinds of changes to search for; empty for all."""
    without: frozenset[str] = frozenset()
    """Kinds of changes to leave out."""
    seconds: float = MAX_SEARCH_SECONDS
    """The outer time limit of the search. What is found before does not depend on time."""

    @property
    def is_restricted(self) -> bool:
        """True if some changes are left out by who makes them or by their kinds."""
        return bool(self.by or self.only or self.without)

    def allows(self, fix: Fix) -> bool:
        """Return whether a set may contain the fix."""
        return self.considers(fix.kind, fix.by)

    def considers(self, kind: str, by: str) -> bool:
        """Return whether the search considers changes of this kind that `by`, the author or the operator, can make."""
        return self.by in ("", by) and kind not in self.without and (not self.only or kind in self.only)


@dataclass
class RemedySearch:
    """A search for the minimal sets of changes that let one pod schedule."""

    trials: Trials
    propose_at_node: FixProposer
    """Proposes changes for a node of a trial."""
    propose_without_node: FixProposer
    """Proposes changes that do not depend on a node."""
    criteria: RemedyCriteria
    deadline: float = math.inf
    """The outer time limit, by the monotonic clock."""
    progress: Callable[[int], None] = lambda _: None
    """Called with 1 for each set that is tried."""
    working_trials: list[RemedyTrial] = field(default_factory=list)
    """The trials of the minimal sets of changes that help."""
    is_exhaustive: bool = True
    """True if nothing was left out for lack of trials or time, because of too many node shapes or an interruption."""
    timed_out: bool = False
    """True if the deadline ended the search."""
    interrupted: bool = False
    """True if the user interrupted the search, so that only the trials until then are known."""
    _has_tried_correction: bool = False
    """True if a correction of the manifest was tried."""
    _only_corrections: bool = False
    """True if only sets with a correction of the manifest are still searched for."""
    _proposals: dict[TrialPlace, tuple[Fix, ...]] = field(default_factory=dict)
    _nodes_to_try: dict[frozenset[Fix], tuple[TrialNode, ...]] = field(default_factory=dict)

    def run(self) -> list[RemedyTrial]:
        """Run the search, and return the trials of all minimal sets of changes that help, the smallest sets first.

        The search stops early at its limits, if the user interrupts, or after the smallest size that helps if only
        these sets are wanted. `is_exhaustive` says whether it is complete.
        """
        try:
            self._search_all_sizes()
        except KeyboardInterrupt:
            self.interrupted = True
            self.is_exhaustive = False
        return self.working_trials

    def _search_all_sizes(self) -> None:
        """Try the sets of changes, the smallest sizes first, and add the ones that help to `self.working_trials`.

        If only the smallest sets are wanted, the search ends after the first size at which a verified set harms nobody.
        If all verified sets change the workload, only sets that correct its manifest are tried at larger sizes.
        """
        for size in range(1, self.criteria.max_changes + 1):
            # A fix whose values are unknown is not verified, so that the search for a verified one continues.
            verified_trials = [trial for trial in self.working_trials if not needs_values(trial)]
            is_small_enough = self.criteria.smallest and any(map(harms_nobody, verified_trials))
            if is_small_enough:
                if any(map(keeps_workload, verified_trials)):
                    break
                self._only_corrections = True  # a larger set may still correct the manifest
            self._tried_places: set[TrialPlace] = set()
            for trial_node in self._iter_trial_nodes(self.trials.base, size):
                self._try_changes(trial_node, size)

    def _iter_trial_nodes(self, trial: RemedyTrial, remaining_changes: int) -> Iterator[TrialNode]:
        """Yield the nodes whose rejections the remaining changes may clear, and a TrialNode without a node.

        The TrialNode without a node is for changes that do not depend on one. It comes first if only one change
        remains, and last otherwise. At most `MOST_NODES_OF_TRIAL` nodes are yielded. If there are more, the search is
        no longer exhaustive.
        """
        if remaining_changes == 1:
            yield TrialNode(trial, row=None)
        if trial.cycle is not None:
            clearable_nodes = (
                trial_node
                for trial_node in self._get_nodes_to_try(trial)
                if trial_node.row is not None and _can_be_cleared(trial_node, remaining_changes)
            )
            yield from islice(clearable_nodes, MOST_NODES_OF_TRIAL)
            has_more_nodes = next(clearable_nodes, None) is not None
            if has_more_nodes:
                self.is_exhaustive = False
        if remaining_changes > 1:
            yield TrialNode(trial, row=None)

    def _get_nodes_to_try(self, trial: RemedyTrial) -> tuple[TrialNode, ...]:
        """Return the nodes on which to try further changes on top of the trial's changes.

        The nodes are cached for each set of changes.
        """
        change_set = frozenset(trial.changes)
        if change_set not in self._nodes_to_try:
            self._nodes_to_try[change_set] = tuple(iter_nodes_to_try(trial))
        return self._nodes_to_try[change_set]

    def _try_changes(self, trial_node: TrialNode, remaining_changes: int) -> None:
        """Try each change that is proposed at the node. If a change alone is not enough, recurse for the next change.

        `remaining_changes` is how many more changes a set may have, including the one tried here. A change is not
        replayed if it cannot help any more, or if its set contains a set that helps. Sets that help are added to
        `self.working_trials`. Nothing is done if the node was already tried with the same changes, or once the search
        has reached its limits.
        """
        place = frozenset(trial_node.trial.changes), trial_node.row
        if place in self._tried_places:
            return
        self._tried_places.add(place)
        for change in self._get_proposed_changes(trial_node, place):
            changes = (*trial_node.trial.changes, change)
            is_minimal = not self._contains_working_set(changes)
            if not is_minimal or not _can_still_help(change, trial_node, remaining_changes):
                continue
            if self._has_reached_limit():
                return
            if self._only_corrections and not self._may_become_correction(changes):
                continue

            # Replay the set, and extend it if it does not help yet.
            trial = self._replay_set_with_new_change(changes)
            if trial.works:
                if not self._only_corrections or any(map(is_manifest_correction, changes)):
                    self._add_trial_if_minimal(trial)
            elif remaining_changes > 1 and trial.cycle is not None:
                for next_node in self._find_next_nodes(trial_node, trial, remaining_changes - 1):
                    self._try_changes(next_node, remaining_changes - 1)

    def _contains_working_set(self, changes: tuple[Fix, ...]) -> bool:
        """Return whether some of these changes are already a set that helps. The changes are then not minimal."""
        return any(frozenset(working.changes) <= frozenset(changes) for working in self.working_trials)

    def _replay_set_with_new_change(self, changes: tuple[Fix, ...]) -> RemedyTrial:
        """Replay a set of changes of which the last is new, and record the progress of the search."""
        trial = self.trials.replay_changes(changes)
        self.progress(1)
        if is_manifest_correction(changes[-1]):
            self._has_tried_correction = True
        return trial

    def _may_become_correction(self, changes: tuple[Fix, ...]) -> bool:
        """Return whether further changes may turn the set into a correction of the manifest.

        The changes of the set may at most make room. A set that starts with a new node qualifies only if a correction
        was already tried, because otherwise there is nothing to correct.
        """
        if any(change.effective_price > Price.ROOM for change in changes):
            return False
        return changes[0].kind != FixKind.ADD_NODE or self._has_tried_correction

    def _get_proposed_changes(self, trial_node: TrialNode, place: TrialPlace) -> tuple[Fix, ...]:
        """Return the wanted changes that are proposed at the node and can be combined with the trial's changes.

        The changes are cached.
        """
        if place not in self._proposals:
            fixes = (
                self.propose_without_node(trial_node) if trial_node.row is None else self.propose_at_node(trial_node)
            )
            earlier_changes = trial_node.trial.changes
            proposals = [
                fix
                for fix in fixes
                if fix not in earlier_changes
                and _is_compatible_with_trial(fix, trial_node.trial)
                and not self._refers_to_added_node(fix, trial_node.trial)
                and self._is_wanted(fix)
            ]
            self._proposals[place] = tuple(dict.fromkeys(proposals))
        return self._proposals[place]

    def _refers_to_added_node(self, change: Fix, trial: RemedyTrial) -> bool:
        """Return whether the change writes the name of a node that the trial adds into another object.

        Nobody could make such a change, since the name of the node is unknown before it exists.
        """
        added_names = [
            key.name.encode() for key, edit in trial.edits.items() if key.kind == "Node" and edit.before is None
        ]
        if not added_names:
            return False
        for edit in change.edits:
            earlier_edit = trial.edits.get(edit.key)
            before = self.trials.read(edit.key) if earlier_edit is None else earlier_edit.after
            # The name may be in any field, so it is searched in the JSON of the whole object.
            encoded_object = msgspec.json.encode((edit.key, edit.change(before)))
            if edit.key.kind != "Node" and any(name in encoded_object for name in added_names):
                return True
        return False

    def _find_next_nodes(
        self, trial_node: TrialNode, trial: RemedyTrial, remaining_changes: int
    ) -> Iterable[TrialNode]:
        """Return the nodes of the trial at which to continue after its last change, which was made at `trial_node`.

        After a change at a node, the search continues at this node if its rejection changed. After a change without a
        node, it continues at the nodes that the change added or, if there are none, at all nodes. Nodes that the
        remaining changes cannot clear are left out.
        """
        assert trial.cycle is not None
        if trial_node.row is not None:
            rows = [trial_node.row]
        elif trial.changes[-1].kind == FixKind.ADD_NODE:
            old_node_count = len(self.trials.scheduler.view.nodes)
            rows = [Row(row) for row in range(old_node_count, len(trial.cycle.view.nodes))]
        else:
            return self._iter_trial_nodes(trial, remaining_changes)

        key_before = _build_first_rejection_key(trial_node)
        next_nodes = []
        for next_node in (TrialNode(trial, row) for row in rows):
            if not _can_be_cleared(next_node, remaining_changes):
                continue
            is_effect_unknown = key_before is None
            if is_effect_unknown or _build_first_rejection_key(next_node) != key_before:
                next_nodes.append(next_node)
        return next_nodes

    def _add_trial_if_minimal(self, trial: RemedyTrial) -> None:
        """Add the trial to `self.working_trials` if its set of changes is minimal, new and plausible.

        A set is not minimal if it works without one of its changes, or if it only lets the pod preempt and does so
        without one of them. It is not new if a working set changes the same objects. It is not plausible if no feasible
        node can run the image, or if no node on which the pod fits can use a volume that the set names.
        """
        changed_objects = _get_changed_objects(trial)
        if any(_get_changed_objects(working) == changed_objects for working in self.working_trials):
            return
        if trial.cycle is not None and lacks_feasible_node_for_image(self.trials.base.pod, trial.cycle):
            return
        if not _can_reach_named_volumes(trial):
            return
        # All sets without one of the changes, but not the empty set, which is known not to work.
        smaller_sets = [fixes for fixes in combinations(trial.changes, len(trial.changes) - 1) if fixes]
        for fixes in smaller_sets:
            if self.trials.replay_changes(fixes).works:
                return
            # A set that lets the pod preempt is not minimal if a smaller set lets it preempt as well.
            if trial.nominated and self.trials.can_preempt(fixes):
                return
        self.working_trials.append(trial)

    def _is_wanted(self, fix: Fix) -> bool:
        """Return whether the criteria allow the fix and it is not a useless PriorityClass.

        A higher priority is useless for a pod that can already preempt.
        """
        return self.criteria.allows(fix) and not (
            fix.kind == FixKind.USE_PRIORITY_CLASS and self.trials.can_preempt(())
        )

    def _has_reached_limit(self) -> bool:
        """Return whether the trials or the time is used up.

        Record in `timed_out` whether the time is used up. Set `is_exhaustive` to False if a limit is reached.
        """
        nodes = len(self.trials.scheduler.view.nodes)
        most_trials = min(MOST_TRIALS, count_affordable_replays(SEARCH_BUDGET, nodes))
        self.timed_out = time.monotonic() > self.deadline
        must_stop = self.timed_out or self.trials.replayed > most_trials
        if must_stop:
            self.is_exhaustive = False
        return must_stop


def count_affordable_replays(budget: int, nodes: int) -> int:
    """Return how many replays of a pod's cycle `budget` pays for in a cluster with the given number of nodes.

    Searches are limited by a number of replays, not by time, so that each machine finds the same fixes.

    >>> count_affordable_replays(5000, 12), count_affordable_replays(5000, 5000)
    (4882, 454)
    """
    return budget * NODES_PER_REPLAY_COST // (NODES_PER_REPLAY_COST + nodes)


def _is_compatible_with_trial(change: Fix, trial: RemedyTrial) -> bool:
    """Return whether the change can be combined with the trial's changes.

    A change is incompatible if it edits an object that the trial creates. A new node is incompatible with a higher
    priority, because each of them is meant to be enough.
    """
    created_keys = {key for key, edit in trial.edits.items() if edit.before is None}
    if not created_keys.isdisjoint(edit.key for edit in change.edits):
        return False
    kinds = {change.kind, *(fix.kind for fix in trial.changes)}
    return not {FixKind.USE_PRIORITY_CLASS, FixKind.ADD_NODE} <= kinds


def _can_be_cleared(trial_node: TrialNode, remaining_changes: int) -> bool:
    """Return whether the remaining changes may be enough to clear the node's rejections.

    The result is True if the trial raises the pod's priority, since preemption may clear rejections as well.
    """
    return trial_node.trial.raises_priority or count_minimum_changes(trial_node.find_rejections()) <= remaining_changes


def _can_still_help(change: Fix, trial_node: TrialNode, remaining_changes: int) -> bool:
    """Return whether the change can still help at the node, as one of `remaining_changes` changes that a set may have.

    A lower request for one resource does not help as the last change if another resource is insufficient as well.
    """
    lowers_request = change.kind in REQUEST_KINDS
    if not lowers_request or remaining_changes > 1:
        return True
    if trial_node.trial.raises_priority:
        return True  # preemption may free the other resources
    if trial_node.row is None:
        return True  # PreFilter rejects the pod on all nodes, which has nothing to do with resources

    # The change was proposed for the first rejection. Further rejections may be about other resources.
    first, *later = trial_node.find_rejections()
    return not any(isinstance(rejection.fact, Insufficient) and rejection.fact != first.fact for rejection in later)


def _can_reach_named_volumes(trial: RemedyTrial) -> bool:
    """Return whether each volume named by the changes can be used on a node on which the pod fits.

    If not, the pod fits thanks to another volume, which another fix names.
    """
    volumes = [fix.volume_to_find for fix in trial.changes if fix.volume_to_find is not None]
    if trial.cycle is None or not volumes:
        return True
    index = trial.cycle.view.nodes.index
    rows = {index[name] for name in trial.feasible_or_nominated_nodes if name in index}
    topology = get_listers(trial.cycle.view).topology
    return all(not rows.isdisjoint(topology.find_reachable_rows(volume.spec.node_affinity)) for volume in volumes)


def _get_changed_objects(trial: RemedyTrial) -> dict[ObjectKey, Struct | None]:
    """Return the edited objects as they are after the trial's changes, by key. Deleted objects are None."""
    return {key: edit.after for key, edit in trial.edits.items()}


def _build_first_rejection_key(trial_node: TrialNode) -> tuple[str, str, AnyFact | None] | None:
    """Return the plugin, reason and fact of the node's first rejection, to compare it before and after a change.

    Equal keys mean that the change had no effect on the rejection. The key is None if there is no node or no rejection,
    or if the plugin's facts do not reveal every effect.
    """
    if trial_node.row is None:
        return None
    first = next(iter(trial_node.find_rejections()), None)
    if first is None or not get_plugin_remedies(first.plugin).facts_reveal_every_effect:
        return None
    return first.plugin, first.reason, first.fact
