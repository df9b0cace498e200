"""Node shapes from a catalogue of instance types, and the limits of the Karpenter NodePools that launch them.

If the cluster has NodePools, the shapes are the nodes that these would launch. The search ignores the pools' limits, so
the report warns about them (https://karpenter.sh/docs/concepts/nodepools/#speclimits).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodePool
from kschedctl.api.objects import Node, NodeSpec, NodeStatus, ObjectMeta, Resources, Taint
from kschedctl.api.quantity import parse_milli_value
from kschedctl.autoscaling.cluster_autoscaler.templates import iter_daemon_pods
from kschedctl.autoscaling.karpenter.instance_types import (
    InstanceType,
    InstanceTypeCatalog,
    Offering,
    read_instance_types,
)
from kschedctl.autoscaling.karpenter.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INSTANCE_TYPE,
    NODE_POOL,
    ON_DEMAND,
    RESERVED,
    ZONE,
)
from kschedctl.autoscaling.karpenter.requirements import Requirements
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting, read_karpenter_options
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.cluster import Cluster
from kschedctl.commands.size.program import Counts
from kschedctl.commands.size.shapes import NodeShape

NODES = "nodes"
NO_LABELS: Mapping[str, str] = MappingProxyType({})
_ANY_TIME = "1970-01-01T00:00:00Z"
"""The time for NodePools of a cluster that was not read at a known time."""


def build_type_shapes(
    cluster: Cluster, instance_types: Sequence[JsonObject], node_labels: Mapping[str, str] = NO_LABELS
) -> list[NodeShape]:
    """Build a shape for each instance type that has usable offerings, with their prices.

    If the cluster has Karpenter NodePools, build a shape for each pair of a pool and a type that the pool may launch.
    Such nodes have the pool's labels and taints. All nodes also get `node_labels`. Raises InputError if an instance
    type is invalid.
    """
    catalog = read_instance_types(instance_types)
    launchable_types: list[_LaunchableType] = []
    if cluster.karpenter_node_pools:
        for template in _build_pool_templates(cluster, catalog):
            launchable_types += _iter_launchable_types(template)
    else:
        for instance_type in catalog.types:
            launchable_types.append(
                _LaunchableType(
                    instance_type.name, instance_type, instance_type.requirements, offerings=instance_type.offerings
                )
            )
    zone_keys = _find_zone_labels(cluster)
    shapes = [_build_type_shape(cluster, launchable, node_labels, zone_keys) for launchable in launchable_types]
    return [shape for shape in shapes if shape is not None]


class _LaunchableType(NamedTuple):
    """An instance type as it can be launched."""

    name: str
    instance_type: InstanceType
    requirements: Requirements
    """The requirements on the labels of its nodes."""
    offerings: Sequence[Offering]
    """The offerings that satisfy the requirements."""
    labels: Mapping[str, str] = NO_LABELS
    taints: tuple[Taint, ...] = ()

    def list_usable_offerings(self) -> list[Offering]:
        """Return the offerings that are available and not reserved, most expensive first.

        If there are on-demand offerings, only these are returned.
        """
        available = [
            offering for offering in self.offerings if offering.available and offering.capacity_type != RESERVED
        ]
        on_demand = [offering for offering in available if offering.capacity_type == ON_DEMAND]
        return sorted(on_demand or available, key=lambda offering: -offering.price)


def _build_pool_templates(cluster: Cluster, catalog: InstanceTypeCatalog) -> Sequence[ClaimTemplate]:
    """Build the templates that the cluster's NodePools use to launch nodes of the catalogue's instance types."""
    read_at = cluster.provenance.read_at if cluster.provenance else ""
    setting = KarpenterSetting.for_cluster(cluster, catalog, read_karpenter_options({}), read_at or _ANY_TIME)
    return setting.pools.templates


def _iter_launchable_types(template: ClaimTemplate) -> Iterator[_LaunchableType]:
    """Yield the instance types that a NodePool's template may launch, each with the allowed offerings."""
    columns = template.columns
    is_compatible = columns.find_matching_offerings(template.requirements)
    for index in np.flatnonzero(template.options).tolist():
        instance_type = columns.types[index]
        compatible_offerings = np.flatnonzero(is_compatible & (columns.type_of == index)).tolist()
        offerings = [columns.offerings[offering] for offering in compatible_offerings]
        requirements = template.requirements.combined_with(instance_type.requirements)
        name = f"{template.name}-{instance_type.name}"
        yield _LaunchableType(
            name,
            instance_type,
            requirements=requirements,
            offerings=offerings,
            labels=template.labels,
            taints=template.taints,
        )


