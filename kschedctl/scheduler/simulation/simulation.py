"""Pods through the scheduling queue, one after the other, on a copy of the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.arrays import Position
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.rejectors import Rejectors
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.attempts import Attempts
from kschedctl.scheduler.simulation.outcome import NOT_TRIED, UNSCHEDULABLE, Outcome, Progress, RecreationRule
from kschedctl.scheduler.simulation.settling_loop import SettlingLoop
from kschedctl.snapshot.fork import Fork


class Simulation(Attempts):
    """A fork of a scheduler's snapshot on which pods come and go, one by one or as the queue has them.

    ``retried``: the pods that were tried again, and the label of the event before each time. ``recreation``: when
    controllers recreate the pods that preemption evicts; None: evicted pods stay gone until somebody adds them again.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        view: Fork | None = None,
        *,
        seed: int = 0,
        sampling: SampledFrom | None = None,
        preemption: bool = True,
        recreation: RecreationRule | None = None,
    ) -> None:
        super().__init__(scheduler, view, seed=seed, sampling=sampling, preemption=preemption)
        self.recreation = recreation
        self.interrupted = False
        self.retried: dict[Position, list[str]] = {}

    def run(self, positions: Iterable[Position]) -> list[Outcome]:
        """Schedule the pods in the order of the queue; their outcomes in the order in which they came about.

        Those that fit nowhere come last. When it is interrupted the rest was not tried, and ``interrupted`` is set.
        """
        return self.explained(self.schedule(positions))

    @without_garbage_collection()
    def schedule(self, positions: Iterable[Position], progress: Progress | None = None) -> list[Outcome]:
        """Run without the reasons of pods that fit nowhere, which cost more than all the rest."""
        outcomes: list[Outcome] = []
        waiting = list(positions)
        verdict, loop = UNSCHEDULABLE, SettlingLoop(self, waiting, outcomes, self.recreation)
        try:
            loop.run(self.retried, progress or (lambda _: None))
        except KeyboardInterrupt:
            self.interrupted, verdict = True, NOT_TRIED
        finally:
            loop.close()
        evicted = {position for position in loop.recreated if self.view.node[position] < 0}
        done = {outcome.position for outcome in outcomes if outcome.row < 0 or outcome.position not in evicted}
        unplaced = dict.fromkeys((*waiting, *loop.recreated))
        left = [position for position in self.queue(unplaced) if position not in done]
        return outcomes + [Outcome(position, verdict, victims=self.victims.get(position, ())) for position in left]

    def explained(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes, with why pods fit nowhere as things are now, where it is not said."""
        return self.failures.explained(outcomes)

    def rejectors(self, position: Position) -> Rejectors:
        """The plugins that refuse a pod that fits nowhere now."""
        return self.failures.rejectors(position)

    def message(self, position: Position) -> str:
        """Why a pod fits nowhere now, as kube-scheduler says it."""
        return self.failures.message(position)

    def cycle(self, position: Position) -> Cycle:
        """The full cycle of a pod as things are now."""
        return self.placements.cycle(self.require_framework(position), position)
