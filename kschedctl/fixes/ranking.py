"""Order verified fixes from best to worst, and group fixes that do the same in different places.

Fixes that do harm once the changed pod template is rolled out are left out. Rollouts are replayed on demand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from kschedctl.api.objects import Struct
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.fixes.ways.neighbours import merge_scale_downs
from kschedctl.reports.remedy import Remedy
from kschedctl.text.counts import counted, join_words

if TYPE_CHECKING:
    from kschedctl.fixes.rollout_results import RolloutResult


_PRICES_BY_STEP = {price.name.lower(): price for price in Price}
"""The value of `Remedy.step` -> the price."""


class RankedFix(NamedTuple):
    """A set of changes that helps, with its variants."""

    trial: RemedyTrial
    variants: tuple[RemedyTrial, ...] = ()
    """Trials that do the same at other nodes or pods, or to a larger degree."""

    @property
    def alternative_places(self) -> tuple[str, ...]:
        """The other nodes or pods at which the variants make the same changes, without duplicates.

        If a variant makes changes at several places, these are joined by "and".
        """
        own_places = {fix.where for fix in self.trial.changes}
        # The same places in another order are no alternative to each other
        other_places: dict[frozenset[str], str] = {}
        for variant in self.variants:
            places = [fix.where for fix in variant.changes if fix.where not in own_places]
            other_places.setdefault(frozenset(places), " and ".join(places))
        return tuple(place for place in other_places.values() if place)


def rank_trials(trials: Iterable[RemedyTrial]) -> list[RankedFix]:
    """Group the trials into ranked fixes, and return these with the best first.

    Trials whose fixes belong to the same families are variants of the best of them. Fixes of one family pursue the same
    idea, for example at different nodes.
    """
    trials_by_family: dict[Hashable, list[RemedyTrial]] = {}
    for trial in sorted(trials, key=_build_rank_key):
        families = frozenset(fix.family for fix in trial.changes)
        trials_by_family.setdefault(families, []).append(trial)
    return [RankedFix(best, tuple(variants)) for best, *variants in trials_by_family.values()]


class _RankKey(NamedTuple):
    """The sort key of a trial, smallest for the best. Earlier fields decide before later ones."""

    needs_values: bool
    """True if the user has to fill in values before a fix can be applied."""
    prices: tuple[Price, ...]
    """The prices of the fixes in descending order, preceded by LOSS if the evictions lose something."""
    cost: float
    """The sum of the fixes' costs plus the number of evicted pods."""
    needs_operator: bool
    """True if a fix can only be made by the cluster's operator."""
    displaced_priority: float
    """The highest priority of the pods that the fixes move or remove, or minus infinity if there are none."""
    fewer_nodes: int
    """Minus the number of nodes that are feasible after the fixes."""
    text: str
    """The fixes in words, to break ties."""


class QueueResult(NamedTuple):
    """The outcome of a fix once all waiting pods are scheduled in the queue's order."""

    holds: bool
    """True if the target pod has a node in the end, without evictions that the costs of the fix do not name."""
    rivals: tuple[str, ...] = ()
    """The pods that take the room that the fix makes, if the fix does not hold."""
    other_node: str = ""
    """The node that the pod gets if it is none of those on which the pod fits alone with the fix, or ""."""
    preemption_node: str = ""
    """The node that the pod gets only by evicting `preemption_victims`, which the fix alone does not evict, or ""."""
    preemption_victims: tuple[str, ...] = ()
    """The pods that the target pod evicts to get `preemption_node`."""
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
        """True if the fix does not hold once all waiting pods are tried."""
        return self.result is not None and not self.result.holds


def move_holding_fixes_forward(ranked_fixes: Iterable[CheckedFix]) -> list[CheckedFix]:
    """Return the fixes, with each fix that holds in the queue moved ahead of better ranked fixes that fail there.

    A fix stays behind a failing fix if it is much more expensive or harms other pods.
    """
    ordered: list[CheckedFix] = []
    for fix in ranked_fixes:
        index = next((i for i, better in enumerate(ordered) if _overtakes_failing_fix(fix, better)), len(ordered))
        ordered.insert(index, fix)
    return ordered


def _overtakes_failing_fix(fix: CheckedFix, better_ranked: CheckedFix) -> bool:
    """Return whether a fix moves before a better ranked fix that fails in the queue.

    The fix has to hold in the queue and harm no other pods. A price of at most `Price.ROOM` is then enough. With a
    higher price, the fix may cost at most one step more than the better ranked fix, and may not have more changes.
    """
    holds = fix.result is not None and fix.result.holds
    if not better_ranked.fails or not holds or not harms_nobody(fix.ranked.trial):
        return False
    price = _get_highest_price(fix)
    if price <= Price.ROOM:
        return True
    has_no_more_changes = len(fix.ranked.trial.changes) <= len(better_ranked.ranked.trial.changes)
    return has_no_more_changes and price <= _get_highest_price(better_ranked) + 1


