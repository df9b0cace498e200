"""Node classes of NodePools, which decide the readiness of pools and change their instance types.

Upstream: pkg/providers/instancetype/types.go of karpenter-provider-aws (zones of the subnets, pods, ephemeralStorage),
pkg/controllers/nodepool/readiness/controller.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from kschedctl.api.api_versions import get_group
from kschedctl.api.karpenter import NodeClass, NodeClassReference, NodePool
from kschedctl.api.kinds import KINDS, ApiKind
from kschedctl.api.objects import Resources
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.autoscaling.karpenter.amounts import PODS
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import ZONE
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.cluster import Cluster
from kschedctl.text.counts import counted

STORAGE = "ephemeral-storage"
NODE_CLASS_KINDS = {
    (get_group(kind.versions[0]), kind.kind): kind for kind in KINDS.values() if kind.struct is NodeClass
}
"""(group, kind) -> the kind, for node classes that can be read."""


def get_class_reference(pool: NodePool) -> NodeClassReference:
    """Return the pool's reference to its node class."""
    return pool.spec.template.spec.node_class_ref


def find_class_kind(pool: NodePool) -> ApiKind | None:
    """Return the API kind of the pool's node class, or None if kschedctl cannot read this kind."""
    reference = get_class_reference(pool)
    return NODE_CLASS_KINDS.get((reference.group, reference.kind))


class NodeClasses:
    """The node classes of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @cached_property
    def _classes_by_kind_and_name(self) -> dict[tuple[str, str], NodeClass]:
        """The node classes by the name of their kind and their own name."""
        return {
            (kind.name, node_class.metadata.name): node_class
            for kind in NODE_CLASS_KINDS.values()
            for node_class in getattr(self.cluster, kind.field)
        }

    def find_node_class(self, pool: NodePool) -> NodeClass | None:
        """Return the pool's node class, or None if it was not read."""
        kind = find_class_kind(pool)
        if kind is None:
            return None
        return self._classes_by_kind_and_name.get((kind.name, get_class_reference(pool).name))

    def is_class_missing(self, pool: NodePool) -> bool:
        """Return whether the pool's node class does not exist although all classes of its kind were read."""
        kind = find_class_kind(pool)
        return kind is not None and self.find_node_class(pool) is None and not self.cluster.find_gap(kind.name)

    def is_class_unready(self, pool: NodePool) -> bool:
        """Return whether the pool's node class keeps the pool from being ready: it is missing or not ready itself."""
        node_class = self.find_node_class(pool)
        return self.is_class_missing(pool) if node_class is None else bool(node_class.not_ready_reason)

    def describe_class_fault(self, pool: NodePool) -> str:
        """Describe why the pool's node class keeps the pool from being ready, or return "" if it does not."""
        class_name = self.describe_class_reference(pool)
        if self.is_class_missing(pool):
            return f"{class_name} does not exist"
        node_class = self.find_node_class(pool)
        if node_class is None or not node_class.not_ready_reason:
            return ""
        return f"{class_name} is not ready: {node_class.not_ready_reason}"

    def describe_unread_class(self, pool: NodePool) -> str:
        """Return a note that the pool's node class was not read.

        Return "" if the class was read or does not exist, or if the pool names no class.
        """
        was_read = self.find_node_class(pool) is not None
        names_class = bool(get_class_reference(pool).name)
        if was_read or not names_class or self.is_class_missing(pool):
            return ""
        return f"{self.describe_class_reference(pool)} was not read"

    def find_subnet_zones(self, pool: NodePool) -> frozenset[str]:
        """Return the zones in which the pool's node class has subnets, or an empty set if they are unknown."""
        node_class = self.find_node_class(pool)
        return node_class.zones if node_class else frozenset()

    def describe_node_class(self, pool: NodePool) -> str:
        """Describe the fault of the pool's node class or, if it has no fault, its zones, pods per node and disk.

        If the class was not read, the text says only this. Return "" if the pool names no class.
        """
        node_class = self.find_node_class(pool)
        fault = self.describe_class_fault(pool)
        if fault or node_class is None:
            return fault or self.describe_unread_class(pool)
        details = []
        if node_class.zones:
            details.append(f"zones {', '.join(sorted(node_class.zones))}")
        if node_class.max_pods is not None:
            details.append(f"{counted(node_class.max_pods, 'pod')} per node")
        if node_class.root_disk_size:
            details.append(f"{node_class.root_disk_size} disk")
        class_name = self.describe_class_reference(pool)
        return f"{class_name}: {', '.join(details)}" if details else class_name

    def describe_class_reference(self, pool: NodePool) -> str:
        """Return the kind and name of the pool's node class."""
        reference = get_class_reference(pool)
        return f"{reference.kind} {reference.name}"

    def adjust_instance_types(
        self, pool: NodePool | None, types: Sequence[InstanceType], *, anywhere: bool = False
    ) -> Sequence[InstanceType]:
        """Return the instance types adjusted to the zones, pods per node and disk of the pool's node class.

        Without a class, the types are returned unchanged. With ``anywhere``, offerings in zones without a subnet are
        kept. Raises QuantityError if a quantity is malformed.
        """
        node_class = self.find_node_class(pool) if pool else None
        if node_class is None:
            return types
        amounts: Resources = {}
        if node_class.root_disk_size:
            amounts[STORAGE] = node_class.root_disk_size
        if node_class.max_pods is not None:
            amounts[PODS] = str(node_class.max_pods)
        capacity = parse_quantities(amounts)
        zones = frozenset() if anywhere else node_class.zones
        return [_adjust_instance_type(instance_type, capacity, zones) for instance_type in types]


def _adjust_instance_type(instance_type: InstanceType, capacity: Quantities, zones: frozenset[str]) -> InstanceType:
    """Return the instance type with this capacity, and with only the offerings in ``zones``.

    Offerings without a zone are kept. An empty set of zones allows all zones.
    """
    adjusted = replace(instance_type, capacity={**instance_type.capacity, **capacity})
    if not zones:
        return adjusted
    offerings = tuple(offering for offering in adjusted.offerings if not offering.zone or offering.zone in zones)
    requirements = Requirements(adjusted.requirements)
    offered_zones = {offering.zone for offering in offerings if offering.zone}
    requirements[ZONE] = LabelRequirement.from_operator(ZONE, IN, tuple(sorted(offered_zones)))
    return replace(adjusted, offerings=offerings, requirements=requirements)
