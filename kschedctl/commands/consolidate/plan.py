"""Which nodes can go with every pod placed again, and what keeps each other node? Independent of any autoscaler.

Nodes are drained one after the other as kschedctl drain does it, those with the least on them that has to move first,
each on top of those that could go; another order may empty more. What has to hold afterwards is looked at after each
node, the loss of zones for as many of them as it allows. Several workers drain the next nodes side by side: what they
find of one holds as long as no node before it goes.
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
from kschedctl.commands.audit.packing.emptying import EmptyingOrder, candidates
from kschedctl.commands.consolidate.autoscalers import NOBODY, AutoscalerVerdicts
from kschedctl.commands.consolidate.report import NodeConsolidation, RemovableNode, StayingNode, UnitLoss
from kschedctl.commands.consolidate.safety import Reserve, gone, shares, zone_losses
from kschedctl.replay import kubectl
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, WorkerPool, Workers, open_worker_pool
from kschedctl.replay.pools import Pools, compare_pools, reported_amounts
from kschedctl.replay.settling import build_resulting_cluster, find_pending
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

NO_MOVES: Ints = np.empty((0, 3), np.int32)
"""(M, 3): the row of a node that went, and for each of its pods the position and the new row, both -1 for no pod."""
MOST_EACH = 8
"""So many nodes are given to each worker at once, at most."""
ONE_AT_A_TIME = Lock()
"""A worker may have several threads, which share what was made."""
ZONES = "--keep-zone-loss: the loss of a zone would leave more pods without a node than now"
DRAIN = ("--ignore-daemonsets", "--delete-emptydir-data")


@dataclass(frozen=True)
class ConsolidationWishes:
    """``keep_zone_loss``: the loss of a zone leaves no more pods without a node than now; ``headroom``: so many percent
    of cpu and memory stay free; ``headroom_for``: pods, ``namespace/name``, that still have to fit. ``pool``: only its
    nodes go. For at most so many ``seconds`` nodes are tried.
    """

    keep_zone_loss: bool = False
    headroom: float = 0.0
    headroom_for: Sequence[str] = ()
    pool: str = ""
    seconds: float = 180.0


def consolidate(
    cluster: Cluster,
    wishes: ConsolidationWishes = ConsolidationWishes(),
    *,
    prices: Mapping[str, float] | None = None,
    verdicts: AutoscalerVerdicts = NOBODY,
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> NodeConsolidation:
    """What could go. ``prices``: node -> what it costs an hour; ``verdicts``: what an autoscaler says.

    Raises UsageError, ClusterError where workers are lost.
    """
    shared = SharedCandidates(cluster, wishes)
    consolidating = shared.consolidating
    with open_worker_pool(judged, shared, workers) as hands:
        consolidating.run(hands, progress)
    if wishes.keep_zone_loss:
        consolidating.keep_zones(workers)
    return consolidating.report(prices or {}, verdicts)


class DrainTask(NamedTuple):
    """A node to drain, after those that ``went``, (M, 3) as in NO_MOVES."""

    went: Ints
    row: Row


class JudgedDrain(NamedTuple):
    """What a drain came to, and what that leans on and was not read."""

    trial: NodeTrial
    unknown: tuple[UnknownKind, ...]


Hands = WorkerPool[DrainTask, JudgedDrain]
"""Who drains nodes side by side."""


@dataclass
class Consolidating:
    """The nodes as they go, one after the other, by ``drains``; ``left`` (N,): the others.

    ``went``: what moved where drains elsewhere were followed; ``unknown``: what those lean on and was not read.
    """

    scheduler: Scheduler
    wishes: ConsolidationWishes
    pools: Pools
    found: EmptyingOrder
    reserve: Reserve
    drains: DrainsInTurn
    left: Bools
    removable: list[RemovableNode] = field(default_factory=list)
    staying: list[StayingNode] = field(default_factory=list)
    zones: list[UnitLoss] = field(default_factory=list)
    went: Ints = field(default_factory=NO_MOVES.copy)
    unknown: list[tuple[UnknownKind, ...]] = field(default_factory=list)
    tried: int = 0
    interrupted: bool = False

    @classmethod
    def of(cls, scheduler: Scheduler, wishes: ConsolidationWishes) -> Consolidating:
        """Raises UsageError for a pool that is not there."""
        pools = Pools.of(scheduler.view)
        kept_for = [Position(scheduler.view.pods.index[key]) for key in wishes.headroom_for]
        waiting = [position for position in find_pending(Simulation(scheduler)) if position not in kept_for]
        movable = candidates(scheduler, pools, waiting)
        reserve = Reserve(scheduler, wishes.headroom, kept_for)
        reserve = reserve._replace(fits_now=not kept_for or reserve.fits(movable.view, pools.workers))
        drains = DrainsInTurn(scheduler, movable.view)
        return cls(scheduler, wishes, pools, movable, reserve, drains, pools.workers.copy())

    @property
    def view(self) -> Fork:
        """The cluster without what went so far."""
        return self.drains.view

    @property
    def order(self) -> list[Row]:
        """The nodes that may go: those first on which nothing has to move."""
        mine = self.pools.nodes_in(self.wishes.pool)
        return [row for row in (*map(Row, self.found.empty.tolist()), *self.found.order) if mine[row]]

    def run(self, hands: Hands | None, progress: Progress) -> None:
        """Try one node after the other, until time is over or the user interrupts; ``hands``: who helps."""
        order, until = self.order, time.monotonic() + self.wishes.seconds
        done = progress.begin("Draining nodes", len(order))
        try:
            for row, trial in self._alone(order) if hands is None else self._side_by_side(order, hands):
                self._note(row, trial)
                self.tried += 1
                done(1)
                if time.monotonic() > until:
                    return
        except KeyboardInterrupt:
            self.interrupted = True

    def _alone(self, order: Sequence[Row]) -> Iterator[tuple[Row, NodeTrial]]:
        return ((row, self.judge(row)) for row in order)

    def _side_by_side(
        self, order: Sequence[Row], hands: WorkerPool[DrainTask, JudgedDrain]
    ) -> Iterator[tuple[Row, NodeTrial]]:
        """Ever more nodes at once, as long as none of them goes; what comes after one that does is tried again."""
        place, size = 0, hands.size
        while place < len(order):
            batch, size = order[place : place + size], min(2 * size, MOST_EACH * hands.size)
            for row, (trial, unknown) in zip(
                batch, hands.run([DrainTask(self.went, row) for row in batch]), strict=True
            ):
                self.unknown.append(unknown)
                place += 1
                if not trial.why:
                    self.follow(self._moves(row, trial))
                yield row, trial
                if not trial.why:
                    size = hands.size
                    break

    def judge(self, row: Row) -> NodeTrial:
        """Drain one more node; it is drained now if everything holds then."""
        trial, left = self.drains.drained(row), self.left.copy()
        left[row] = False
        if not trial.why and (missing := self.reserve.missing(self.view, left)):
            self.drains.put_back()
            return trial._replace(why=missing)
        self.left = self.left if trial.why else left
        return trial

    def follow(self, went: Ints) -> None:
        """Nodes go that were drained elsewhere."""
        for row in dict.fromkeys(went[:, 0].tolist()):
            moves = went[went[:, 0] == row, 1:].tolist()
            self.drains.follow(Row(row), {Position(position): Row(to) for position, to in moves if position >= 0})
            self.left[row] = False
        self.went = np.concatenate((self.went, went))

    def _moves(self, row: Row, trial: NodeTrial) -> Ints:
        """(M, 3), as in NO_MOVES."""
        pods, nodes = self.view.pods.index, self.view.nodes.index
        moves = [(int(row), int(pods[move.pod]), int(nodes[move.target])) for move in trial.moved]
        return np.array(moves or [(int(row), -1, -1)], np.int32)

    def _note(self, row: Row, trial: NodeTrial) -> None:
        """What becomes of the node."""
        name, pool = self.view.nodes.names[row], self.pools.names[self.pools.code[row]]
        if trial.why:
            self.staying.append(StayingNode(name, pool, trial.why, trial.pod))
            return
        offers = reported_amounts(self.view, self.view.allocatable[row])
        self.removable.append(RemovableNode(name, pool, len(trial.moved), offers, moves=trial.moved))

    def keep_zones(self, workers: Workers) -> None:
        """As many of the nodes stay, from the last one, as the loss of a zone needs. Raises UsageError."""
        base = build_resulting_cluster(Simulation(self.scheduler, self.found.view))
        self.zones = self._losses(base, len(self.removable), workers)
        if _as_now(self.zones):
            return
        low, high = 0, len(self.removable)
        while high - low > 1:  # low of them may go, high may not
            middle = (low + high) // 2
            if _as_now(self._losses(base, middle, workers)):
                low = middle
            else:
                high = middle
        self.zones = self._losses(base, low, workers)
        back = self.removable[low:]
        self.staying += [StayingNode(node.node, node.pool, ZONES) for node in back]
        self.left[[self.view.nodes.index[node.node] for node in back]] = True
        del self.removable[low:]

    def _losses(self, base: Cluster, number: int, workers: Workers) -> list[UnitLoss]:
        first = self.removable[:number]
        moves = [move for node in first for move in node.moves]
        return zone_losses(base, gone(base, [node.node for node in first], moves), workers)

    def report(self, prices: Mapping[str, float], verdicts: AutoscalerVerdicts) -> NodeConsolidation:
        """What was found, with prices and what an autoscaler says."""
        view, order = self.found.view, self.order
        rows = [view.nodes.index[node.node] for node in self.removable]
        known = [prices[node.node] for node in self.removable if node.node in prices]
        return NodeConsolidation(
            removable=tuple(_told(node, prices, verdicts) for node in self.removable),
            staying=tuple(_with_verdict(node, verdicts) for node in self.staying),
            nodes=len(view.nodes),
            candidates=len(order),
            tried=self.tried,
            complete=self.tried == len(order) and not self.interrupted,
            left_out=self._left_out(),
            saves=reported_amounts(view, view.allocatable[rows].sum(axis=0)) if rows else {},
            price=sum(known) if known else None,
            requested=tuple(shares(view, self.view, self.left, self.pools.workers)),
            zones=tuple(self.zones),
            pools=compare_pools(view, self.view, self._kept(rows)),
            autoscaler=verdicts.told([node.node for node in self.removable]),
            commands=tuple(kubectl.render_command("drain", node.node, *DRAIN) for node in self.removable),
            interrupted=self.interrupted,
            **build_cluster_basis(
                merge_unknown_kinds([self.found.unknown, self.drains.unknown, *self.unknown]), self.scheduler
            ),
        )

    def _kept(self, removed: Sequence[Row]) -> Bools:
        """(N,): the nodes that are there in the end."""
        kept = np.ones(len(self.left), np.bool_)
        kept[removed] = False
        return kept

    def _left_out(self) -> dict[str, int]:
        """Nodes that were no candidates, by why."""
        view, mine = self.found.view, self.pools.nodes_in(self.wishes.pool)
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
    """What workers share; what is made of it stays behind when it travels."""

    cluster: Cluster
    wishes: ConsolidationWishes
    made: Consolidating | None = None

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "made": None}

    @property
    def consolidating(self) -> Consolidating:
        """Made once in each process. Raises UsageError for a pool that is not there."""
        if self.made is None:
            self.made = Consolidating.of(Scheduler(self.cluster), self.wishes)
        return self.made


def judged(shared: SharedCandidates, task: DrainTask) -> JudgedDrain:
    """The drain of a node after those that went, and what was not read; it leaves nothing behind."""
    with ONE_AT_A_TIME:
        consolidating = shared.consolidating
        consolidating.follow(task.went[len(consolidating.went) :])
        left = consolidating.left
        trial = consolidating.judge(task.row)
        if not trial.why:
            consolidating.drains.put_back()
        consolidating.left = left
        return JudgedDrain(trial, consolidating.drains.unknown if shared.cluster.gaps else ())


def _as_now(losses: Sequence[UnitLoss]) -> bool:
    return all(loss.after <= loss.before for loss in losses)


def _told(node: RemovableNode, prices: Mapping[str, float], verdicts: AutoscalerVerdicts) -> RemovableNode:
    return RemovableNode(
        node.node, node.pool, node.pods, node.offers, prices.get(node.node), verdicts.of(node.node), node.moves
    )


def _with_verdict(node: StayingNode, verdicts: AutoscalerVerdicts) -> StayingNode:
    return StayingNode(node.node, node.pool, node.why, node.pod, verdicts.of(node.node))
