"""The cheapest nodes that take all pods of a cluster, or the fewest, by replays of kube-scheduler.

For each shape: as many nodes as the requests need at least, then more until everybody has one, with other shapes for
those that this one cannot take; then fewer again while everybody still has one. The pods all come at once, to nodes
that have nothing but their daemons.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from msgspec import structs

from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import owner_of
from kschedctl.api.pod_table import NO_PODS, PodTable
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.sizing import HomelessPods, NodeSizing, SizedShape, SizingAlternative
from kschedctl.reports.unknown import ClusterBasis, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.basics.edits import added
from kschedctl.studies.basics.parallel import UNSEEN, Progress
from kschedctl.studies.basics.unknown import of_simulation, together
from kschedctl.studies.sizing.bound import Table, least
from kschedctl.studies.sizing.replays import messages, replayed, waiting_keys
from kschedctl.studies.sizing.shapes import ON_EVERY_NODE, NodeShape, has_claims, more_of_each, without_others
from kschedctl.studies.what_if.shared_cluster import cluster_basis
from kschedctl.text.counts import counted

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
    cluster: Cluster,
    shapes: Sequence[NodeShape],
    wishes: SizingWishes = SizingWishes(),
    progress: Progress = UNSEEN,
    *,
    not_created: Sequence[NotCreated] = (),
) -> NodeSizing:
    """Nodes for the cluster's pods, those of DaemonSets and static ones aside, which come with nodes.

    ``not_created``: pods that could come, and that the API server refuses.
    """
    pods = [made_again(pod) for pod in cluster.pods if _is_placed_anew(pod)]
    more = more_of_each([pod for pod in pods if not has_claims(pod)], wishes.scale)
    bare = replace(cluster, nodes=(), pods=NO_PODS)
    sizing = _Sizing(added(bare, [*pods, *more]), {shape.name: shape for shape in shapes}, wishes)
    sizing.run(progress)
    return structs.replace(sizing.report(tuple(_doubts(pods, wishes))), not_created=tuple(not_created))


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
        self._ranks = {name: self._rank(name) for name in names}
        hopeless = {key for key, takers in self._takers.items() if not takers}
        if hopeless:
            one_a_zone = {name: len(self.shapes[name].zones) for name in names}
            alone = replace(self.cluster, pods=PodTable.of(pod for pod in self.cluster.pods if pod.key in hopeless))
            self._take_out(hopeless, messages(self._with(one_a_zone, cluster=alone)))

    @property
    def by_price(self) -> bool:
        return not self.wishes.by_nodes and all(
            price is not None for shape in self.shapes.values() for price in shape.prices.values()
        )

    def run(self, progress: Progress) -> None:
        """Try the shapes, those first that would be the best by what is requested."""
        self._until = time.monotonic() + self.wishes.seconds
        mains = sorted(self.shapes, key=self._ranks.__getitem__)[:MOST_SHAPES]
        done = progress.begin("Shapes", len(mains))
        try:
            while len(self.cluster.pods) and not self.sets:
                self.tried = 0
                stuck = [waiting for name in mains if (waiting := self._try(name, done))]
                homeless = set.intersection(*map(set, stuck)) if len(stuck) == len(mains) else set()
                if not homeless:
                    return
                self._take_out(homeless, stuck[0])
        except KeyboardInterrupt:
            self.interrupted, self.complete = True, False

    def _try(self, main: str, done: Callable[[int], None]) -> Mapping[str, str]:
        """Look for a set of which most are of this shape; the pods that keep it from being one, and why."""
        if self._late():
            return {}
        counts, waiting = self._grown(main)
        if not waiting and not self._late():
            self.sets.append(self._set(counts))
            self.sets[-1] = self._set(self._shrunk(counts))
        self.tried += 1
        done(1)
        return waiting

    # -- which shapes take whom --------------------------------------------------------------------------------------

    def _taken_by(self) -> dict[str, tuple[str, ...]]:
        """Pod -> the shapes that take it alone."""
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
        hangs_on_others = scheduler.cycle(framework.unasked(), without_others(pod)).schedulable
        return tuple(self.shapes) if hangs_on_others and not cycle.gated else ()

    # -- sets of nodes -----------------------------------------------------------------------------------------------

    def _with(self, counts: Counts, without: str = "", cluster: Cluster | None = None) -> Cluster:
        """The cluster, or another one, with so many nodes of each shape and their daemons, less those of a zone."""
        some = [(self.shapes[name], number) for name, number in counts.items() if number]
        bought = ((shape, at) for shape, number in some for at in range(number if without else 0))
        lost = {shape.node_name(at) for shape, at in bought if shape.zone(at) == without}
        nodes = [node for shape, number in some for node in shape.nodes(number) if node.metadata.name not in lost]
        limits = [limit for shape, number in some for limit in shape.volume_limits(number)]
        daemons = [p for shape, number in some for p in shape.with_nodes(number) if p.spec.node_name not in lost]
        return added(replace(cluster or self.cluster, nodes=tuple(nodes), csi_nodes=tuple(limits)), daemons)

    def _waiting(self, counts: Counts) -> list[str]:
        """The pods that get no node of such a set, or none after the loss of some zone."""
        key = tuple(sorted((name, number) for name, number in counts.items() if number))
        if key not in self._replayed:
            waiting: list[str] = []
            for zone in self._losses(counts):
                simulation, outcomes = replayed(self._with(counts, zone))
                self.unknown = [*self.unknown[-1:], of_simulation(simulation)]
                waiting += waiting_keys(simulation, outcomes)
            self._replayed[key] = list(dict.fromkeys(waiting))
        return self._replayed[key]

    def _losses(self, counts: Counts) -> list[str]:
        """The zones that may be lost; "" for none."""
        used = (self.shapes[name] for name, number in counts.items() if number and self.wishes.keep_zone_loss)
        return ["", *sorted({zone for shape in used for zone in shape.zones if zone})]

    def _grown(self, main: str) -> tuple[dict[str, int], Mapping[str, str]]:
        """So many nodes, most of this shape, that all pods have one; or the pods that still have none, and why."""
        counts = {name: self._needed(name, keys) for name, keys in self._by_shape(self._takers, main).items()}
        fewest, in_vain = self.all_pods + 1, 0
        while (waiting := self._waiting(counts)) and not self._late():
            in_vain = 0 if len(waiting) < fewest else in_vain + 1
            fewest = min(fewest, len(waiting))
            if in_vain > IN_VAIN:
                return counts, self._why(counts, waiting)
            for name, keys in self._by_shape(waiting, main, everywhere=in_vain > 0).items():
                counts[name] = counts.get(name, 0) + self._needed(name, keys)
        return counts, {}

    def _late(self) -> bool:
        """Whether there is no time to try more sets; the first one has all that it needs."""
        if self.sets and time.monotonic() > self._until:
            self.complete = False
        return not self.complete

    def _why(self, counts: Counts, waiting: Iterable[str]) -> dict[str, str]:
        said: dict[str, str] = {}
        for zone in self._losses(counts):
            lost = f"after the loss of zone {zone}: " if zone else ""
            for key, message in messages(self._with(counts, zone)).items():
                said.setdefault(key, f"{lost}{message}")
        return {key: said[key] for key in waiting}

    def _take_out(self, keys: Collection[str], said: Mapping[str, str]) -> None:
        """Pods that get no node, and why."""
        self.never |= {key: said[key] for key in said if key in keys}
        kept = (pod for pod in self.cluster.pods if pod.key not in keys)
        self.cluster = replace(self.cluster, pods=PodTable.of(kept))
        self._takers = {key: takers for key, takers in self._takers.items() if key not in keys}
        self._ranks = {name: self._rank(name) for name in self.shapes}
        self._replayed.clear()

    def _by_shape(self, waiting: Iterable[str], main: str, *, everywhere: bool = False) -> dict[str, list[str]]:
        """The shape of which there will be more for each pod: the main one, or the best of those that take it.

        ``everywhere``: all of those, where more of the main one did not help.
        """
        by_shape: dict[str, list[str]] = {}
        for key in waiting:
            takers = self._takers[key]
            best = main if main in takers else min(takers, key=self._ranks.__getitem__)
            for name in takers if everywhere else (best,):
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
                if fewer[name] < counts[name] and any(fewer.values()) and not self._waiting(fewer):
                    counts = fewer
                else:
                    step //= 2
        return {name: number for name, number in counts.items() if number}

    # -- costs -------------------------------------------------------------------------------------------------------

    def _cost_of_one(self, name: str) -> float:
        known = [price for price in self.shapes[name].prices.values() if price is not None]
        return min(known) if self.by_price else 1.0

    def _rank(self, name: str) -> tuple[int, float]:
        """How many pods it does not take; what nodes of this shape would cost for the others by requests."""
        mine = [key for key, takers in self._takers.items() if name in takers]
        return len(self._takers) - len(mine), self._needed(name, mine) * self._cost_of_one(name)

    def _set(self, counts: dict[str, int]) -> NodeSet:
        prices = [self.shapes[name].price(number) for name, number in counts.items()]
        cost = sum(price or 0.0 for price in prices) if self.by_price else float(sum(counts.values()))
        return NodeSet(counts, cost)

    def _bound(self) -> float:
        """What any set costs at least by what is requested."""
        keys = list(self._takers)
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

    def report(self, doubts: tuple[str, ...]) -> NodeSizing:
        """All of it as a document."""
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
            complete=self.complete and self.tried == len(self.shapes),
            zone_loss=self.wishes.keep_zone_loss,
            scale=self.wishes.scale,
            doubts=doubts,
            interrupted=self.interrupted,
            **self._basis(bool(doubts)),
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
        asked = self._asked(list(self._takers))
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


def _doubts(pods: Sequence[Pod], wishes: SizingWishes) -> Iterator[str]:
    claiming = sum(map(has_claims, pods)) if wishes.scale > 1 else 0
    devices = sum(bool(pod.spec.resource_claims) for pod in pods)
    if claiming:
        yield f"{counted(claiming, 'pod')} with claims: nobody knows the claims of more, so none are added"
    if devices:
        yield f"{counted(devices, 'pod')} with ResourceClaims: the devices of new nodes are not known"
