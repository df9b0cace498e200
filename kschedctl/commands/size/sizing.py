"""The cheapest or fewest nodes that take all pods of a cluster, proved by replays of kube-scheduler.

Starting sets offer enough by requests (``program``). Each grows until every pod has a node and is then made cheaper
(``search``). All pods arrive at once on nodes that have only their daemons.
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
from kschedctl.api.workloads import recreate_pod
from kschedctl.cluster import Cluster
from kschedctl.commands.size import highs
from kschedctl.commands.size.closing import OptimalityCheck, TriedSet, enumerate_cheaper_sets, try_set
from kschedctl.commands.size.plain import PlainPacking
from kschedctl.commands.size.program import Counts, Cut, build_program, format_counts
from kschedctl.commands.size.replays import NodeSets, compute_pools, explain_unplaced
from kschedctl.commands.size.report import HomelessPods, NodeSizing, SizedShape, SizingAlternative
from kschedctl.commands.size.search import SearchedSet, SearchTask, SetSearch, grow_set, improve_set
from kschedctl.commands.size.shapes import (
    ON_EVERY_NODE,
    NodeShape,
    find_places,
    find_takers,
    has_claims,
    scale_workloads,
    split_by_zone,
)
from kschedctl.commands.size.solved import SolvedPacking
from kschedctl.commands.size.type_shapes import find_exceeded_limits
from kschedctl.replay.edits import add_pods
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers, run_all
from kschedctl.replay.pools import PoolState, compare_pool_states
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import PoolChange
from kschedctl.reports.unknown import ClusterBasis, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.text.counts import counted

NEVER = float("inf")
NOT_YET = "no node of this set; the search ended before there was one that takes it"
MIN_SOLVER_SECONDS = 8.0
"""The minimum time for one program of the solver, without which nothing starts."""


@dataclass(frozen=True)
class SizingWishes:
    """What has to fit, and what counts as best."""

    by_nodes: bool = False
    """Minimize the number of nodes even if prices are known."""
    keep_zone_loss: bool = False
    """Require that all pods also get nodes after the loss of any zone."""
    scale: float = 1
    """The factor by which each workload's pods are multiplied."""
    seconds: float = 60
    """How long to try more sets."""


@dataclass(frozen=True)
class NodeSet:
    """Nodes that take all pods."""

    counts: Counts
    cost: float
    """The hourly price, or the number of nodes."""

    @property
    def nodes(self) -> int:
        return sum(self.counts.values())


def size(
    cluster: Cluster,
    shapes: Sequence[NodeShape],
    wishes: SizingWishes = SizingWishes(),
    progress: Progress = NO_PROGRESS,
    *,
    workers: Workers = ONE_PROCESS,
    not_created: Sequence[NotCreated] = (),
) -> NodeSizing:
    """Find nodes for the cluster's pods except those of DaemonSets and static pods, which come with the nodes.

    ``not_created`` are pods of manifests that the API server would deny.
    """
    pods = [recreate_pod(pod) for pod in cluster.pods if _is_placed_anew(pod)]
    more = scale_workloads([pod for pod in pods if not has_claims(pod)], wishes.scale)
    bare = replace(cluster, nodes=(), pods=NO_PODS)
    sizing = _Sizing(add_pods(bare, [*pods, *more]), {shape.name: shape for shape in shapes}, wishes, workers)
    sizing.run(progress)
    before = compute_pools(Scheduler(cluster).view) if cluster.nodes else {}
    report = sizing.build_report(tuple(_iter_doubts(pods, wishes)), before)
    return structs.replace(report, not_created=tuple(not_created))


def _is_placed_anew(pod: Pod) -> bool:
    leaving = pod.terminated or pod.metadata.deletion_timestamp is not None
    return not leaving and find_owner(pod).kind not in ON_EVERY_NODE


