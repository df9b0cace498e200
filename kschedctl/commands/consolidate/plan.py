"""Which nodes can go with every pod placed again, and what keeps each other node, independent of any autoscaler.

Nodes are drained one after the other like ``kschedctl drain`` does, those with the least to move first, each on top of
those that could go. Another order may empty more. The conditions are checked after each node, except the loss of zones,
which is checked at the end. Several workers drain the next nodes in parallel; their results hold as long as no earlier
node goes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Position, Row
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.packing.drains_in_turn import DrainsInTurn, NodeTrial
from kschedctl.commands.audit.packing.emptying import EmptyingOrder, find_candidates
from kschedctl.commands.consolidate.autoscalers import NOBODY, AutoscalerVerdicts
from kschedctl.commands.consolidate.report import NodeConsolidation, RemovableNode, StayingNode, UnitLoss
from kschedctl.commands.consolidate.safety import Reserve, compute_shares, remove_nodes, simulate_zone_losses
from kschedctl.replay import kubectl
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, WorkerPool, Workers, open_worker_pool
from kschedctl.replay.pools import Pools, compare_pools, select_reported_amounts
from kschedctl.replay.settling import build_resulting_cluster, find_pending
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

NO_MOVES: Ints = np.empty((0, 3), np.int32)
"""No moves, shape (M, 3): the row of a removed node, and for each of its pods the position and the new row, -1 for
no pod.
"""
MAX_BATCH_PER_WORKER = 8
"""So many nodes are given to each worker at once, at most."""
STATE_LOCK = Lock()
"""Serializes the threads of a worker, which share state."""
ZONES = "--keep-zone-loss: the loss of a zone would leave more pods without a node than now"
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data")


@dataclass(frozen=True)
class ConsolidationWishes:
    """What must hold once nodes are gone."""

    keep_zone_loss: bool = False
    """The loss of a zone must leave no more pods without a node than now."""
    headroom: float = 0.0
    """The percentage of cpu and memory that stays free."""
    headroom_for: Sequence[str] = ()
    """Pods (``namespace/name``) that must still fit."""
    pool: str = ""
    """The only pool whose nodes may go."""
    seconds: float = 180.0
    """How long nodes are tried."""


def consolidate(
    cluster: Cluster,
    wishes: ConsolidationWishes = ConsolidationWishes(),
    *,
    prices: Mapping[str, float] | None = None,
    verdicts: AutoscalerVerdicts = NOBODY,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> NodeConsolidation:
    """Find which nodes could go. ``prices`` are hourly prices by node, ``verdicts`` those of an autoscaler.

    Raises UsageError, and ClusterError if workers are lost.
    """
    shared = SharedCandidates(cluster, wishes)
    consolidating = shared.consolidating
    with open_worker_pool(judge_drain, shared, workers) as hands:
        consolidating.run(hands, progress)
    if wishes.keep_zone_loss:
        consolidating.keep_for_zone_losses(workers)
    return consolidating.build_report(prices or {}, verdicts)


class DrainTask(NamedTuple):
    """A node to drain after those that already went."""

    moves: Ints
    """Moves as in NO_MOVES, shape (M, 3)."""
    row: Row


class JudgedDrain(NamedTuple):
    """The result of a drain, and the unread kinds it depends on."""

    trial: NodeTrial
    unknown: tuple[UnknownKind, ...]


DrainWorkers = WorkerPool[DrainTask, JudgedDrain]
"""Who drains nodes side by side."""


@dataclass
class ConsolidationRun:
    """The nodes as they go, one after the other."""

    scheduler: Scheduler
    wishes: ConsolidationWishes
    pools: Pools
    found: EmptyingOrder
    reserve: Reserve
    drains: DrainsInTurn
    remaining: Bools
    """The nodes that are left, (N,)."""
    removable: list[RemovableNode] = field(default_factory=list)
    staying: list[StayingNode] = field(default_factory=list)
    zones: list[UnitLoss] = field(default_factory=list)
    moves: Ints = field(default_factory=NO_MOVES.copy)
    """Moves of drains that were done by workers."""
    unknown: list[tuple[UnknownKind, ...]] = field(default_factory=list)
    """Unread kinds that workers' drains depend on."""
    tried: int = 0
    interrupted: bool = False

    @classmethod
    def start(cls, scheduler: Scheduler, wishes: ConsolidationWishes) -> ConsolidationRun:
        """Prepare the search. Raises UsageError for an unknown pool."""
        pools = Pools.of(scheduler.view)
        kept_for = [Position(scheduler.view.pods.index[key]) for key in wishes.headroom_for]
        waiting = [position for position in find_pending(Simulation(scheduler)) if position not in kept_for]
        movable = find_candidates(scheduler, pools, waiting)
        reserve = Reserve(scheduler, wishes.headroom, kept_for)
        reserve = reserve._replace(fits_now=not kept_for or reserve.fits_on(movable.view, pools.workers))
        drains = DrainsInTurn(scheduler, movable.view)
        return cls(scheduler, wishes, pools, movable, reserve, drains, pools.workers.copy())

    @property
    def view(self) -> Fork:
        """Return the cluster without the nodes that went so far."""
        return self.drains.view

    @property
    def order(self) -> list[Row]:
        """Return the candidate nodes, empty ones first."""
        mine = self.pools.select_nodes_in(self.wishes.pool)
        return [row for row in (*map(Row, self.found.empty.tolist()), *self.found.order) if mine[row]]

    def run(self, hands: DrainWorkers | None, progress: Progress) -> None:
        """Try one node after the other until time is up or the user interrupts."""
        order, until = self.order, time.monotonic() + self.wishes.seconds
        done = progress.begin("Draining nodes", len(order))
        try:
            for row, trial in self._iter_alone(order) if hands is None else self._iter_in_parallel(order, hands):
                self._record(row, trial)
                self.tried += 1
                done(1)
                if time.monotonic() > until:
                    return
        except KeyboardInterrupt:
            self.interrupted = True

    def _iter_alone(self, order: Sequence[Row]) -> Iterator[tuple[Row, NodeTrial]]:
        return ((row, self.try_node(row)) for row in order)

    def _iter_in_parallel(
        self, order: Sequence[Row], hands: WorkerPool[DrainTask, JudgedDrain]
    ) -> Iterator[tuple[Row, NodeTrial]]:
        """Drain ever larger batches as long as no node goes. Nodes after one that goes are tried again."""
        place, size = 0, hands.size
        while place < len(order):
            batch, size = order[place : place + size], min(2 * size, MAX_BATCH_PER_WORKER * hands.size)
            for row, (trial, unknown) in zip(
                batch, hands.run([DrainTask(self.moves, row) for row in batch]), strict=True
            ):
                self.unknown.append(unknown)
                place += 1
                if not trial.why:
                    self.apply_moves(self._build_moves(row, trial))
                yield row, trial
                if not trial.why:
                    size = hands.size
                    break

    def try_node(self, row: Row) -> NodeTrial:
        """Drain one more node, and keep it drained if everything holds then."""
        trial, left = self.drains.drain_node(row), self.remaining.copy()
        left[row] = False
        if not trial.why and (missing := self.reserve.find_violation(self.view, left)):
            self.drains.undo()
            return trial._replace(why=missing)
        self.remaining = self.remaining if trial.why else left
        return trial

    def apply_moves(self, went: Ints) -> None:
        """Remove nodes that workers drained."""
        for row in dict.fromkeys(went[:, 0].tolist()):
            moves = went[went[:, 0] == row, 1:].tolist()
            self.drains.replay_drain(Row(row), {Position(position): Row(to) for position, to in moves if position >= 0})
            self.remaining[row] = False
        self.moves = np.concatenate((self.moves, went))

    def _build_moves(self, row: Row, trial: NodeTrial) -> Ints:
        """Return the moves of a drain, shape (M, 3) as in NO_MOVES."""
        pods, nodes = self.view.pods.index, self.view.nodes.index
        moves = [(int(row), int(pods[move.pod]), int(nodes[move.target])) for move in trial.moved]
        return np.array(moves or [(int(row), -1, -1)], np.int32)

    def _record(self, row: Row, trial: NodeTrial) -> None:
        """What becomes of the node."""
        name, pool = self.view.nodes.names[row], self.pools.names[self.pools.code[row]]
        if trial.why:
            self.staying.append(StayingNode(name, pool, trial.why, trial.pod))
            return
        offers = select_reported_amounts(self.view, self.view.allocatable[row])
        self.removable.append(RemovableNode(name, pool, len(trial.moved), offers, moves=trial.moved))

    def keep_for_zone_losses(self, workers: Workers) -> None:
        """Keep as many nodes, from the last one, as the loss of a zone requires. Raises UsageError."""
        base = build_resulting_cluster(Simulation(self.scheduler, self.found.view))
        self.zones = self._simulate_zone_losses(base, len(self.removable), workers)
        if _is_no_worse(self.zones):
            return
        low, high = 0, len(self.removable)
        while high - low > 1:  # low of them may go, high may not
            middle = (low + high) // 2
            if _is_no_worse(self._simulate_zone_losses(base, middle, workers)):
                low = middle
            else:
                high = middle
        self.zones = self._simulate_zone_losses(base, low, workers)
        back = self.removable[low:]
        self.staying += [StayingNode(node.node, node.pool, ZONES) for node in back]
        self.remaining[[self.view.nodes.index[node.node] for node in back]] = True
        del self.removable[low:]

    def _simulate_zone_losses(self, base: Cluster, number: int, workers: Workers) -> list[UnitLoss]:
        first = self.removable[:number]
        moves = [move for node in first for move in node.moves]
        return simulate_zone_losses(base, remove_nodes(base, [node.node for node in first], moves), workers)

    def build_report(self, prices: Mapping[str, float], verdicts: AutoscalerVerdicts) -> NodeConsolidation:
        """Build the report with prices and an autoscaler's verdicts."""
        view, order = self.found.view, self.order
        rows = [view.nodes.index[node.node] for node in self.removable]
        known = [prices[node.node] for node in self.removable if node.node in prices]
        return NodeConsolidation(
            removable=tuple(_add_price_and_verdict(node, prices, verdicts) for node in self.removable),
            staying=tuple(_add_verdict(node, verdicts) for node in self.staying),
            nodes=len(view.nodes),
            candidates=len(order),
            tried=self.tried,
            complete=self.tried == len(order) and not self.interrupted,
            left_out=self._count_left_out(),
            saves=select_reported_amounts(view, view.allocatable[rows].sum(axis=0)) if rows else {},
            price=sum(known) if known else None,
            requested=tuple(compute_shares(view, self.view, self.remaining, self.pools.workers)),
            zones=tuple(self.zones),
            pools=compare_pools(view, self.view, self._find_kept(rows)),
            autoscaler=verdicts.summarize([node.node for node in self.removable]),
            commands=tuple(kubectl.render_command("drain", node.node, *DRAIN) for node in self.removable),
            interrupted=self.interrupted,
            **build_cluster_basis(
                merge_unknown_kinds([self.found.unknown, self.drains.unknown, *self.unknown]), self.scheduler
            ),
        )

    def _find_kept(self, removed: Sequence[Row]) -> Bools:
        """Return which nodes exist in the end, (N,)."""
        kept = np.ones(len(self.remaining), np.bool_)
        kept[removed] = False
        return kept

    def _count_left_out(self) -> dict[str, int]:
        """Return the number of nodes that were no candidates, by reason."""
        view, mine = self.found.view, self.pools.select_nodes_in(self.wishes.pool)
        candidates_ = np.zeros(len(mine), np.bool_)
        candidates_[self.order] = True
        cordoned = view.nodes.unschedulable & mine
        control = ~self.pools.workers & ~view.nodes.unschedulable & mine
        counts = {
            "cordoned already": int(cordoned.sum()),
            "of the control plane": int(control.sum()),
            "nominated for a pod that preempts": int((self.pools.workers & mine & ~candidates_).sum()),
            "of another pool": int((~mine).sum()),
        }
        return {why: number for why, number in counts.items() if number}