def _get_highest_price(fix: CheckedFix) -> Price:
    """Return the highest price among the changes of the fix."""
    return max(change.effective_price for change in fix.ranked.trial.changes)


def harms_nobody(trial: RemedyTrial) -> bool:
    """Return whether the changes evict no pod and lose nothing."""
    return not trial.nominated and all(fix.effective_price < Price.LOSS for fix in trial.changes)


def gives_up_guarantees(trial: RemedyTrial) -> bool:
    """Return whether the changes evict pods, lose something, or give up a guarantee of a workload or node.

    A new toleration gives up the reservation of nodes for other pods, unless the toleration was only forgotten.
    """
    uses_reserved_nodes = any(
        fix.kind == FixKind.TOLERATE and fix.effective_price > Price.CORRECTION for fix in trial.changes
    )
    is_expensive = any(fix.effective_price >= Price.GUARANTEE for fix in trial.changes)
    return bool(trial.nominated) or is_expensive or uses_reserved_nodes


def keeps_workload(trial: RemedyTrial) -> bool:
    """Return whether the changes only correct mistakes, wait or make room, so that the workload gives up nothing."""
    return all(fix.effective_price <= Price.ROOM for fix in trial.changes)


def needs_values(trial: RemedyTrial) -> bool:
    """Return whether the changes have fields whose values only the user knows, so that they are not verified."""
    return any(fix.needs_values for fix in trial.changes)


def is_manifest_correction(fix: Fix) -> bool:
    """Return whether the fix is a correction that the workload's author makes in the manifest."""
    return fix.effective_price == Price.CORRECTION and fix.by == "author"


def move_smallest_fix_first(fixes: Sequence[CheckedFix]) -> list[CheckedFix]:
    """Return the fixes with the fix that `explain` shows moved to the front.

    `explain` shows the best ranked of the few fixes that it considers, see `_find_fixes_for_explain`. The order is
    unchanged if it considers none, or if this fix does not hold in the queue or was not tried there.
    """
    shown = next(iter(_find_fixes_for_explain(fixes)), None)
    if shown is None or shown.result is None or not shown.result.holds:
        return list(fixes)
    return [shown, *(fix for fix in fixes if fix is not shown)]


def _find_fixes_for_explain(fixes: Sequence[CheckedFix]) -> list[CheckedFix]:
    """Return the fixes that `explain` considers, in the same order, or none if each fix harms other pods.

    These are the fixes with no more changes than the smallest fix that harms nobody. If all of them make the workload
    give up something, larger fixes that correct a mistake in the manifest are considered as well.
    """
    harmless_sizes = [len(fix.ranked.trial.changes) for fix in fixes if harms_nobody(fix.ranked.trial)]
    if not harmless_sizes:
        return []
    max_size = min(harmless_sizes)
    small_fixes = [fix for fix in fixes if len(fix.ranked.trial.changes) <= max_size]
    if any(keeps_workload(fix.ranked.trial) for fix in small_fixes):
        return small_fixes

    def is_considered(fix: CheckedFix) -> bool:
        """Return whether the fix is small or corrects a mistake in the manifest."""
        changes = fix.ranked.trial.changes
        return len(changes) <= max_size or any(map(is_manifest_correction, changes))

    return list(filter(is_considered, fixes))


def build_cost_key(changes: Iterable[Fix]) -> tuple[tuple[Price, ...], float]:
    """Return the sort key of the changes: their prices in descending order, then the sum of their costs."""
    fixes = tuple(changes)
    return tuple(sorted((fix.effective_price for fix in fixes), reverse=True)), sum(fix.cost for fix in fixes)


def get_trial_price(trial: RemedyTrial) -> Price:
    """Return the price of the trial's most expensive change, or LOSS if its evictions lose something."""
    prices, _ = build_cost_key(trial.changes)
    return Price.LOSS if trial.harm else prices[0]


