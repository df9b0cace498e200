"""The cheapest or fewest nodes that take all pods of a cluster, proved by replays of kube-scheduler.

Starting sets offer enough by requests (``program``). Each grows until every pod has a node and is then made cheaper
(``search``). All pods arrive at once on nodes that have only their daemons.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil, floor, isfinite

import numpy as np
from msgspec import structs

from kschedctl.api.copying import replace
from kschedctl.api.objects import NodeSelector, Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.pod_table import NO_PODS, PodTable
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.commands.size.optimality import OptimalityCheck, TriedSet, enumerate_cheaper_sets, try_set
from kschedctl.commands.size.program import (
    ROUNDING_ERROR,
    Counts,
    Cut,
    PlainPacking,
    StartingSets,
    build_program,
    format_counts,
)
from kschedctl.commands.size.replays import NodeSets, compute_pools, explain_unplaced_pods
from kschedctl.commands.size.report import HomelessPods, NodeSizing, SizedShape, SizingAlternative
from kschedctl.commands.size.search import (
    NEVER,
    SearchedSet,
    SearchLimit,
    SearchTask,
    SetSearch,
    grow_and_trim_set,
    improve_set,
)
from kschedctl.commands.size.shapes import (
    ON_EVERY_NODE,
    NodeShape,
    find_places_of_pending_pods,
    has_claims,
    iter_additional_pods,
    map_pods_to_shapes,
    split_shapes_by_zone,
)
from kschedctl.commands.size.solved import SolvedPacking, is_solver_available
from kschedctl.commands.size.type_shapes import iter_limit_warnings
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, UNKNOWN_PARTS, Progress, Results, Workers, run_tasks
from kschedctl.replay.pools import PoolState, compare_pool_states
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import PoolChange
from kschedctl.reports.unknown import ClusterBasis, UnknownKind
from kschedctl.scheduler.plugins.helper.volume_listers import Listers, get_listers, iter_claim_volumes
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.nodes import HOSTNAME, ZONE
from kschedctl.text.counts import agreeing, counted, first_few

NOT_YET = "no node of this set takes the pod, and the search ended before it found a better set"
SEARCH_BUDGET = 200_000
"""The pods that the replays of sets may place in total: about a minute.

The search is limited by replays instead of time, so that each machine finds the same set.
"""
MIN_REPLAYS = 8
"""The minimum number of replays for the search from one set, and for all searches of large clusters."""


@dataclass(frozen=True)
class SizingCriteria:
    """The requirements for a set of nodes, and the measure by which sets are compared."""

    by_nodes: bool = False
    """Minimize the number of nodes even if prices are known."""
    keep_zone_loss: bool = False
    """Require that all pods also get nodes after the loss of any zone."""
    scale: float = 1
    """The factor by which each workload's pods are multiplied."""
    seconds: float | None = None
    """The time in seconds for which sets are tried. Without it, a number of replays limits how many are tried, so that
    the set does not depend on the machine.
    """


@dataclass(frozen=True)
class NodeSet:
    """Nodes that take all pods."""

    counts: Counts
    cost: float
    """The hourly price, or the number of nodes."""

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(self.counts.values())


def size_cluster(
    cluster: Cluster,
    shapes: Sequence[NodeShape],
    criteria: SizingCriteria = SizingCriteria(),
    progress: Progress = NO_PROGRESS,
    *,
    workers: Workers = ONE_PROCESS,
    not_created: Sequence[NotCreated] = (),
) -> NodeSizing:
    """Find the cheapest nodes of these shapes for all pods of the cluster.

    Pods of DaemonSets and static pods come with the nodes, and finished or terminating pods are left out. Workloads are
    scaled as the criteria say, except for pods with claims. `not_created` are workloads with pods that the API server
    would deny.
    """
    pods = [recreate_pod(pod, cluster) for pod in cluster.pods if _needs_node(pod)]
    additional_pods = iter_additional_pods([pod for pod in pods if not has_claims(pod)], criteria.scale)
    empty_cluster = replace(cluster, nodes=(), pods=NO_PODS)
    all_pods = add_or_replace_pods(empty_cluster, [*pods, *additional_pods])

    sizing = _Sizing(all_pods, {shape.name: shape for shape in shapes}, criteria, workers)
    sizing.run(progress)
    before = compute_pools(Scheduler(cluster).view) if cluster.nodes else {}
    report = sizing.build_report(tuple(_iter_caveats(pods, criteria)), before)

    # The pods that run now, but would get no node
    running_now = {pod.key for pod in cluster.pods if pod.spec.node_name and _needs_node(pod)}
    without_node = [key for group in report.never for key in group.pods]
    loses_node = tuple(key for key in without_node if key in running_now)
    return structs.replace(
        report,
        not_created=tuple(not_created),
        loses_node=loses_node,
        nodes_to_keep=group_bound_pods_by_node(cluster, loses_node) if loses_node else {},
    )


