"""What differs between two clusters at rest: where pods are, and how full zones are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.api.arrays import Bools
from kschedctl.api.ownership import owner_of
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.cluster import Cluster
from kschedctl.reports.whatif import DomainBalance, MessageChange, PodChange
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import ZONE
from kschedctl.studies.what_if.settling import Settled


def pod_changes(before: Settled, after: Settled) -> Iterator[PodChange]:
    """Every pod that ends up elsewhere, by name."""
    then, now = _nodes(before.cluster), _nodes(after.cluster)
    for key in sorted(then.keys() | now.keys()):
        source, target = then.get(key), now.get(key)
        change = _change(source, target)
        if change:
            name = key.split("/", 1)
            pod = after.cluster.pods.find(*name) or before.cluster.pods.find(*name)
            assert pod is not None
            message = after.waiting.get(key, "") if not target else ""
            yield PodChange(key, str(owner_of(pod)), change, source or "", target or "", message)


def message_changes(before: Settled, after: Settled) -> Iterator[MessageChange]:
    """What is said of pods that wait in both, by what it was and what it is; the most pods first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for pod, then in sorted(before.waiting.items()):
        now = after.waiting.get(pod, then)
        if now != then:
            groups.setdefault((then, now), []).append(pod)
    for (then, now), pods in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield MessageChange(then, now, tuple(pods))


def _change(source: str | None, target: str | None) -> str:
    """Nodes, empty for none; None where there is no such pod."""
    if source == target:
        return ""
    if source is None:
        return "Created" if target else "NewlyPending"
    if target is None:
        return "Gone"
    if source and target:
        return "Moved"
    return "NewlyPending" if source else "NewlyScheduled"


def _nodes(cluster: Cluster) -> dict[str, str]:
    """Pod -> its node."""
    return dict(zip(cluster.pods.keys(), cluster.pods.node.texts(), strict=True))


def zone_balance(before: Cluster, after: Cluster) -> Iterator[DomainBalance]:
    """Every zone that nodes are in, before or after."""
    then, now = Scheduler(before).view, Scheduler(after).view
    for zone in sorted({*then.nodes.label(ZONE).values, *now.nodes.label(ZONE).values}):
        old, new = _zone(then, zone), _zone(now, zone)
        requested = {name: (old.requested[name], new.requested[name]) for name in old.requested}
        yield DomainBalance(zone, (old.nodes, new.nodes), (old.pods, new.pods), requested)


class _Zone(NamedTuple):
    nodes: int
    pods: int
    requested: dict[str, float]


def _zone(view: Fork, zone: str) -> _Zone:
    column = view.nodes.label(ZONE)
    there = column.codes == (column.values.index(zone) if zone in column.values else -2)
    bound = view.node[view.node >= 0]
    return _Zone(int(there.sum()), int(there[bound].sum()), {name: _share(view, there, name) for name in (CPU, MEMORY)})


def _share(view: Fork, there: Bools, name: str) -> float:
    """How much of what these nodes (N,) offer is requested, in percent."""
    column = view.resources[name]
    offered = int(view.allocatable[there, column].sum())
    return round(100 * int(view.requested[there, column].sum()) / offered, 1) if offered else 0.0
