"""The order of remedies, and which of those that are alike is shown."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from kschedctl.reports.remedies import Remedy
from kschedctl.studies.remedies.fixes.changes import Fix
from kschedctl.studies.remedies.fixes.prices import Price
from kschedctl.studies.remedies.fixes.trials import RemedyTrial

_STEPS = {price.name.lower(): price for price in Price}


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


def step_of(trial: RemedyTrial) -> Price:
    """Return what the dearest of the changes costs."""
    prices, _ = dearness(trial.changes)
    return Price.LOSS if trial.harm else prices[0]


def with_autoscaler_fixes(remedies: Sequence[Remedy], fixes: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Return the fixes of a pod in their order, each fix of an autoscaler before the first that costs a dearer step.

    An autoscaler that can be put right adds the nodes itself, so nodes that somebody adds by hand are left out.
    """
    if not fixes:
        return tuple(remedies)
    together = [remedy for remedy in remedies if "AddNode" not in remedy.kinds]
    for fix in fixes:
        dearer = (place for place, known in enumerate(together) if _STEPS.get(known.step, 0) > _STEPS[fix.step])
        together.insert(next(dearer, len(together)), fix)
    return tuple(together)


def _rank(trial: RemedyTrial) -> tuple[tuple[Price, ...], float, bool, int, str]:
    """The cheapest first; then the smaller changes, the author's, those that open more."""
    fixes = trial.changes
    prices, cost = dearness(fixes)
    if trial.harm:
        prices = (Price.LOSS, *prices)
    return (
        prices,
        cost + len(trial.victims),
        any(fix.by == "operator" for fix in fixes),
        -len(trial.opens),
        " ".join(fix.text for fix in fixes),
    )
