"""Search for fixes: the smallest sets of changes first, each verified by replay, none with an unnecessary change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice

import msgspec

from kschedctl.api.arrays import Row
from kschedctl.api.objects import Struct
from kschedctl.fixes.proposals import MOST_NODES_OF_TRIAL, count_least_changes, get_plugin_remedies, iter_nodes_to_try
from kschedctl.fixes.ranking import harms_nobody
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.guesses import lacks_feasible_node_for_image
from kschedctl.fixes.trial.trials import RemedyTrial, Trials
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient
from kschedctl.scheduler.registry.in_tree import AnyFact

FixProposer = Callable[[TriedNode], Iterable[Fix]]
"""Proposes the changes that might clear the first rejection of a tried node."""
TriedPlace = tuple[frozenset[Fix], Row | None]
"""The changes of a trial, and a node in it or None for no particular node."""
MOST_TRIALS = 2000
"""The most trials that one search replays."""
REQUEST_KINDS = frozenset({FixKind.LOWER_REQUEST, FixKind.DROP_REQUEST})


@dataclass(frozen=True)
class RemedyWishes:
    """The kinds and sizes of the sets of changes to search for."""

    max_changes: int = 3
    """The most changes in one set."""
    smallest: bool = False
    """Whether to stop at the smallest size with a set that harms nobody. Corrections of the manifest are then still
    searched for.
    """
    by: str = ""
    """Only changes that this person can make, `author` or `operator`; empty for both."""
    only: frozenset[str] = frozenset()
    """Kinds of changes to search for; empty for all."""
    without: frozenset[str] = frozenset()
    """Kinds of changes to leave out."""

    def allows(self, fix: Fix) -> bool:
        """Return whether a set may contain the fix."""
        return self.considers(fix.kind, fix.by)

    def considers(self, kind: str, by: str) -> bool:
        """Return whether the search considers changes of this kind, made by this person."""
        return self.by in ("", by) and kind not in self.without and (not self.only or kind in self.only)


@dataclass
class RemedySearch:
    """A search for the minimal sets of changes that let one pod schedule."""

    trials: Trials
    propose_at_node: FixProposer
    """Proposes changes for a tried node."""
    propose_anywhere: FixProposer
    """Proposes changes that do not depend on a node."""
    wishes: RemedyWishes
    seconds: float = 5.0
    """The time limit."""
    progress: Callable[[int], None] = lambda _: None
    """Called with 1 for each set that is tried."""
    found: list[RemedyTrial] = field(default_factory=list)
    exhausted: bool = True
    """Whether nothing was left out for lack of time or because of too many node shapes."""
    _near_misses: bool = False
    _only_corrections: bool = False
    _options: dict[TriedPlace, tuple[Fix, ...]] = field(default_factory=dict)
    _sites: dict[frozenset[Fix], tuple[TriedNode, ...]] = field(default_factory=dict)

    def run(self) -> list[RemedyTrial]:
        """Run the search, and return the trials of all minimal sets of changes that help."""
        self._until = time.monotonic() + self.seconds
        for size in range(1, self.wishes.max_changes + 1):
            if self.wishes.smallest and any(map(harms_nobody, self.found)):
                if any(map(keeps_workload, self.found)):
                    break
                self._only_corrections = True
            self._seen: set[TriedPlace] = set()
            for tried in self._iter_starting_points(self.trials.base, size):
                self._extend(tried, size)
        return self.found

    def _iter_starting_points(self, trial: RemedyTrial, remaining_changes: int) -> Iterator[TriedNode]:
        """Yield the nodes that the remaining changes may clear, and the starting point without a node.

        The latter comes first if one change remains, and last otherwise.
        """
        if remaining_changes == 1:
            yield TriedNode(trial, None)
        if trial.cycle is not None:
            hopeful = (
                tried
                for tried in self._get_nodes_to_try(trial)
                if tried.row is not None and _can_be_cleared(tried, remaining_changes)
            )
            yield from islice(hopeful, MOST_NODES_OF_TRIAL)
            self.exhausted &= next(hopeful, None) is None
        if remaining_changes > 1:
            yield TriedNode(trial, None)

    def _get_nodes_to_try(self, trial: RemedyTrial) -> tuple[TriedNode, ...]:
        """Return the nodes to try in the trial, cached by the changes."""
        name = frozenset(trial.changes)
        if name not in self._sites:
            self._sites[name] = tuple(iter_nodes_to_try(trial))
        return self._sites[name]

    def _extend(self, tried: TriedNode, remaining_changes: int) -> None:
        """Try each change proposed at the node, and continue with the remaining changes if it does not suffice."""
        place = frozenset(tried.trial.changes), tried.row
        if place in self._seen:
            return
        self._seen.add(place)
        for change in self._get_proposals(tried, place):
            changes = (*tried.trial.changes, change)
            if any(frozenset(known.changes) <= frozenset(changes) for known in self.found):
                continue
            if not _may_help(change, tried, remaining_changes):
                continue
            if self._is_limit_reached():
                return
            if self._only_corrections and not self._may_become_correction(changes):
                continue
            trial = self.trials.replay(changes)
            self.progress(1)
            self._near_misses |= is_manifest_correction(change)
            if trial.works:
                if not self._only_corrections or any(map(is_manifest_correction, changes)):
                    self._keep_if_minimal(trial)
            elif remaining_changes > 1 and trial.cycle is not None:
                for next_node in self._find_next_nodes(tried, trial, remaining_changes - 1):
                    self._extend(next_node, remaining_changes - 1)

    def _may_become_correction(self, changes: tuple[Fix, ...]) -> bool:
        """Return whether the set may still become a correction of the manifest that otherwise only makes room.

        A new node is useful to a correction only if there is something to correct.
        """
        if any(change.effective_price > Price.ROOM for change in changes):
            return False
        return changes[0].kind != FixKind.ADD_NODE or self._near_misses

    def _get_proposals(self, tried: TriedNode, place: TriedPlace) -> tuple[Fix, ...]:
        """Return the proposed changes that are wanted and compatible with the trial's changes, cached."""
        if place not in self._options:
            fixes = self.propose_anywhere(tried) if tried.row is None else self.propose_at_node(tried)
            earlier_changes = tried.trial.changes
            fitting = (
                fix
                for fix in fixes
                if fix not in earlier_changes
                and _is_compatible(fix, tried.trial)
                and not self._refers_to_added_node(fix, tried.trial)
            )
            self._options[place] = tuple(dict.fromkeys(fix for fix in fitting if self._is_wanted(fix)))
        return self._options[place]

    def _refers_to_added_node(self, change: Fix, trial: RemedyTrial) -> bool:
        """Return whether the change writes the name of a node that the trial adds into another object.

        Nobody knows the name of such a node before it exists.
        """
        names = [key.name.encode() for key, edit in trial.edits.items() if key.kind == "Node" and edit.before is None]
        if not names:
            return False
        for key, change_object, _ in change.edits:
            known = trial.edits.get(key)
            after = change_object(self.trials.read(key) if known is None else known.after)
            if key.kind != "Node" and any(name in msgspec.json.encode((key, after)) for name in names):
                return True
        return False

    def _find_next_nodes(self, tried: TriedNode, trial: RemedyTrial, remaining_changes: int) -> Iterable[TriedNode]:
        """Return the nodes at which to continue: the same node if its rejection changed, the added nodes, or all
        nodes.
        """
        if tried.row is None and trial.changes[-1].kind != FixKind.ADD_NODE:
            return self._iter_starting_points(trial, remaining_changes)
        assert trial.cycle is not None
        node_count = len(self.trials.scheduler.view.nodes)
        rows = [tried.row] if tried.row is not None else list(map(Row, range(node_count, len(trial.cycle.view.nodes))))
        before = _get_first_rejection(tried)
        tried_nodes = (TriedNode(trial, row) for row in rows)
        return [
            tried_node
            for tried_node in tried_nodes
            if _can_be_cleared(tried_node, remaining_changes)
            and (before is None or _get_first_rejection(tried_node) != before)
        ]

    def _keep_if_minimal(self, trial: RemedyTrial) -> None:
        """Add the trial to `self.found` if its set of changes is minimal, new and plausible.

        A set is dropped if it would work without one of its changes, if another set changes the same objects, or if no
        feasible node can run the image.
        """
        if any(_get_changed_objects(known) == _get_changed_objects(trial) for known in self.found):
            return
        if trial.cycle is not None and lacks_feasible_node_for_image(self.trials.base.pod, trial.cycle):
            return
        smaller_sets = [
            combination for combination in combinations(trial.changes, len(trial.changes) - 1) if combination
        ]
        if not any(
            self.trials.replay(fixes).works or (trial.nominated and self.trials.can_preempt(fixes))
            for fixes in smaller_sets
        ):
            self.found.append(trial)

    def _is_wanted(self, fix: Fix) -> bool:
        """Return whether the wishes allow the fix and it is not a useless PriorityClass.

        A higher priority is useless for a pod that can already preempt.
        """
        return self.wishes.allows(fix) and not (fix.kind == FixKind.USE_PRIORITY_CLASS and self.trials.can_preempt(()))

    def _is_limit_reached(self) -> bool:
        """Return whether the time or the number of trials is used up, and note that the search is then incomplete."""
        over = time.monotonic() > self._until or self.trials.replayed > MOST_TRIALS
        self.exhausted &= not over
        return over


