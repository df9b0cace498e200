"""The order of remedies, and which of those that are alike is shown."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.reports.remedy import Remedy

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


class QueueResult(NamedTuple):
    """What happens after a fix once all waiting pods are tried in the queue's order."""

    holds: bool
    """Whether the pod has a node in the end."""
    rivals: tuple[str, ...] = ()
    """The pods that take the room that the fix makes, if the pod has no node in the end."""
    ahead: tuple[str, ...] = ()
    """The pods ahead in the queue that take part of the room, if the fix makes enough for all of them."""
    also_places: tuple[str, ...] = ()
    """The other waiting pods that get a node with the fix, and none without it."""


class CheckedFix(NamedTuple):
    """A fix that works for the pod alone, and what happens to it in the queue; None if that was not replayed."""

    ranked: Ranked
    result: QueueResult | None

    @property
    def fails(self) -> bool:
        """Whether the pod still waits once all waiting pods are tried."""
        return self.result is not None and not self.result.holds


def holding_first(fixes: Iterable[CheckedFix]) -> list[CheckedFix]:
    """Put fixes that hold in the queue before those that do not, unless they are worse in another way."""
    ordered: list[CheckedFix] = []
    for fix in fixes:
        place = next((at for at, other in enumerate(ordered) if _goes_before(fix, other)), len(ordered))
        ordered.insert(place, fix)
    return ordered


def _goes_before(fix: CheckedFix, other: CheckedFix) -> bool:
    """Return whether a fix that holds goes before a better ranked one that does not.

    It does if it harms nobody and either leaves the workload as it is, or is no larger and at most one step dearer.
    """
    if not other.fails or fix.result is None or not fix.result.holds or not harms_nobody(fix.ranked.trial):
        return False
    price, other_price = _dearest(fix), _dearest(other)
    no_larger = len(fix.ranked.trial.changes) <= len(other.ranked.trial.changes)
    return price <= Price.ROOM or (no_larger and price <= other_price + 1)


def _dearest(fix: CheckedFix) -> Price:
    return max(change.paid for change in fix.ranked.trial.changes)


def harms_nobody(trial: RemedyTrial) -> bool:
    """Return whether no pod is evicted, and nothing is lost, for the pod."""
    return not trial.nominated and all(fix.paid < Price.LOSS for fix in trial.changes)


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
