"""Search for nodes that can be removed, by draining them in turn within disruption budgets.

The search is greedy: nodes with the least to move are tried first, and a node that could be emptied stays empty for the
rest. Another order may empty more. Pending pods that fit are placed first, since the room that they need is not spare,
and nominated nodes are not tried.
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
from kschedctl.replay.pools import Pools, select_reported_amounts
from kschedctl.replay.unknown import find_simulation_unknowns, merge_unknown_kinds
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork


class TrialLimits(NamedTuple):
    """The numbers of nodes and pods up to which nodes are drained on trial."""

    nodes: int
    """The maximum number of nodes, 0 for all."""
    pods: int
    """The maximum number of pods, 0 for any number."""


class EmptyingResult(NamedTuple):
    """The nodes that can be emptied, and those that cannot."""

    emptied: tuple[EmptiedNode, ...]
    kept: tuple[KeptNode, ...]
    empty: Rows
    """The rows of nodes on which nothing has to move."""
    candidates: int
    """The number of other nodes that may be removed."""
    unknown: tuple[UnknownKind, ...]
    """The unread data that the replays depend on."""

    @property
    def tried(self) -> int:
        """The number of nodes that were drained on trial."""
        return len(self.emptied) + len(self.kept)


class EmptyingOrder(NamedTuple):
    """The nodes that may be removed, in the order in which to try them."""

    view: Fork
    """The cluster with the pending pods placed that fit."""
    empty: Rows
    """The rows of nodes on which nothing has to move."""
    order: list[Row]
    """The rows of the other nodes, those with the least to move first."""
    movable: Rows
    """The number of pods that would have to move, by node, shape (N,)."""
    unknown: tuple[UnknownKind, ...]
    """The unread data that the placements depend on."""


def find_removable_nodes(
    scheduler: Scheduler, pools: Pools, pending: Sequence[Position], limits: TrialLimits, progress: Progress
) -> EmptyingResult:
    """Drain workers on trial within the limits, and return those that can be removed.

    `pending` are the pods that wait.
    """
    candidates = find_candidates(scheduler, pools, pending)
    drains, chosen = (
        DrainsInTurn(scheduler, candidates.view),
        list(_iter_rows_within_limits(limits, candidates.order, candidates.movable)),
    )
    view = candidates.view
    done = progress.begin("Emptying nodes", len(chosen))
    emptied, kept = list[EmptiedNode](), list[KeptNode]()
    for row in chosen:
        trial = drains.drain_node(row)
        name, pool = view.nodes.names[row], pools.names[pools.code[row]]
        done(1)
        if trial.why:
            kept.append(KeptNode(name, pool, trial.why))
            continue
        emptied.append(EmptiedNode(name, pool, trial.evictable, select_reported_amounts(view, view.allocatable[row])))
    return EmptyingResult(
        tuple(emptied),
        tuple(kept),
        candidates.empty,
        len(candidates.order),
        merge_unknown_kinds([candidates.unknown, drains.unknown]),
    )


def find_candidates(scheduler: Scheduler, pools: Pools, pending: Sequence[Position]) -> EmptyingOrder:
    """Place the pending pods that fit, and return the workers that may be removed afterwards.

    Raises KeyboardInterrupt.
    """
    simulation = Simulation(scheduler, preemption=False)
    simulation.schedule(pending)
    if simulation.interrupted:
        raise KeyboardInterrupt
    view = simulation.view
    movable, usage = _measure_movable_pods(view)
    is_candidate = pools.workers.copy()
    is_candidate[view.nominations[0]] = False
    order = [Row(row) for row in np.argsort(usage, kind="stable").tolist() if is_candidate[row] and movable[row]]
    return EmptyingOrder(
        view, np.flatnonzero(is_candidate & (movable == 0)), order, movable, find_simulation_unknowns(simulation)
    )


def _measure_movable_pods(view: Fork) -> tuple[Rows, Rows]:
    """Return the number of each node's movable pods and their largest share of a resource, both (N,)."""
    is_staying = view.pods.where(lambda info: find_owner(info.pod).kind in KINDS_NOT_EVICTED)
    used = view.sum_by_node(np.where(is_staying[:, None], 0, view.requests))
    columns = [view.resources[name] for name in (CPU, MEMORY, PODS)]
    share = used[:, columns] / np.maximum(view.allocatable[:, columns], 1)
    return used[:, view.resources[PODS]], share.max(axis=1)


def _iter_rows_within_limits(limits: TrialLimits, order: list[Row], movable: Rows) -> Iterator[Row]:
    """Yield the first rows within the limits, but always at least one."""
    pods = 0
    for place, row in enumerate(order):
        pods += int(movable[row])
        if (limits.nodes and place >= limits.nodes) or (limits.pods and place and pods > limits.pods):
            return
        yield row