def insert_autoscaler_fixes(remedies: Sequence[Remedy], fixes: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Return a pod's `remedies` with the autoscaler fixes inserted, each before the first remedy of a higher price.

    If there are autoscaler fixes, remedies that add nodes by hand are dropped: a corrected autoscaler adds the nodes.
    """
    if not fixes:
        return tuple(remedies)
    merged = [remedy for remedy in remedies if FixKind.ADD_NODE not in remedy.kinds]
    for fix in fixes:
        price = _get_remedy_price(fix)
        dearer_indexes = (index for index, remedy in enumerate(merged) if _get_remedy_price(remedy) > price)
        merged.insert(next(dearer_indexes, len(merged)), fix)
    return tuple(merged)


def _get_remedy_price(remedy: Remedy) -> Price:
    """Return the price that the remedy's `step` names, or the lowest price if the step is empty."""
    return _PRICES_BY_STEP.get(remedy.step, Price.PATIENCE)


def _build_rank_key(trial: RemedyTrial) -> _RankKey:
    """Return the sort key of a trial. The smallest key is the best.

    The criteria are, in this order: no values needed from the user, lower prices of the changes, a lower sum of their
    costs, no operator needed, a lower priority of the pods that are moved or removed, and more feasible nodes. Prices
    are compared in descending order. Harmful evictions add `Price.LOSS` to the prices, and each victim adds 1 to the
    costs. The text of the fixes only breaks ties.
    """
    fixes = trial.changes
    prices, cost = build_cost_key(fixes)
    displaced_priorities = [fix.displaced_priority for fix in fixes if fix.displaced_priority is not None]
    return _RankKey(
        needs_values=any(fix.needs_values for fix in fixes),
        prices=(Price.LOSS, *prices) if trial.harm else prices,
        cost=cost + len(trial.victims),
        needs_operator=any(fix.by == "operator" for fix in fixes),
        displaced_priority=max(displaced_priorities, default=-inf),
        fewer_nodes=-len(trial.feasible_or_nominated_nodes),
        text=" ".join(fix.text for fix in fixes),
    )


MOST_HARMFUL = 3
"""The most harmful changes that are reported."""


class Rollouts:
    """The rollouts of trials' changes, each replayed once and on demand."""

    def __init__(self, manifest: Struct | None = None) -> None:
        self._manifest = manifest
        # By the trial's id. The entry keeps the trial alive, so that its id stays unique.
        self._results: dict[int, tuple[RemedyTrial, RolloutResult | None]] = {}

    def replay(self, trial: RemedyTrial) -> RolloutResult | None:
        """Return the cached result of rolling out the trial's changes.

        The result is None if the trial neither changes a workload nor evicts a pod nor cordons a node, or if no other
        pod is affected.
        """
        if not trial.changes_workload and not trial.victims and not trial.cordoned_nodes:
            return None
        if id(trial) not in self._results:
            from kschedctl.fixes.rollout_replay import replay_rollout  # noqa: PLC0415 - not for a pod without a workload

            # The trial is stored with its result, so that no other object gets its id
            self._results[id(trial)] = trial, replay_rollout(trial, self._manifest)
        _trial, result = self._results[id(trial)]
        return result

    def is_harmless(self, trial: RemedyTrial) -> bool:
        """Return whether rolling out the trial's changes does no harm."""
        rolled_out = self.replay(trial)
        return rolled_out is None or not rolled_out.harm

    def find_sufficient_max_unavailable(self, kind: FixKind) -> int | None:
        """Return a maxUnavailable with which the harmful rollout of a single change of this kind completes, if any.

        The rollout then has a maxSurge of 0. Only rollouts that were replayed are considered.
        """
        for trial, result in self._results.values():
            find_limit = result.find_sufficient_max_unavailable if result is not None else None
            if find_limit is not None and [fix.kind for fix in trial.changes] == [kind]:
                return find_limit()
        return None

    def iter_harmful(self) -> Iterator[str]:
        """Yield a line for each of the first replayed changes that would do harm, with the reason.

        If other limits of a Deployment's rollout prevent the harm, the line names them. Changes whose rollout might
        complete with other limits come first, and only the first of each kind of these changes is reported.
        """
        harmful = [(trial, result) for trial, result in self._results.values() if result and result.harm]
        other_limits_by_kind: dict[tuple[FixKind, ...], tuple[RemedyTrial, RolloutResult]] = {}
        for trial, result in harmful:
            if result.find_sufficient_max_unavailable is not None:
                other_limits_by_kind.setdefault(tuple(fix.kind for fix in trial.changes), (trial, result))
        harmful = [
            *other_limits_by_kind.values(),
            *((trial, result) for trial, result in harmful if result.find_sufficient_max_unavailable is None),
        ]
        for trial, result in harmful[:MOST_HARMFUL]:
            changes = join_words([fix.text for fix in merge_scale_downs(trial.changes)])
            line = f"{changes}: {result.harm}"
            find_limit = result.find_sufficient_max_unavailable
            max_unavailable = find_limit() if find_limit is not None else None
            if max_unavailable is not None:
                line += f". With maxSurge 0 and maxUnavailable {max_unavailable:,}, the rollout completes, "
                if result.running_before == 0:
                    line += "and no running pod goes down, because none has a node now"
                else:
                    line += f"but up to {counted(max_unavailable, 'of its pods is', 'of its pods are')} down at a time"
            yield line

    def iter_harmless_fixes(self, best: Iterable[RankedFix]) -> Iterator[RankedFix]:
        """Yield each ranked fix with its harmless variants only, and leave out a fix if all its variants do harm.

        The rollouts of a fix are replayed only when the fix is requested from the iterator.
        """
        for candidate in best:
            harmless_trials = [trial for trial in (candidate.trial, *candidate.variants) if self.is_harmless(trial)]
            if harmless_trials:
                first, *variants = harmless_trials
                yield RankedFix(first, tuple(variants))
