"""Replays of all pods of a cluster on a set of nodes.

Preemption is off: if all pods get a node nobody would preempt, and otherwise more nodes are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.node_pools import find_pool
from kschedctl.api.objects import Node
from kschedctl.autoscaling.karpenter.labels import INSTANCE_TYPE
from kschedctl.cluster import Cluster
from kschedctl.commands.size.program import Counts
from kschedctl.commands.size.shapes import NodeShape
from kschedctl.replay.edits import add_pods
from kschedctl.replay.pools import Pools, PoolState, compute_pool_states
from kschedctl.replay.settling import find_pending, find_still_waiting
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

FrozenCounts = tuple[tuple[str, int], ...]
Replay = tuple[Simulation, list[Outcome]]
WaitingPods = dict[str, tuple[str, ...]]
"""The pods without a node, each with the shapes of which one more node would take it now."""


@dataclass(eq=False)
class NodeSets:
    """Node sets for one cluster, with cached replays."""

    cluster: Cluster
    """The cluster without nodes, with all pods to place."""
    shapes: Mapping[str, NodeShape]
    zone_loss: bool = False
    """Whether the loss of any zone is replayed, too."""
    unknown: Sequence[UnknownKind] = ()
    """Unread kinds that the latest replay depends on."""
    _replayed: dict[FrozenCounts, WaitingPods] = field(default_factory=dict)
    _pools: dict[FrozenCounts, dict[str, PoolState]] = field(default_factory=dict)
    _latest: tuple[tuple[FrozenCounts, str], Replay] | None = None

    def __post_init__(self) -> None:
        self._alone = {
            (shape.base_name, zone) for shape in self.shapes.values() if shape.base_name for zone in shape.zones
        }

    def build_cluster(self, counts: Counts, without: str = "", cluster: Cluster | None = None) -> Cluster:
        """Return the cluster with the nodes of a set and their daemons, without those of a lost zone."""
        some = [(self.shapes[name], number) for name, number in counts.items() if number]
        named = ((shape, at) for shape, number in some for at in range(number if without else 0))
        lost = {shape.node_name(at) for shape, at in named if shape.zone_of(at) == without}
        nodes = [node for shape, number in some for node in shape.build_nodes(number) if node.metadata.name not in lost]
        limits = [limit for shape, number in some for limit in shape.build_volume_limits(number)]
        daemons = [p for shape, number in some for p in shape.build_daemons(number) if p.spec.node_name not in lost]
        return add_pods(replace(cluster or self.cluster, nodes=tuple(nodes), csi_nodes=tuple(limits)), daemons)

    def find_waiting(self, counts: Counts) -> WaitingPods:
        """Return the pods that get no node of the set, or none after the loss of some zone. Raises
        KeyboardInterrupt.
        """
        key = freeze_counts(counts)
        if key not in self._replayed:
            waiting: WaitingPods = {}
            for zone in self._list_losses(counts):
                simulation, still = self._place_all(counts, zone)
                for pod, takers in self._iter_takers(simulation, still, counts, zone):
                    waiting[pod] = tuple(dict.fromkeys((*waiting.get(pod, ()), *takers)))
            self._replayed[key] = waiting
        return self._replayed[key]

    def iter_replayed(self) -> Iterator[tuple[Counts, WaitingPods]]:
        """Yield the sets replayed so far with their waiting pods."""
        yield from ((dict(key), waiting) for key, waiting in self._replayed.items())

    def get_pools(self, counts: Counts, *, anew: bool) -> dict[str, PoolState]:
        """Return the pools of a set with all pods placed; empty if it was not replayed here and ``anew`` is false.

        Raises KeyboardInterrupt.
        """
        if freeze_counts(counts) not in self._pools and anew:
            self._place_all(counts, "")
        return self._pools.get(freeze_counts(counts), {})

    def takes_all(self, counts: Counts, homeless: Set[str]) -> bool:
        """Return whether all other pods get a node of the set after every zone loss. Raises KeyboardInterrupt."""
        if (known := self._replayed.get(freeze_counts(counts))) is not None:
            return known.keys() <= homeless
        for zone in self._list_losses(counts):
            simulation, still = self._place_all(counts, zone)
            if any(simulation.view.pods.objects[position].key not in homeless for position in still):
                return False
        return True

    def replay_in_order(self, counts: Counts) -> tuple[Simulation, list[Outcome], dict[str, npt.NDArray[np.int64]]]:
        """Return the simulation, the outcome of each pod in order, and the rows of each shape's nodes.

        Raises KeyboardInterrupt.
        """
        simulation, outcomes = self._replay(counts, "")
        index = simulation.view.nodes.index
        rows = {
            name: np.array([index[self.shapes[name].node_name(at)] for at in range(number)], np.int64)
            for name, number in counts.items()
            if number
        }
        return simulation, outcomes, rows

    def _place_all(self, counts: Counts, zone: str) -> tuple[Simulation, list[Position]]:
        """Replay and return the simulation with the pods that still wait."""
        simulation, outcomes = self._replay(counts, zone)
        self.unknown = find_simulation_unknowns(simulation)
        if not zone:
            self._pools[freeze_counts(counts)] = compute_pools(simulation.view)
        return simulation, [outcome.position for outcome in find_still_waiting(simulation, outcomes)]

    def _replay(self, counts: Counts, zone: str) -> Replay:
        """Replay a set after the loss of a zone, if one is named. Only the latest replay is kept."""
        key = (freeze_counts(counts), zone)
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, _schedule_all(self.build_cluster(counts, zone)))
        return self._latest[1]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_latest": None}  # large, and no other process needs it

    def _iter_takers(
        self, simulation: Simulation, waiting: Sequence[Position], counts: Counts, without: str
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each waiting pod with the shapes of which one more empty node, in some zone, would take it now."""
        view, fresh = simulation.view, list(self._iter_next_nodes(counts, without)) if waiting else []
        if not len(view.nodes):
            every = tuple(dict.fromkeys(name for name, _ in fresh))
            yield from ((view.pods.objects[position].key, every) for position in waiting)
            return
        more = view.with_changes(view.cluster, more=[(Row(0), node) for _, node in fresh])
        trial, known = Simulation(simulation.scheduler, more, preemption=False), dict[int, tuple[str, ...]]()
        for position in waiting:
            number = int(view.pods.info[position])
            if number not in known and trial.framework(position) is not None:
                cycle = trial.run_cycle(position)
                rows = cycle.passed.rows - len(view.nodes) if cycle.schedulable and not cycle.gated else ()
                known[number] = tuple(dict.fromkeys(fresh[row][0] for row in rows if row >= 0))
            yield view.pods.objects[position].key, known.get(number, ())

    def _iter_next_nodes(self, counts: Counts, without: str) -> Iterator[tuple[str, Node]]:
        """Yield the next node of each shape in each zone; shapes sold per zone only yield the next one."""
        for name, shape in self.shapes.items():
            number = counts.get(name, 0)
            nodes = islice(shape.build_nodes(number + len(shape.zones)), number, None)
            for at, node in enumerate(nodes, number):
                alone = at > number and (name, shape.zone_of(at)) in self._alone
                if not (alone or (without and shape.zone_of(at) == without)):
                    yield name, node

    def explain_waiting(self, counts: Counts, keys: Iterable[str]) -> dict[str, str]:
        """Return kube-scheduler's message for pods that get no node of the set."""
        messages: dict[str, str] = {}
        for zone in self._list_losses(counts):
            lost = f"after the loss of zone {zone}: " if zone else ""
            for key, message in _collect_messages(*self._replay(counts, zone)).items():
                messages.setdefault(key, f"{lost}{message}")
        return {key: messages[key] for key in keys if key in messages}

    def _list_losses(self, counts: Counts) -> list[str]:
        """Return the zones that may be lost, starting with "" for none."""
        used = (self.shapes[name] for name, number in counts.items() if number and self.zone_loss)
        return ["", *sorted({zone for shape in used for zone in shape.zones if zone})]


