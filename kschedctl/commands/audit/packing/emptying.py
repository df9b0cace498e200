"""Nodes that can be removed: drained in turn, within budgets, each on top of those that worked.

Greedy: nodes with the least on them that would have to move are tried first, and one that could be emptied stays so for
the rest. Another order may empty more. Pods that wait and fit come first: what they need is not to spare, nor are nodes
that were nominated for pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Position, Row, Rows
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.commands.audit.packing.drains_in_turn import DrainsInTurn
from kschedctl.commands.audit.packing.report import EmptiedNode, KeptNode
from kschedctl.replay.node_drain import KINDS_NOT_EVICTED
from kschedctl.replay.parallel import Progress
from kschedctl.replay.pools import Pools, reported_amounts
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork


class Limits(NamedTuple):
    """How many nodes are tried at most, 0 for all, and how many pods are evicted on the way, 0 for any number."""

    nodes: int
    pods: int


class Emptying(NamedTuple):
    """``empty``: rows of nodes on which nothing would have to move. ``candidates``: how many others there are.

    ``unknown``: what the replays lean on that was not read.
    """

    emptied: tuple[EmptiedNode, ...]
    kept: tuple[KeptNode, ...]
    empty: Rows
    candidates: int
    unknown: tuple[UnknownKind, ...]

    @property
    def tried(self) -> int:
        return len(self.emptied) + len(self.kept)


class EmptyingOrder(NamedTuple):
    """``view``: the cluster with pods placed that waited and fit. ``empty``: rows of nodes on which nothing would have
    to move; ``order``: the other rows that could go, those with the least to move first; ``movable`` (N,): how many.
    """

    view: Fork
    empty: Rows
    order: list[Row]
    movable: Rows
    unknown: tuple[UnknownKind, ...]


def emptying(
    scheduler: Scheduler, pools: Pools, pending: Sequence[Position], limits: Limits, progress: Progress
) -> Emptying:
    """What can be emptied of the workers, as far as the limits go; ``pending``: the pods that wait."""
    may_go = candidates(scheduler, pools, pending)
    drains, chosen = DrainsInTurn(scheduler, may_go.view), list(_within(limits, may_go.order, may_go.movable))
    view = may_go.view
    done = progress.begin("Emptying nodes", len(chosen))
    emptied, kept = list[EmptiedNode](), list[KeptNode]()
    for row in chosen:
        trial = drains.drained(row)
        name, pool = view.nodes.names[row], pools.names[pools.code[row]]
        done(1)
        if trial.why:
            kept.append(KeptNode(name, pool, trial.why))
            continue
        emptied.append(EmptiedNode(name, pool, trial.evictable, reported_amounts(view, view.allocatable[row])))
    return Emptying(
        tuple(emptied),
        tuple(kept),
        may_go.empty,
        len(may_go.order),
        merge_unknown_kinds([may_go.unknown, drains.unknown]),
    )


def candidates(scheduler: Scheduler, pools: Pools, pending: Sequence[Position]) -> EmptyingOrder:
    """The workers that may go, with the ``pending`` pods placed as far as they fit."""
    simulation = Simulation(scheduler, preemption=False)
    simulation.schedule(pending)
    if simulation.interrupted:
        raise KeyboardInterrupt
    view = simulation.view
    movable, usage = _moving(view)
    spare = pools.workers.copy()
    spare[view.nominations[0]] = False
    order = [Row(row) for row in np.argsort(usage, kind="stable").tolist() if spare[row] and movable[row]]
    return EmptyingOrder(
        view, np.flatnonzero(spare & (movable == 0)), order, movable, find_simulation_unknowns(simulation)
    )


def _moving(view: Fork) -> tuple[Rows, Rows]:
    """(N,) each: how many pods would have to move, and the largest share of the node's resources that they request."""
    stays = view.pods.where(lambda info: find_owner(info.pod).kind in KINDS_NOT_EVICTED)
    used = view.sum_by_node(np.where(stays[:, None], 0, view.requests))
    columns = [view.resources[name] for name in (CPU, MEMORY, PODS)]
    share = used[:, columns] / np.maximum(view.allocatable[:, columns], 1)
    return used[:, view.resources[PODS]], share.max(axis=1)


def _within(limits: Limits, order: list[Row], movable: Rows) -> Iterator[Row]:
    """The first of the rows; at least one, however many pods it has."""
    pods = 0
    for place, row in enumerate(order):
        pods += int(movable[row])
        if (limits.nodes and place >= limits.nodes) or (limits.pods and place and pods > limits.pods):
            return
        yield row
