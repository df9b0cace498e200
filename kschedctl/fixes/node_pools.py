"""Fixes of Karpenter's NodePools and node classes: a label that a pool lacks, an empty one, a zone without a subnet.

A pool that lacks what a pod asks for is corrected before the pod asks for less.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.copying import replace as copy_with
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodePool
from kschedctl.api.node_classes import NodeClass, NodeClassSubnet
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses, kind_of_class, reference_of
from kschedctl.autoscaling.karpenter.seen_types import seen_types
from kschedctl.cluster import Cluster
from kschedctl.fixes.node_groups import CHANGE_GROUP, MOST_TRIED, is_of_kubernetes, iter_wanted_labels
from kschedctl.fixes.trial.image_platform import find_image_platform
from kschedctl.fixes.trial.prices import Price
from kschedctl.replay import kubectl
from kschedctl.reports.new_node import NewNode
from kschedctl.reports.remedy import Remedy
from kschedctl.snapshot.node_order import ZONE

CHANGE_POOL, CHANGE_CLASS = "ChangeNodePool", "ChangeNodeClass"
"""The kinds of these changes, by which people choose among them."""
AUTOSCALER_KINDS = (CHANGE_GROUP, CHANGE_POOL, CHANGE_CLASS)
KARPENTER = "karpenter.sh"
SOME_VALUE = "true"
Replay = Callable[[Cluster, Sequence[JsonObject] | None], NewNode]
"""Returns what Karpenter would say of the pod in another cluster, with other instance types."""


class PoolCorrection(NamedTuple):
    """A change after which a pool may launch a node for the pod; ``types``: the instance types then, None: as now."""

    pool: str
    kind: str
    summary: str
    command: str
    cluster: Cluster
    types: Sequence[JsonObject] | None = None


def node_pool_fixes(
    cluster: Cluster, pod: Pod, told: NewNode, replay: Replay, types: Sequence[JsonObject] | None
) -> tuple[Remedy, ...]:
    """Return the changes of NodePools and node classes that let Karpenter launch a node for a pod, each replayed.

    ``told``: what Karpenter says of the pod now. ``types``: the instance types that are known, None: those of nodes.
    """
    if told.comes or told.existing_node:
        return ()
    changes = islice(_iter_changes(cluster, pod, types), MOST_TRIED)
    return tuple(_remedy(change) for change in changes if _helps(change, replay))


def _helps(change: PoolCorrection, replay: Replay) -> bool:
    after = replay(change.cluster, change.types)
    return any(pool.pool == change.pool and pool.takes for pool in after.pools)


def _remedy(change: PoolCorrection) -> Remedy:
    opens = (f"a new node of NodePool {change.pool}",)
    step = Price.CORRECTION.name.lower()
    return Remedy(change.summary, "operator", None, opens, (change.command,), (), (change.kind,), step=step)


def _iter_changes(cluster: Cluster, pod: Pod, types: Sequence[JsonObject] | None) -> Iterator[PoolCorrection]:
    for pool in cluster.karpenter_node_pools:
        yield from _add_labels(cluster, pool, pod)
        yield from _fill_empty_labels(cluster, pool, pod)
        yield from _add_zone(cluster, pool, pod, types)


def _add_labels(cluster: Cluster, pool: NodePool, pod: Pod) -> Iterator[PoolCorrection]:
    """Yield the pool with the labels that the pod wants and that neither its labels nor its requirements name."""
    template = pool.spec.template
    named = {requirement.key: requirement for requirement in template.spec.requirements}
    for key, value in find_image_platform(pod).items():
        required = named.get(key)
        if required is not None and required.operator == "In" and value not in required.values:
            return
    labels = template.metadata.labels
    for wanted in iter_wanted_labels(pod):
        missing = {key: values for key, values in wanted.items() if key not in labels and key not in named}
        missing = {key: values for key, values in missing.items() if not is_of_kubernetes(key) and KARPENTER not in key}
        if missing and all(missing.values()):
            added = {key: values[0] for key, values in missing.items()}
            words = " and ".join(f"{key}={value}" for key, value in added.items())
            summary = f"Add the label {words} to NodePool {pool.metadata.name}, whose nodes lack it"
            yield _with_labels(cluster, pool, added, summary)


def _fill_empty_labels(cluster: Cluster, pool: NodePool, pod: Pod) -> Iterator[PoolCorrection]:
    """Yield the pool with a value for the empty label over which the pod is spread, which Karpenter takes for none."""
    labels = pool.spec.template.metadata.labels
    keys = dict.fromkeys(constraint.topology_key for constraint in pod.spec.topology_spread_constraints)
    empty = [key for key in keys if labels.get(key) == ""]
    if empty:
        names = " and ".join(empty)
        summary = (
            f"Give the label {names} of NodePool {pool.metadata.name} a value: Karpenter takes an empty one for none"
        )
        yield _with_labels(cluster, pool, dict.fromkeys(empty, SOME_VALUE), summary)


def _with_labels(cluster: Cluster, pool: NodePool, labels: dict[str, str], summary: str) -> PoolCorrection:
    template = pool.spec.template
    metadata = replace(template.metadata, labels={**template.metadata.labels, **labels})
    changed = replace(pool, spec=replace(pool.spec, template=replace(template, metadata=metadata)))
    pools = tuple(changed if known is pool else known for known in cluster.karpenter_node_pools)
    name = pool.metadata.name
    patch = {"spec": {"template": {"metadata": {"labels": labels}}}}
    command = kubectl.render_command("patch", f"nodepools.{KARPENTER}", name, "--type=merge", "-p", json.dumps(patch))
    return PoolCorrection(name, CHANGE_POOL, summary, command, copy_with(cluster, karpenter_node_pools=pools))


def _add_zone(
    cluster: Cluster, pool: NodePool, pod: Pod, types: Sequence[JsonObject] | None
) -> Iterator[PoolCorrection]:
    """Yield the node class with a subnet in the zone that the pod wants, if its subnets are in other zones.

    If the instance types are only known from nodes, each is taken to be sold in that zone, too.
    """
    kind, node_class = kind_of_class(pool), NodeClasses(cluster).of(pool)
    if kind is None or node_class is None or not node_class.zones:
        return
    wanted = [zone for labels in iter_wanted_labels(pod) for zone in labels.get(ZONE, ())]
    missing = [zone for zone in dict.fromkeys(wanted) if zone not in node_class.zones]
    if not missing or len(missing) < len(set(wanted)):
        return
    zone = missing[0]
    subnets = (*node_class.status.subnets, NodeClassSubnet(zone))
    changed = replace(node_class, status=replace(node_class.status, subnets=subnets))
    known: Sequence[NodeClass] = getattr(cluster, kind.field)
    classes = tuple(changed if each is node_class else each for each in known)
    reference = reference_of(pool)
    zones = ", ".join(sorted(node_class.zones))
    summary = f"Give {reference.kind} {reference.name} a subnet in {zone}: those that it selects are in {zones}"
    command = f"# in a subnet of {zone}: the tags that subnetSelectorTerms of {reference.kind} {reference.name} select"
    sold = [_also_sold_in(each, zone) for each in seen_types(cluster)] if types is None else types
    after = copy_with(cluster, **{kind.field: classes})
    yield PoolCorrection(pool.metadata.name, CHANGE_CLASS, summary, command, after, sold)


def _also_sold_in(instance_type: JsonObject, zone: str) -> JsonObject:
    """Return the instance type with each of its offerings in the zone, too."""
    offerings = instance_type.get("offerings")
    more = []
    for offering in offerings if isinstance(offerings, list) else ():
        terms = [term for term in offering["Requirements"] if term["key"] != ZONE]
        more.append({**offering, "Requirements": [*terms, {"key": ZONE, "operator": "In", "values": [zone]}]})
    return {**instance_type, "offerings": [*(offerings if isinstance(offerings, list) else ()), *more]}
