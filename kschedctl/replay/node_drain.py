"""The eviction of all pods of cordoned nodes, as part of several answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import find_owner
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.return_order import order_of_return
from kschedctl.replay.settling import come_back
from kschedctl.reports.drained_pods import BlockedPod, MovedPod
from kschedctl.reports.not_created import NotCreated
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

STAYING = ("DaemonSet", "Node")


def moved_pods(draining: Draining) -> Iterator[MovedPod]:
    """The evicted pods that have another node now."""
    pods, names = draining.simulation.view.pods.objects, draining.simulation.view.nodes.names
    returned = set(draining.returned())
    for position, outcome in draining.outcomes.items():
        if outcome.row >= 0 and position not in returned:
            pod = pods[position]
            yield MovedPod(pod.key, str(find_owner(pod)), pod.spec.node_name, names[outcome.row], outcome.tied)


@dataclass
class Draining:
    """The eviction of what is on some nodes of a simulation in which they are cordoned. Pods are positions.

    ``outcomes``: what became of the successors of the pods that were evicted, also of those that ``preempting`` ones
    drove away. ``abreast``: evictions go on side by side, and it decides the order in which successors come; without it
    one pod goes after the other. ``refused``: pods whose successors the API server does not create, and its words
    (only with ``admissions``). ``evictions``: the budgets, where they are known.
    """

    simulation: Simulation
    nodes: Sequence[str]
    abreast: Random | None = None
    admissions: Admissions | None = None
    refused: dict[Position, Sequence[str]] = field(default_factory=dict)
    evictable: dict[Position, None] = field(default_factory=dict)
    lost: list[Position] = field(default_factory=list)
    staying: int = 0
    outcomes: dict[Position, Outcome] = field(default_factory=dict)
    preempting: list[Outcome] = field(default_factory=list)
    evictions: Evictions | None = None

    def __post_init__(self) -> None:
        view = self.simulation.view
        self._evictions = self.evictions or Evictions(self.simulation)
        for name in self.nodes:
            for position in view.pods_on(view.nodes.index[name]):
                if find_owner(view.pods.objects[position]).kind in STAYING:
                    self.staying += 1
                else:
                    self.evictable[position] = None

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """What may be evicted is up to the budgets, where there is something to evict."""
        asked = self.evictable or self.outcomes or self.lost
        return (Dependency("PodDisruptionBudget", Effect.EITHER),) if asked else ()

    def run(self, done: Callable[[int], None] = lambda number: None) -> None:
        """Evict what may be evicted and place it, again and again until nothing moves."""
        try:
            while self._evict_all(done) or self._place(self._waiting()):
                pass
        except KeyboardInterrupt:
            self.simulation.interrupted = True
        else:
            self._settle()

    def _settle(self) -> None:
        """Those that wait pass the queue in the end."""
        self.outcomes |= {outcome.position: outcome for outcome in self.simulation.run(self._waiting())}

    def _waiting(self) -> list[Position]:
        return [position for position, outcome in self.outcomes.items() if outcome.row < 0]

    def _evict_all(self, done: Callable[[int], None]) -> bool:
        """Whether one of them could be evicted."""
        before, came = len(self.evictable), list[Position]()
        for position in self._in_turn(self.evictable):
            if position in self.evictable and not self._evictions.find_denial(position):
                came += self._evict(position)
                if self.abreast is None:  # so that budgets recover as soon as they can
                    self._place(came)
                    came = []
                done(1)
        if came:
            self._place(came)
        return len(self.evictable) < before

    def _in_turn(self, positions: Iterable[Position]) -> list[Position]:
        """In the order of the cluster, or one of the orders in which they may come."""
        return list(positions) if self.abreast is None else order_of_return(self.simulation, positions, self.abreast)

    def blocked(self) -> list[BlockedPod]:
        """The pods that may not be evicted."""
        pods = self.simulation.view.pods.objects
        return [
            BlockedPod(
                pod=pods[position].key,
                workload=str(find_owner(pods[position])),
                node=pods[position].spec.node_name,
                why=why,
                budgets=self._evictions.find_budgets(position),
                unhealthy=self._evictions.unhealthy_pods(position),
            )
            for position in self.evictable
            if (why := self._evictions.find_denial(position))
        ]

    def returned(self) -> list[Position]:
        """The evicted pods that have one of the drained nodes again, as they tolerate that it is cordoned."""
        drained = {self.simulation.view.nodes.index[name] for name in self.nodes}
        return [position for position, outcome in self.outcomes.items() if outcome.row in drained]

    def _evict(self, position: Position) -> list[Position]:
        """One pod goes; its successor, if somebody makes one."""
        pod = self.simulation.view.pods.objects[position]
        del self.evictable[position]
        self._evictions.evict(position)
        back = self._come_back([position])
        if not back and position not in self.refused and pod.metadata.deletion_timestamp is None:
            self.lost.append(position)
        return back

    def _come_back(self, positions: Iterable[Position]) -> list[Position]:
        """Pods that somebody recreates, as far as the API server lets them; the others stay gone."""
        back = []
        for position in come_back(self.simulation, positions):
            pod = self.simulation.view.pods.objects[position]
            if self.admissions and (refused := list(self.admissions.iter_denied_replacements([pod]))):
                self.simulation.gone.add(position)
                self.refused[position] = refused[0][1]
                self.outcomes.pop(position, None)
            else:
                back.append(position)
        return back

    def not_created(self) -> list[NotCreated]:
        """The workloads that lack pods as their successors are refused."""
        pods = self.simulation.view.pods.objects
        again = [pods[position] for position in self.outcomes]
        refused = [(pods[position], why) for position, why in self.refused.items()]
        return self.admissions.report_denied_replacements(again, refused) if self.admissions else []

    def _place(self, positions: Sequence[Position]) -> bool:
        """Whether one of them got a node."""
        moved = False
        for position in self.simulation.queue(self._in_turn(positions)):
            outcome = self._attempt(position)
            self.outcomes[position] = outcome
            if outcome.row >= 0:
                moved = True
                self._evictions.count_recovery(position)
                self._preempted(outcome)
        return moved

    def _attempt(self, position: Position) -> Outcome:
        return self.simulation.attempt(position) or Outcome(position, UNSCHEDULABLE)

    def _preempted(self, outcome: Outcome) -> None:
        """Evicted pods wait for another node, as far as somebody makes them anew."""
        if not outcome.victims:
            return
        self.preempting.append(outcome)
        self._evictions.change_allowed(outcome.victims, -1)
        for victim in outcome.victims:
            self.evictable.pop(victim, None)
        for victim in self._come_back(outcome.victims):
            self.outcomes[victim] = Outcome(victim, UNSCHEDULABLE)