def compute_pools(view: Fork) -> dict[str, PoolState]:
    """Return the pools of the view, by instance type for nodes without a pool label."""
    return compute_pool_states(
        view, Pools.of(view, lambda node: find_pool(node) or node.metadata.labels.get(INSTANCE_TYPE, ""))
    )


def freeze_counts(counts: Counts) -> FrozenCounts:
    """Return a hashable form that is equal for equal sets."""
    return tuple(sorted((name, number) for name, number in counts.items() if number))


def _schedule_all(cluster: Cluster) -> Replay:
    """Schedule all pods in the queue's order. Raises KeyboardInterrupt."""
    simulation = Simulation(Scheduler(cluster))
    simulation.preemption = False
    outcomes = simulation.schedule(find_pending(simulation))
    if simulation.interrupted:
        raise KeyboardInterrupt
    return simulation, outcomes


def explain_unplaced(cluster: Cluster) -> dict[str, str]:
    """Return kube-scheduler's message for each pod that gets no node."""
    return _collect_messages(*_schedule_all(cluster))


def _collect_messages(simulation: Simulation, outcomes: list[Outcome]) -> dict[str, str]:
    pods = simulation.view.pods.objects
    waiting = find_still_waiting(simulation, simulation.explain(outcomes))
    return {pods[outcome.position].key: outcome.message or outcome.verdict for outcome in waiting}