def _needs_node(pod: Pod) -> bool:
    """Return whether the pod needs a node that has to be bought.

    Return False for finished and terminating pods, and for DaemonSet pods and static pods, which come with their node.
    """
    is_leaving = pod.terminated or pod.metadata.deletion_timestamp is not None
    return not is_leaving and find_owner(pod).kind not in ON_EVERY_NODE


class _SearchProgress:
    """Shows how many pods the replays of sets have placed, and how much of the search time is over if it is limited."""

    def __init__(self, progress: Progress, seconds: float, max_placed: int) -> None:
        """Begin to show the progress. `seconds` and `max_placed` are the limits of the search, 0 for none."""
        self._start = time.time()
        self._seconds = ceil(seconds)
        self._seconds_shown = 0
        if seconds:
            self._on_seconds = progress.begin("Seconds of search time", self._seconds)
        self._on_placed = progress.begin("Placing pods on sets of nodes", max_placed)

    def report_placed_pods(self, number: int) -> None:
        """Report that `number` more pods were placed, and how many seconds have passed since the last report."""
        if self._seconds:
            elapsed = min(int(time.time() - self._start), self._seconds)
            self._on_seconds(elapsed - self._seconds_shown)
            self._seconds_shown = elapsed
        self._on_placed(number)


@dataclass
class _Sizing:
    """The state of a search for the best set of nodes."""

    cluster: Cluster
    """The cluster without nodes, with all pods to place."""
    shapes: dict[str, NodeShape]
    """The node shapes by name. From the start of the search on they include parts that are limited to one zone."""
    criteria: SizingCriteria
    workers: Workers = ONE_PROCESS
    sets: list[NodeSet] = field(default_factory=list)
    homeless: dict[str, str] = field(default_factory=dict)
    """The pods that no set takes, with kube-scheduler's message."""
    bound: float = 0.0
    """A lower bound on the cost of any set, from requests."""
    proven: float = 0.0
    """A lower bound on the cost of any set, from replays."""
    is_optimal: bool = False
    """True if replays refuted all cheaper sets."""
    refuted: int = 0
    """The number of refuted sets."""
    starts: int = 0
    """The number of starting sets."""
    tried: int = 0
    """The number of starting sets searched to the end."""
    interrupted: bool = False
    unknown: list[tuple[UnknownKind, ...]] = field(default_factory=list)
    """The unread kinds that replays depend on."""

    def __post_init__(self) -> None:
        self._all_pods = self.cluster
        self._unplaceable: Set[str] = frozenset()
        self.pod_count = len(self.cluster.pods)
        self._deadline = NEVER
        self._remaining_replays: float = max(SEARCH_BUDGET // max(self.pod_count, 1), MIN_REPLAYS)
        if self.criteria.seconds is not None:
            self._deadline = time.time() + self.criteria.seconds
            self._remaining_replays = NEVER
        self.packing: SolvedPacking | PlainPacking = SolvedPacking() if is_solver_available() else PlainPacking()
        self._one_per_zone = {name: len(shape.zones) for name, shape in self.shapes.items()}
        self.view = Scheduler(NodeSets(self.cluster, self.shapes).build_cluster(self._one_per_zone)).view
        self.search: SetSearch | None = None

    @property
    def uses_prices(self) -> bool:
        """True if sets are compared by price: all prices are known and the user did not ask for the fewest nodes."""
        if self.criteria.by_nodes:
            return False
        return all(price is not None for shape in self.shapes.values() for price in shape.prices.values())

    def run(self, progress: Progress) -> None:
        """Search for node sets that take all placeable pods, then for cheaper node sets.

        If the search ends before a node set takes all of these pods, fall back to the replayed node set that takes the
        most pods. An interruption by the user is recorded in `interrupted`.
        """
        try:
            self._find_takers_and_exclude_unplaceable_pods(progress)
            if len(self.cluster.pods):
                self._find_node_sets(progress)
        except KeyboardInterrupt:
            self.interrupted = True
        if self.search and not self.sets:
            self._use_fullest_set(self.search.sets)

    def _use_fullest_set(self, sets: NodeSets) -> None:
        """Add the replayed set that takes the most pods to `self.sets`, and the remaining pods to `homeless`.

        Ties go to the cheapest set. Nothing happens if no set was replayed.
        """
        replayed_sets = [(self._build_node_set(counts), waiting) for counts, waiting in sets.iter_replayed_sets()]
        if not replayed_sets:
            return
        fullest_set, waiting = min(replayed_sets, key=lambda entry: (len(entry[1]), entry[0].cost))
        self.sets.append(fullest_set)
        self.homeless |= dict.fromkeys(waiting, NOT_YET)

    def _find_takers_and_exclude_unplaceable_pods(self, progress: Progress) -> None:
        """Find the shapes that take each pod, and remove the pods that no shape takes from the cluster.

        Shapes are split by the zones to which pods are bound. Removed pods are recorded in `homeless`, with
        kube-scheduler's message. Raises KeyboardInterrupt if the user interrupts.
        """
        sets = NodeSets(self.cluster, self.shapes)
        places = find_places_of_pending_pods(self.view, self.shapes, progress)
        self.shapes = split_shapes_by_zone(self.shapes, places)
        self.takers = map_pods_to_shapes(places, self.shapes)
        unplaceable = {key for key, takers in self.takers.items() if not takers}
        self._unplaceable = unplaceable
        if unplaceable:
            unplaceable_pods = PodTable.from_pods(pod for pod in self.cluster.pods if pod.key in unplaceable)
            cluster_of_unplaceable = replace(self.cluster, pods=unplaceable_pods)
            cluster_with_nodes = sets.build_cluster(self._one_per_zone, cluster=cluster_of_unplaceable)
            self._remove_pods_from_cluster(unplaceable, explain_unplaced_pods(cluster_with_nodes))

    def _find_node_sets(self, progress: Progress) -> None:
        """Propose starting sets, grow them until they take all pods, make them cheaper, and check all cheaper sets.

        The first set that needs no solver is replayed before the solver runs, so that there is an early answer. Raises
        KeyboardInterrupt if the user interrupts.
        """
        search = self._build_set_search()
        self.search = search
        plain_starts = PlainPacking().propose_starting_sets(search.program)
        self.bound = plain_starts.bound
        self.proven = plain_starts.bound
        crowded_sets = self._list_first_set_if_crowded(search, plain_starts, progress)
        crowded_names = list(map(format_counts, crowded_sets))

        # Propose sets with the solver, if there is one.
        solver_starts = search.packing.propose_starting_sets(search.program)
        self.bound = solver_starts.bound
        self.proven = solver_starts.bound
        search.bound = solver_starts.bound
        self.starts = len(solver_starts.sets)

        # Grow the sets, and make them cheaper.
        max_placed = int(self._remaining_replays) * self.pod_count if isfinite(self._remaining_replays) else 0
        search_progress = _SearchProgress(progress, self.criteria.seconds or 0, max_placed)
        # A crowded set comes first, since its replay has shown already which nodes it lacks.
        starts = sorted(solver_starts.sets, key=lambda counts: format_counts(counts) not in crowded_names)
        complete_sets = self._grow_starting_sets(search, starts, search_progress.report_placed_pods)
        if complete_sets and not self.interrupted:
            self._improve_sets(search, complete_sets, search_progress.report_placed_pods)
        if self.sets and not self.interrupted:
            self._check_cheaper_sets(search, solver_starts.cuts, progress)

    def _list_first_set_if_crowded(
        self, search: SetSearch, plain_starts: StartingSets, progress: Progress
    ) -> Sequence[Counts]:
        """Replay the first starting set, and return it in a list if it is crowded. Otherwise return an empty list.

        If the set is crowded, the fill levels for all searches are measured on it. Raises KeyboardInterrupt if the user
        interrupts.
        """
        # A list of at most one set, since there may be no starting set
        first_sets = plain_starts.sets[:1]
        parts = [self.pod_count] * len(first_sets)
        on_placed = progress.begin("Placing pods on a first set of nodes", sum(parts))
        results = run_tasks(SetSearch.is_crowded, search, first_sets, ONE_PROCESS, on_placed, parts=parts)
        if results.interrupted:
            raise KeyboardInterrupt
        is_crowded = any(results.completed)
        if not is_crowded:
            return []
        search.probe_fill_levels(first_sets[0])  # now, before processes start, so that all processes share the levels
        return first_sets

    def _build_set_search(self) -> SetSearch:
        """Build the search with the packing program and the replays that all starting sets share."""
        costs = {name: self._get_cost_per_node(name) for name in self.shapes}
        row_by_shape: dict[str, int] = {}
        for name, shape in self.shapes.items():
            # The view has nodes of whole shapes only, so that a part in one zone uses the whole shape's node there.
            whole_shape = self.shapes[shape.base_name or name]
            row_by_shape[name] = self.view.nodes.index[whole_shape.get_first_node_name(shape.zones[0])]
        sets = NodeSets(self.cluster, self.shapes, self.criteria.keep_zone_loss)
        return SetSearch(sets, build_program(self.view, row_by_shape, costs, self.takers), self.packing)

    def _grow_starting_sets(
        self, search: SetSearch, starts: Sequence[Counts], on_done: Callable[[int], None]
    ) -> list[SearchedSet]:
        """Grow the starting sets, and return the grown sets that take the most pods, the cheapest first.

        These sets are added to `self.sets`, and the pods that they leave out to `homeless`. The search from the first
        start has no limit, and the others share half of the replays or of the time.
        """
        first_start, other_starts = starts[:1], starts[1:]
        half_time = self._deadline - (self.criteria.seconds or 0) / 2
        max_replays, limited_count = _share_replays(self._remaining_replays / 2, len(starts) - 1)
        limit = SearchLimit(max_replays, half_time)
        tasks = [
            *(SearchTask(counts) for counts in first_start),
            *(SearchTask(counts, limit) for counts in other_starts[:limited_count]),
        ]
        results = run_tasks(grow_and_trim_set, search, tasks, self.workers, on_done, parts=[UNKNOWN_PARTS] * len(tasks))
        self._record_searches(results)

        # The pods without a node are those of the set that leaves out the fewest. Other sets must not leave out more.
        homeless_by_set = [(result, result.homeless) for result in results.completed if result.homeless is not None]
        fewest_homeless = min((homeless for _, homeless in homeless_by_set), key=len, default={})
        self.homeless |= fewest_homeless
        fullest = [result for result, homeless in homeless_by_set if homeless.keys() <= fewest_homeless.keys()]
        self.sets += [self._build_node_set(result.counts) for result in fullest]
        return sorted(fullest, key=lambda result: search.program.compute_cost(result.counts))

    def _record_searches(self, results: Results[SearchedSet]) -> None:
        """Record whether searches were interrupted, what they could not know, and how many replays they took."""
        self.interrupted = results.interrupted
        self.unknown += [result.unknown for result in results.completed]
        self._remaining_replays -= sum(result.replays for result in results.completed)

    def _improve_sets(self, search: SetSearch, sets: Sequence[SearchedSet], on_done: Callable[[int], None]) -> None:
        """Search for cheaper variants of the sets, in the given order, and append them to `self.sets`.

        Variants that were found before the limit was reached or the user interrupted count as well. `tried` becomes the
        number of searches that ran to their end. Each search gets the same share of the replays. What some of them
        leave over is shared by the others, which go on from their best sets.
        """
        homeless = frozenset(self.homeless)
        unfinished = [SearchTask(result.counts, homeless=homeless, grown_from=result.grown_from) for result in sets]
        while unfinished and self._remaining_replays > 0 and time.time() < self._deadline and not self.interrupted:
            max_replays, count = _share_replays(self._remaining_replays, len(unfinished))
            limit = SearchLimit(max_replays, self._deadline)
            tasks = [task._replace(limit=limit) for task in unfinished[:count]]
            results = run_tasks(improve_set, search, tasks, self.workers, on_done, parts=[UNKNOWN_PARTS] * len(tasks))
            self._record_searches(results)
            improved_counts = [result.counts for result in results.completed]
            self.sets += [self._build_node_set(counts) for counts in (*improved_counts, *search.best.values())]
            self.tried += sum(result.complete for result in results.completed)
            to_continue = [
                task._replace(counts=result.counts)
                for task, result in zip(tasks, results.by_task, strict=True)
                if result is not None and not result.complete
            ]
            unfinished = to_continue + unfinished[count:]

    def _check_cheaper_sets(self, search: SetSearch, cuts: Sequence[Cut], progress: Progress) -> None:
        """Replay all sets that might cost less than the best set and satisfy the cuts, until the limit is reached.

        A cut is a condition that every sufficient set satisfies. Append the cheapest set that takes all pods to
        `self.sets`, and set `is_optimal`, `refuted` and `proven`. Do nothing if there are too many cheaper sets.
        """
        best_cost = self._list_best_sets()[0].cost
        candidates = enumerate_cheaper_sets(search.program, cuts, self.bound, best_cost)
        if candidates is None:
            return
        # The program prices each node where it is cheapest, so some candidates cost more than it says.
        costs_and_counts = [(self._build_node_set(counts).cost, counts) for counts in candidates]
        cheaper_sets = [(cost, counts) for cost, counts in costs_and_counts if cost < best_cost]
        cheaper_sets.sort(key=lambda entry: entry[0])

        on_done = progress.begin("Placing pods on cheaper sets of nodes", self.pod_count * len(cheaper_sets))
        check = OptimalityCheck(cheaper_sets, lambda sets: self._replay_sets(search, sets, on_done))
        check.refute_cheaper_sets()
        self.is_optimal = check.has_refuted_all
        self.refuted = len(check.refuted)
        if check.best is not None:
            self.sets.append(self._build_node_set(check.best))

        # All sets that cost less than this were refuted.
        if self.is_optimal:
            proven = self._list_best_sets()[0].cost
        else:
            proven, _ = cheaper_sets[check.first_open]
        self.proven = max(self.bound, proven)

    def _replay_sets(self, search: SetSearch, sets: Sequence[Counts], on_done: Callable[[int], None]) -> list[TriedSet]:
        """Replay sets, and return for each set whether it takes all placeable pods.

        Each set uses up one of the remaining replays. Results are missing for the last sets if no replays are left, and
        for some of the sets if the user interrupts. An interruption is recorded in `interrupted`.
        """
        if isfinite(self._remaining_replays):
            sets = sets[: max(int(self._remaining_replays), 0)]
        self._remaining_replays -= len(sets)
        limit = SearchLimit(until=self._deadline)
        tasks = [SearchTask(counts, limit, frozenset(self.homeless)) for counts in sets]
        results = run_tasks(try_set, search, tasks, self.workers, on_done, parts=[self.pod_count] * len(tasks))
        self.interrupted = results.interrupted
        return results.completed

    def _remove_pods_from_cluster(self, keys: Collection[str], messages: Mapping[str, str]) -> None:
        """Remove the pods with these keys, which fit on no node shape, from `cluster` and `takers`.

        Removed pods that have a message from kube-scheduler are added to `homeless`.
        """
        self.homeless |= {key: messages[key] for key in messages if key in keys}
        remaining_pods = (pod for pod in self.cluster.pods if pod.key not in keys)
        self.cluster = replace(self.cluster, pods=PodTable.from_pods(remaining_pods))
        self.takers = {key: takers for key, takers in self.takers.items() if key not in keys}

    def _get_cost_per_node(self, name: str) -> float:
        """Return the lowest price of a node of the shape, or 1.0 if nodes are counted instead of prices."""
        if not self.uses_prices:
            return 1.0
        return min(price for price in self.shapes[name].prices.values() if price is not None)

    def _build_node_set(self, counts: Counts) -> NodeSet:
        """Build the node set with these numbers of nodes of each shape.

        Its cost is the price of its nodes, or their number if the sizing uses no prices.
        """
        if not self.uses_prices:
            return NodeSet(dict(counts), float(sum(counts.values())))
        prices = [self.shapes[name].compute_price(number) for name, number in counts.items()]
        return NodeSet(dict(counts), sum(price or 0.0 for price in prices))

    # -- the report --------------------------------------------------------------------------------------------------

    def build_report(self, doubts: tuple[str, ...], before: Mapping[str, PoolState]) -> NodeSizing:
        """Build the report on the best set. `before` holds the state of the cluster's current pools.

        The messages of pods without a node are taken from new replays on that set.
        """
        sets = self._list_best_sets()
        best = sets[0] if sets else NodeSet(counts={}, cost=0.0)
        self._explain_pods_without_node(best)
        doubts = (*doubts, *iter_limit_warnings(self.cluster.karpenter_node_pools, self.shapes, best.counts))
        return NodeSizing(
            pods=self.pod_count,
            nodes=best.nodes,
            price=best.cost if self.uses_prices and sets else None,
            bound=self.bound if self.uses_prices else float(ceil(self.bound - ROUNDING_ERROR)),
            bound_pods=len(self.cluster.pods),
            proven=self.proven,
            cheapest=self.is_optimal,
            refuted=self.refuted,
            shapes=tuple(self._iter_sized_shapes(best)),
            alternatives=tuple(map(self._build_sizing_alternative, sets)),
            pools=self._compare_pools(before, best.counts),
            never=tuple(_group_pods_by_message(self.homeless)),
            tried=self.tried,
            candidates=self.starts,
            complete=self.tried == self.starts and not self.interrupted,
            solver=isinstance(self.packing, SolvedPacking),
            zone_loss=self.criteria.keep_zone_loss,
            scale=self.criteria.scale,
            doubts=doubts,
            interrupted=self.interrupted,
            **self._build_cluster_basis(bool(doubts)),
        )

    def _explain_pods_without_node(self, best: NodeSet) -> None:
        """Replace the messages of the pods without a node by messages from replays on the best set.

        The earlier messages come from replays on other sets of nodes. They are kept if the search was interrupted, or
        if the best set is empty. Pods that fit no shape are replayed without any other pods, so that their messages do
        not blame other pods for taking the resources.
        """
        if not (self.homeless and best.counts) or self.interrupted:
            return
        sets = NodeSets(self._all_pods, self.shapes)
        unplaceable_pods = [pod for pod in self._all_pods.pods if pod.key in self._unplaceable]
        cluster_of_unplaceable = replace(self._all_pods, pods=PodTable.from_pods(unplaceable_pods))
        some_pods_fit_a_shape = self.homeless.keys() > self._unplaceable
        try:
            messages = explain_unplaced_pods(sets.build_cluster(best.counts, cluster=cluster_of_unplaceable))
            if some_pods_fit_a_shape:
                messages_with_all_pods = explain_unplaced_pods(sets.build_cluster(best.counts))
                messages = messages_with_all_pods | messages
        except KeyboardInterrupt:
            self.interrupted = True
            return
        self.homeless = {key: messages.get(key, message) for key, message in self.homeless.items()}

    def _compare_pools(self, before: Mapping[str, PoolState], counts: Counts) -> tuple[PoolChange, ...]:
        """Compare the cluster's current pools with the pools of a set.

        The result is empty if the cluster has no nodes. It is also empty if the pools of the set are unknown, because
        the search was interrupted and this process did not replay the set.
        """
        if not (before and counts and self.search):
            return ()
        after = self.search.sets.get_pool_states(counts, replay_if_needed=not self.interrupted)
        if not after:
            return ()
        return compare_pool_states(before, after)

    def _list_best_sets(self) -> list[NodeSet]:
        """Return the cheapest set of each combination of shapes, the cheapest first.

        Of equally cheap sets, the one with fewer nodes comes first.
        """
        best_by_shapes: dict[frozenset[str], NodeSet] = {}
        for node_set in sorted(self.sets, key=lambda node_set: (node_set.cost, node_set.nodes)):
            shape_names = frozenset(_count_nodes_by_shape(node_set, self.shapes))
            best_by_shapes.setdefault(shape_names, node_set)
        return list(best_by_shapes.values())

    def _build_cluster_basis(self, doubtful: bool) -> ClusterBasis:
        """Build the fields of the report on what the replays depend on. If `doubtful`, the answer is undecided."""
        basis = build_cluster_basis(merge_unknown_kinds(self.unknown), Scheduler(self.view.cluster))
        basis["undecided"] = basis["undecided"] or doubtful
        return basis

    def _iter_sized_shapes(self, node_set: NodeSet) -> Iterator[SizedShape]:
        """Yield the shapes of a set with their nodes, zones and price.

        The parts of a shape that are limited to one zone are counted together. The price is None if some price is
        unknown.
        """
        for name, parts in _count_nodes_by_shape(node_set, self.shapes).items():
            zones: Counter[str] = Counter()
            for part, number in parts.items():
                node_zones = map(self.shapes[part].get_zone, range(number))  # one zone for each node
                zones.update(zone for zone in node_zones if zone)
            prices = [self.shapes[part].compute_price(number) for part, number in parts.items()]
            known_prices = [price for price in prices if price is not None]
            total_price = sum(known_prices) if len(known_prices) == len(prices) else None
            node_count = sum(parts.values())
            shape = self.shapes[name]
            zone_counts = dict(sorted(zones.items()))
            yield SizedShape(
                name,
                nodes=node_count,
                zones=zone_counts,
                price=total_price,
                like=shape.like,
                peculiarities=shape.peculiarities,
            )

    def _build_sizing_alternative(self, node_set: NodeSet) -> SizingAlternative:
        """Build the report about one set, with the percentages of its cpu and memory that the pods request."""
        assert self.search is not None
        program = self.search.program
        nodes = np.array([node_set.counts.get(name, 0) for name in program.names])
        requested = program.sum_requests(program.pods)
        offered = nodes @ program.offered

        def compute_percentage(resource: str) -> float:
            """Return the requested share of a resource in percent, 0 if the set offers none."""
            column = self.view.resources[resource]
            return float(100 * requested[column] / offered[column]) if offered[column] else 0.0

        nodes_by_shape = {
            name: sum(parts.values()) for name, parts in _count_nodes_by_shape(node_set, self.shapes).items()
        }
        return SizingAlternative(
            shapes=", ".join(f"{number:,} × {name}" for name, number in nodes_by_shape.items()),
            kinds=len(nodes_by_shape),
            nodes=node_set.nodes,
            price=node_set.cost if self.uses_prices else None,
            cpu=compute_percentage(CPU),
            memory=compute_percentage(MEMORY),
        )


def _share_replays(replays: float, search_count: int) -> tuple[float, int]:
    """Return the number of replays for each search, and how many of the searches get that many.

    >>> _share_replays(100, 4), _share_replays(20, 4), _share_replays(3, 4), _share_replays(NEVER, 4)
    ((25, 4), (8, 2), (3, 1), (inf, 4))
    """
    if not isfinite(replays):
        return replays, search_count
    share = max(floor(replays / max(search_count, 1)), min(MIN_REPLAYS, floor(replays)), 1)
    return share, min(search_count, max(floor(replays / share), 1))


def _count_nodes_by_shape(node_set: NodeSet, shapes: Mapping[str, NodeShape]) -> dict[str, dict[str, int]]:
    """Map each shape to the numbers of nodes of its parts: the whole shape, or the shape limited to one zone."""
    counts_by_shape: dict[str, dict[str, int]] = {}
    for name, number in node_set.counts.items():
        shape_counts = counts_by_shape.setdefault(shapes[name].base_name or name, {})
        shape_counts[name] = number
    return counts_by_shape


def _group_pods_by_message(waiting: Mapping[str, str]) -> Iterator[HomelessPods]:
    """Yield the pods without a node, grouped by kube-scheduler's message.

    `waiting` maps pod keys to messages.
    """
    pods_by_message: dict[str, list[str]] = {}
    for key, message in waiting.items():
        pods_by_message.setdefault(message, []).append(key)
    for message, keys in pods_by_message.items():
        yield HomelessPods(tuple(keys), message)


def _iter_caveats(pods: Sequence[Pod], criteria: SizingCriteria) -> Iterator[str]:
    """Yield the reasons why the answer may be wrong, if there are any.

    If workloads are scaled, pods with volume or device claims are not scaled. For pods with ResourceClaims, the devices
    of new nodes are unknown.
    """
    claiming_pods = sum(map(has_claims, pods)) if criteria.scale > 1 else 0
    pods_with_devices = sum(bool(pod.spec.resource_claims) for pod in pods)
    if claiming_pods:
        are = counted(claiming_pods, "pod with claims is", "pods with claims are")
        yield f"{are} not scaled, since the claims of more pods are unknown"
    if pods_with_devices:
        have = counted(pods_with_devices, "pod has ResourceClaims", "pods have ResourceClaims")
        yield f"{have}, and the devices of new nodes are unknown"


MAX_LABEL_HINTS = 3
"""At most this many labels are named that new nodes lack."""


def group_bound_pods_by_node(cluster: Cluster, pod_keys: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the nodes to which some of these running pods are bound by hostname, with the keys of the bound pods.

    A pod is bound to its node by a volume that only this node can access, or by its nodeSelector. The nodes are sorted
    by name.
    """
    pods_by_node: dict[str, list[str]] = {}
    storage = get_listers(Scheduler(cluster).view)
    for pod in cluster.pods:
        if pod.key in pod_keys and pod.spec.node_name and _is_bound_by_hostname(pod, storage):
            pods_by_node.setdefault(pod.spec.node_name, []).append(pod.key)
    return {node: tuple(pods) for node, pods in sorted(pods_by_node.items())}


def _is_bound_by_hostname(pod: Pod, storage: Listers) -> bool:
    """Return whether the pod's nodeSelector or one of its volumes names the hostname of its node."""
    if HOSTNAME in pod.spec.node_selector:
        return True
    for claim_volume in iter_claim_volumes(pod):
        claim = storage.claims.get((pod.metadata.namespace, claim_volume.claim_name))
        volume = storage.volumes.get(claim.spec.volume_name) if claim else None
        affinity = volume.spec.node_affinity if volume else None
        if affinity is not None and affinity.required is not None and _is_limited_to_hostnames(affinity.required):
            return True
    return False


def _is_limited_to_hostnames(selector: NodeSelector) -> bool:
    """Return whether each term of the selector requires a hostname from a list."""
    return all(
        any(requirement.key == HOSTNAME and requirement.operator == "In" for requirement in term.match_expressions)
        for term in selector.node_selector_terms
    )


def iter_instance_type_hints(
    cluster: Cluster, shapes: Sequence[NodeShape], pods_without_node: Collection[str]
) -> Iterator[str]:
    """Yield hints about what nodes of the instance types lack: labels that pods select, and zones of the cluster.

    At most MAX_LABEL_HINTS labels are named: those that pods still without a node select most often. Hostnames and
    zones are left out. There is a hint about zones only if the types and the cluster have no zone in common.
    """
    yield from _iter_label_hints(shapes, [pod for pod in cluster.pods if pod.key in pods_without_node])

    zones_of_types = sorted({zone for shape in shapes for zone in shape.zones if zone})
    zones_of_cluster = sorted({node.metadata.labels[ZONE] for node in cluster.nodes if ZONE in node.metadata.labels})
    if zones_of_types and zones_of_cluster and not set(zones_of_types) & set(zones_of_cluster):
        yield (
            f"none of the zones of these types ({first_few(zones_of_types)}) is a zone of the cluster "
            f"({first_few(zones_of_cluster)}): volumes and zone selectors do not match"
        )


def _iter_label_hints(shapes: Sequence[NodeShape], pods: Iterable[Pod]) -> Iterator[str]:
    """Yield hints about the labels that pods select most often among those that no node of the shapes has.

    There are at most MAX_LABEL_HINTS hints. Hostnames and zones are left out.
    """
    models = [model for shape in shapes for model in shape.models.values()]
    offered_labels = {label for model in models for label in model.metadata.labels.items()}
    selecting_pods: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        lacking_labels = pod.spec.node_selector.items() - offered_labels
        # No --node-label can give all nodes one hostname or zone
        selecting_pods.update((key, value) for key, value in lacking_labels if key not in (HOSTNAME, ZONE))
    for (key, value), pod_count in selecting_pods.most_common(MAX_LABEL_HINTS):
        selects = agreeing(pod_count, "selects", "select")
        option = f"--node-label {key}={value} sizes nodes for {agreeing(pod_count, 'it', 'them')}"
        yield f"{counted(pod_count, 'pod')} {selects} {key}={value}, which no node of these types has: {option}"
