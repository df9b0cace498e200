"""Comparison of a cluster before and after changes: where each pod ends up, and how full each zone is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.arrays import Bools
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.commands.whatif.report import DomainBalance, MessageChange, PodChange
from kschedctl.replay.settling import SettledCluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import ZONE

Because = Mapping[str, tuple[str, ...]]
"""The causes of each pod's changed fate, if requested."""


def iter_pod_changes(before: SettledCluster, after: SettledCluster) -> Iterator[PodChange]:
    """Yield every pod that ends up elsewhere, by name."""
    old_nodes, new_nodes = _nodes_by_pod(before.cluster), _nodes_by_pod(after.cluster)
    for key in sorted(old_nodes.keys() | new_nodes.keys()):
        source, target = old_nodes.get(key), new_nodes.get(key)
        change = _classify_change(source, target)
        if change:
            name = key.split("/", 1)
            pod = after.cluster.pods.find(*name) or before.cluster.pods.find(*name)
            assert pod is not None
            message = after.waiting.get(key, "") if not target else ""
            yield PodChange(key, str(find_owner(pod)), change, source or "", target or "", message)


def find_changed_messages(before: SettledCluster, after: SettledCluster) -> dict[str, tuple[str, str]]:
    """Return the old and new message of each pod that waits in both with different messages."""
    pairs = ((pod, (then, after.waiting.get(pod, then))) for pod, then in sorted(before.waiting.items()))
    return {pod: pair for pod, pair in pairs if pair[0] != pair[1]}


def group_message_changes(messages: Mapping[str, tuple[str, str]], because: Because) -> Iterator[MessageChange]:
    """Yield message changes grouped by old message, new message and cause, largest group first."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for pod, pair in messages.items():
        groups.setdefault((*pair, because.get(pod, ())), []).append(pod)
    for (then, now, why), pods in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield MessageChange(then, now, tuple(pods), why)


def collect_fates(settled: SettledCluster) -> dict[str, tuple[str, str]]:
    """Return the node of every pod, or "" and its message."""
    waiting = settled.waiting
    return {pod: (node, "" if node else waiting.get(pod, "")) for pod, node in _nodes_by_pod(settled.cluster).items()}


def _classify_change(source: str | None, target: str | None) -> str:
    """Return the kind of change between two nodes. "" is no node, None no pod."""
    if source == target:
        return ""
    if source is None:
        return "Created" if target else "NewlyPending"
    if target is None:
        return "Gone"
    if source and target:
        return "Moved"
    return "NewlyPending" if source else "NewlyScheduled"


def _nodes_by_pod(cluster: Cluster) -> dict[str, str]:
    """Pod -> its node."""
    return dict(zip(cluster.pods.keys(), cluster.pods.node.texts(), strict=True))


def compare_zones(before: Cluster, after: Cluster) -> Iterator[DomainBalance]:
    """Yield every zone that has nodes before or after."""
    old_view, new_view = Scheduler(before).view, Scheduler(after).view
    for zone in sorted({*old_view.nodes.label(ZONE).values, *new_view.nodes.label(ZONE).values}):
        old, new = _summarize_zone(old_view, zone), _summarize_zone(new_view, zone)
        requested = {name: (old.requested[name], new.requested[name]) for name in old.requested}
        yield DomainBalance(zone, (old.nodes, new.nodes), (old.pods, new.pods), requested)


class _Zone(NamedTuple):
    nodes: int
    pods: int
    requested: dict[str, float]


def _summarize_zone(view: Fork, zone: str) -> _Zone:
    column = view.nodes.label(ZONE)
    there = column.codes == (column.values.index(zone) if zone in column.values else -2)
    bound = view.node[view.node >= 0]
    return _Zone(
        int(there.sum()), int(there[bound].sum()), {name: _compute_share(view, there, name) for name in (CPU, MEMORY)}
    )


def _compute_share(view: Fork, there: Bools, name: str) -> float:
    """Return the requested share of what the nodes (N,) offer, in percent."""
    column = view.resources[name]
    offered = int(view.allocatable[there, column].sum())
    return round(100 * int(view.requested[there, column].sum()) / offered, 1) if offered else 0.0