@dataclass
class _Sizing:
    """The state of one sizing run."""

    cluster: Cluster
    """The cluster without nodes, with all pods to place."""
    shapes: dict[str, NodeShape]
    wishes: SizingWishes
    workers: Workers = ONE_PROCESS
    sets: list[NodeSet] = field(default_factory=list)
    never: dict[str, str] = field(default_factory=dict)
    """Pods that no set takes, and why."""
    bound: float = 0.0
    """What a set costs at least by requests."""
    proven: float = 0.0
    """What a set costs at least by replays."""
    is_optimal: bool = False
    """Whether replays refuted all cheaper sets."""
    refuted: int = 0
    """The number of refuted sets."""
    starts: int = 0
    """The number of starting sets."""
    tried: int = 0
    """The number of starting sets searched to the end."""
    interrupted: bool = False
    unknown: list[tuple[UnknownKind, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.all_pods = len(self.cluster.pods)
        self._until = time.time() + self.wishes.seconds
        self.packing = (
            SolvedPacking(max(MIN_SOLVER_SECONDS, self.wishes.seconds / 4)) if highs.is_available() else PlainPacking()
        )
        self._one_a_zone = {name: len(shape.zones) for name, shape in self.shapes.items()}
        self.view = Scheduler(NodeSets(self.cluster, self.shapes).build_cluster(self._one_a_zone)).view
        self.search: SetSearch | None = None

    @property
    def uses_prices(self) -> bool:
        return not self.wishes.by_nodes and all(
            price is not None for shape in self.shapes.values() for price in shape.prices.values()
        )

    def run(self, progress: Progress) -> None:
        """Search for sets that take all placeable pods, then for cheaper ones."""
        try:
            self._set_aside_unplaceable()
            if len(self.cluster.pods):
                self._find_sets(progress)
        except KeyboardInterrupt:
            self.interrupted = True
        if self.search and not self.sets:
            self._use_fullest_set(self.search.sets)

    def _use_fullest_set(self, sets: NodeSets) -> None:
        """Use the replayed set that takes most pods if none takes all."""
        known = sorted(sets.iter_replayed(), key=lambda some: (len(some[1]), self._build_set(some[0]).cost))
        for counts, waiting in known[:1]:
            self.sets.append(self._build_set(counts))
            self.never |= dict.fromkeys(waiting, NOT_YET)

    def _set_aside_unplaceable(self) -> None:
        """Remove the pods that no shape takes. Raises KeyboardInterrupt."""
        sets = NodeSets(self.cluster, self.shapes)
        places = find_places(self.view, self.shapes)
        self.shapes = split_by_zone(self.shapes, places)
        self.takers = find_takers(places, self.shapes)
        hopeless = {key for key, takers in self.takers.items() if not takers}
        if hopeless:
            alone = replace(
                self.cluster, pods=PodTable.from_pods(pod for pod in self.cluster.pods if pod.key in hopeless)
            )
            self._exclude_pods(hopeless, explain_unplaced(sets.build_cluster(self._one_a_zone, cluster=alone)))

    def _find_sets(self, progress: Progress) -> None:
        """Find sets. One that needs no solver is replayed first so that there is a set early. Raises
        KeyboardInterrupt.
        """
        search = self.search = self._build_search()
        plain = PlainPacking().propose_starts(search.program)
        self.bound = self.proven = plain.bound
        crowded = [format_counts(counts) for counts in plain.sets[:1] if search.is_crowded(counts)]
        begun = search.packing.propose_starts(search.program)
        self.bound = self.proven = search.bound = begun.bound
        self.starts = len(begun.sets)
        done = progress.begin("Sets of nodes", 2 * len(begun.sets))
        starts = sorted(
            begun.sets, key=lambda counts: format_counts(counts) not in crowded
        )  # what is wrong there is known
        good = self._grow_starts(search, starts, done)
        if good and not self.interrupted:
            self._improve_sets(search, good, done)
        if self.sets and not self.interrupted:
            self._check_cheaper_sets(search, begun.cuts, progress)

    def _build_search(self) -> SetSearch:
        costs = {name: self._cost_per_node(name) for name in self.shapes}
        first = {
            name: self.shapes[shape.base_name or name].first_node_in(shape.zones[0])
            for name, shape in self.shapes.items()
        }
        rows = {name: self.view.nodes.index[node] for name, node in first.items()}
        sets = NodeSets(self.cluster, self.shapes, self.wishes.keep_zone_loss)
        return SetSearch(sets, build_program(self.view, rows, costs, self.takers), self.packing)

    def _grow_starts(
        self, search: SetSearch, starts: Sequence[Counts], done: Callable[[int], None]
    ) -> list[SearchedSet]:
        """Return the sets that take most pods. The first start has unlimited time, the others half of it."""
        half = self._until - self.wishes.seconds / 2
        tasks = [SearchTask(counts, half if at else NEVER) for at, counts in enumerate(starts)]
        results = run_all(grow_set, search, tasks, self.workers, done)
        self.interrupted = results.interrupted
        self.unknown += [each.unknown for each in results.completed]
        full = [each for each in results.completed if each.homeless is not None]
        homeless = min((each.homeless or {} for each in full), key=len, default={})
        self.never |= homeless
        good = [each for each in full if each.homeless is not None and each.homeless.keys() <= homeless.keys()]
        self.sets += [self._build_set(each.counts) for each in good]
        return sorted(good, key=lambda each: search.program.cost(each.counts))

    def _improve_sets(self, search: SetSearch, sets: Sequence[SearchedSet], done: Callable[[int], None]) -> None:
        """Make the sets cheaper, best set first."""
        homeless = frozenset(self.never)
        tasks = [SearchTask(each.counts, self._until, homeless, each.before) for each in sets]
        results = run_all(improve_set, search, tasks, self.workers, done)
        self.interrupted = results.interrupted
        better = [each.counts for each in results.completed]
        self.sets += [self._build_set(counts) for counts in (*better, *search.best.values())]
        self.unknown += [each.unknown for each in results.completed]
        self.tried = sum(each.complete for each in results.completed)

    def _check_cheaper_sets(self, search: SetSearch, cuts: Sequence[Cut], progress: Progress) -> None:
        """Try all sets that cost less than the best one, as far as time allows."""
        best = self._best_sets()[0].cost
        cheaper = enumerate_cheaper_sets(search.program, cuts, self.bound, best)
        if cheaper is None:
            return
        known = ((self._build_set(counts).cost, counts) for counts in cheaper)
        costs = sorted((one for one in known if one[0] < best), key=lambda one: one[0])
        done = progress.begin("Cheaper sets of nodes", len(costs))
        closing = OptimalityCheck(costs, lambda some: self._replay_sets(search, some, done))
        closing.search()
        self.is_optimal, self.refuted = closing.is_closed, len(closing.refuted)
        if closing.best is not None:
            self.sets.append(self._build_set(closing.best))
        self.proven = max(self.bound, self._best_sets()[0].cost if self.is_optimal else costs[closing.first][0])

    def _replay_sets(self, search: SetSearch, some: Sequence[Counts], done: Callable[[int], None]) -> list[TriedSet]:
        tasks = [SearchTask(counts, self._until, frozenset(self.never)) for counts in some]
        results = run_all(try_set, search, tasks, self.workers, done)
        self.interrupted = results.interrupted
        return results.completed

    def _exclude_pods(self, keys: Collection[str], said: Mapping[str, str]) -> None:
        """Remove pods that get no node, and record why."""
        self.never |= {key: said[key] for key in said if key in keys}
        kept = (pod for pod in self.cluster.pods if pod.key not in keys)
        self.cluster = replace(self.cluster, pods=PodTable.from_pods(kept))
        self.takers = {key: takers for key, takers in self.takers.items() if key not in keys}

    def _cost_per_node(self, name: str) -> float:
        known = [price for price in self.shapes[name].prices.values() if price is not None]
        return min(known) if self.uses_prices else 1.0

    def _build_set(self, counts: Counts) -> NodeSet:
        prices = [self.shapes[name].price_of(number) for name, number in counts.items()]
        cost = sum(price or 0.0 for price in prices) if self.uses_prices else float(sum(counts.values()))
        return NodeSet(dict(counts), cost)

    # -- the report --------------------------------------------------------------------------------------------------

    def build_report(self, doubts: tuple[str, ...], before: Mapping[str, PoolState]) -> NodeSizing:
        """Build the report. ``before`` holds the cluster's pools."""
        sets = self._best_sets()
        best = sets[0] if sets else NodeSet({}, 0.0)
        doubts = (*doubts, *find_exceeded_limits(self.cluster.karpenter_node_pools, self.shapes, best.counts))
        return NodeSizing(
            pods=self.all_pods,
            nodes=best.nodes,
            price=best.cost if self.uses_prices and sets else None,
            bound=self.bound if self.uses_prices else float(ceil(self.bound - 1e-9)),
            proven=self.proven,
            cheapest=self.is_optimal,
            refuted=self.refuted,
            shapes=tuple(self._iter_shapes(best)),
            alternatives=tuple(map(self._build_alternative, sets)),
            pools=self._compare_pools(before, best.counts),
            never=tuple(_group_by_message(self.never)),
            tried=self.tried,
            candidates=self.starts,
            complete=self.tried == self.starts and not self.interrupted,
            solver=isinstance(self.packing, SolvedPacking),
            zone_loss=self.wishes.keep_zone_loss,
            scale=self.wishes.scale,
            doubts=doubts,
            interrupted=self.interrupted,
            **self._build_basis(bool(doubts)),
        )

    def _compare_pools(self, before: Mapping[str, PoolState], counts: Counts) -> tuple[PoolChange, ...]:
        """Return the changes to the pools, as far as known: another process may have replayed the set."""
        if not (before and counts and self.search):
            return ()
        after = self.search.sets.get_pools(counts, anew=not self.interrupted)
        return compare_pool_states(before, after) if after else ()

    def _best_sets(self) -> list[NodeSet]:
        """Return the best set of each combination of shapes, best first."""
        best: dict[frozenset[str], NodeSet] = {}
        for some in sorted(self.sets, key=lambda some: (some.cost, some.nodes)):
            best.setdefault(frozenset(_count_by_shape(some, self.shapes)), some)
        return list(best.values())

    def _build_basis(self, doubtful: bool) -> ClusterBasis:
        basis = build_cluster_basis(merge_unknown_kinds(self.unknown), Scheduler(self.view.cluster))
        basis["undecided"] = basis["undecided"] or doubtful
        return basis

    def _iter_shapes(self, some: NodeSet) -> Iterator[SizedShape]:
        """Yield the best set's shapes, with their parts in single zones counted in."""
        for name, parts in _count_by_shape(some, self.shapes).items():
            zones: Counter[str] = Counter()
            for part, number in parts.items():
                shape = self.shapes[part]
                zones.update(shape.zone_of(at) for at in range(number) if shape.zone_of(at))
            prices = [self.shapes[part].price_of(number) for part, number in parts.items()]
            price = None if None in prices else sum(known for known in prices if known is not None)
            yield SizedShape(name, sum(parts.values()), dict(sorted(zones.items())), price, self.shapes[name].like)

    def _build_alternative(self, some: NodeSet) -> SizingAlternative:
        assert self.search is not None
        program = self.search.program
        nodes = np.array([some.counts.get(name, 0) for name in program.names])
        asked, offered = program.sum_requests(program.pods), nodes @ program.offered
        columns = {name: self.view.resources[name] for name in (CPU, MEMORY)}
        shares = {name: float(100 * asked[at] / offered[at]) for name, at in columns.items() if offered[at]}
        bought = {name: sum(parts.values()) for name, parts in _count_by_shape(some, self.shapes).items()}
        words = ", ".join(f"{number:,} × {name}" for name, number in bought.items())
        price = some.cost if self.uses_prices else None
        return SizingAlternative(words, len(bought), some.nodes, price, shares.get(CPU, 0.0), shares.get(MEMORY, 0.0))


def _count_by_shape(some: NodeSet, shapes: Mapping[str, NodeShape]) -> dict[str, dict[str, int]]:
    """Return the number of nodes by shape and by part of the shape, over all zones and in single ones."""
    by_shape: dict[str, dict[str, int]] = {}
    for name, number in some.counts.items():
        by_shape.setdefault(shapes[name].base_name or name, {})[name] = number
    return by_shape


def _group_by_message(waiting: Mapping[str, str]) -> Iterator[HomelessPods]:
    by_words: dict[str, list[str]] = {}
    for key, why in waiting.items():
        by_words.setdefault(why, []).append(key)
    for why, keys in by_words.items():
        yield HomelessPods(tuple(keys), why)


def _iter_doubts(pods: Sequence[Pod], wishes: SizingWishes) -> Iterator[str]:
    claiming = sum(map(has_claims, pods)) if wishes.scale > 1 else 0
    devices = sum(bool(pod.spec.resource_claims) for pod in pods)
    if claiming:
        yield f"{counted(claiming, 'pod')} with claims: nobody knows the claims of more, so none are added"
    if devices:
        yield f"{counted(devices, 'pod')} with ResourceClaims: the devices of new nodes are not known"
