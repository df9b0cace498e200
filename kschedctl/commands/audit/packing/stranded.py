"""Free capacity that nobody can use: on nodes on which none of the pods fits that wait or usually go there.

The typical pods of a pool are those of its most frequent requests, one pod for each, which is replayed as if it came
now; pods of DaemonSets and static pods are none, as these are there already. A node counts as usable when one of all
these pods passes every filter on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Position, Rows
from kschedctl.api.ownership import find_owner
from kschedctl.commands.audit.packing.report import StrandedRoom, TypicalPods
from kschedctl.replay.pools import Pools, free_resources, reported_amounts
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

STAYING = ("DaemonSet", "Node")
MOST_POOLS, MOST_TYPICAL, LEAST_TYPICAL, MOST_PENDING = 20, 40, 3, 20
"""How many distinct pods of the largest pools, and pending ones, are replayed, at least and at most."""
NAMED = 3


class Shape(NamedTuple):
    """A pod that stands for ``pods`` others of the same requests, of these workloads; ``pool`` -1: it is pending."""

    position: Position
    pool: int
    pods: int
    workloads: tuple[str, ...]


class Stranded(NamedTuple):
    """``nodes`` (N,): those on which no shape fits. ``unknown``: what the replays lean on is kept by ``simulation``."""

    typical: tuple[TypicalPods, ...]
    rooms: tuple[StrandedRoom, ...]
    nodes: Bools
    simulation: Simulation


def stranded(scheduler: Scheduler, pools: Pools, pending: Sequence[Position]) -> Stranded:
    """What of the free capacity of schedulable nodes is stranded, by pool and by what keeps pods from it."""
    simulation = Simulation(scheduler)
    view = simulation.view
    usable, typical = np.zeros(len(view.nodes), np.bool_), []
    refusals: list[tuple[Shape, dict[str, Bools]]] = []
    for shape in (*_typical(view, pools), *_pending(view, pending)):
        if simulation.framework(shape.position) is None:
            continue
        cycle = simulation.run_cycle(shape.position)
        fits = _fits(cycle)
        usable |= fits
        refusals.append((shape, dict(_reasons(cycle))))
        typical.append(_reported(view, pools, shape, int(fits.sum())))
    lost = ~usable & pools.workers & bool(typical)
    return Stranded(tuple(typical), tuple(_rooms(view, pools, lost, refusals)), lost, simulation)


def _typical(view: Fork, pools: Pools) -> Iterator[Shape]:
    """The most frequent requests of each pool's pods that came by themselves."""
    stays = view.pods.where(lambda info: find_owner(info.pod).kind in STAYING)[view.pods.info]
    positions = np.flatnonzero((view.node >= 0) & ~stays)
    pool, demand = pools.code[view.node[positions]], _requests(view)[view.pods.info[positions]]
    largest = np.argsort(-np.bincount(pool, minlength=len(pools.names)), kind="stable")[:MOST_POOLS].tolist()
    most = max(MOST_TYPICAL // max(len(largest), 1), LEAST_TYPICAL)
    for code in largest:
        mine = pool == code
        demands, counts = np.unique(demand[mine], return_counts=True)
        for place in np.argsort(-counts, kind="stable")[:most].tolist():
            alike = positions[mine & (demand == demands[place])]
            yield _shape(view, code, alike)


def _pending(view: Fork, pending: Sequence[Position]) -> Iterator[Shape]:
    """The most frequent of the pods that wait, by what they request."""
    positions = np.array(pending, np.int64)
    demands = _requests(view)[view.pods.info[positions]]
    distinct, counts = np.unique(demands, return_counts=True)
    for place in np.argsort(-counts, kind="stable")[:MOST_PENDING].tolist():
        yield _shape(view, -1, positions[demands == distinct[place]])


def _requests(view: Fork) -> Rows:
    """(T,): equal for pods that request the same."""
    return np.unique(view.requests, axis=0, return_inverse=True)[1].reshape(-1)


def _shape(view: Fork, pool: int, alike: npt.NDArray[np.int64]) -> Shape:
    """One of the most frequent kind among pods of the same requests."""
    infos, first, counts = np.unique(view.pods.info[alike], return_index=True, return_counts=True)
    most = int(np.argmax(counts))
    order = np.argsort(-counts, kind="stable").tolist()
    workloads = dict.fromkeys(str(find_owner(view.pods.infos[int(infos[place])].pod)) for place in order)
    return Shape(Position(int(alike[first[most]])), pool, len(alike), tuple(workloads))


def _fits(cycle: Cycle) -> Bools:
    """(N,): the nodes that pass; none for a pod that fails before."""
    fits = np.zeros(len(cycle.view.nodes), np.bool_)
    fits[cycle.feasible] = True
    return fits


def _reasons(cycle: Cycle) -> Iterator[tuple[str, Bools]]:
    """What the framework reports, and (N,) of which nodes."""
    for _, verdict, mine in cycle.filter.iter_reported():
        for rejection in verdict.rejections:
            yield rejection.reason, rejection.mask & mine


def _reported(view: Fork, pools: Pools, shape: Shape, nodes: int) -> TypicalPods:
    return TypicalPods(
        pool="" if shape.pool < 0 else pools.names[shape.pool],
        pending=shape.pool < 0,
        pods=shape.pods,
        workloads=len(shape.workloads),
        examples=shape.workloads[:NAMED],
        requests=reported_amounts(view, view.requests[view.pods.info[shape.position]]),
        fits_on=nodes,
    )


def _rooms(
    view: Fork, pools: Pools, lost: Bools, refusals: Sequence[tuple[Shape, dict[str, Bools]]]
) -> Iterator[StrandedRoom]:
    """Stranded nodes by pool, and by what keeps most of the pods away that usually go there."""
    free, why = free_resources(view), _main_reasons(pools, lost, refusals)
    groups: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for row in np.flatnonzero(lost & free.any(axis=1)).tolist():
        groups[int(pools.code[row]), why[row]].append(row)
    for (pool, reason), rows in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield StrandedRoom(
            pool=pools.names[pool],
            reason=reason,
            nodes=len(rows),
            examples=tuple(view.nodes.names[row] for row in rows[:NAMED]),
            free=reported_amounts(view, free[rows].sum(axis=0)),
        )


def _main_reasons(pools: Pools, lost: Bools, refusals: Sequence[tuple[Shape, dict[str, Bools]]]) -> dict[int, str]:
    """The reason that keeps most pods away from each stranded row: of its pool's pods, if it has some, else of all."""
    reasons = list(dict.fromkeys(reason for _, by_reason in refusals for reason in by_reason))
    weights = np.zeros((len(reasons), len(lost)))
    served = np.isin(pools.code, [shape.pool for shape, _ in refusals])
    for shape, by_reason in refusals:
        concerned = lost & ((pools.code == shape.pool) | ~served)
        for reason, mask in by_reason.items():
            weights[reasons.index(reason)] += shape.pods * (mask & concerned)
    best = weights.argmax(axis=0) if reasons else np.zeros(len(lost), np.int64)
    return {row: reasons[best[row]] if weights[:, row].any() else "" for row in np.flatnonzero(lost).tolist()}
