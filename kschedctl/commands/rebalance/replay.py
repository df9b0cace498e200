"""Evictions that the descheduler asks for, carried out one by one: the pod goes, and its successor is placed.

The successor is tried while the pod still terminates on its node, and once more when that is over, if it fits nowhere.
Those of StatefulSets come when the pod is gone.

Then those are tried that waited before, as the eviction wakes them; whoever fits is there from then on.

What would do harm is left out of the plan and told: a pod that nobody recreates, one that fits nowhere then, and what a
PodDisruptionBudget forbids. Within a round budgets do not recover, as the descheduler does not wait for successors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.commands.rebalance.lingering import LingeringPods
from kschedctl.replay.controllers.eviction import Evictions, job_would_fail
from kschedctl.replay.edits import is_recreated
from kschedctl.replay.settling import find_pending, recreate_gone
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

ENDS_JOB = "its Job allows no more failed pods (backoffLimit)"
LOST, HOMELESS, BUDGET = "nothing recreates it", "it fits nowhere else", "PodDisruptionBudget"
REASONS_TOLD = 25
"""Of so many pods that fit nowhere the reason is asked for."""


class PlayedEviction(NamedTuple):
    """A pod that left ``source`` for ``target``, one of ``tied`` that are equally good, as a plugin wants it.

    ``again``: it had come there by an eviction of this plan.
    """

    round: int
    plugin: str
    position: Position
    source: Row
    target: Row
    tied: int
    again: bool


@dataclass
class EvictionReplay:
    """``simulation``: the cluster as it is by now, with all placed that waited and fit. ``came`` (P,): the pods that
    came to where they are by an eviction; ``spent``: those of this round, of which the budgets still lack one.
    ``lingering``: the pods that terminate; ``waiting``: who waits from the beginning; ``placed``: where those of them
    are that got a node.
    """

    simulation: Simulation
    came: Bools
    evictions: Evictions
    lingering: LingeringPods
    round: int = 0
    played: list[PlayedEviction] = field(default_factory=list)
    spent: list[Position] = field(default_factory=list)
    reasons: dict[Position, str] = field(default_factory=dict)
    waiting: list[Position] = field(default_factory=list)
    placed: dict[Position, Row] = field(default_factory=dict)

    @classmethod
    def of(cls, scheduler: Scheduler, seed: int, lingering: dict[str, str]) -> EvictionReplay:
        """``lingering``: as for LingeringPods. Raises KeyboardInterrupt."""
        simulation = Simulation(scheduler, seed=seed, preemption=False)
        slow = LingeringPods.taken_off(simulation.view, lingering)
        simulation.schedule(find_pending(simulation))
        if simulation.interrupted:
            raise KeyboardInterrupt
        replay = cls(simulation, np.zeros(len(simulation.view.pods), np.bool_), Evictions(simulation), slow)
        replay.waiting = find_pending(simulation)
        return replay

    def begin(self) -> None:
        """Another round: the successors of the one before run, and count for their budgets."""
        for position in self.spent:
            self.evictions.count_recovery(position)
        self.spent = []
        self.round += 1

    def carry_out(self, position: Position, plugin: str) -> str:
        """Evict a pod and place its successor; why not, if that does harm."""
        if refusal := self.evictions.find_denial(position):
            return refusal
        if not is_recreated(self.simulation.view.pods.objects[position]):
            return LOST
        if job_would_fail(self.simulation.view.pods.objects[position], self.simulation.view.objects):
            return ENDS_JOB
        source = Row(int(self.simulation.view.node[position]))
        outcome = self._replaced(position, source)
        if outcome is None or outcome.row < 0:
            return self._undone(position, source, outcome.message if outcome else "")
        self.evictions.count_eviction(position)
        self.spent.append(position)
        again = bool(self.came[position])
        self.came[position] = True
        self.played.append(PlayedEviction(self.round, plugin, position, source, outcome.row, outcome.tied, again))
        self._try_waiting()
        return ""

    def _replaced(self, position: Position, source: Row) -> Outcome | None:
        """What becomes of the pod that is created instead of one that is evicted from a node."""
        self.simulation.take_down([position])
        recreate_gone(self.simulation, [position])
        leaving = self.lingering.stay(position, source)
        outcome = self.simulation.attempt(position)
        if leaving is None:
            return outcome
        self.lingering.go(leaving)
        return outcome if outcome is not None and outcome.row >= 0 else self.simulation.attempt(position)

    def _try_waiting(self) -> None:
        if self.waiting:
            outcomes = self.simulation.schedule(self.waiting)
            self.placed |= {outcome.position: outcome.row for outcome in outcomes if outcome.row >= 0}
            self.waiting = [position for position in self.waiting if position not in self.placed]

    def _undone(self, position: Position, source: Row, message: str) -> str:
        """The pod stays where it is; why its successor fits nowhere."""
        if not message and len(self.reasons) < REASONS_TOLD and self.simulation.framework(position):
            message = self.simulation.message(position)
        try:
            self.simulation.bind(position, source)
        except PluginError:  # what it held is not to be had again: it stays all the same
            self.simulation.view.assume(position, source)
        if message:
            self.reasons[position] = message.partition(". ")[0]
        return HOMELESS

    def placement(self) -> int:
        """Equal where as many pods alike are on each node."""
        view = self.simulation.view
        return hash(np.sort(view.pods.info.astype(np.int64) * (len(view.nodes) + 1) + view.node + 1).tobytes())
