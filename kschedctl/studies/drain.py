"""Nodes drained as ``kubectl drain`` does it: cordoned, their pods evicted as far as budgets allow, and placed anew.

All nodes are cordoned first, then drained in the order given. As with --ignore-daemonsets, --delete-emptydir-data and
--force, pods of DaemonSets and static pods stay, and pods that nobody makes anew are lost. A pod that a budget holds
back does not hold up the others, and is tried again as long as something moves. An evicted pod's successor counts as
healthy as soon as it has a node; one that tolerates the cordon may come back, and then the node is not empty. Upstream:
staging/src/k8s.io/kubectl/pkg/drain (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import owner_of
from kschedctl.cluster import Cluster
from kschedctl.reports.drain import BlockedPod, Drain, MovedPod
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import ClusterBasis
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.studies.basics.edits import cordoned, find_nodes
from kschedctl.studies.basics.parallel import ALONE, UNSEEN, Progress, Workers
from kschedctl.studies.basics.unknown import of_simulation, together, unread
from kschedctl.studies.controllers.admissions import Admissions
from kschedctl.studies.controllers.eviction import Evictions
from kschedctl.studies.what_if.order_of_return import in_no_order, most_in_no_order, order_of_return, unplaced_over_runs
from kschedctl.studies.what_if.over_runs import over_runs, try_seeds
from kschedctl.studies.what_if.placements import eviction_chain, evictions, headroom, pending_groups, pod_counts
from kschedctl.studies.what_if.settling import come_back
from kschedctl.studies.what_if.shared_cluster import (
    SharedCluster,
    cluster_basis,
    search_start,
    those_who_may_ask,
)

STAYING = ("DaemonSet", "Node")


@dataclass(eq=False)
class CordonedNodes(SharedCluster):
    """A cluster in which ``nodes`` are cordoned. With the seed ``first`` pods are evicted and placed one by one; with
    others side by side, and their successors come in another order.
    """

    nodes: Sequence[str] = ()
    first: int = 0


def drain(
    cluster: Cluster,
    nodes: Sequence[str],
    *,
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> Drain:
    """What draining the nodes would do; of several runs the first, and how the others differ, also by the order.

    ``call_extender``: as for simulate. Raises UsageError for a node that is not there, InputError, ConfigurationError.
    """
    nodes = find_nodes(cluster, nodes)
    shared = CordonedNodes(cordoned(cluster, nodes), sampling, call_extender, nodes=nodes, first=seed)
    workers = those_who_may_ask(workers, call_extender)
    if runs == 1:
        return drain_once(shared, seed, progress)
    results = try_seeds(drain_once, shared, range(seed, seed + runs), workers, progress)
    drains, interrupted = results.known, results.interrupted
    if not drains:
        raise KeyboardInterrupt
    return replace(
        drains[0],
        safe=not interrupted and all(report.safe for report in drains),
        drained=not interrupted and all(report.drained for report in drains),
        runs=len(drains),
        over_runs=over_runs([_numbers(report) for report in drains]),
        unplaced_over_runs=unplaced_over_runs([report.unplaced for report in drains]),
        in_no_order=most_in_no_order(report.in_no_order for report in drains),
        interrupted=interrupted,
        **unread(together(report.unknown for report in drains)),
    )


def _numbers(report: Drain) -> dict[str, int]:
    return {
        "moved": len(report.moved),
        "unplaced": sum(len(group.pods) for group in report.unplaced),
        "blocked": len(report.blocked),
        "lost": len(report.lost),
        "returned": len(report.returned),
        "evicted": len(report.evicted),
    }


def drain_once(shared: CordonedNodes, seed: int, progress: Progress = UNSEEN) -> Drain:
    """The drain under one seed."""
    simulation = Simulation(shared.scheduler, seed=seed, sampling=shared.sampling)
    before = simulation.view.requested.copy()
    abreast = None if seed == shared.first else Random(seed)
    draining = Draining(simulation, shared.nodes, abreast, Admissions(shared.cluster, {}))
    evictable = list(draining.evictable)
    draining.run(progress.begin("Draining", len(draining.evictable)))
    pods = simulation.view.pods.objects
    unplaced = [outcome for outcome in draining.outcomes.values() if outcome.row < 0]
    evicted, blocked = evictions(simulation), tuple(draining.blocked())
    returned = tuple(pods[position].key for position in draining.returned())
    not_created = tuple(draining.not_created())
    return Drain(
        nodes=tuple(shared.nodes),
        seed=seed,
        drained=not (blocked or returned or simulation.interrupted),
        safe=not (blocked or returned or unplaced or not_created or evicted or draining.lost or simulation.interrupted),
        moved=tuple(moved_pods(draining)),
        unplaced=pending_groups(simulation, unplaced, {}),
        in_no_order=in_no_order(_emptied(shared, evictable), unplaced) if abreast and unplaced else {},
        blocked=blocked,
        evicted=evicted,
        lost=tuple(pods[position].key for position in draining.lost),
        returned=returned,
        staying=draining.staying,
        untried=len(draining.evictable) - len(blocked),
        headroom=headroom(simulation.view, before),
        **pod_counts(simulation.view, before, simulation.view.requested),
        search_start=search_start(shared.sampling, len(simulation.view.nodes), seed),
        **_basis(draining),
        interrupted=simulation.interrupted,
        not_created=not_created,
        chain=eviction_chain(simulation, evicted),
    )


def _basis(draining: Draining) -> ClusterBasis:
    """What the answer leans on."""
    simulation = draining.simulation
    remade = [simulation.view.pods.objects[position] for position in (*draining.outcomes, *draining.refused)]
    return cluster_basis(
        of_simulation(simulation, *draining.dependencies),
        simulation.scheduler,
        created=(pod.key for pod in remade),
        counted={pod.metadata.namespace: False for pod in remade},
    )


def moved_pods(draining: Draining) -> Iterator[MovedPod]:
    """The evicted pods that have another node now."""
    pods, names = draining.simulation.view.pods.objects, draining.simulation.view.nodes.names
    returned = set(draining.returned())
    for position, outcome in draining.outcomes.items():
        if outcome.row >= 0 and position not in returned:
            pod = pods[position]
            yield MovedPod(pod.key, str(owner_of(pod)), pod.spec.node_name, names[outcome.row], outcome.tied)


def _emptied(shared: CordonedNodes, positions: Sequence[Position]) -> Simulation:
    """The cluster without any of the pods that may be evicted."""
    simulation = Simulation(shared.scheduler)
    simulation.take_down(positions)
    return simulation


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
                if owner_of(view.pods.objects[position]).kind in STAYING:
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
            if position in self.evictable and not self._evictions.refusal(position):
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
                workload=str(owner_of(pods[position])),
                node=pods[position].spec.node_name,
                why=why,
                budgets=self._evictions.budgets_of(position),
                unhealthy=self._evictions.unhealthy_pods(position),
            )
            for position in self.evictable
            if (why := self._evictions.refusal(position))
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
            if self.admissions and (refused := list(self.admissions.remade([pod]))):
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
        return self.admissions.not_remade(again, refused) if self.admissions else []

    def _place(self, positions: Sequence[Position]) -> bool:
        """Whether one of them got a node."""
        moved = False
        for position in self.simulation.queue(self._in_turn(positions)):
            outcome = self._attempt(position)
            self.outcomes[position] = outcome
            if outcome.row >= 0:
                moved = True
                self._evictions.back(position)
                self._preempted(outcome)
        return moved

    def _attempt(self, position: Position) -> Outcome:
        return self.simulation.attempt(position) or Outcome(position, UNSCHEDULABLE)

    def _preempted(self, outcome: Outcome) -> None:
        """Evicted pods wait for another node, as far as somebody makes them anew."""
        if not outcome.victims:
            return
        self.preempting.append(outcome)
        self._evictions.count(outcome.victims, -1)
        for victim in outcome.victims:
            self.evictable.pop(victim, None)
        for victim in self._come_back(outcome.victims):
            self.outcomes[victim] = Outcome(victim, UNSCHEDULABLE)