def keeps_workload(trial: RemedyTrial) -> bool:
    """Return whether the changes only correct the manifest, wait or make room."""
    return all(fix.effective_price <= Price.ROOM for fix in trial.changes)


def is_manifest_correction(fix: Fix) -> bool:
    """Return whether the fix corrects the author's manifest to what it probably means."""
    return fix.effective_price == Price.CORRECTION and fix.by == "author"


def _is_compatible(change: Fix, trial: RemedyTrial) -> bool:
    """Return whether the change can be combined with the trial's changes.

    A change of an object that the trial creates is incompatible, and a new node is incompatible with a higher priority.
    """
    created = {key for key, edit in trial.edits.items() if edit.before is None}
    kinds = {change.kind, *(fix.kind for fix in trial.changes)}
    return (
        created.isdisjoint(edit.key for edit in change.edits)
        and not {FixKind.USE_PRIORITY_CLASS, FixKind.ADD_NODE} <= kinds
    )


def _can_be_cleared(tried: TriedNode, remaining_changes: int) -> bool:
    """Return whether the remaining changes may clear the node's rejections or the pod may preempt."""
    return tried.trial.raises_priority or count_least_changes(tried.find_rejections()) <= remaining_changes


def _may_help(change: Fix, tried: TriedNode, remaining_changes: int) -> bool:
    """Return whether the change can still help at the node with the remaining changes.

    Lowering one resource as the last change does not help if another resource is insufficient, too.
    """
    if change.kind not in REQUEST_KINDS or tried.row is None or tried.trial.raises_priority:
        return True
    first, *rest = tried.find_rejections()
    other_shortages = [r for r in rest if isinstance(r.fact, Insufficient) and r.fact != first.fact]
    return remaining_changes > 1 or not other_shortages


def _get_changed_objects(trial: RemedyTrial) -> dict[ObjectKey, Struct | None]:
    """Return the edited objects as they are after the trial's changes."""
    return {key: edit.after for key, edit in trial.edits.items()}


def _get_first_rejection(tried: TriedNode) -> tuple[str, str, AnyFact | None] | None:
    """Return the node's first rejection, or None if its fact does not reveal every change."""
    first = next((rejection[:3] for rejection in tried.find_rejections()), None) if tried.row is not None else None
    return first if first is not None and get_plugin_remedies(first[0]).facts_tell_all else None
