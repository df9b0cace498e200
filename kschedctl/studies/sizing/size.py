"""The cheapest nodes that take all pods of a cluster, or the fewest, by replays of kube-scheduler.

For each shape: as many nodes as the requests need at least, then more until everybody has one, with other shapes for
those that this one cannot take; then fewer again while everybody still has one. The pods all come at once, to nodes
that have nothing but their daemons.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import owner_of
from kschedctl.api.pod_table import NO_PODS, PodTable
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.reports.sizing import HomelessPods, NodeSizing, SizedShape, SizingAlternative
from kschedctl.reports.unknown import ClusterBasis, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.studies.basics.edits import added
from kschedctl.studies.basics.parallel import UNSEEN, Progress
from kschedctl.studies.basics.unknown import of_simulation, together
from kschedctl.studies.sizing.bound import Table, least
from kschedctl.studies.sizing.shapes import ON_EVERY_NODE, NodeShape, has_claims, more_of_each
from kschedctl.studies.what_if.settling import pending, settle, still_waiting
from kschedctl.studies.what_if.shared_cluster import cluster_basis

BY_OTHER_PODS = ("InterPodAffinity", "PodTopologySpread", "GangScheduling", "Coscheduling")
"""Plugins whose refusal of a pod hangs on others."""
KEPT_AWAY = "other pods keep it away, however many nodes there are"
FREE = 1e-9
"""What is taken for the price of what costs nothing."""
MOST_SHAPES, IN_VAIN = 8, 2
"""So many shapes are tried as the main one; so often nodes are added in vain."""
Counts = Mapping[str, int]
"""Shape -> how many of its nodes."""


@dataclass(frozen=True)
class SizingWishes:
    """``by_nodes``: the fewest nodes, though prices are known; ``keep_zone_loss``: all pods get nodes after the loss of
    any zone, too; ``scale``: so many times the pods of each workload; ``seconds``: for how long sets are tried.
    """

    by_nodes: bool = False
    keep_zone_loss: bool = False
    scale: float = 1
    seconds: float = 60


@dataclass(frozen=True)
class NodeSet:
    """Nodes that take all pods; what they cost: an hour, or their number."""

    counts: dict[str, int]
    cost: float

    @property
    def nodes(self) -> int:
        return sum(self.counts.values())


def size(
    cluster: Cluster, shapes: Sequence[NodeShape], wishes: SizingWishes = SizingWishes(), progress: Progress = UNSEEN
) -> NodeSizing:
    """Nodes for the cluster's pods, those of DaemonSets and static ones aside, which come with nodes."""
    pods = [made_again(pod) for pod in cluster.pods if _is_placed_anew(pod)]
    more = more_of_each([pod for pod in pods if not has_claims(pod)], wishes.scale)
    bare = replace(cluster, nodes=(), pods=NO_PODS)
    sizing = _Sizing(added(bare, [*pods, *more]), {shape.name: shape for shape in shapes}, wishes)
    sizing.run(progress)
    return sizing.report([pod for pod in pods if wishes.scale > 1 and has_claims(pod)])


def _is_placed_anew(pod: Pod) -> bool:
    leaving = pod.terminated or pod.metadata.deletion_timestamp is not None
    return not leaving and owner_of(pod).kind not in ON_EVERY_NODE


