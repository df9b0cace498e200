"""All pods of a cluster placed on a set of nodes.

Nobody preempts: where all get a node nobody would, and else there will be more nodes.
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
from kschedctl.replay.edits import added
from kschedctl.replay.pools import Pools, PoolState, pool_states
from kschedctl.replay.settling import pending, still_waiting
from kschedctl.replay.unknown import of_simulation
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

FrozenCounts = tuple[tuple[str, int], ...]
Replay = tuple[Simulation, list[Outcome]]
Waiting = dict[str, tuple[str, ...]]
"""The pods that get no node, and the shapes of which one more node would take each as things are then."""


@dataclass(eq=False)
class NodeSets:
    """``cluster``: without nodes, with all pods that are to be placed; ``zone_loss``: also on what the loss of any zone
    leaves. ``unknown``: what the latest replay leans on that was not read.
    """

    cluster: Cluster
    shapes: Mapping[str, NodeShape]
    zone_loss: bool = False
    unknown: Sequence[UnknownKind] = ()
    _replayed: dict[FrozenCounts, Waiting] = field(default_factory=dict)
    _pools: dict[FrozenCounts, dict[str, PoolState]] = field(default_factory=dict)
    _latest: tuple[tuple[FrozenCounts, str], Replay] | None = None

    def __post_init__(self) -> None:
        self._alone = {(shape.of, zone) for shape in self.shapes.values() if shape.of for zone in shape.zones}

    def bought(self, counts: Counts, without: str = "", cluster: Cluster | None = None) -> Cluster:
        """The cluster, or another one, with so many nodes of each shape and their daemons, less those of a zone."""
        some = [(self.shapes[name], number) for name, number in counts.items() if number]
        named = ((shape, at) for shape, number in some for at in range(number if without else 0))
        lost = {shape.node_name(at) for shape, at in named if shape.zone(at) == without}
        nodes = [node for shape, number in some for node in shape.nodes(number) if node.metadata.name not in lost]
        limits = [limit for shape, number in some for limit in shape.volume_limits(number)]
        daemons = [p for shape, number in some for p in shape.with_nodes(number) if p.spec.node_name not in lost]
        return added(replace(cluster or self.cluster, nodes=tuple(nodes), csi_nodes=tuple(limits)), daemons)

    def waiting(self, counts: Counts) -> Waiting:
        """The pods that get no node of such a set, or none after the loss of some zone. Raises KeyboardInterrupt."""
        key = frozen(counts)
        if key not in self._replayed:
            waiting: Waiting = {}
            for zone in self._losses(counts):
                simulation, still = self._placed(counts, zone)
                for pod, takers in self._takers(simulation, still, counts, zone):
                    waiting[pod] = tuple(dict.fromkeys((*waiting.get(pod, ()), *takers)))
            self._replayed[key] = waiting
        return self._replayed[key]

    def replayed(self) -> Iterator[tuple[Counts, Waiting]]:
        """The sets of which ``waiting`` is known."""
        yield from ((dict(key), waiting) for key, waiting in self._replayed.items())

    def pools(self, counts: Counts, *, anew: bool) -> dict[str, PoolState]:
        """The pools of a set with all pods, none where it was not replayed here, nor is ``anew``.

        Raises KeyboardInterrupt.
        """
        if frozen(counts) not in self._pools and anew:
            self._placed(counts, "")
        return self._pools.get(frozen(counts), {})

    def take_all(self, counts: Counts, homeless: Set[str]) -> bool:
        """Whether all pods but these get a node of such a set, after every loss. Raises KeyboardInterrupt."""
        if (known := self._replayed.get(frozen(counts))) is not None:
            return known.keys() <= homeless
        for zone in self._losses(counts):
            simulation, still = self._placed(counts, zone)
            if any(simulation.view.pods.objects[position].key not in homeless for position in still):
                return False
        return True

    def in_order(self, counts: Counts) -> tuple[Simulation, list[Outcome], dict[str, npt.NDArray[np.int64]]]:
        """What became of all pods, one after another; the rows of each shape's nodes. Raises KeyboardInterrupt."""
        simulation, outcomes = self._replay(counts, "")
        index = simulation.view.nodes.index
        rows = {
            name: np.array([index[self.shapes[name].node_name(at)] for at in range(number)], np.int64)
            for name, number in counts.items()
            if number
        }
        return simulation, outcomes, rows

    def _placed(self, counts: Counts, zone: str) -> tuple[Simulation, list[Position]]:
        """With the pods that still wait."""
        simulation, outcomes = self._replay(counts, zone)
        self.unknown = of_simulation(simulation)
        if not zone:
            self._pools[frozen(counts)] = pools_of(simulation.view)
        return simulation, [outcome.position for outcome in still_waiting(simulation, outcomes)]

    def _replay(self, counts: Counts, zone: str) -> Replay:
        """After the loss of a zone, if one is named; the latest is kept."""
        key = (frozen(counts), zone)
        if self._latest is None or self._latest[0] != key:
            self._latest = (key, _replayed(self.bought(counts, zone)))
        return self._latest[1]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_latest": None}  # large, and no other process needs it

    def _takers(
        self, simulation: Simulation, waiting: Sequence[Position], counts: Counts, without: str
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The pods that wait, and the shapes of which a bare node more, in some zone, would take each now."""
        view, fresh = simulation.view, list(self._next_nodes(counts, without)) if waiting else []
        if not len(view.nodes):
            every = tuple(dict.fromkeys(name for name, _ in fresh))
            yield from ((view.pods.objects[position].key, every) for position in waiting)
            return
        more = view.changed(view.cluster, more=[(Row(0), node) for _, node in fresh])
        trial, known = Simulation(simulation.scheduler, more, preemption=False), dict[int, tuple[str, ...]]()
        for position in waiting:
            number = int(view.pods.info[position])
            if number not in known and trial.framework(position) is not None:
                cycle = trial.cycle(position)
                rows = cycle.passed.rows - len(view.nodes) if cycle.schedulable and not cycle.gated else ()
                known[number] = tuple(dict.fromkeys(fresh[row][0] for row in rows if row >= 0))
            yield view.pods.objects[position].key, known.get(number, ())

    def _next_nodes(self, counts: Counts, without: str) -> Iterator[tuple[str, Node]]:
        """One more of each shape, in each of its zones; where these are for sale alone only the one that comes next."""
        for name, shape in self.shapes.items():
            number = counts.get(name, 0)
            nodes = islice(shape.nodes(number + len(shape.zones)), number, None)
            for at, node in enumerate(nodes, number):
                alone = at > number and (name, shape.zone(at)) in self._alone
                if not (alone or (without and shape.zone(at) == without)):
                    yield name, node

    def why(self, counts: Counts, keys: Iterable[str]) -> dict[str, str]:
        """What kube-scheduler says of pods that get no node of a set."""
        said: dict[str, str] = {}
        for zone in self._losses(counts):
            lost = f"after the loss of zone {zone}: " if zone else ""
            for key, message in _said(*self._replay(counts, zone)).items():
                said.setdefault(key, f"{lost}{message}")
        return {key: said[key] for key in keys if key in said}

    def _losses(self, counts: Counts) -> list[str]:
        """The zones that may be lost; "" for none."""
        used = (self.shapes[name] for name, number in counts.items() if number and self.zone_loss)
        return ["", *sorted({zone for shape in used for zone in shape.zones if zone})]


def pools_of(view: Fork) -> dict[str, PoolState]:
    """By pool, and by instance type where nodes name none."""
    return pool_states(
        view, Pools.of(view, lambda node: find_pool(node) or node.metadata.labels.get(INSTANCE_TYPE, ""))
    )


def frozen(counts: Counts) -> FrozenCounts:
    """The same for equal sets."""
    return tuple(sorted((name, number) for name, number in counts.items() if number))


def _replayed(cluster: Cluster) -> Replay:
    """All pods pass the queue. Raises KeyboardInterrupt."""
    simulation = Simulation(Scheduler(cluster))
    simulation.preemption = False
    outcomes = simulation.schedule(pending(simulation))
    if simulation.interrupted:
        raise KeyboardInterrupt
    return simulation, outcomes


def messages(cluster: Cluster) -> dict[str, str]:
    """The pods that wait, and what kube-scheduler says of each."""
    return _said(*_replayed(cluster))


def _said(simulation: Simulation, outcomes: list[Outcome]) -> dict[str, str]:
    pods = simulation.view.pods.objects
    waiting = still_waiting(simulation, simulation.explained(outcomes))
    return {pods[outcome.position].key: outcome.message or outcome.verdict for outcome in waiting}
