"""The drain of cordoned nodes: their pods are evicted and placed elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import find_owner
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.return_order import shuffle_returns
from kschedctl.replay.settling import recreate_gone
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import BlockedPod, MovedPod
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation

KINDS_NOT_EVICTED = ("DaemonSet", "Node")


def report_moved_pods(drain: NodeDrain) -> Iterator[MovedPod]:
    """Yield the evicted pods that have another node now."""
    pods, names = drain.simulation.view.pods.objects, drain.simulation.view.nodes.names
    returned = set(drain.find_returned())
    for position, outcome in drain.outcomes.items():
        if outcome.row >= 0 and position not in returned:
            pod = pods[position]
            yield MovedPod(pod.key, str(find_owner(pod)), pod.spec.node_name, names[outcome.row], outcome.tied)


@dataclass
class NodeDrain:
    """The drain of some nodes of a simulation in which they are cordoned, with pods as positions."""

    simulation: Simulation
    nodes: Sequence[str]
    """Names of the drained nodes."""
    random: Random | None = None
    """Decides the order of evictions and returns if they go on side by side; without it pods go one by one."""
    admissions: Admissions | None = None
    """Admission of successors; None to admit all."""
    denied: dict[Position, Sequence[str]] = field(default_factory=dict)
    """Pods whose successors are denied, and the messages."""
    evictable: dict[Position, None] = field(default_factory=dict)
    """Pods that are still to be evicted."""
    lost: list[Position] = field(default_factory=list)
    """Evicted pods that no controller recreates."""
    staying_count: int = 0
    """How many pods of DaemonSets and static pods stay."""
    outcomes: dict[Position, Outcome] = field(default_factory=dict)
    """Outcomes of the successors, also of pods that preemption displaced."""
    preemptions: list[Outcome] = field(default_factory=list)
    """Outcomes of successors that preempted other pods."""
    evictions: Evictions | None = None
    """The budgets, if the caller has them already."""

    def __post_init__(self) -> None:
        view = self.simulation.view
        self._evictions = self.evictions or Evictions(self.simulation)
        for name in self.nodes:
            for position in view.pods_on(view.nodes.index[name]):
                if find_owner(view.pods.objects[position]).kind in KINDS_NOT_EVICTED:
                    self.staying_count += 1
                else:
                    self.evictable[position] = None

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the dependency on PodDisruptionBudgets, if there is something to evict."""
        has_evictions = self.evictable or self.outcomes or self.lost
        return (Dependency("PodDisruptionBudget", Effect.EITHER),) if has_evictions else ()

    def run(self, on_evicted: Callable[[int], None] = lambda number: None) -> None:
        """Evict and place pods again and again until nothing moves. ``on_evicted`` is called for each evicted pod."""
        try:
            while self._evict_possible(on_evicted) or self._place_pods(self._waiting_pods()):
                pass
        except KeyboardInterrupt:
            self.simulation.interrupted = True
        else:
            self._run_queue()

    def _run_queue(self) -> None:
        """Let the pods that still wait pass the scheduling queue."""
        self.outcomes |= {outcome.position: outcome for outcome in self.simulation.run(self._waiting_pods())}

    def _waiting_pods(self) -> list[Position]:
        """Return the evicted pods that have no node."""
        return [position for position, outcome in self.outcomes.items() if outcome.row < 0]

    def _evict_possible(self, on_evicted: Callable[[int], None]) -> bool:
        """Evict all pods that budgets allow to evict, place their successors, and return whether any was evicted."""
        count_before, successors = len(self.evictable), list[Position]()
        for position in self._order(self.evictable):
            if position in self.evictable and not self._evictions.find_denial(position):
                successors += self._evict(position)
                if self.random is None:  # successors are placed at once, so that budgets recover early
                    self._place_pods(successors)
                    successors = []
                on_evicted(1)
        if successors:
            self._place_pods(successors)
        return len(self.evictable) < count_before

    def _order(self, positions: Iterable[Position]) -> list[Position]:
        """Return pods in the cluster's order, or in a random order in which they may come."""
        return list(positions) if self.random is None else shuffle_returns(self.simulation, positions, self.random)

    def report_blocked(self) -> list[BlockedPod]:
        """Return the pods that may not be evicted, and why."""
        pods = self.simulation.view.pods.objects
        return [
            BlockedPod(
                pod=pods[position].key,
                workload=str(find_owner(pods[position])),
                node=pods[position].spec.node_name,
                why=reason,
                budgets=self._evictions.find_budgets(position),
                unhealthy=self._evictions.unhealthy_pods(position),
            )
            for position in self.evictable
            if (reason := self._evictions.find_denial(position))
        ]

    def find_returned(self) -> list[Position]:
        """Return the evicted pods that are on a drained node again, because they tolerate the cordon."""
        drained_rows = {self.simulation.view.nodes.index[name] for name in self.nodes}
        return [position for position, outcome in self.outcomes.items() if outcome.row in drained_rows]

    def _evict(self, position: Position) -> list[Position]:
        """Evict one pod, and return its successor if there is one."""
        pod = self.simulation.view.pods.objects[position]
        del self.evictable[position]
        self._evictions.evict(position)
        successors = self._recreate([position])
        if not successors and position not in self.denied and pod.metadata.deletion_timestamp is None:
            self.lost.append(position)
        return successors

    def _recreate(self, positions: Iterable[Position]) -> list[Position]:
        """Return the pods that controllers recreate and admission admits; the others stay gone."""
        recreated = []
        for position in recreate_gone(self.simulation, positions):
            pod = self.simulation.view.pods.objects[position]
            if self.admissions and (denied := list(self.admissions.iter_denied_replacements([pod]))):
                self.simulation.gone.add(position)
                self.denied[position] = denied[0][1]
                self.outcomes.pop(position, None)
            else:
                recreated.append(position)
        return recreated

    def report_not_created(self) -> list[NotCreated]:
        """Report the workloads that lack pods because their successors are denied."""
        pods = self.simulation.view.pods.objects
        recreated = [pods[position] for position in self.outcomes]
        denied = [(pods[position], messages) for position, messages in self.denied.items()]
        return self.admissions.report_denied_replacements(recreated, denied) if self.admissions else []

    def _place_pods(self, positions: Sequence[Position]) -> bool:
        """Try to place pods and return whether any of them got a node."""
        is_any_placed = False
        for position in self.simulation.sort_for_queue(self._order(positions)):
            outcome = self._attempt(position)
            self.outcomes[position] = outcome
            if outcome.row >= 0:
                is_any_placed = True
                self._evictions.count_recovery(position)
                self._handle_preemption(outcome)
        return is_any_placed

    def _attempt(self, position: Position) -> Outcome:
        """Try to place one pod."""
        return self.simulation.attempt(position) or Outcome(position, UNSCHEDULABLE)

    def _handle_preemption(self, outcome: Outcome) -> None:
        """Let the pods that were preempted for a successor wait for another node, if they are recreated."""
        if not outcome.victims:
            return
        self.preemptions.append(outcome)
        self._evictions.change_allowed(outcome.victims, -1)
        for victim in outcome.victims:
            self.evictable.pop(victim, None)
        for victim in self._recreate(outcome.victims):
            self.outcomes[victim] = Outcome(victim, UNSCHEDULABLE)
