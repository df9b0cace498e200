"""A cluster in which pods move one by one as a plan has it, each to the node that kube-scheduler chooses.

The node that a pod leaves is cordoned while pods are evicted from it, and a node that is emptied for the pods that are
to fit is so from the very beginning: nobody comes back to where room is made, whenever the controller makes the pod
again. A step is taken only where its budget allows it and the pod gets a node at once, without preemption.

Where evicted pods terminate slowly those that are created instead are tried while they are still there.

Pods that wait are in the queue meanwhile. What a step changes wakes them, and nobody decides whether they are tried
before the pod that is made again or after it: plans are played in both orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Node
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.edits import cordon_node
from kschedctl.replay.settling import recreate_gone
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork


class PlayedMove(NamedTuple):
    """A pod that left the node ``source`` for ``target``, one of ``tied`` that are equally good."""

    position: Position
    source: Row
    target: Row
    tied: int


@dataclass(frozen=True)
class Rehearsal:
    """``view``: the cluster as it is now, which moves change; ``nodes``: its nodes as they are without the plan.

    ``cordoned``: those that the plan keeps cordoned now; ``seed`` decides between nodes that are equally good.
    ``waiting``: the pods that are tried whenever something has changed, ``first``: before the pod that is made again.
    ``lingering``: pods that do not go at once, and the position that each has while it terminates.
    """

    scheduler: Scheduler
    view: Fork
    nodes: Sequence[Node]
    cordoned: frozenset[Row] = frozenset()
    seed: int = 0
    waiting: tuple[Position, ...] = ()
    first: bool = False
    lingering: Mapping[Position, Position] = field(default_factory=dict)

    def cordoning(self, rows: frozenset[Row]) -> Rehearsal:
        """A copy in which these are the nodes that the plan keeps cordoned."""
        changes = {row: self.nodes[row] for row in self.cordoned - rows}
        changes |= {row: cordon_node(self.nodes[row]) for row in rows - self.cordoned}
        view = self.view.changed(self.view.cluster, changes) if changes else self.view.fork()
        return replace(self, view=view, cordoned=rows)

    def without(self, position: Position) -> Rehearsal:
        """A copy in which the pod waits for a node."""
        stage = replace(self, view=self.view.fork())
        stage.simulation().take_down([position])
        return stage

    def simulation(self) -> Simulation:
        return Simulation(self.scheduler, self.view, seed=self.seed)

    def move(self, positions: Sequence[Position]) -> list[PlayedMove] | None:
        """Evict the pods one after the other, each when the one before it has its node; None where that is not safe."""
        simulation = self.simulation()
        evictions, moved = Evictions(simulation), list[PlayedMove]()
        self._try_waiting(simulation)
        for position in positions:
            if self.view.node[position] < 0 or evictions.find_denial(position):
                return None
            source = Row(int(self.view.node[position]))
            evictions.evict(position)
            outcome = self._replaced(simulation, position, source)
            if outcome is None or outcome.row < 0 or outcome.victims:
                return None
            evictions.count_recovery(position)
            moved.append(PlayedMove(position, source, outcome.row, outcome.tied))
            self._try_waiting(simulation)
        return moved

    def _replaced(self, simulation: Simulation, position: Position, source: Row) -> Outcome | None:
        """What becomes of the pod that is made instead of one that was evicted from a node."""
        leaving = self.lingering.get(position)
        if leaving is not None:
            self.view.assume(leaving, source)
        if self.first:
            self._try_waiting(simulation)
        outcome = simulation.attempt(position) if recreate_gone(simulation, [position]) else None
        if leaving is not None:
            self.view.forget(leaving)
            outcome = outcome or simulation.attempt(position)
        return outcome

    def _try_waiting(self, simulation: Simulation) -> None:
        """Whoever waits takes what is free; whom they would preempt is asked in the end."""
        if idle := self._idle:
            simulation.preemption = False
            simulation.schedule(idle)
            simulation.preemption = True

    @property
    def _idle(self) -> list[Position]:
        return [position for position in self.waiting if self.view.node[position] < 0]

    def placed(self) -> dict[Position, Row] | None:
        """Where all go that wait, -1 for nowhere; None where somebody would have to go for one of them."""
        outcomes = self.simulation().schedule(self._idle)
        if any(outcome.victims for outcome in outcomes):
            return None
        return {position: Row(int(self.view.node[position])) for position in self.waiting}


def play(
    stage: Rehearsal, plan: Sequence[Position], emptied: frozenset[Row]
) -> tuple[Rehearsal, list[PlayedMove]] | None:
    """The cluster after the moves of a plan, the ``emptied`` nodes still cordoned; None where a step is not safe."""
    after, moved = stage.cordoning(emptied), list[PlayedMove]()
    for source, positions in groupby(plan, lambda position: Row(int(stage.view.node[position]))):
        after = after.cordoning(emptied | {source})
        done = after.move(list(positions))
        if done is None:
            return None
        moved += done
    return after.cordoning(emptied), moved
