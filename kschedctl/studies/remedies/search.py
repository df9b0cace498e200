"""The search for remedies: smallest sets of changes first, each replayed, none with a change that is not needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from kschedctl.studies.remedies.changes import Fix
from kschedctl.studies.remedies.targets import Site, least_changes, sites
from kschedctl.studies.remedies.trials import RemedyTrial, Trials

Ways = Callable[[Site], Iterable[Fix]]
"""The changes that might help at a site: what they address is the first thing that stands against the node there."""
MOST_TRIALS = 2000


@dataclass
class RemedySearch:
    """``everywhere``: changes that do not depend on a node. ``exhausted``: nothing was left out for want of time."""

    trials: Trials
    ways: Ways
    everywhere: Ways
    seconds: float = 5.0
    found: list[RemedyTrial] = field(default_factory=list)
    exhausted: bool = True

    def run(self, most: int, *, enough: bool = False) -> list[RemedyTrial]:
        """All minimal sets of up to so many changes; where the smallest are ``enough``, none that is larger."""
        self._until = time.monotonic() + self.seconds
        for size in range(1, most + 1):
            seen: set[tuple[frozenset[Fix], int | None]] = set()
            for site in self._starts(self.trials.base, size):
                self._extend(site, size, seen)
            if enough and self.found:
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
            if change in site.trial.changes or _of_new_object(change, site.trial):
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
        if all(not self.trials.of(fewer).works for fewer in combinations(trial.changes, len(changes) - 1) if fewer):
            self.found.append(trial)

    def _over(self) -> bool:
        over = time.monotonic() > self._until or self.trials.replayed > MOST_TRIALS
        self.exhausted &= not over
        return over


def _of_new_object(change: Fix, trial: RemedyTrial) -> bool:
    """Whether it changes what an earlier change creates: who adds a node adds the right one."""
    return any(edit.key in trial.edits and trial.edits[edit.key].before is None for edit in change.edits)


def _hopeful(site: Site, left: int) -> bool:
    return least_changes(site.refusals()) <= left
