"""The search for nodes that can be removed with every pod placed again, independent of any autoscaler.

Nodes are drained one after the other as `kschedctl drain` does, those with the least to move first, each on top of the
nodes already removed. Another order may empty more nodes. The conditions are checked after each node, except the loss
of zones, which is checked at the end. Several workers drain the next nodes in parallel; their results hold as long as
no earlier node is removed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Ints, Position, Row
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.packing.drains_in_turn import DrainsInTurn, NodeTrial
from kschedctl.commands.audit.packing.emptying import (
    KEEPS_LAST,
    EmptyingOrder,
    find_unreplayed_workloads,
    order_removal_candidates,
)
from kschedctl.commands.consolidate.autoscalers import NO_AUTOSCALER, AutoscalerVerdicts
from kschedctl.commands.consolidate.report import NodeConsolidation, RemovableNode, StayingNode, ZoneLoss
from kschedctl.commands.consolidate.safety import (
    RequiredRoom,
    compute_requested_shares,
    remove_nodes_and_move_pods,
    simulate_zone_losses,
)
from kschedctl.fixes.search import count_affordable_replays
from kschedctl.replay.eviction_harms import KINDS_NOT_EVICTED, find_eviction_harms
from kschedctl.replay.node_drain import render_drain
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, WorkerPool, Workers, open_worker_pool
from kschedctl.replay.pools import (
    Pools,
    compare_pool_states,
    compute_pool_states,
    find_unready_nodes,
    select_reported_amounts,
)
from kschedctl.replay.settling import build_resulting_cluster, find_pods_still_pending
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.placements import PoolChange
from kschedctl.reports.summary import EvictionHarms
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

SEARCH_BUDGET = 150_000
"""The replays of a pod's cycle that the search may cost, as `count_affordable_replays` counts them: a few minutes."""
CORDONED, OF_ANOTHER_POOL = "already cordoned", "of another pool"
"""Two of the reasons why nodes are no candidates."""
NO_MOVES: Ints = np.empty((0, 3), np.int32)
"""An empty table of moves, shape (0, 3).

Each row has the row of a removed node, the position of one of its pods and the pod's new row, or -1 and -1 if the node
has no pods.
"""
MAX_BATCH_PER_WORKER = 8
"""The maximum number of nodes that are given to each worker at once."""
STATE_LOCK = Lock()
"""Serializes the threads of a worker, which share state."""
KEEPS_ZONE_LOSS = "--keep-zone-loss: losing a zone would leave more pods without a node than it does now"


@dataclass(frozen=True)
class ConsolidationCriteria:
    """The conditions that must hold once nodes are removed."""

    keep_zone_loss: bool = False
    """Require that the loss of a zone leaves no more pods without a node than now."""
    headroom: float = 0.0
    """The percentage of cpu and memory that stays free."""
    headroom_for: Sequence[str] = ()
    """The pods (`namespace/name`) that must still fit."""
    pool: str = ""
    """The only pool whose nodes may be removed, empty for all pools."""
    seconds: float | None = None
    """The time in seconds for which nodes are tried. Without it, a number of replays limits how many are tried, so that
    the plan does not depend on the machine.
    """


