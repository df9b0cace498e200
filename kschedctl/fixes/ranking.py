"""Order verified fixes from best to worst, and group fixes that do the same in different places."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.reports.remedy import Remedy

_PRICES_BY_STEP = {price.name.lower(): price for price in Price}
"""The value of `Remedy.step` -> the price."""


class RankedFix(NamedTuple):
    """A set of changes that helps, with its variants."""

    trial: RemedyTrial
    others: tuple[RemedyTrial, ...] = ()
    """Trials that do the same at other nodes or pods, or to a larger degree."""

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Names of other nodes or pods with which the same changes would help."""
        own_places = {fix.where for fix in self.trial.changes}
        other_places = [
            " and ".join(fix.where for fix in other.changes if fix.where not in own_places) for other in self.others
        ]
        return tuple(dict.fromkeys(place for place in other_places if place))


def rank_trials(trials: Iterable[RemedyTrial]) -> list[RankedFix]:
    """Rank the trials, best first. Variants of the same changes become alternatives of the best variant."""
    trials_by_family: dict[Hashable, list[RemedyTrial]] = {}
    for trial in sorted(trials, key=_build_rank_key):
        families = frozenset(fix.family for fix in trial.changes)
        trials_by_family.setdefault(families, []).append(trial)
    return [RankedFix(first, tuple(others)) for first, *others in trials_by_family.values()]


class QueueResult(NamedTuple):
    """The outcome of a fix once all waiting pods are tried in the queue's order."""

    holds: bool
    """Whether the pod has a node in the end."""
    rivals: tuple[str, ...] = ()
    """The pods that take the room that the fix makes, if the pod has no node in the end."""
    ahead: tuple[str, ...] = ()
    """The pods ahead in the queue that take part of the room, if the fix makes enough for all of them."""
    also_places: tuple[str, ...] = ()
    """The other waiting pods that get a node only with the fix."""
    waiting_siblings: int = 0
    """The number of the workload's other pods that still have no node, if the pod has one."""


class CheckedFix(NamedTuple):
    """A fix that helps the pod alone, with its outcome in the queue."""

    ranked: RankedFix
    result: QueueResult | None
    """The result in the queue, or None if it was not replayed."""

    @property
    def fails(self) -> bool:
        """Whether the pod still waits after all waiting pods are tried."""
        return self.result is not None and not self.result.holds


def sort_holding_first(fixes: Iterable[CheckedFix]) -> list[CheckedFix]:
    """Sort fixes that hold in the queue before those that do not, unless they are worse in another way."""
    ordered: list[CheckedFix] = []
    for fix in fixes:
        index = next((i for i, other in enumerate(ordered) if _goes_before(fix, other)), len(ordered))
        ordered.insert(index, fix)
    return ordered


def _goes_before(fix: CheckedFix, other: CheckedFix) -> bool:
    """Return whether a fix is moved before a better ranked one because the better one fails in the queue.

    The fix has to hold in the queue and harm no other pods. Besides, it has to cost at most `Price.ROOM`, or have no
    more changes than the other fix and a price that is at most one step higher.
    """
    if not other.fails or fix.result is None or not fix.result.holds or not harms_nobody(fix.ranked.trial):
        return False
    price = _get_highest_price(fix)
    if price <= Price.ROOM:
        return True
    has_no_more_changes = len(fix.ranked.trial.changes) <= len(other.ranked.trial.changes)
    return has_no_more_changes and price <= _get_highest_price(other) + 1


def _get_highest_price(fix: CheckedFix) -> Price:
    """Return the highest price among the changes of the fix."""
    return max(change.effective_price for change in fix.ranked.trial.changes)


def harms_nobody(trial: RemedyTrial) -> bool:
    """Return whether the changes evict no pod and lose nothing."""
    return not trial.nominated and all(fix.effective_price < Price.LOSS for fix in trial.changes)


def build_cost_key(changes: Iterable[Fix]) -> tuple[tuple[Price, ...], float]:
    """Return the sort key of the changes: their prices in descending order, then the sum of their costs."""
    fixes = tuple(changes)
    return tuple(sorted((fix.effective_price for fix in fixes), reverse=True)), sum(fix.cost for fix in fixes)


def get_trial_price(trial: RemedyTrial) -> Price:
    """Return the price of the trial's most expensive change, or LOSS if evictions lose something."""
    prices, _ = build_cost_key(trial.changes)
    return Price.LOSS if trial.harm else prices[0]


def insert_autoscaler_fixes(remedies: Sequence[Remedy], fixes: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Insert autoscaler fixes among a pod's fixes, each before the first fix of a higher price.

    Fixes that add nodes by hand are dropped, as a corrected autoscaler adds them itself.
    """
    if not fixes:
        return tuple(remedies)
    merged = [remedy for remedy in remedies if FixKind.ADD_NODE not in remedy.kinds]
    for fix in fixes:
        price = _PRICES_BY_STEP[fix.step]
        dearer_indexes = (i for i, remedy in enumerate(merged) if _PRICES_BY_STEP.get(remedy.step, 0) > price)
        merged.insert(next(dearer_indexes, len(merged)), fix)
    return tuple(merged)


def _build_rank_key(trial: RemedyTrial) -> tuple[bool, tuple[Price, ...], float, bool, int, str]:
    """Return the sort key of a trial, smallest for the best.

    Complete changes come before those that need values. Then prices, costs, the person, and the number of nodes decide.
    """
    fixes = trial.changes
    prices, cost = build_cost_key(fixes)
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
