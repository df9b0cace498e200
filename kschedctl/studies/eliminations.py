"""Which node was eliminated by what: grouped by reason, and node by node with everything that would refuse it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.reports.explanation import Elimination, NearestMiss, NodeReport, Refusal
from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.framework import Bools, PluginVerdict
from kschedctl.snapshot.node_order import zone_key

POOL_NAMES = (
    "nodepool",
    "gke-nodepool",
    "nodegroup",
    "nodegroup-name",
    "agentpool",
    "worker-pool-name",
    "instancegroup",
    "node-pool",
    "pool-name",
    "provisioner-name",
    "pool",
)
"""What follows the slash in the labels by which providers and people name a node pool, the most specific first."""

Distances = npt.NDArray[np.float64]


class _Group(NamedTuple):
    """The nodes (N,) that the scheduler reports for one reason, and what lies behind it."""

    plugin: str
    reason: str
    mask: Bools
    fact: Callable[[int], str] | None
    distance: Distances | None


def eliminations(cycle: Cycle) -> tuple[Elimination, ...]:
    """The reported reasons, the most frequent first, each with the node that is nearest to passing."""
    refusals = _refusal_counts(cycle)
    found = [_elimination(group, refusals, cycle) for group in _merged(_groups(cycle))]
    return tuple(sorted(found, key=lambda e: (-e.nodes, e.reason)))


def node_reports(cycle: Cycle) -> tuple[NodeReport, ...]:
    """Every node: the feasible ones by score, then the refused ones, those that fail one thing only first."""
    totals = dict(zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True))
    count, distance = _refusal_counts(cycle), _first_distance(cycle)
    score = np.array([totals.get(row, -1) for row in range(len(cycle.view.nodes))])
    order = np.lexsort((distance, count, -score, score < 0))
    return tuple(_node(cycle, row, totals) for row in order.tolist())


def _node(cycle: Cycle, row: int, totals: Mapping[int, int]) -> NodeReport:
    node = cycle.view.nodes.objects[row]
    labels = node.metadata.labels
    return NodeReport(
        name=node.metadata.name,
        zone=zone_key(node)[1],
        pool=pool_of(labels),
        feasible=row in totals,
        refusals=() if row in totals else tuple(_refusals(cycle, row)),
        total=totals.get(row),
    )


def pool_of(labels: Mapping[str, str]) -> str:
    """The node pool, as far as labels tell."""
    by_name = {key.rpartition("/")[2]: value for key, value in labels.items()}
    return next((by_name[name] for name in POOL_NAMES if name in by_name), "")


def _refusals(cycle: Cycle, row: int) -> Iterator[Refusal]:
    """What the scheduler reports of a node, then what else would refuse it."""
    reported = ""
    if not cycle.considered[row]:
        yield from (Refusal("", reason) for reason in cycle.absent_status().reasons)
    elif not cycle.filter.passing[row]:
        reported = cycle.filter.order[cycle.filter.first[row]]
        crowded = cycle.filter.by_nominated[row]
        yield from _of(reported, (cycle.filter.with_nominated if crowded else cycle.filter.verdicts)[reported], row)
    for plugin, verdict in cycle.filter.verdicts.items():
        if plugin != reported and verdict.refused[row]:
            yield from _of(plugin, verdict, row)


def _of(plugin: str, verdict: PluginVerdict, row: int) -> Iterator[Refusal]:
    for rejection in verdict.rejections:
        if rejection.mask[row]:
            yield Refusal(plugin, rejection.reason, rejection.fact(row) if rejection.fact else "")


def _refusal_counts(cycle: Cycle) -> npt.NDArray[np.int64]:
    """(N,): how many things stand against each node."""
    count = np.zeros(len(cycle.view.nodes), np.int64)
    for verdict in cycle.filter.verdicts.values():
        for rejection in verdict.rejections:
            count += rejection.mask
    return np.maximum(count, (~cycle.considered | ~cycle.filter.passing).astype(np.int64))


def _first_distance(cycle: Cycle) -> Distances:
    """(N,): how far each node is from passing what it is reported for; 0 where that cannot be told."""
    distance = np.zeros(len(cycle.view.nodes), np.float64)
    for group in _groups(cycle):
        if group.distance is not None:
            distance = np.where(group.mask, group.distance, distance)
    return distance


def _groups(cycle: Cycle) -> Iterator[_Group]:
    if not cycle.considered.all():
        for reason in cycle.absent_status().reasons:
            yield _Group(cycle.pre_filter.plugin, reason, ~cycle.considered, None, None)
    for plugin, verdict, mine in cycle.filter.reported():
        for rejection in verdict.rejections:
            mask = rejection.mask & mine & cycle.considered
            if mask.any():
                yield _Group(plugin, rejection.reason, mask, rejection.fact, rejection.distance)


def _merged(groups: Iterator[_Group]) -> list[list[_Group]]:
    """Groups of one reason together: a plugin may yield it once for nodes that are full and once for small ones."""
    by_reason: dict[tuple[str, str], list[_Group]] = {}
    for group in groups:
        by_reason.setdefault((group.plugin, group.reason), []).append(group)
    return list(by_reason.values())


def _elimination(groups: list[_Group], refusals: npt.NDArray[np.int64], cycle: Cycle) -> Elimination:
    mask = np.logical_or.reduce([group.mask for group in groups])
    distance = np.zeros(len(mask), np.float64)
    for group in groups:
        if group.distance is not None:
            distance = np.where(group.mask, group.distance, distance)
    rows = np.flatnonzero(mask)
    nearest = int(rows[np.lexsort((distance[rows], refusals[rows]))[0]])
    fact = next((group.fact for group in groups if group.mask[nearest]), None)
    return Elimination(
        plugin=groups[0].plugin,
        reason=groups[0].reason,
        nodes=len(rows),
        only=int((refusals[rows] == 1).sum()),
        nearest=NearestMiss(cycle.view.nodes.names[nearest], fact(nearest)) if fact else None,
    )