def find_removable_nodes(
    cluster: Cluster,
    criteria: ConsolidationCriteria = ConsolidationCriteria(),
    *,
    prices: Mapping[str, float] | None = None,
    verdicts: AutoscalerVerdicts = NO_AUTOSCALER,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> NodeConsolidation:
    """Find the nodes that could be removed, one after the other, under the conditions in `criteria`.

    `prices` are hourly prices by node, `verdicts` are an autoscaler's verdicts on the nodes. Raises UsageError for an
    unknown pool, and ClusterError if workers are lost.
    """
    shared = SharedConsolidation(cluster, criteria)
    consolidation = shared.run
    with open_worker_pool(run_drain_task, shared, workers) as pool:
        consolidation.run(pool, progress)
    if criteria.keep_zone_loss:
        consolidation.keep_nodes_for_zone_losses(workers)
    return consolidation.build_report(prices or {}, verdicts)


class DrainTask(NamedTuple):
    """A node to drain in the cluster without the nodes that were removed before."""

    moves: Ints
    """The moves of earlier drains, shape (M, 3) as in `NO_MOVES`."""
    row: Row
    """The row of the node to drain."""


class DrainResult(NamedTuple):
    """The result of a drain, and the unread kinds that it depends on."""

    trial: NodeTrial
    unknown: tuple[UnknownKind, ...]


DrainWorkers = WorkerPool[DrainTask, DrainResult]
"""The pool of workers that drain nodes in parallel."""


@dataclass
class ConsolidationRun:
    """The state of the search: the nodes removed so far and the results of all drains."""

    scheduler: Scheduler
    criteria: ConsolidationCriteria
    pools: Pools
    candidates: EmptyingOrder
    """The candidates in the order in which they are tried."""
    reserve: RequiredRoom
    drains: DrainsInTurn
    pending: Sequence[Position]
    """The pending pods, some of which are placed before the first drain. Without those of --headroom-for."""
    ready_workers: Bools
    """A mask (N,) of the ready workers."""
    remaining: Bools
    """A mask (N,) of the ready workers that remain."""
    removable: list[RemovableNode] = field(default_factory=list)
    staying: list[StayingNode] = field(default_factory=list)
    zones: list[ZoneLoss] = field(default_factory=list)
    moves: Ints = field(default_factory=NO_MOVES.copy)
    """The moves of drains that workers did."""
    unknown: list[tuple[UnknownKind, ...]] = field(default_factory=list)
    """The unread kinds that the workers' drains depend on."""
    tried: int = 0
    interrupted: bool = False

    @classmethod
    def start(cls, scheduler: Scheduler, criteria: ConsolidationCriteria) -> ConsolidationRun:
        """Place the pending pods, find the candidates and return the run before its first drain.

        Raises KeyboardInterrupt if the user interrupts while pending pods are placed.
        """
        pools = Pools.from_view(scheduler.view)
        # The pods of --headroom-for are pending, but must not be placed: room for them has to remain.
        reserved_pods = [Position(scheduler.view.pods.index[key]) for key in criteria.headroom_for]
        pending = [
            position for position in find_pods_still_pending(Simulation(scheduler)) if position not in reserved_pods
        ]
        candidates = order_removal_candidates(scheduler, pools, pending)

        ready_workers = pools.workers & ~find_unready_nodes(scheduler.view)
        reserve = RequiredRoom(scheduler, criteria.headroom, reserved_pods)
        if reserved_pods:
            reserve = reserve._replace(fits_now=reserve.fits_on(candidates.view, ready_workers))
        drains = DrainsInTurn(scheduler, candidates.view)
        return cls(
            scheduler,
            criteria,
            pools=pools,
            candidates=candidates,
            reserve=reserve,
            drains=drains,
            pending=pending,
            ready_workers=ready_workers,
            remaining=ready_workers.copy(),
        )

    @property
    def view(self) -> Fork:
        """The cluster without the nodes that were removed so far."""
        return self.drains.view

    @property
    def order(self) -> list[Row]:
        """The candidates in the pool that may be used, empty nodes first. Raises UsageError for an unknown pool."""
        is_in_pool = self.pools.select_nodes_in_pool(self.criteria.pool)
        empty_nodes = [Row(row) for row in self.candidates.empty.tolist()]
        return [row for row in (*empty_nodes, *self.candidates.order) if is_in_pool[row]]

    def run(self, pool: DrainWorkers | None, progress: Progress) -> None:
        """Drain one candidate after the other, and record the results.

        The search ends early if the replays or the time are used up, or if the user interrupts.

        Without a `pool` of workers, this process drains the nodes. Raises UsageError for an unknown pool of nodes.
        """
        order = self.order
        deadline = math.inf
        max_replays: float = count_affordable_replays(SEARCH_BUDGET, len(self.view.nodes))
        if self.criteria.seconds is not None:
            deadline = time.monotonic() + self.criteria.seconds
            max_replays = math.inf
        node_by_pod = self.scheduler.view.node
        pods_on_nodes = np.bincount(node_by_pod[node_by_pod >= 0], minlength=len(self.remaining))
        replays = 0
        on_done = progress.begin("Draining nodes", len(order))
        drains = self._iter_drains(order) if pool is None else self._iter_parallel_drains(order, pool)
        try:
            for row, trial in drains:
                self._record_drain_result(row, trial)
                self.tried += 1
                on_done(1)
                replays += 1 + int(pods_on_nodes[row])  # about one replay for each pod on the node
                if replays > max_replays or time.monotonic() > deadline:
                    return
        except KeyboardInterrupt:
            self.interrupted = True

    def _iter_drains(self, order: Sequence[Row]) -> Iterator[tuple[Row, NodeTrial]]:
        """Yield the drains of the candidates, one after the other in this process."""
        for row in order:
            yield row, self.try_to_drain(row)

    def _iter_parallel_drains(
        self, order: Sequence[Row], pool: WorkerPool[DrainTask, DrainResult]
    ) -> Iterator[tuple[Row, NodeTrial]]:
        """Yield each candidate with the trial of its drain, in order.

        As long as nodes are removed, each drain depends on the one before, and this process drains one after the other.
        After a node stays, workers try a batch of candidates at once. The batches grow until a node is removed. Then
        the rest of the batch is tried again, because it was tried with the removed node.
        """
        start = 0
        size = pool.size
        was_last_removed = True
        while start < len(order):
            if was_last_removed:
                row = order[start]
                trial = self.try_to_drain(row)
                was_last_removed = not trial.why
                if was_last_removed:
                    # The drain was done in this process, so its moves are only recorded for the workers
                    self.moves = np.concatenate((self.moves, self._build_move_rows(row, trial)))
                start += 1
                yield row, trial
                continue

            batch = order[start : start + size]
            size = min(2 * size, MAX_BATCH_PER_WORKER * pool.size)
            results = pool.run([DrainTask(self.moves, row) for row in batch])
            for row, (trial, unknown) in zip(batch, results, strict=True):
                self.unknown.append(unknown)
                start += 1
                was_last_removed = not trial.why
                if was_last_removed:
                    # A worker did the drain, so it is repeated here
                    self.apply_moves(self._build_move_rows(row, trial))
                yield row, trial
                if was_last_removed:
                    size = pool.size
                    break  # the rest of the batch is tried again

    def try_to_drain(self, row: Row) -> NodeTrial:
        """Drain one more node, and keep it drained if it can be emptied and enough room remains.

        Otherwise the returned trial says why, and the drain is undone.
        """
        removed = np.flatnonzero(self.ready_workers & ~self.remaining)
        if stranded := self.candidates.find_stranded_pods(np.append(removed, row)):
            return NodeTrial.kept_for(stranded)
        trial = self.drains.drain_node_unless_pending_pods_fit(row, [*self.pending, *self.candidates.displaced])
        if trial.why:
            return trial
        remaining = self.remaining.copy()
        remaining[row] = False
        if not remaining.any():
            self.drains.undo()
            return KEEPS_LAST
        shortage = self.reserve.find_shortage(self.view, remaining)
        if shortage:
            self.drains.undo()
            return trial._replace(why=shortage)
        self.remaining = remaining
        return trial

    def apply_moves(self, moves: Ints) -> None:
        """Remove nodes that workers drained, and place their pods as the workers did.

        `moves` has the shape (M, 3). Each row has the row of a removed node, the position of one of its pods and the
        pod's new row. If a node was empty, the position and the new row are -1.
        """
        removed_rows = dict.fromkeys(moves[:, 0].tolist())  # in order, without duplicates
        for row in removed_rows:
            node_moves = moves[moves[:, 0] == row, 1:].tolist()
            # A node that was empty has a single move, without a pod
            targets = {Position(position): Row(target) for position, target in node_moves if position >= 0}
            self.drains.replay_drain(Row(row), targets)
            self.remaining[row] = False
        self.moves = np.concatenate((self.moves, moves))

    def _build_move_rows(self, row: Row, trial: NodeTrial) -> Ints:
        """Return the moves of a drain, shape (M, 3) as in `NO_MOVES`."""
        pods, nodes = self.view.pods.index, self.view.nodes.index
        moves = [(int(row), int(pods[move.pod]), int(nodes[move.target])) for move in trial.moved]
        # A node without pods has one row, so that it is known to be removed
        return np.array(moves or [(int(row), -1, -1)], np.int32)

    def _record_drain_result(self, row: Row, trial: NodeTrial) -> None:
        """Add the node to the removable nodes or, if the trial has a reason, to the staying nodes."""
        name = self.view.nodes.names[row]
        pool = self.pools.get_name(row)
        if not trial.why:
            offers = select_reported_amounts(self.view, self.view.allocatable[row])
            self.removable.append(RemovableNode(name, pool, pods=len(trial.moved), offers=offers, moves=trial.moved))
            return
        # kube-scheduler's message counts the nodes removed so far, and this node, as cordoned.
        cordoned_in_replay = len(self.removable) + 1 if trial.message else 0
        self.staying.append(
            StayingNode(
                name,
                pool,
                trial.why,
                pod=trial.pod,
                lets_run=trial.lets_run,
                message=trial.message,
                cordoned_in_replay=cordoned_in_replay,
            )
        )

    def keep_nodes_for_zone_losses(self, workers: Workers) -> None:
        """Keep some of the removed nodes if a zone loss would otherwise leave more pods without a node than now.

        As many of the last removed nodes are kept as needed. Sets `zones` to the losses with the remaining nodes.
        Raises UsageError if nodes name no zone.
        """
        base = build_resulting_cluster(Simulation(self.scheduler, self.candidates.view))
        self.zones = self._simulate_zone_losses(base, len(self.removable), workers)
        if _are_losses_acceptable(self.zones):
            return

        # Find by bisection how many of the nodes can be removed. Removing none is acceptable, removing all is not.
        acceptable_count, excessive_count = 0, len(self.removable)
        while excessive_count - acceptable_count > 1:
            middle = (acceptable_count + excessive_count) // 2
            if _are_losses_acceptable(self._simulate_zone_losses(base, middle, workers)):
                acceptable_count = middle
            else:
                excessive_count = middle
        self.zones = self._simulate_zone_losses(base, acceptable_count, workers)

        kept_nodes = self.removable[acceptable_count:]
        self.staying += [StayingNode(node.node, node.pool, KEEPS_ZONE_LOSS) for node in kept_nodes]
        self.remaining[[self.view.nodes.index[node.node] for node in kept_nodes]] = True
        del self.removable[acceptable_count:]

    def _simulate_zone_losses(self, base: Cluster, removed_count: int, workers: Workers) -> list[ZoneLoss]:
        """Simulate losing each zone once the first `removed_count` removable nodes are gone from `base`."""
        removed = self.removable[:removed_count]
        moves = [move for node in removed for move in node.moves]
        cluster_without_nodes = remove_nodes_and_move_pods(base, [node.node for node in removed], moves)
        return simulate_zone_losses(base, cluster_without_nodes, workers)

    def build_report(self, prices: Mapping[str, float], verdicts: AutoscalerVerdicts) -> NodeConsolidation:
        """Build the report with prices and an autoscaler's verdicts.

        If not all pods were read, no node is reported as removable, since unread pods may run on it. `removable` and
        `remaining` are changed accordingly.
        """
        has_unread_pods = self.scheduler.view.cluster.find_gap("Pod") is not None
        if has_unread_pods:
            self.removable = []
            self.remaining = self.ready_workers
        view = self.candidates.view
        order = self.order
        rows = [view.nodes.index[node.node] for node in self.removable]
        unknown = merge_unknown_kinds([self.candidates.unknown, self.drains.unknown, *self.unknown])

        # Cordoned nodes that are reported as removable or needed were judged, although none was a candidate
        excluded = self._find_excluded_nodes_by_reason()
        cordoned = excluded.pop(CORDONED, [])
        cordoned_empty, cordoned_needed = self._split_cordoned_empty_nodes(cordoned, rows)
        judged = {node.node for node in cordoned_needed}.union(() if has_unread_pods else cordoned_empty)
        unjudged_cordoned = [row for row in cordoned if view.nodes.names[row] not in judged]
        if unjudged_cordoned:
            excluded = {CORDONED: unjudged_cordoned, **excluded}

        known_prices = [prices[node.node] for node in self.removable if node.node in prices]
        return NodeConsolidation(
            removable=tuple(_add_price_and_verdict(node, prices, verdicts) for node in self.removable),
            staying=tuple(_add_autoscaler_verdict(node, verdicts) for node in (*self.staying, *cordoned_needed)),
            nodes=len(view.nodes),
            candidates=len(order),
            tried=self.tried,
            complete=self.tried == len(order) and not self.interrupted,
            left_out={reason: len(rows) for reason, rows in excluded.items()},
            not_tried={
                reason: tuple(view.nodes.names[row] for row in rows)
                for reason, rows in excluded.items()
                if reason != OF_ANOTHER_POOL
            },
            cordoned_empty=tuple(cordoned_empty),
            saves=select_reported_amounts(view, view.allocatable[rows].sum(axis=0)) if rows else {},
            price=sum(known_prices) if known_prices else None,
            fitting=int(np.count_nonzero(~self.scheduler.view.mask_placed() & view.mask_placed())),
            requested=tuple(
                compute_requested_shares(self.scheduler.view, self.view, self.remaining, self.ready_workers)
            ),
            zones=tuple(self.zones),
            pools=self._compare_pools(rows) if rows else (),
            autoscaler=verdicts.summarize([node.node for node in self.removable]),
            commands=tuple(map(self._render_drain, self.removable)),
            **self._find_eviction_harms()._asdict(),
            pool=self.criteria.pool,
            pods_of_unready_nodes=tuple(view.pods.objects[position].key for position in self.candidates.displaced),
            waiting_workloads=find_unreplayed_workloads(self.scheduler, self.pending),
            interrupted=self.interrupted,
            **build_cluster_basis(unknown, self.scheduler),
        )

    def _render_drain(self, node: RemovableNode) -> str:
        """Return the command that drains the node, which may have pods of nodes that were removed before."""
        view = self.candidates.view
        positions = dict.fromkeys(view.pods_on(view.nodes.index[node.node]))
        positions |= dict.fromkeys(Position(view.pods.index[move.pod]) for move in node.moves)
        return render_drain([node.node], map(view.pods.objects.__getitem__, positions))

    def _find_eviction_harms(self) -> EvictionHarms:
        """Return what is lost when the nodes are drained one after the other.

        A workload has an outage if one node has all of its pods. A pod that moves several times is named once.
        """
        get_pod = self.candidates.view.pods.get_pod
        cluster = self.scheduler.view.cluster
        outages: dict[str, None] = {}
        for node in self.removable:
            moved_pods = [get_pod(move.pod) for move in node.moves]
            outages |= dict.fromkeys(find_eviction_harms(cluster, moved_pods).outages)
        moved_keys = dict.fromkeys(move.pod for node in self.removable for move in node.moves)
        harms = find_eviction_harms(cluster, [get_pod(key) for key in moved_keys])
        return harms._replace(outages=tuple(outages))

    def _compare_pools(self, removed: Sequence[Row]) -> tuple[PoolChange, ...]:
        """Return how the ready workers of each pool change, given the rows of the removed nodes."""
        ready_pools = self.pools._replace(workers=self.ready_workers)
        is_kept = np.ones(len(self.remaining), np.bool_)
        is_kept[removed] = False
        view_before, view_after = self.scheduler.view, self.view
        states_before = compute_pool_states(view_before, ready_pools)
        states_after = compute_pool_states(view_after, ready_pools, is_kept)
        return compare_pool_states(states_before, states_after)

    def _split_cordoned_empty_nodes(
        self, cordoned: Sequence[int], removed: Sequence[Row]
    ) -> tuple[list[str], list[StayingNode]]:
        """Return the names of the cordoned empty nodes that can be removed as well, and those that pending pods need.

        `removed` are the rows of the removable nodes.
        """
        removed_rows = list(removed)
        removable = []
        needed_nodes = []
        for row in map(Row, cordoned):
            if not self._is_node_empty(row):
                continue
            name = self.view.nodes.names[row]
            trial = NodeTrial.kept_for(self.candidates.find_stranded_pods([*removed_rows, row]))
            if trial.lets_run:
                pool = self.pools.get_name(row)
                needed_nodes.append(StayingNode(name, pool, trial.why, lets_run=trial.lets_run))
            else:
                removed_rows.append(row)
                removable.append(name)
        return removable, needed_nodes

    def _is_node_empty(self, row: Row) -> bool:
        """Return whether the node has only pods of DaemonSets and static pods."""
        view = self.candidates.view
        owners = (find_owner(view.pods.objects[position]).kind for position in view.pods_on(row))
        return all(kind in KINDS_NOT_EVICTED for kind in owners)

    def _find_excluded_nodes_by_reason(self) -> dict[str, list[int]]:
        """Return the rows of the nodes that were not candidates, by reason.

        The reasons continue the phrase "3 nodes …". Reasons without nodes are left out.
        """
        view = self.candidates.view
        is_in_pool = self.pools.select_nodes_in_pool(self.criteria.pool)
        is_candidate = np.zeros(len(is_in_pool), np.bool_)
        is_candidate[self.order] = True
        is_cordoned = view.nodes.unschedulable & is_in_pool
        is_control_plane = ~self.pools.workers & ~view.nodes.unschedulable & is_in_pool
        is_unready = self.pools.workers & is_in_pool & find_unready_nodes(view)
        # the only reason that is left for workers
        is_nominated = self.pools.workers & is_in_pool & ~is_candidate & ~is_unready
        mask_by_reason = {
            CORDONED: is_cordoned,
            "of the control plane": is_control_plane,
            "not ready or not initialized": is_unready,
            "nominated for a preempting pod": is_nominated,
            OF_ANOTHER_POOL: ~is_in_pool,
        }
        return {reason: np.flatnonzero(nodes).tolist() for reason, nodes in mask_by_reason.items() if nodes.any()}


@dataclass(eq=False)
class SharedConsolidation:
    """The data from which each worker process builds its own run."""

    cluster: Cluster
    criteria: ConsolidationCriteria
    built_run: ConsolidationRun | None = None
    """The run of this process, once it is built."""

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "built_run": None}  # not sent to workers

    @property
    def run(self) -> ConsolidationRun:
        """The run of this process, which is built on first use. Raises KeyboardInterrupt if the user interrupts."""
        if self.built_run is None:
            self.built_run = ConsolidationRun.start(Scheduler(self.cluster), self.criteria)
        return self.built_run