@dataclass
class _Sizing:
    """``cluster``: without nodes, with all pods that are to be placed; ``never``: pod -> why no shape takes it."""

    cluster: Cluster
    shapes: dict[str, NodeShape]
    wishes: SizingWishes
    sets: list[NodeSet] = field(default_factory=list)
    never: dict[str, str] = field(default_factory=dict)
    tried: int = 0
    complete: bool = True
    interrupted: bool = False
    unknown: list[tuple[UnknownKind, ...]] = field(default_factory=list)
    _until: float = 0
    _replayed: dict[tuple[tuple[str, int], ...], list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.all_pods = len(self.cluster.pods)
        names = list(self.shapes)
        view = Scheduler(self._with({name: len(self.shapes[name].zones) for name in names})).view
        self._view, row = view, view.nodes.index
        models = [row[self.shapes[name].node_name(0)] for name in names]
        self._offered = dict(zip(names, (view.allocatable - view.requested)[models], strict=True))
        self._takers = self._taken_by()
        self._take_out([key for key, takers in self._takers.items() if not takers])

    @property
    def by_price(self) -> bool:
        return not self.wishes.by_nodes and all(
            price is not None for shape in self.shapes.values() for price in shape.prices.values()
        )

    def run(self, progress: Progress) -> None:
        """Try the shapes, those first that would be the best by what is requested."""
        self._until = time.monotonic() + self.wishes.seconds
        mains = sorted(self.shapes, key=self._alone)[:MOST_SHAPES]
        done = progress.begin("Shapes", len(mains))
        try:
            for name in mains if len(self.cluster.pods) else ():
                if self._late():
                    return
                if (found := self._grown(name)) is not None:
                    self.sets.append(self._set(found))
                    self.sets[-1] = self._set(self._shrunk(found))
                self.tried += 1
                done(1)
        except KeyboardInterrupt:
            self.interrupted, self.complete = True, False

    # -- which shapes take whom --------------------------------------------------------------------------------------

    def _taken_by(self) -> dict[str, tuple[str, ...]]:
        """Pod -> the shapes that take it alone; pods that none takes are taken out of the cluster."""
        scheduler, shape_of = Scheduler(self._view.cluster), self._shape_of_row()
        by_info: dict[int, tuple[str, ...]] = {}
        takers: dict[str, tuple[str, ...]] = {}
        for position in np.flatnonzero(self._view.node < 0).tolist():
            number = int(self._view.pods.info[position])
            if number not in by_info:
                by_info[number] = self._takers_of(scheduler, self._view.pods.infos[number].pod, shape_of)
            takers[self._view.pods.objects[position].key] = by_info[number]
        return takers

    def _shape_of_row(self) -> dict[str, str]:
        return {
            shape.node_name(number): name for name, shape in self.shapes.items() for number in range(len(shape.zones))
        }

    def _takers_of(self, scheduler: Scheduler, pod: Pod, shape_of: Mapping[str, str]) -> tuple[str, ...]:
        """All shapes, where none takes it alone and other pods may let it in."""
        framework = scheduler.framework(pod.spec.scheduler_name)
        if framework is None:
            return ()
        cycle = scheduler.cycle(framework.unasked(), pod)
        if cycle.schedulable:
            return tuple(dict.fromkeys(shape_of[name] for name in cycle.passed.names))
        hopeless = cycle.gated or cycle.unschedulable_plugins.isdisjoint(BY_OTHER_PODS)
        return () if hopeless else tuple(self.shapes)

    # -- sets of nodes -----------------------------------------------------------------------------------------------

    def _with(self, counts: Counts, without: str = "") -> Cluster:
        """The cluster with so many nodes of each shape and their daemons, less those of a zone."""
        some = [(self.shapes[name], number) for name, number in counts.items() if number]
        bought = ((shape, at) for shape, number in some for at in range(number if without else 0))
        lost = {shape.node_name(at) for shape, at in bought if shape.zone(at) == without}
        nodes = [node for shape, number in some for node in shape.nodes(number) if node.metadata.name not in lost]
        limits = [limit for shape, number in some for limit in shape.volume_limits(number)]
        daemons = [p for shape, number in some for p in shape.with_nodes(number) if p.spec.node_name not in lost]
        return added(replace(self.cluster, nodes=tuple(nodes), csi_nodes=tuple(limits)), daemons)

    def _waiting(self, counts: Counts) -> list[str]:
        """The pods that get no node of such a set, or none after the loss of some zone."""
        key = tuple(sorted((name, number) for name, number in counts.items() if number))
        if key not in self._replayed:
            waiting = self._without_node(self._with(counts))
            for zone in self._zones(counts) if self.wishes.keep_zone_loss and not waiting else ():
                waiting += self._without_node(self._with(counts, without=zone))
            self._replayed[key] = list(dict.fromkeys(waiting))
        return self._replayed[key]

    def _without_node(self, cluster: Cluster) -> list[str]:
        """Nobody preempts: where all get a node nobody would, and else there will be more nodes."""
        simulation = Simulation(Scheduler(cluster))
        simulation.preemption = False
        outcomes = simulation.schedule(pending(simulation))
        if simulation.interrupted:
            raise KeyboardInterrupt
        self.unknown = [*self.unknown[-1:], of_simulation(simulation)]
        pods = simulation.view.pods.objects
        return [pods[outcome.position].key for outcome in still_waiting(simulation, outcomes)]

    def _zones(self, counts: Counts) -> list[str]:
        used = (self.shapes[name] for name, number in counts.items() if number)
        return sorted({zone for shape in used for zone in shape.zones if zone})

    def _grown(self, main: str) -> dict[str, int] | None:
        """So many nodes, most of this shape, that all pods have one; pods that never get one do not count any more."""
        counts = {name: self._needed(name, keys) for name, keys in self._by_shape(self._takers, main).items()}
        fewest, in_vain = self.all_pods + 1, 0
        while not self._late():
            waiting = [key for key in self._waiting(counts) if key not in self.never]
            if not waiting:
                return counts
            in_vain = 0 if len(waiting) < fewest else in_vain + 1
            fewest = min(fewest, len(waiting))
            if in_vain > IN_VAIN:
                return self._without(waiting, counts)
            for name, keys in self._by_shape(waiting, main).items():
                counts[name] = counts.get(name, 0) + self._needed(name, keys)
        return None

    def _late(self) -> bool:
        """Whether there is no time to try more sets; the first one has all that it needs."""
        if self.sets and time.monotonic() > self._until:
            self.complete = False
        return not self.complete

    def _without(self, waiting: Sequence[str], counts: dict[str, int]) -> dict[str, int] | None:
        """Where no set was found before: the pods that wait whatever is added are for no shape."""
        if self.sets:
            return None
        self._take_out(waiting)
        return counts if len(self.cluster.pods) else None

    def _take_out(self, keys: Sequence[str]) -> None:
        """Pods for no shape, and why each of these refuses them."""
        if not keys:
            return
        names = {tuple(key.split("/", 1)) for key in keys}
        pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in self.cluster.pods}
        one_a_zone = {name: len(shape.zones) for name, shape in self.shapes.items()}
        whole, self.cluster = (
            self.cluster,
            replace(self.cluster, pods=PodTable.of(pods[key] for key in pods if key in names)),
        )
        why = settle(self._with(one_a_zone)).waiting
        self.never |= {key: why.get(key, KEPT_AWAY) for key in keys}
        self.cluster = replace(whole, pods=PodTable.of(pods[key] for key in pods if key not in names))
        self._replayed.clear()

    def _by_shape(self, waiting: Iterable[str], main: str) -> dict[str, list[str]]:
        """The shape of which there will be more for each pod: the main one, or the best of those that take it."""
        by_shape: dict[str, list[str]] = {}
        for key in waiting:
            takers = self._takers[key]
            name = main if main in takers or not takers else min(takers, key=self._alone)
            by_shape.setdefault(name, []).append(key)
        return by_shape

    def _needed(self, name: str, keys: Sequence[str]) -> int:
        """How many more nodes of a shape pods need at least."""
        asked, offered = self._asked(keys), self._offered[name]
        shares = [asked[at] / offered[at] for at in np.flatnonzero(asked).tolist() if offered[at] > 0]
        return max(1, ceil(max(shares, default=1.0)))

    def _asked(self, keys: Sequence[str]) -> Table:
        """(R,): what pods request together."""
        positions = [self._view.pods.index[key] for key in keys]
        numbers = self._view.pods.info[positions]
        total = self._view.requests[numbers].sum(axis=0).astype(np.float64)
        total[self._view.resources[PODS]] = len(keys)
        return np.asarray(total)

    def _shrunk(self, counts: dict[str, int]) -> dict[str, int]:
        """As few of each shape, the dearest first, as still take all pods."""
        for name in sorted(counts, key=self._cost_of_one, reverse=True):
            step = max(counts[name] // 8, 1)
            while step and not self._late():
                fewer = {**counts, name: max(counts[name] - step, 0)}
                if fewer[name] < counts[name] and any(fewer.values()) and not self._waits(fewer):
                    counts = fewer
                else:
                    step //= 2
        return {name: number for name, number in counts.items() if number}

    def _waits(self, counts: Counts) -> bool:
        return any(key not in self.never for key in self._waiting(counts))

    # -- costs -------------------------------------------------------------------------------------------------------

    def _cost_of_one(self, name: str) -> float:
        known = [price for price in self.shapes[name].prices.values() if price is not None]
        return min(known) if self.by_price else 1.0

    def _alone(self, name: str) -> float:
        """What nodes of this shape would cost for all pods that it takes, by requests; and others for the rest."""
        mine = [key for key, takers in self._takers.items() if name in takers]
        missing = len(self._takers) - len(mine)
        return self._needed(name, mine) * self._cost_of_one(name) if mine and not missing else 1e12 * (1 + missing)

    def _set(self, counts: dict[str, int]) -> NodeSet:
        prices = [self.shapes[name].price(number) for name, number in counts.items()]
        cost = sum(price or 0.0 for price in prices) if self.by_price else float(sum(counts.values()))
        return NodeSet(counts, cost)

    def _bound(self) -> float:
        """What any set costs at least by what is requested."""
        keys = [key for key in self._takers if key not in self.never]
        if not keys:
            return 0.0
        offered = np.array(list(self._offered.values()), np.float64)
        costs = np.array([max(self._cost_of_one(name), FREE) for name in self._offered])
        bound = max(least(self._asked(keys), offered, costs), self._for_one_shape_alone(keys))
        return bound if self.by_price else float(ceil(bound - 1e-9))

    def _for_one_shape_alone(self, keys: Sequence[str]) -> float:
        """What the nodes of shapes cost at least for the pods that no other shape takes."""
        alone: dict[str, list[str]] = {}
        for key in keys:
            if len(takers := self._takers[key]) == 1:
                alone.setdefault(takers[0], []).append(key)
        return sum(self._needed(name, some) * self._cost_of_one(name) for name, some in alone.items())

    # -- the report --------------------------------------------------------------------------------------------------

    def report(self, not_scaled: Sequence[Pod]) -> NodeSizing:
        """``not_scaled``: pods with claims, of which there are no more."""
        by_cost = sorted(self.sets, key=lambda each: (each.cost, each.nodes))
        sets = list({tuple(sorted(each.counts.items())): each for each in by_cost}.values())
        best = sets[0] if sets else NodeSet({}, 0.0)
        return NodeSizing(
            pods=self.all_pods,
            nodes=best.nodes,
            price=best.cost if self.by_price and sets else None,
            bound=self._bound(),
            shapes=tuple(self._shape(name, number) for name, number in best.counts.items()),
            alternatives=tuple(map(self._alternative, sets)),
            never=tuple(_never(self.never)),
            tried=self.tried,
            candidates=len(self.shapes),
            complete=self.complete and len(self.shapes) <= MOST_SHAPES,
            zone_loss=self.wishes.keep_zone_loss,
            scale=self.wishes.scale,
            doubts=tuple(_doubts(not_scaled)),
            interrupted=self.interrupted,
            **self._basis(bool(not_scaled)),
        )

    def _basis(self, doubtful: bool) -> ClusterBasis:
        basis = cluster_basis(together(self.unknown), Scheduler(self._view.cluster))
        basis["undecided"] = basis["undecided"] or doubtful
        return basis

    def _shape(self, name: str, number: int) -> SizedShape:
        shape = self.shapes[name]
        zones = Counter(shape.zone(at) for at in range(number) if shape.zone(at))
        return SizedShape(name, number, dict(sorted(zones.items())), shape.price(number), shape.like)

    def _alternative(self, found: NodeSet) -> SizingAlternative:
        asked = self._asked([key for key in self._takers if key not in self.never])
        offered = np.sum([self._offered[name] * number for name, number in found.counts.items()], axis=0)
        columns = {name: self._view.resources[name] for name in (CPU, MEMORY)}
        shares = {name: float(100 * asked[at] / offered[at]) for name, at in columns.items() if offered[at]}
        words = ", ".join(f"{number:,} × {name}" for name, number in found.counts.items())
        price = found.cost if self.by_price else None
        return SizingAlternative(words, found.nodes, price, shares.get(CPU, 0.0), shares.get(MEMORY, 0.0))


def _never(waiting: Mapping[str, str]) -> Iterator[HomelessPods]:
    by_words: dict[str, list[str]] = {}
    for key, why in waiting.items():
        by_words.setdefault(why, []).append(key)
    for why, keys in by_words.items():
        yield HomelessPods(tuple(keys), why)


def _doubts(not_scaled: Sequence[Pod]) -> Iterator[str]:
    if not_scaled:
        yield f"{len(not_scaled):,} pods with claims are not scaled: nobody knows the claims of more"
