"""Search for free capacity that no pod can use: nodes on which no pending pod and no typical pod fits.

The typical pods of a pool are those with its most frequent requests. One pod of each kind is replayed as if it came
now. Pods of DaemonSets and static pods do not count, since they are on the nodes already. A node is usable if one of
all these pods passes every filter on it.
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
from kschedctl.replay.pools import Pools, compute_free_resources, select_reported_amounts
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

STAYING_KINDS = ("DaemonSet", "Node")
MAX_POOLS = 20
"""The maximum number of pools whose typical pods are replayed."""
MAX_TYPICAL, MIN_TYPICAL_PER_POOL = 40, 3
"""The numbers of typical pods that are replayed, in total and in each pool."""
MAX_PENDING = 20
"""The maximum number of kinds of pending pods that are replayed."""
MAX_EXAMPLES = 3


class TypicalPod(NamedTuple):
    """A pod that represents all pods with the same requests."""

    position: Position
    pool: int
    """The number of the pool, -1 for a pending pod."""
    pods: int
    """The number of pods that it represents."""
    workloads: tuple[str, ...]
    """The workloads of these pods."""


class StrandedCapacity(NamedTuple):
    """The nodes on which none of the typical pods fits."""

    typical: tuple[TypicalPods, ...]
    rooms: tuple[StrandedRoom, ...]
    nodes: Bools
    """Whether each node is stranded, shape (N,)."""
    simulation: Simulation
    """The simulation of the replays, with the unread data that they depend on."""


def find_stranded_capacity(scheduler: Scheduler, pools: Pools, pending: Sequence[Position]) -> StrandedCapacity:
    """Return the stranded capacity of schedulable nodes by pool and by the reason that keeps pods off them."""
    simulation = Simulation(scheduler)
    view = simulation.view
    usable = np.zeros(len(view.nodes), np.bool_)
    typical = []
    rejections: list[tuple[TypicalPod, dict[str, Bools]]] = []
    for typical_pod in (*_iter_typical_pods(view, pools), *_iter_typical_pending_pods(view, pending)):
        if simulation.framework(typical_pod.position) is None:
            continue
        cycle = simulation.run_cycle(typical_pod.position)
        fits = _find_feasible_nodes(cycle)
        usable |= fits
        rejections.append((typical_pod, dict(_iter_rejection_reasons(cycle))))
        typical.append(_build_typical_pods_report(view, pools, typical_pod, int(fits.sum())))
    is_stranded = ~usable & pools.workers & bool(typical)
    return StrandedCapacity(
        tuple(typical), tuple(_iter_stranded_rooms(view, pools, is_stranded, rejections)), is_stranded, simulation
    )


def _iter_typical_pods(view: Fork, pools: Pools) -> Iterator[TypicalPod]:
    """Yield pods with the most frequent requests in each of the largest pools."""
    is_staying = view.pods.where(lambda info: find_owner(info.pod).kind in STAYING_KINDS)[view.pods.info]
    positions = np.flatnonzero((view.node >= 0) & ~is_staying)
    pool, demand = pools.code[view.node[positions]], _number_requests(view)[view.pods.info[positions]]
    largest = np.argsort(-np.bincount(pool, minlength=len(pools.names)), kind="stable")[:MAX_POOLS].tolist()
    max_pods = max(MAX_TYPICAL // max(len(largest), 1), MIN_TYPICAL_PER_POOL)
    for code in largest:
        is_in_pool = pool == code
        demands, counts = np.unique(demand[is_in_pool], return_counts=True)
        for place in np.argsort(-counts, kind="stable")[:max_pods].tolist():
            equal_pods = positions[is_in_pool & (demand == demands[place])]
            yield _choose_typical_pod(view, code, equal_pods)


def _iter_typical_pending_pods(view: Fork, pending: Sequence[Position]) -> Iterator[TypicalPod]:
    """Yield pods with the most frequent requests among the pending pods."""
    positions = np.array(pending, np.int64)
    demands = _number_requests(view)[view.pods.info[positions]]
    distinct, counts = np.unique(demands, return_counts=True)
    for place in np.argsort(-counts, kind="stable")[:MAX_PENDING].tolist():
        yield _choose_typical_pod(view, -1, positions[demands == distinct[place]])


def _number_requests(view: Fork) -> Rows:
    """Return a number for each PodInfo that is equal for equal requests, shape (T,)."""
    return np.unique(view.requests, axis=0, return_inverse=True)[1].reshape(-1)


def _choose_typical_pod(view: Fork, pool: int, positions: npt.NDArray[np.int64]) -> TypicalPod:
    """Return a pod with the most frequent PodInfo among pods with the same requests."""
    infos, first, counts = np.unique(view.pods.info[positions], return_index=True, return_counts=True)
    most_frequent = int(np.argmax(counts))
    order = np.argsort(-counts, kind="stable").tolist()
    workloads = dict.fromkeys(str(find_owner(view.pods.infos[int(infos[place])].pod)) for place in order)
    return TypicalPod(Position(int(positions[first[most_frequent]])), pool, len(positions), tuple(workloads))


def _find_feasible_nodes(cycle: Cycle) -> Bools:
    """Return on which nodes the pod passes all filters, shape (N,)."""
    fits = np.zeros(len(cycle.view.nodes), np.bool_)
    fits[cycle.feasible] = True
    return fits


def _iter_rejection_reasons(cycle: Cycle) -> Iterator[tuple[str, Bools]]:
    """Yield the reasons that the framework reports, each with the nodes it concerns, shape (N,)."""
    for _, verdict, reported_nodes in cycle.filter.iter_reported():
        for rejection in verdict.rejections:
            yield rejection.reason, rejection.mask & reported_nodes


def _build_typical_pods_report(view: Fork, pools: Pools, typical_pod: TypicalPod, nodes: int) -> TypicalPods:
    """Build the report about a typical pod and the number of nodes on which it fits."""
    return TypicalPods(
        pool="" if typical_pod.pool < 0 else pools.names[typical_pod.pool],
        pending=typical_pod.pool < 0,
        pods=typical_pod.pods,
        workloads=len(typical_pod.workloads),
        examples=typical_pod.workloads[:MAX_EXAMPLES],
        requests=select_reported_amounts(view, view.requests[view.pods.info[typical_pod.position]]),
        fits_on=nodes,
    )


def _iter_stranded_rooms(
    view: Fork, pools: Pools, is_stranded: Bools, rejections: Sequence[tuple[TypicalPod, dict[str, Bools]]]
) -> Iterator[StrandedRoom]:
    """Yield the stranded nodes grouped by pool and by the reason that keeps most of the pool's pods off them."""
    free = compute_free_resources(view)
    main_reasons = _find_main_reasons(pools, is_stranded, rejections)
    groups: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for row in np.flatnonzero(is_stranded & free.any(axis=1)).tolist():
        groups[int(pools.code[row]), main_reasons[row]].append(row)
    for (pool, reason), rows in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield StrandedRoom(
            pool=pools.names[pool],
            reason=reason,
            nodes=len(rows),
            examples=tuple(view.nodes.names[row] for row in rows[:MAX_EXAMPLES]),
            free=select_reported_amounts(view, free[rows].sum(axis=0)),
        )


def _find_main_reasons(
    pools: Pools, is_stranded: Bools, rejections: Sequence[tuple[TypicalPod, dict[str, Bools]]]
) -> dict[int, str]:
    """Return, by row, the reason that keeps most pods off each stranded node.

    Only the pool's pods count, or all pods if the pool has none.
    """
    reasons = list(dict.fromkeys(reason for _, by_reason in rejections for reason in by_reason))
    weights = np.zeros((len(reasons), len(is_stranded)))
    has_typical_pods = np.isin(pools.code, [typical_pod.pool for typical_pod, _ in rejections])
    for typical_pod, by_reason in rejections:
        is_concerned = is_stranded & ((pools.code == typical_pod.pool) | ~has_typical_pods)
        for reason, mask in by_reason.items():
            weights[reasons.index(reason)] += typical_pod.pods * (mask & is_concerned)
    best = weights.argmax(axis=0) if reasons else np.zeros(len(is_stranded), np.int64)
    return {row: reasons[best[row]] if weights[:, row].any() else "" for row in np.flatnonzero(is_stranded).tolist()}