def run_drain_task(shared: SharedConsolidation, task: DrainTask) -> DrainResult:
    """Drain a node in a worker, and undo the drain. Return the trial, and the unread kinds that it depends on.

    The worker first repeats the moves of nodes that were removed since its last task.
    """
    with STATE_LOCK:
        run = shared.run
        run.apply_moves(task.moves[len(run.moves) :])
        remaining_before = run.remaining
        trial = run.try_to_drain(task.row)  # keeps a removable node drained, and replaces `run.remaining`
        is_drained = not trial.why
        if is_drained:
            run.drains.undo()
            run.remaining = remaining_before
        unknown = run.drains.unknown if shared.cluster.gaps else ()
        return DrainResult(trial, unknown)


def _are_losses_acceptable(losses: Sequence[ZoneLoss]) -> bool:
    """Return whether no zone loss leaves more pods without a node than before."""
    return all(loss.after <= loss.before for loss in losses)


def _add_price_and_verdict(
    node: RemovableNode, prices: Mapping[str, float], verdicts: AutoscalerVerdicts
) -> RemovableNode:
    """Return the node with its price and the autoscaler's verdict."""
    return RemovableNode(
        node.node,
        node.pool,
        pods=node.pods,
        offers=node.offers,
        price=prices.get(node.node),
        autoscaler=verdicts.describe_node(node.node),
        moves=node.moves,
    )


def _add_autoscaler_verdict(node: StayingNode, verdicts: AutoscalerVerdicts) -> StayingNode:
    """Return the node with the autoscaler's verdict."""
    return replace(node, autoscaler=verdicts.describe_node(node.node))
