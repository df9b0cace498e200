"""The search for remedies: smallest sets of changes first, each replayed, none with a change that is not needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice

import msgspec

from kschedctl.api.arrays import Row
from kschedctl.api.objects import Struct
from kschedctl.fixes.catalogue import remedies_of
from kschedctl.fixes.ranking import harms_nobody
from kschedctl.fixes.targets import MOST_SITES_OF_TRIAL, least_changes, nodes_to_try
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.image_platform import runs_on_no_feasible_node
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.trials import PREEMPTS, RemedyTrial, Trials
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient
from kschedctl.scheduler.registry.facts import AnyFact

Ways = Callable[[TriedNode], Iterable[Fix]]
"""The changes that might help at a node: what they address is the first thing that stands against the node there."""
Where = tuple[frozenset[Fix], Row | None]
"""A trial by its changes, and a node in it."""
MOST_TRIALS = 2000
OF_A_RESOURCE = frozenset({"LowerRequest", "DropRequest"})
ADDS = "AddNode"


@dataclass(frozen=True)
class RemedyWishes:
    """Which sets of changes are searched for.

    ``max_changes``: the most changes of a set. ``smallest``: no set that is larger than the smallest one that harms
    nobody, unless the manifest nearly named something that exists: then also larger sets of corrections, with room for
    the pod where those need it. ``by``: changes that this one alone can make, empty for anybody. ``only`` and
    ``without``: kinds of changes; no ``only``: all kinds.
    """

    max_changes: int = 3
    smallest: bool = False
    by: str = ""
    only: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()

    def allow(self, fix: Fix) -> bool:
        return self.considers(fix.kind, fix.by)

    def considers(self, kind: str, by: str) -> bool:
        """Whether fixes of a kind that this one makes are wished for."""
        return self.by in ("", by) and kind not in self.without and (not self.only or kind in self.only)


@dataclass
class RemedySearch:
    """``everywhere``: changes that do not depend on a node. ``progress`` is told of each set that is tried.

    ``exhausted``: nothing was left out, neither for want of time nor as there are too many sorts of nodes.
    """

    trials: Trials
    ways: Ways
    everywhere: Ways
    wishes: RemedyWishes
    seconds: float = 5.0
    progress: Callable[[int], None] = lambda _: None
    found: list[RemedyTrial] = field(default_factory=list)
    exhausted: bool = True
    _near_misses: bool = False
    _only_corrections: bool = False
    _options: dict[Where, tuple[Fix, ...]] = field(default_factory=dict)
    _sites: dict[frozenset[Fix], tuple[TriedNode, ...]] = field(default_factory=dict)

    def run(self) -> list[RemedyTrial]:
        """All minimal sets that are wished for."""
        self._until = time.monotonic() + self.seconds
        for size in range(1, self.wishes.max_changes + 1):
            if self.wishes.smallest and any(map(harms_nobody, self.found)):
                if any(map(keeps_workload, self.found)):
                    break
                self._only_corrections = True
            self._seen: set[Where] = set()
            for tried in self._starts(self.trials.base, size):
                self._extend(tried, size)
        return self.found

    def _starts(self, trial: RemedyTrial, left: int) -> Iterator[TriedNode]:
        """The hopeful nodes; before them, where one change has to do, and else after them, what is about no node."""
        if left == 1:
            yield TriedNode(trial, None)
        if trial.cycle is not None:
            hopeful = (tried for tried in self._sites_of(trial) if tried.row is not None and _hopeful(tried, left))
            yield from islice(hopeful, MOST_SITES_OF_TRIAL)
            self.exhausted &= next(hopeful, None) is None
        if left > 1:
            yield TriedNode(trial, None)

    def _sites_of(self, trial: RemedyTrial) -> tuple[TriedNode, ...]:
        name = frozenset(trial.changes)
        if name not in self._sites:
            self._sites[name] = tuple(nodes_to_try(trial))
        return self._sites[name]

    def _extend(self, tried: TriedNode, left: int) -> None:
        """Try what helps at the node, and what helps further where that is not enough."""
        where = frozenset(tried.trial.changes), tried.row
        if where in self._seen:
            return
        self._seen.add(where)
        for change in self._options_at(tried, where):
            changes = (*tried.trial.changes, change)
            if any(frozenset(known.changes) <= frozenset(changes) for known in self.found):
                continue
            if not _may_do(change, tried, left):
                continue
            if self._over():
                return
            if self._only_corrections and not self._may_correct(changes):
                continue
            trial = self.trials.of(changes)
            self.progress(1)
            self._near_misses |= is_correction(change)
            if trial.works:
                if not self._only_corrections or any(map(is_correction, changes)):
                    self._keep(trial)
            elif left > 1 and trial.cycle is not None:
                for further in self._further(tried, trial, left - 1):
                    self._extend(further, left - 1)

    def _may_correct(self, changes: tuple[Fix, ...]) -> bool:
        """Return whether the changes may belong to a set that corrects the manifest and else only makes room.

        A new node is of use to a correction only if there is something to correct.
        """
        if any(change.paid > Price.ROOM for change in changes):
            return False
        return changes[0].kind != ADDS or self._near_misses

    def _options_at(self, tried: TriedNode, where: Where) -> tuple[Fix, ...]:
        if where not in self._options:
            fixes = (self.everywhere if tried.row is None else self.ways)(tried)
            known = tried.trial.changes
            fitting = (
                fix
                for fix in fixes
                if fix not in known and _goes_with(fix, tried.trial) and not self._names_made_up_node(fix, tried.trial)
            )
            self._options[where] = tuple(dict.fromkeys(fix for fix in fitting if self._wanted(fix)))
        return self._options[where]

    def _names_made_up_node(self, change: Fix, trial: RemedyTrial) -> bool:
        """Return whether the change writes the name of a node that the trial adds into another object.

        Nobody knows how such a node will be called once it is there.
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

    def _further(self, tried: TriedNode, trial: RemedyTrial, left: int) -> Iterable[TriedNode]:
        """Where to go on: on the same node, if the change did anything there, on the one that it adds, else on all."""
        if tried.row is None and trial.changes[-1].kind != ADDS:
            return self._starts(trial, left)
        assert trial.cycle is not None
        known = len(self.trials.scheduler.view.nodes)
        rows = [tried.row] if tried.row is not None else [Row(row) for row in range(known, len(trial.cycle.view.nodes))]
        before = _first(tried)
        further = (TriedNode(trial, row) for row in rows)
        return [
            tried_node
            for tried_node in further
            if _hopeful(tried_node, left) and (before is None or _first(tried_node) != before)
        ]

    def _keep(self, trial: RemedyTrial) -> None:
        """Keep the set unless a change is not needed, another set does the same, or the nodes cannot run the image."""
        if any(_objects(known) == _objects(trial) for known in self.found):
            return
        if trial.cycle is not None and runs_on_no_feasible_node(self.trials.base.pod, trial.cycle):
            return
        fewer = [combination for combination in combinations(trial.changes, len(trial.changes) - 1) if combination]
        if not any(
            self.trials.of(fixes).works or (trial.nominated and self.trials.make_room(fixes)) for fixes in fewer
        ):
            self.found.append(trial)

    def _wanted(self, fix: Fix) -> bool:
        """A pod for which the scheduler makes room anyhow needs no other class for that."""
        return self.wishes.allow(fix) and not (fix.kind == PREEMPTS and self.trials.make_room(()))

    def _over(self) -> bool:
        over = time.monotonic() > self._until or self.trials.replayed > MOST_TRIALS
        self.exhausted &= not over
        return over


