"""The cheapest nodes that take all pods of a cluster, or the fewest, by replays of kube-scheduler.

Some sets that offer enough are where it begins (``program.py``): each grows until everybody has a node, and gets
cheaper while everybody still has one (``search.py``). All pods come at once, to nodes that have their daemons alone.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from msgspec import structs

from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.pod_table import NO_PODS, PodTable
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.commands.size import highs
from kschedctl.commands.size.closing import Closing, TriedSet, cheaper_sets, tried
from kschedctl.commands.size.plain import PlainPacking
from kschedctl.commands.size.pool_limits import above_limits
from kschedctl.commands.size.program import Counts, Cut, named, program_of
from kschedctl.commands.size.replays import NodeSets, messages, pools_of
from kschedctl.commands.size.report import HomelessPods, NodeSizing, SizedShape, SizingAlternative
from kschedctl.commands.size.search import SearchedSet, SearchTask, SetSearch, grown, improved
from kschedctl.commands.size.shapes import ON_EVERY_NODE, NodeShape, has_claims, more_of_each
from kschedctl.commands.size.solved import SolvedPacking
from kschedctl.commands.size.takers import places_of, split_by_zone, takers_of
from kschedctl.replay.edits import added
from kschedctl.replay.parallel import ALONE, UNSEEN, Progress, Workers, run_all
from kschedctl.replay.pools import PoolState, changes_between
from kschedctl.replay.shared_cluster import cluster_basis
from kschedctl.replay.unknown import together
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.pool_change import PoolChange
from kschedctl.reports.unknown import ClusterBasis, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import counted

NEVER = float("inf")
NOT_YET = "no node of this set; the search ended before there was one that takes it"
LEAST_SECONDS = 8.0
"""For one program of the solver, which nothing begins without."""


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

    counts: Counts
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
    workers: Workers = ALONE,
    not_created: Sequence[NotCreated] = (),
) -> NodeSizing:
    """Nodes for the cluster's pods, those of DaemonSets and static ones aside, which come with nodes.

    ``not_created``: pods that could come, and that the API server refuses.
    """
    pods = [made_again(pod) for pod in cluster.pods if _is_placed_anew(pod)]
    more = more_of_each([pod for pod in pods if not has_claims(pod)], wishes.scale)
    bare = replace(cluster, nodes=(), pods=NO_PODS)
    sizing = _Sizing(added(bare, [*pods, *more]), {shape.name: shape for shape in shapes}, wishes, workers)
    sizing.run(progress)
    before = pools_of(Scheduler(cluster).view) if cluster.nodes else {}
    report = sizing.report(tuple(_doubts(pods, wishes)), before)
    return structs.replace(report, not_created=tuple(not_created))


def _is_placed_anew(pod: Pod) -> bool:
    leaving = pod.terminated or pod.metadata.deletion_timestamp is not None
    return not leaving and find_owner(pod).kind not in ON_EVERY_NODE


@dataclass
class _Sizing:
    """``cluster``: without nodes, with all pods that are to be placed; ``never``: pod -> why no set takes it.

    ``tried`` of ``starts`` were searched to the end. ``bound``: what a set costs at least by requests, ``proven``: by
    replays of what costs less, ``refuted`` sets; ``closed``: of all.
    """

    cluster: Cluster
    shapes: dict[str, NodeShape]
    wishes: SizingWishes
    workers: Workers = ALONE
    sets: list[NodeSet] = field(default_factory=list)
    never: dict[str, str] = field(default_factory=dict)
    bound: float = 0.0
    proven: float = 0.0
    closed: bool = False
    refuted: int = 0
    starts: int = 0
    tried: int = 0
    interrupted: bool = False
    unknown: list[tuple[UnknownKind, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.all_pods = len(self.cluster.pods)
        self._until = time.time() + self.wishes.seconds
        self.packing = (
            SolvedPacking(max(LEAST_SECONDS, self.wishes.seconds / 4)) if highs.is_there() else PlainPacking()
        )
        self._one_a_zone = {name: len(shape.zones) for name, shape in self.shapes.items()}
        self.view = Scheduler(NodeSets(self.cluster, self.shapes).bought(self._one_a_zone)).view
        self.search: SetSearch | None = None

    @property
    def by_price(self) -> bool:
        return not self.wishes.by_nodes and all(
            price is not None for shape in self.shapes.values() for price in shape.prices.values()
        )

    def run(self, progress: Progress) -> None:
        """Look for sets that take all pods, but for those that none takes; then for smaller ones."""
        try:
            self._separate()
            if len(self.cluster.pods):
                self._find(progress)
        except KeyboardInterrupt:
            self.interrupted = True
        if self.search and not self.sets:
            self._take_the_fullest(self.search.sets)

    def _take_the_fullest(self, sets: NodeSets) -> None:
        """Where no set is known to take all pods, of those that were replayed the one that takes most."""
        known = sorted(sets.replayed(), key=lambda some: (len(some[1]), self._set(some[0]).cost))
        for counts, waiting in known[:1]:
            self.sets.append(self._set(counts))
            self.never |= dict.fromkeys(waiting, NOT_YET)

    def _separate(self) -> None:
        """Pods that no shape takes from the others. Raises KeyboardInterrupt."""
        sets = NodeSets(self.cluster, self.shapes)
        places = places_of(self.view, self.shapes)
        self.shapes = split_by_zone(self.shapes, places)
        self.takers = takers_of(places, self.shapes)
        hopeless = {key for key, takers in self.takers.items() if not takers}
        if hopeless:
            alone = replace(
                self.cluster, pods=PodTable.from_pods(pod for pod in self.cluster.pods if pod.key in hopeless)
            )
            self._take_out(hopeless, messages(sets.bought(self._one_a_zone, cluster=alone)))

    def _find(self, progress: Progress) -> None:
        """A set that needs no solver is replayed first, so that soon there is one. Raises KeyboardInterrupt."""
        search = self.search = self._search()
        plain = PlainPacking().starts(search.program)
        self.bound = self.proven = plain.bound
        crowded = [named(counts) for counts in plain.sets[:1] if search.is_crowded(counts)]
        begun = search.packing.starts(search.program)
        self.bound = self.proven = search.bound = begun.bound
        self.starts = len(begun.sets)
        done = progress.begin("Sets of nodes", 2 * len(begun.sets))
        starts = sorted(begun.sets, key=lambda counts: named(counts) not in crowded)  # what is wrong there is known
        good = self._grown(search, starts, done)
        if good and not self.interrupted:
            self._improve(search, good, done)
        if self.sets and not self.interrupted:
            self._close(search, begun.cuts, progress)

    def _search(self) -> SetSearch:
        costs = {name: self._cost_of_one(name) for name in self.shapes}
        first = {name: self.shapes[shape.of or name].first_in(shape.zones[0]) for name, shape in self.shapes.items()}
        rows = {name: self.view.nodes.index[node] for name, node in first.items()}
        sets = NodeSets(self.cluster, self.shapes, self.wishes.keep_zone_loss)
        return SetSearch(sets, program_of(self.view, rows, costs, self.takers), self.packing)

    def _grown(self, search: SetSearch, starts: Sequence[Counts], done: Callable[[int], None]) -> list[SearchedSet]:
        """The sets that take most pods; the first start has all the time that it needs, the others half of it all."""
        half = self._until - self.wishes.seconds / 2
        tasks = [SearchTask(counts, half if at else NEVER) for at, counts in enumerate(starts)]
        results = run_all(grown, search, tasks, self.workers, done)
        self.interrupted = results.interrupted
        self.unknown += [each.unknown for each in results.known]
        full = [each for each in results.known if each.homeless is not None]
        homeless = min((each.homeless or {} for each in full), key=len, default={})
        self.never |= homeless
        good = [each for each in full if each.homeless is not None and each.homeless.keys() <= homeless.keys()]
        self.sets += [self._set(each.counts) for each in good]
        return sorted(good, key=lambda each: search.program.cost(each.counts))

    def _improve(self, search: SetSearch, sets: Sequence[SearchedSet], done: Callable[[int], None]) -> None:
        """Cheaper ones, the best set first."""
        homeless = frozenset(self.never)
        tasks = [SearchTask(each.counts, self._until, homeless, each.before) for each in sets]
        results = run_all(improved, search, tasks, self.workers, done)
        self.interrupted = results.interrupted
        better = [each.counts for each in results.known]
        self.sets += [self._set(counts) for counts in (*better, *search.best.values())]
        self.unknown += [each.unknown for each in results.known]
        self.tried = sum(each.complete for each in results.known)

    def _close(self, search: SetSearch, cuts: Sequence[Cut], progress: Progress) -> None:
        """What costs less than the best set, as far as there is time: the cheapest of all where that is enough."""
        best = self._told()[0].cost
        cheaper = cheaper_sets(search.program, cuts, self.bound, best)
        if cheaper is None:
            return
        known = ((self._set(counts).cost, counts) for counts in cheaper)
        costs = sorted((one for one in known if one[0] < best), key=lambda one: one[0])
        done = progress.begin("Cheaper sets of nodes", len(costs))
        closing = Closing(costs, lambda some: self._replayed(search, some, done))
        closing.search()
        self.closed, self.refuted = closing.closed, len(closing.refuted)
        if closing.best is not None:
            self.sets.append(self._set(closing.best))
        self.proven = max(self.bound, self._told()[0].cost if self.closed else costs[closing.first][0])

    def _replayed(self, search: SetSearch, some: Sequence[Counts], done: Callable[[int], None]) -> list[TriedSet]:
        tasks = [SearchTask(counts, self._until, frozenset(self.never)) for counts in some]
        results = run_all(tried, search, tasks, self.workers, done)
        self.interrupted = results.interrupted
        return results.known

    def _take_out(self, keys: Collection[str], said: Mapping[str, str]) -> None:
        """Pods that get no node, and why."""
        self.never |= {key: said[key] for key in said if key in keys}
        kept = (pod for pod in self.cluster.pods if pod.key not in keys)
        self.cluster = replace(self.cluster, pods=PodTable.from_pods(kept))
        self.takers = {key: takers for key, takers in self.takers.items() if key not in keys}

    def _cost_of_one(self, name: str) -> float:
        known = [price for price in self.shapes[name].prices.values() if price is not None]
        return min(known) if self.by_price else 1.0

    def _set(self, counts: Counts) -> NodeSet:
        prices = [self.shapes[name].price(number) for name, number in counts.items()]
        cost = sum(price or 0.0 for price in prices) if self.by_price else float(sum(counts.values()))
        return NodeSet(dict(counts), cost)

    # -- the report --------------------------------------------------------------------------------------------------

    def report(self, doubts: tuple[str, ...], before: Mapping[str, PoolState]) -> NodeSizing:
        """All of it as a document; ``before``: the pools that there are."""
        sets = self._told()
        best = sets[0] if sets else NodeSet({}, 0.0)
        doubts = (*doubts, *above_limits(self.cluster.karpenter_node_pools, self.shapes, best.counts))
        return NodeSizing(
            pods=self.all_pods,
            nodes=best.nodes,
            price=best.cost if self.by_price and sets else None,
            bound=self.bound if self.by_price else float(ceil(self.bound - 1e-9)),
            proven=self.proven,
            cheapest=self.closed,
            refuted=self.refuted,
            shapes=tuple(self._shapes(best)),
            alternatives=tuple(map(self._alternative, sets)),
            pools=self._pools(before, best.counts),
            never=tuple(_never(self.never)),
            tried=self.tried,
            candidates=self.starts,
            complete=self.tried == self.starts and not self.interrupted,
            solver=isinstance(self.packing, SolvedPacking),
            zone_loss=self.wishes.keep_zone_loss,
            scale=self.wishes.scale,
            doubts=doubts,
            interrupted=self.interrupted,
            **self._basis(bool(doubts)),
        )

    def _pools(self, before: Mapping[str, PoolState], counts: Counts) -> tuple[PoolChange, ...]:
        """What is known of them: another process may have replayed the set, and who interrupts does not wait for it."""
        if not (before and counts and self.search):
            return ()
        after = self.search.sets.pools(counts, anew=not self.interrupted)
        return changes_between(before, after) if after else ()

    def _told(self) -> list[NodeSet]:
        """The best of each choice of shapes, the best first."""
        best: dict[frozenset[str], NodeSet] = {}
        for some in sorted(self.sets, key=lambda some: (some.cost, some.nodes)):
            best.setdefault(frozenset(_by_shape(some, self.shapes)), some)
        return list(best.values())

    def _basis(self, doubtful: bool) -> ClusterBasis:
        basis = cluster_basis(together(self.unknown), Scheduler(self.view.cluster))
        basis["undecided"] = basis["undecided"] or doubtful
        return basis

    def _shapes(self, some: NodeSet) -> Iterator[SizedShape]:
        """Those that can be had of a shape in one zone alone count with it."""
        for name, parts in _by_shape(some, self.shapes).items():
            zones: Counter[str] = Counter()
            for part, number in parts.items():
                shape = self.shapes[part]
                zones.update(shape.zone(at) for at in range(number) if shape.zone(at))
            prices = [self.shapes[part].price(number) for part, number in parts.items()]
            price = None if None in prices else sum(known for known in prices if known is not None)
            yield SizedShape(name, sum(parts.values()), dict(sorted(zones.items())), price, self.shapes[name].like)

    def _alternative(self, some: NodeSet) -> SizingAlternative:
        assert self.search is not None
        program = self.search.program
        nodes = np.array([some.counts.get(name, 0) for name in program.names])
        asked, offered = program.asked(program.pods), nodes @ program.offered
        columns = {name: self.view.resources[name] for name in (CPU, MEMORY)}
        shares = {name: float(100 * asked[at] / offered[at]) for name, at in columns.items() if offered[at]}
        bought = {name: sum(parts.values()) for name, parts in _by_shape(some, self.shapes).items()}
        words = ", ".join(f"{number:,} × {name}" for name, number in bought.items())
        price = some.cost if self.by_price else None
        return SizingAlternative(words, len(bought), some.nodes, price, shares.get(CPU, 0.0), shares.get(MEMORY, 0.0))


def _by_shape(some: NodeSet, shapes: Mapping[str, NodeShape]) -> dict[str, dict[str, int]]:
    """Shape -> how many nodes it has, in all zones in turn and in each alone."""
    by_shape: dict[str, dict[str, int]] = {}
    for name, number in some.counts.items():
        by_shape.setdefault(shapes[name].of or name, {})[name] = number
    return by_shape


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