@dataclass(eq=False)
class SharedCandidates:
    """What workers share. State built from it is not sent along."""

    cluster: Cluster
    wishes: ConsolidationWishes
    made: ConsolidationRun | None = None

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "made": None}

    @property
    def consolidating(self) -> ConsolidationRun:
        """Return the state, built once per process. Raises UsageError for an unknown pool."""
        if self.made is None:
            self.made = ConsolidationRun.start(Scheduler(self.cluster), self.wishes)
        return self.made


def judge_drain(shared: SharedCandidates, task: DrainTask) -> JudgedDrain:
    """Drain a node after those that went, and undo it. Return the result and unread kinds."""
    with STATE_LOCK:
        consolidating = shared.consolidating
        consolidating.apply_moves(task.moves[len(consolidating.moves) :])
        left = consolidating.remaining
        trial = consolidating.try_node(task.row)
        if not trial.why:
            consolidating.drains.undo()
        consolidating.remaining = left
        return JudgedDrain(trial, consolidating.drains.unknown if shared.cluster.gaps else ())


def _is_no_worse(losses: Sequence[UnitLoss]) -> bool:
    return all(loss.after <= loss.before for loss in losses)


def _add_price_and_verdict(
    node: RemovableNode, prices: Mapping[str, float], verdicts: AutoscalerVerdicts
) -> RemovableNode:
    return RemovableNode(
        node.node,
        node.pool,
        node.pods,
        node.offers,
        prices.get(node.node),
        verdicts.describe_node(node.node),
        node.moves,
    )


def _add_verdict(node: StayingNode, verdicts: AutoscalerVerdicts) -> StayingNode:
    return StayingNode(node.node, node.pool, node.why, node.pod, verdicts.describe_node(node.node))