def keeps_workload(trial: RemedyTrial) -> bool:
    """Return whether the changes correct the manifest or make room, and the pod asks for nothing else."""
    return all(fix.paid <= Price.ROOM for fix in trial.changes)


def is_correction(fix: Fix) -> bool:
    """Return whether the author's manifest is corrected to what it most likely meant."""
    return fix.paid == Price.CORRECTION and fix.by == "author"


def _goes_with(change: Fix, trial: RemedyTrial) -> bool:
    """Not with what creates the object that it changes: who adds a node adds the right one.

    Nor is a pod made more important than what runs on a node that comes for it.
    """
    created = {key for key, edit in trial.edits.items() if edit.before is None}
    kinds = {change.kind, *(fix.kind for fix in trial.changes)}
    return created.isdisjoint(edit.key for edit in change.edits) and not {PREEMPTS, ADDS} <= kinds


def _hopeful(tried: TriedNode, left: int) -> bool:
    """Whether so few changes may clear the node; what else is there may have to make room for an important pod."""
    return any(change.kind == PREEMPTS for change in tried.trial.changes) or least_changes(tried.refusals()) <= left


def _may_do(change: Fix, tried: TriedNode, left: int) -> bool:
    """Whether the change may be one of so many that clear the node: less of a resource is of no use to another."""
    if change.kind not in OF_A_RESOURCE or tried.row is None or PREEMPTS in {fix.kind for fix in tried.trial.changes}:
        return True
    first, *rest = tried.refusals()
    other = [r for r in rest if isinstance(r.fact, Insufficient) and r.fact != first.fact]
    return left > 1 or not other


def _objects(trial: RemedyTrial) -> dict[ObjectKey, Struct | None]:
    """What the changes make of the objects."""
    return {key: edit.after for key, edit in trial.edits.items()}


def _first(tried: TriedNode) -> tuple[str, str, AnyFact | None] | None:
    """The first thing that stands against a node, where its fact tells all changes; None where there is no node."""
    first = next((refusal[:3] for refusal in tried.refusals()), None) if tried.row is not None else None
    return first if first is not None and remedies_of(first[0]).facts_tell_all else None