def _build_type_shape(
    cluster: Cluster, launched: _LaunchableType, node_labels: Mapping[str, str], zone_keys: Iterable[str]
) -> NodeShape | None:
    """Build the shape of a launchable type, with a model node and the lowest price for each zone.

    `zone_keys` are further labels that name the zone. Return None if the type has no usable offering.
    """
    offerings = launched.list_usable_offerings()
    if not offerings:
        return None
    price_by_zone: dict[str, float] = {}
    for offering in offerings:  # the cheapest comes last, so that its price remains
        zone = offering.zone if ZONE in offering.requirements else ""
        price_by_zone[zone] = offering.price
    prices: dict[str, float | None] = dict(sorted(price_by_zone.items()))

    # Build a model node for each zone.
    labels = _build_model_labels(launched, node_labels, capacity_type=offerings[-1].capacity_type)
    allocatable: Resources = {name: str(amount) for name, amount in launched.instance_type.allocatable.items()}
    capacity: Resources = {name: str(amount) for name, amount in launched.instance_type.capacity.items()}
    taints = tuple(Taint(taint.key, taint.value, taint.effect) for taint in launched.taints)
    spec, status = NodeSpec(taints=taints), NodeStatus(allocatable, capacity)
    models = {}
    for zone in prices:
        zone_labels = dict.fromkeys(zone_keys, zone) if zone else {}
        models[zone] = Node(ObjectMeta(launched.name, labels=labels | zone_labels), spec, status)
    daemons = tuple(iter_daemon_pods(next(iter(models.values())), cluster.daemon_sets))
    return NodeShape(launched.name, models, prices, daemons)


def _build_model_labels(
    launched: _LaunchableType, node_labels: Mapping[str, str], capacity_type: str
) -> dict[str, str]:
    """Build the labels that a launchable type's model nodes have in every zone, without the hostname.

    These are the labels that the requirements fix to a single value, the labels of the NodePool, `node_labels`, the
    instance type and the capacity type. Later labels replace earlier ones.
    """
    fixed_labels = {}
    for key, requirement in launched.requirements.items():
        has_single_value = not requirement.complement and len(requirement.values) == 1
        if has_single_value and key != HOSTNAME:  # a model stands for many nodes, each with its own hostname
            fixed_labels[key] = requirement.choose_value()
    type_labels = {INSTANCE_TYPE: launched.instance_type.name, CAPACITY_TYPE: capacity_type}
    return {**fixed_labels, **launched.labels, **node_labels, **type_labels}


def _find_zone_labels(cluster: Cluster) -> set[str]:
    """Return the label keys whose values always equal the node's zone, such as the topology labels of CSI drivers."""
    labels_by_node = [node.metadata.labels for node in cluster.nodes]
    keys = {key for labels in labels_by_node for key in labels if "zone" in key.rpartition("/")[2]}

    def always_names_zone(key: str) -> bool:
        """Return whether the label has the node's zone as its value on every node that has it."""
        return all(key not in labels or labels[key] == labels.get(ZONE) for labels in labels_by_node)

    return {key for key in keys if always_names_zone(key)}


def iter_limit_warnings(pools: Iterable[NodePool], shapes: Mapping[str, NodeShape], counts: Counts) -> Iterator[str]:
    """Yield a warning for each resource of a NodePool whose limit the set of nodes exceeds."""
    # Sum up the capacity of the nodes of each pool by resource, in thousandths.
    used_by_pool: dict[str, Counter[str]] = {}
    for name, number in counts.items():
        any_model = next(iter(shapes[name].models.values()))  # the models of a shape differ only in their zone
        amounts = used_by_pool.setdefault(any_model.metadata.labels.get(NODE_POOL, ""), Counter())
        amounts[NODES] += number * 1000  # limits may name the number of nodes like a resource
        for resource, amount in any_model.status.capacity.items():
            amounts[resource] += number * parse_milli_value(amount)

    for pool in pools:
        name = pool.metadata.name
        used = used_by_pool.get(name, Counter())
        for resource, limit in (pool.spec.limits or {}).items():
            if used[resource] > parse_milli_value(limit):
                yield (
                    f'NodePool "{name}" is limited to {limit} {resource}, and these nodes exceed that: '
                    "the search ignores limits of NodePools"
                )
