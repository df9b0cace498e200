"""The order of remedies, and which of those that are alike is shown."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from kschedctl.studies.remedies.fixes.changes import Fix
from kschedctl.studies.remedies.fixes.prices import Price
from kschedctl.studies.remedies.fixes.trials import RemedyTrial


class Ranked(NamedTuple):
    """A set of changes that works, and others that do the same elsewhere, or more of the same."""

    trial: RemedyTrial
    others: tuple[RemedyTrial, ...] = ()

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The names of where the same would do as well."""
        own = {fix.where for fix in self.trial.changes}
        names = (" and ".join(fix.where for fix in other.changes if fix.where not in own) for other in self.others)
        return tuple(dict.fromkeys(filter(None, names)))


def ranked(trials: Iterable[RemedyTrial]) -> list[Ranked]:
    """The best first; of those that do the same elsewhere, or more than the least of them, the best alone."""
    alike: dict[Hashable, list[RemedyTrial]] = {}
    for trial in sorted(trials, key=_rank):
        alike.setdefault(frozenset(fix.family for fix in trial.changes), []).append(trial)
    return [Ranked(first, tuple(others)) for first, *others in alike.values()]


def dearness(changes: Iterable[Fix]) -> tuple[tuple[Price, ...], float]:
    """By which sets of changes are ordered: what is paid for each, the dearest first, and how much they are."""
    fixes = tuple(changes)
    return tuple(sorted((fix.paid for fix in fixes), reverse=True)), sum(fix.cost for fix in fixes)


def _rank(trial: RemedyTrial) -> tuple[bool, tuple[Price, ...], float, bool, int, str]:
    """Return the sort key: complete changes before those that need values, then by price, size, author and nodes."""
    fixes = trial.changes
    prices, cost = dearness(fixes)
    if trial.harm:
        prices = (Price.LOSS, *prices)
    return (
        any(fix.needs_values for fix in fixes),
        prices,
        cost + len(trial.victims),
        any(fix.by == "operator" for fix in fixes),
        -len(trial.opens),
        " ".join(fix.text for fix in fixes),
    )
