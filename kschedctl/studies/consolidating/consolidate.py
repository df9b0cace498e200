"""Which nodes can go with every pod placed again, and what keeps each other node? Independent of any autoscaler.

Nodes are drained one after the other as kschedctl drain does it, those with the least on them that has to move first,
each on top of those that could go; another order may empty more. What has to hold afterwards is looked at after each
node, the loss of zones for as many of them as it allows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.cluster import Cluster
from kschedctl.reports.consolidation import NodeConsolidation, RemovableNode, StayingNode, UnitLoss
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.basics import kubectl
from kschedctl.studies.basics.parallel import UNSEEN, Progress
from kschedctl.studies.basics.unknown import together
from kschedctl.studies.consolidating.autoscalers import NOBODY, AutoscalerVerdicts
from kschedctl.studies.consolidating.safety import Reserve, gone, shares, zone_losses
from kschedctl.studies.packing.drains_in_turn import DrainsInTurn
from kschedctl.studies.packing.emptying import EmptyingOrder, candidates
from kschedctl.studies.packing.pool_changes import pool_changes
from kschedctl.studies.packing.pools import Pools, amounts_of
from kschedctl.studies.what_if.settling import after, pending
from kschedctl.studies.what_if.shared_cluster import cluster_basis

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
    progress: Progress = UNSEEN,
) -> NodeConsolidation:
    """What could go. ``prices``: node -> what it costs an hour; ``verdicts``: what an autoscaler says.

    Raises UsageError.
    """
    scheduler = Scheduler(cluster)
    consolidating = Consolidating.of(scheduler, wishes)
    consolidating.run(progress)
    if wishes.keep_zone_loss:
        consolidating.keep_zones()
    return consolidating.report(prices or {}, verdicts)


@dataclass
class Consolidating:
    """The nodes as they go, one after the other, by ``drains``; ``left`` (N,): the others."""

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
    tried: int = 0
    interrupted: bool = False

    @classmethod
    def of(cls, scheduler: Scheduler, wishes: ConsolidationWishes) -> Consolidating:
        """Raises UsageError for a pool that is not there."""
        pools = Pools.of(scheduler.view)
        kept_for = [Position(scheduler.view.pods.index[key]) for key in wishes.headroom_for]
        waiting = [position for position in pending(Simulation(scheduler)) if position not in kept_for]
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
        mine = self.pools.chosen(self.wishes.pool)
        return [row for row in (*map(Row, self.found.empty.tolist()), *self.found.order) if mine[row]]

    def run(self, progress: Progress) -> None:
        """Try one node after the other, until time is over or the user interrupts."""
        order, until = self.order, time.monotonic() + self.wishes.seconds
        done = progress.begin("Draining nodes", len(order))
        try:
            for row in order:
                if time.monotonic() > until:
                    return
                self._try(row)
                self.tried += 1
                done(1)
        except KeyboardInterrupt:
            self.interrupted = True

    def _try(self, row: Row) -> None:
        """Drain one more node, and let it go if everything holds then."""
        trial = self.drains.drained(row)
        left = self.left.copy()
        left[row] = False
        name, pool = self.view.nodes.names[row], self.pools.names[self.pools.code[row]]
        why = trial.why
        if not why and (why := self.reserve.missing(self.view, left)):
            self.drains.put_back()
        if why:
            self.staying.append(StayingNode(name, pool, why, trial.pod))
            return
        self.left = left
        offers = amounts_of(self.view, self.view.allocatable[row])
        self.removable.append(RemovableNode(name, pool, len(trial.moved), offers, moves=trial.moved))

    def keep_zones(self) -> None:
        """As many of the nodes stay, from the last one, as the loss of a zone needs. Raises UsageError."""
        base = after(Simulation(self.scheduler, self.found.view))
        self.zones = self._losses(base, len(self.removable))
        if _as_now(self.zones):
            return
        low, high = 0, len(self.removable)
        while high - low > 1:  # low of them may go, high may not
            middle = (low + high) // 2
            if _as_now(self._losses(base, middle)):
                low = middle
            else:
                high = middle
        self.zones = self._losses(base, low)
        back = self.removable[low:]
        self.staying += [StayingNode(node.node, node.pool, ZONES) for node in back]
        self.left[[self.view.nodes.index[node.node] for node in back]] = True
        del self.removable[low:]

    def _losses(self, base: Cluster, number: int) -> list[UnitLoss]:
        first = self.removable[:number]
        moves = [move for node in first for move in node.moves]
        return zone_losses(base, gone(base, [node.node for node in first], moves))

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
            saves=amounts_of(view, view.allocatable[rows].sum(axis=0)) if rows else {},
            price=sum(known) if known else None,
            requested=tuple(shares(view, self.view, self.left, self.pools.workers)),
            zones=tuple(self.zones),
            pools=pool_changes(view, self.view, self._kept(rows)),
            autoscaler=verdicts.told([node.node for node in self.removable]),
            commands=tuple(kubectl.run("drain", node.node, *DRAIN) for node in self.removable),
            interrupted=self.interrupted,
            **cluster_basis(together([self.found.unknown, self.drains.unknown]), self.scheduler),
        )

    def _kept(self, removed: Sequence[Row]) -> Bools:
        """(N,): the nodes that are there in the end."""
        kept = np.ones(len(self.left), np.bool_)
        kept[removed] = False
        return kept

    def _left_out(self) -> dict[str, int]:
        """Nodes that were no candidates, by why."""
        view, mine = self.found.view, self.pools.chosen(self.wishes.pool)
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


def _as_now(losses: Sequence[UnitLoss]) -> bool:
    return all(loss.after <= loss.before for loss in losses)


def _told(node: RemovableNode, prices: Mapping[str, float], verdicts: AutoscalerVerdicts) -> RemovableNode:
    return RemovableNode(
        node.node, node.pool, node.pods, node.offers, prices.get(node.node), verdicts.of(node.node), node.moves
    )


def _with_verdict(node: StayingNode, verdicts: AutoscalerVerdicts) -> StayingNode:
    return StayingNode(node.node, node.pool, node.why, node.pod, verdicts.of(node.node))
