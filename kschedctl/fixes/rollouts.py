"""Find the fixes that do no harm once the changed pod template is rolled out, by replaying rollouts on demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kschedctl.api.objects import Struct
from kschedctl.fixes.ranking import RankedFix
from kschedctl.fixes.trial.trials import RemedyTrial

if TYPE_CHECKING:
    from kschedctl.fixes.rollout_replay import RolloutResult

MOST_HARMFUL = 3
"""The most harmful changes that are reported."""


class Rollouts:
    """The rollouts of trials' changes, each replayed once and on demand."""

    def __init__(self, manifest: Struct | None = None) -> None:
        self._manifest = manifest
        # By the trial's id. The entry keeps the trial alive, so that its id stays unique.
        self._results: dict[int, tuple[RemedyTrial, RolloutResult | None]] = {}

    def replay(self, trial: RemedyTrial) -> RolloutResult | None:
        """Return the result of rolling out the trial's changes, which is cached.

        The result is None if no other pod has the changed template and no pod is evicted.
        """
        if not trial.changes_workload and not trial.victims:
            return None
        if id(trial) not in self._results:
            from kschedctl.fixes.rollout_replay import replay_rollout  # noqa: PLC0415 - not for a pod without a workload

            self._results[id(trial)] = trial, replay_rollout(trial, self._manifest)
        _, result = self._results[id(trial)]
        return result

    def is_harmless(self, trial: RemedyTrial) -> bool:
        """Return whether rolling out the trial's changes does no harm."""
        rolled_out = self.replay(trial)
        return rolled_out is None or not rolled_out.harm

    def iter_harmful(self) -> Iterator[str]:
        """Yield a line for each of the first replayed changes that would do harm, with the reason."""
        harms = [(trial, result.harm) for trial, result in self._results.values() if result and result.harm]
        for trial, harm in harms[:MOST_HARMFUL]:
            yield f"{' and '.join(fix.text for fix in trial.changes)}: {harm}"

    def iter_harmless_fixes(self, best: Iterable[RankedFix]) -> Iterator[RankedFix]:
        """Yield each ranked fix with its harmless variants only, and leave out a fix if all its variants do harm.

        The rollouts of a fix are replayed only when the fix is requested from the iterator.
        """
        for candidate in best:
            harmless_trials = [trial for trial in (candidate.trial, *candidate.variants) if self.is_harmless(trial)]
            if harmless_trials:
                first, *variants = harmless_trials
                yield RankedFix(first, tuple(variants))
