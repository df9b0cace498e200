"""The search for remedies: smallest sets of changes first, each replayed, none with a change that is not needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from kschedctl.studies.remedies.changes import Fix
from kschedctl.studies.remedies.targets import Site, least_changes, sites
from kschedctl.studies.remedies.trials import PREEMPTS, RemedyTrial, Trials

Ways = Callable[[Site], Iterable[Fix]]
"""The changes that might help at a site: what they address is the first thing that stands against the node there."""
MOST_TRIALS = 2000
ADDS = "AddNode"


@dataclass(frozen=True)
class RemedyWishes:
    """Sets of up to ``max_changes``; where there are ``smallest`` ones none that is larger.

    ``by``: made by this one alone, empty for anybody. ``only`` and ``without``: kinds of changes; no ``only``: all.
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
    """``everywhere``: changes that do not depend on a node. ``exhausted``: nothing was left out for want of time."""

    trials: Trials
    ways: Ways
    everywhere: Ways
    wishes: RemedyWishes
    seconds: float = 5.0
    found: list[RemedyTrial] = field(default_factory=list)
    exhausted: bool = True

    def run(self) -> list[RemedyTrial]:
        """All minimal sets that are wished for."""
        self._until = time.monotonic() + self.seconds
        for size in range(1, self.wishes.max_changes + 1):
            seen: set[tuple[frozenset[Fix], int | None]] = set()
            for site in self._starts(self.trials.base, size):
                self._extend(site, size, seen)
            if self.wishes.smallest and self.found:
                break
        return self.found

    def _starts(self, trial: RemedyTrial, left: int) -> Iterator[Site]:
        yield Site(trial, None)
        if trial.cycle is not None:
            yield from (site for site in sites(trial) if site.row is not None and _hopeful(site, left))

    def _extend(self, site: Site, left: int, seen: set[tuple[frozenset[Fix], int | None]]) -> None:
        """Try what helps at the site, and what helps further where that is not enough."""
        here = frozenset(site.trial.changes), site.row
        if here in seen:
            return
        seen.add(here)
        for change in (self.everywhere if site.row is None else self.ways)(site):
            if change in site.trial.changes or not _goes_with(change, site.trial) or not self._wanted(change):
                continue
            if self._over():
                return
            trial = self.trials.of((*site.trial.changes, change))
            if trial.works:
                self._keep(trial)
            elif left > 1 and trial.cycle is not None:
                for further in self._further(site, trial, left - 1):
                    self._extend(further, left - 1, seen)

    def _further(self, site: Site, trial: RemedyTrial, left: int) -> Iterable[Site]:
        """Where to go on: on the same node; after a change that is about no node on each, new ones among them."""
        if site.row is None:
            return self._starts(trial, left)
        further = Site(trial, site.row)
        return (further,) if _hopeful(further, left) else ()

    def _keep(self, trial: RemedyTrial) -> None:
        changes = frozenset(trial.changes)
        if any(frozenset(known.changes) <= changes for known in self.found):
            return
        fewer = [each for each in combinations(trial.changes, len(changes) - 1) if each]
        if not any(self.trials.of(each).works or (trial.nominated and self.trials.make_room(each)) for each in fewer):
            self.found.append(trial)

    def _wanted(self, fix: Fix) -> bool:
        """A pod for which the scheduler makes room anyhow needs no other class for that."""
        return self.wishes.allow(fix) and not (fix.kind == PREEMPTS and self.trials.make_room(()))

    def _over(self) -> bool:
        over = time.monotonic() > self._until or self.trials.replayed > MOST_TRIALS
        self.exhausted &= not over
        return over


def _goes_with(change: Fix, trial: RemedyTrial) -> bool:
    """Not with what creates the object that it changes: who adds a node adds the right one.

    Nor is a pod made more important than what runs on a node that comes for it.
    """
    created = {key for key, edit in trial.edits.items() if edit.before is None}
    kinds = {change.kind, *(each.kind for each in trial.changes)}
    return created.isdisjoint(edit.key for edit in change.edits) and not {PREEMPTS, ADDS} <= kinds


def _hopeful(site: Site, left: int) -> bool:
    """Whether so few changes may clear the node; what else is there may have to make room for an important pod."""
    return any(change.kind == PREEMPTS for change in site.trial.changes) or least_changes(site.refusals()) <= left
