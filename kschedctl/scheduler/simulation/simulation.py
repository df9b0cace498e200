"""Simulation: pods go through the scheduling queue one after another, on a copy of the cluster."""

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
    """A fork of a scheduler's snapshot on which pods are scheduled one by one or in the order of the queue."""

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
        """Schedule the pods in the order of the queue, and return their outcomes in the order in which they arose.

        Pods that fit nowhere come last. After an interrupt `interrupted` is set, and the remaining pods were not tried.
        """
        return self.explain(self.schedule(positions))

    @without_garbage_collection()
    def schedule(self, positions: Iterable[Position], progress: Progress | None = None) -> list[Outcome]:
        """Schedule the pods without explaining those that fit nowhere, since explanations cost more than everything
        else.
        """
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
        unplaced_in_order = [position for position in self.sort_for_queue(unplaced) if position not in done]
        return outcomes + [
            Outcome(position, verdict, victims=self.victims.get(position, ())) for position in unplaced_in_order
        ]

    def explain(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Return the outcomes with a message for every pod that fits nowhere now."""
        return self.failures.explain(outcomes)

    def find_rejectors(self, position: Position) -> Rejectors:
        """Return the plugins that reject a pod that fits nowhere now."""
        return self.failures.find_rejectors(position)

    def build_message(self, position: Position) -> str:
        """Return kube-scheduler's message for a pod that fits nowhere now."""
        return self.failures.build_message(position)

    def run_cycle(self, position: Position) -> Cycle:
        """Return the full scheduling cycle of a pod in the current state."""
        return self.placements.run_cycle(self.require_framework(position), position)
