"""Search for free capacity that no pod can use: nodes on which no pending pod and no typical pod fits.

The typical pods of a pool are those with its most frequent requests. One pod of each kind is replayed as if it came
now. Pods of DaemonSets and static pods do not count, since they are on the nodes already. A node is usable if one of
all these pods passes every filter on it, except the filters that compare the pod with other pods: pods without such
rules could use that capacity.
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
from kschedctl.scheduler.framework import counts_pods_elsewhere
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

STAYING_KINDS = ("DaemonSet", "Node")
MAX_POOLS = 20
"""The maximum number of pools whose typical pods are replayed."""
MAX_TYPICAL, MIN_TYPICAL_PER_POOL = 40, 3
"""The maximum number of typical pods that are replayed, and the number that each pool may have in any case."""
MAX_PENDING = 20
"""The maximum number of kinds of pending pods that are replayed."""
MAX_EXAMPLES = 3


PENDING = -1
"""The number that pending pods have instead of a pool."""


class TypicalPod(NamedTuple):
    """A pod that represents all pods with the same requests."""

    position: Position
    pool: int
    """The number of the pool, PENDING for a pending pod."""
    pods: int
    """The number of pods that it represents."""
    workloads: tuple[str, ...]
    """The workloads of these pods."""


class StrandedCapacity(NamedTuple):
    """The nodes on which none of the typical pods fits."""

    typical: tuple[TypicalPods, ...]
    rooms: tuple[StrandedRoom, ...]
    nodes: Bools
    """A mask (N,) of the stranded nodes."""
    closed_by_other_pods: Bools
    """A mask (N,) of the stranded nodes on which rules about other pods also reject every typical pod of the pool."""
    simulation: Simulation
    """The simulation of the replays, with the unread data that they depend on."""


def find_stranded_capacity(scheduler: Scheduler, pools: Pools, pending: Sequence[Position]) -> StrandedCapacity:
    """Find the workers on which no typical pod fits, grouped by pool and main reason.

    Typical pods have the most frequent requests among running pods or among pending pods. The main reason is the one
    for which most typical pods are rejected. A node is not stranded if only a rule about other pods keeps a typical pod
    off it. Pods that no profile serves are not replayed. Without pods to replay, no node is stranded.
    """
    simulation = Simulation(scheduler)
    view = simulation.view
    request_numbers = _number_requests(view)
    typical_pods = (
        *_iter_typical_pods(view, pools, request_numbers),
        *_iter_pods_with_frequent_requests(view, PENDING, np.array(pending, np.int64), request_numbers, MAX_PENDING),
    )

    is_usable = np.zeros(len(view.nodes), np.bool_)
    is_open = np.zeros(len(view.nodes), np.bool_)  # to a typical pod of the node's pool, apart from resources
    reports = []
    rejections: list[tuple[TypicalPod, dict[str, Bools]]] = []
    for typical_pod in typical_pods:
        if simulation.find_framework(typical_pod.position) is None:
            continue
        cycle = simulation.run_cycle(typical_pod.position)
        is_feasible = _find_feasible_nodes(cycle)
        is_usable |= is_feasible | _find_nodes_closed_only_by_other_pods(cycle)
        is_open |= (pools.code == typical_pod.pool) & ~_mask_nodes_closed_by_other_pods(cycle)
        rejections.append((typical_pod, dict(_iter_rejection_reasons(cycle))))
        reports.append(_build_typical_pods_report(view, pools, typical_pod, int(is_feasible.sum())))

    is_stranded = ~is_usable & pools.workers
    if not reports:  # without a replayed pod, every node would seem to be unusable
        is_stranded[:] = False
    return StrandedCapacity(
        typical=tuple(reports),
        rooms=tuple(_iter_stranded_rooms(view, pools, is_stranded, rejections)),
        nodes=is_stranded,
        closed_by_other_pods=is_stranded & ~is_open & np.isin(pools.code, [pod.pool for pod, _ in rejections]),
        simulation=simulation,
    )


def _iter_typical_pods(view: Fork, pools: Pools, request_numbers: Rows) -> Iterator[TypicalPod]:
    """Yield the typical pods of the largest pools, which are the pods with the most frequent requests in their pool.

    Pods that never leave their node, such as DaemonSet pods, are left out. `request_numbers` (T,) has equal numbers for
    PodInfos with equal requests.
    """
    is_staying_info = view.pods.where(lambda info: find_owner(info.pod).kind in STAYING_KINDS)
    is_staying = is_staying_info[view.pods.info]  # one entry per pod instead of one per pod info
    positions = np.flatnonzero(view.mask_placed() & ~is_staying)
    pool_by_pod = pools.code[view.node[positions]]
    pods_by_pool = np.bincount(pool_by_pod, minlength=len(pools.names))
    largest_pools = np.argsort(-pods_by_pool, kind="stable")[:MAX_POOLS].tolist()
    # Share the total evenly among the pools, but give each pool at least a few pods.
    max_per_pool = max(MAX_TYPICAL // max(len(largest_pools), 1), MIN_TYPICAL_PER_POOL)
    for pool in largest_pools:
        yield from _iter_pods_with_frequent_requests(
            view, pool, positions[pool_by_pod == pool], request_numbers, max_per_pool
        )


def _iter_pods_with_frequent_requests(
    view: Fork, pool: int, positions: npt.NDArray[np.int64], request_numbers: Rows, max_count: int
) -> Iterator[TypicalPod]:
    """Yield a typical pod for each of the `max_count` most frequent requests among the pods at `positions`.

    `pool` is the pool of all these pods, or PENDING. `request_numbers` (T,) gives each PodInfo a number. PodInfos with
    equal requests have equal numbers.
    """
    numbers = request_numbers[view.pods.info[positions]]
    distinct_numbers, counts = np.unique(numbers, return_counts=True)
    for place in np.argsort(-counts, kind="stable")[:max_count].tolist():
        has_same_requests = numbers == distinct_numbers[place]
        yield _build_typical_pod(view, pool, positions[has_same_requests])


def _number_requests(view: Fork) -> Rows:
    """Return a number for each PodInfo that is equal for equal requests, shape (T,)."""
    _, numbers = np.unique(view.requests, axis=0, return_inverse=True)
    return numbers.reshape(-1)  # its shape depends on the version of numpy


def _build_typical_pod(view: Fork, pool: int, positions: npt.NDArray[np.int64]) -> TypicalPod:
    """Build the typical pod of pods with the same requests: the first pod with their most frequent PodInfo.

    `positions` are the positions of the pods, and `pool` is the number of their pool or PENDING.
    """
    infos, first_places, counts = np.unique(view.pods.info[positions], return_index=True, return_counts=True)
    most_frequent_first = np.argsort(-counts, kind="stable")
    owners = (find_owner(view.pods.infos[info].pod) for info in infos[most_frequent_first].tolist())
    first_place = first_places[most_frequent_first[0]]  # of the most frequent info
    return TypicalPod(
        position=Position(int(positions[first_place])),
        pool=pool,
        pods=len(positions),
        workloads=tuple(dict.fromkeys(map(str, owners))),
    )


def _find_feasible_nodes(cycle: Cycle) -> Bools:
    """Return whether the pod passes all filters on each node, shape (N,)."""
    is_feasible = np.zeros(len(cycle.view.nodes), np.bool_)
    is_feasible[cycle.feasible] = True
    return is_feasible


def _find_nodes_closed_only_by_other_pods(cycle: Cycle) -> Bools:
    """Return the mask (N,) of the nodes that reject the pod only because of a rule about other pods."""
    is_closed = np.zeros(len(cycle.view.nodes), np.bool_)
    rules = _list_rules_about_other_pods(cycle)
    for plugin, verdict, reported_nodes in cycle.filter.iter_reported_verdicts():
        if plugin in rules:
            is_closed |= verdict.rejected & reported_nodes
    return is_closed


def _mask_nodes_closed_by_other_pods(cycle: Cycle) -> Bools:
    """Return the mask (N,) of the nodes that reject the pod because of a rule about other pods, at least among others.

    Nodes that were not evaluated are left out.
    """
    is_closed = np.zeros(len(cycle.view.nodes), np.bool_)
    for plugin in _list_rules_about_other_pods(cycle):
        if plugin in cycle.filter.verdicts:
            is_closed |= cycle.filter.verdicts[plugin].rejected
    return is_closed


def _list_rules_about_other_pods(cycle: Cycle) -> list[str]:
    """Return the names of the filters that compare the pod with pods on other nodes, such as anti-affinity."""
    return [plugin.name for plugin in cycle.framework.plugins_at("filter") if counts_pods_elsewhere(plugin)]


def _iter_rejection_reasons(cycle: Cycle) -> Iterator[tuple[str, Bools]]:
    """Yield the reasons that the framework reports, each with the nodes it concerns, shape (N,)."""
    for _, verdict, reported_nodes in cycle.filter.iter_reported_verdicts():
        for rejection in verdict.rejections:
            yield rejection.reason, rejection.mask & reported_nodes


def _build_typical_pods_report(view: Fork, pools: Pools, typical_pod: TypicalPod, nodes: int) -> TypicalPods:
    """Build the report about a typical pod. `nodes` is the number of nodes on which it fits."""
    requests = view.get_requests(typical_pod.position)
    return TypicalPods(
        pool="" if typical_pod.pool == PENDING else pools.names[typical_pod.pool],
        pending=typical_pod.pool == PENDING,
        pods=typical_pod.pods,
        workloads=len(typical_pod.workloads),
        examples=typical_pod.workloads[:MAX_EXAMPLES],
        requests=select_reported_amounts(view, requests),
        fits_on=nodes,
    )


def _iter_stranded_rooms(
    view: Fork, pools: Pools, is_stranded: Bools, rejections: Sequence[tuple[TypicalPod, dict[str, Bools]]]
) -> Iterator[StrandedRoom]:
    """Yield the stranded nodes with free resources, grouped by pool and by the main reason, largest group first.

    The main reason keeps most of the pool's typical pods off a node.
    """
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
    """Return, by row of a stranded node, the reason that keeps most pods off the node.

    The reason is empty if no plugin reports one. Only the typical pods of the node's pool count, or all typical pods if
    the pool has none. `rejections` has, for each typical pod, the masks (N,) of nodes by reason.
    """
    stranded_rows = np.flatnonzero(is_stranded).tolist()
    reasons = list(dict.fromkeys(reason for _, by_reason in rejections for reason in by_reason))
    if not reasons:
        return dict.fromkeys(stranded_rows, "")

    # Count the pods that each reason keeps off each node, shape (reasons, N).
    pod_counts = np.zeros((len(reasons), len(is_stranded)))
    pool_has_typical_pods = np.isin(pools.code, [typical_pod.pool for typical_pod, _ in rejections])
    for typical_pod, by_reason in rejections:
        is_concerned = is_stranded & ((pools.code == typical_pod.pool) | ~pool_has_typical_pods)
        for reason, mask in by_reason.items():
            pod_counts[reasons.index(reason)] += typical_pod.pods * (mask & is_concerned)

    main_reason_by_row = [reasons[index] for index in pod_counts.argmax(axis=0).tolist()]
    max_count_by_row = pod_counts.max(axis=0).tolist()
    return {row: main_reason_by_row[row] if max_count_by_row[row] else "" for row in stranded_rows}
