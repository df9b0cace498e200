"""Node classes of NodePools: their readiness, and their effect on instance types.

Upstream: pkg/providers/instancetype/types.go of karpenter-provider-aws (zones of the subnets, pods, ephemeralStorage),
pkg/controllers/nodepool/readiness/controller.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from kschedctl.api.api_versions import group_of
from kschedctl.api.karpenter import NodeClassReference, NodePool
from kschedctl.api.kinds import KINDS, ApiKind
from kschedctl.api.node_classes import NodeClass
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.autoscaling.karpenter.amounts import PODS
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import ZONE
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.cluster import Cluster
from kschedctl.text.counts import counted

STORAGE = "ephemeral-storage"
NODE_CLASS_KINDS = {
    (group_of(kind.versions[0]), kind.kind): kind for kind in KINDS.values() if kind.struct is NodeClass
}
"""(group, kind) -> those that are read."""


def get_class_reference(pool: NodePool) -> NodeClassReference:
    """Return the pool's reference to its node class."""
    return pool.spec.template.spec.node_class_ref


def find_class_kind(pool: NodePool) -> ApiKind | None:
    """Return the kind of the pool's node class, or None if it is not supported."""
    reference = get_class_reference(pool)
    return NODE_CLASS_KINDS.get((reference.group, reference.kind))


class NodeClasses:
    """The node classes of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @cached_property
    def _by_kind_and_name(self) -> dict[tuple[str, str], NodeClass]:
        """The node classes by kind and name."""
        return {
            (kind.name, each.metadata.name): each
            for kind in NODE_CLASS_KINDS.values()
            for each in getattr(self.cluster, kind.field)
        }

    def find_class(self, pool: NodePool) -> NodeClass | None:
        """Return the pool's node class, or None if it was not read."""
        kind = find_class_kind(pool)
        return self._by_kind_and_name.get((kind.name, get_class_reference(pool).name)) if kind else None

    def is_class_unready(self, pool: NodePool) -> bool:
        """Return whether the pool's node class exists and is not ready."""
        own = self.find_class(pool)
        return own is not None and bool(own.not_ready_reason)

    def find_class_fault(self, pool: NodePool) -> str:
        """Return why the pool cannot be ready because of its node class, or ""."""
        kind, own, named = find_class_kind(pool), self.find_class(pool), self.name(pool)
        if own is not None:
            return f"{named} is not ready: {own.not_ready_reason}" if own.not_ready_reason else ""
        return f"{named} does not exist" if kind and not self.cluster.gap(kind.name) else ""

    def describe_unread(self, pool: NodePool) -> str:
        """Return which node class was not read, or "" if it was or the pool has none."""
        kind, reference = find_class_kind(pool), get_class_reference(pool)
        missing = self.find_class(pool) is None and (kind is None or self.cluster.gap(kind.name))
        return f"{self.name(pool)} was not read" if missing and reference.name else ""

    def zones(self, pool: NodePool) -> frozenset[str]:
        """Return the zones of the subnets of the pool's node class; empty if they are not known."""
        own = self.find_class(pool)
        return own.zones if own else frozenset()

    def describe_class(self, pool: NodePool) -> str:
        """Describe the pool's node class: its zones, pods per node and disk, or its fault."""
        own = self.find_class(pool)
        if own is None:
            return self.find_class_fault(pool) or self.describe_unread(pool)
        details = (
            f"zones {', '.join(sorted(own.zones))}" if own.zones else "",
            f"{counted(own.max_pods, 'pod')} a node" if own.max_pods is not None else "",
            f"{own.root_disk_size} disk" if own.root_disk_size else "",
        )
        return self.find_class_fault(pool) or ": ".join(
            filter(None, (self.name(pool), ", ".join(filter(None, details))))
        )

    def name(self, pool: NodePool) -> str:
        """Return the kind and name of the pool's node class."""
        reference = get_class_reference(pool)
        return f"{reference.kind} {reference.name}"

    def adjust_types(
        self, pool: NodePool | None, types: Sequence[InstanceType], *, anywhere: bool = False
    ) -> Sequence[InstanceType]:
        """Return the instance types as the pool's node class makes machines of them. Raises QuantityError.

        With ``anywhere``, the zones of the node class's subnets do not count.
        """
        own = self.find_class(pool) if pool else None
        if own is None:
            return types
        more = parse_quantities({STORAGE: own.root_disk_size} if own.root_disk_size else {})
        more |= parse_quantities({PODS: str(own.max_pods)} if own.max_pods is not None else {})
        return [_adjust_type(each, more, frozenset() if anywhere else own.zones) for each in types]


def _adjust_type(instance_type: InstanceType, more: Quantities, zones: frozenset[str]) -> InstanceType:
    """Return the type with other capacity, offered only in zones with subnets."""
    made = replace(instance_type, capacity={**instance_type.capacity, **more})
    if not zones:
        return made
    offerings = tuple(each for each in made.offerings if not each.zone or each.zone in zones)
    requirements = Requirements(made.requirements)
    left = {each.zone for each in offerings if each.zone}
    requirements[ZONE] = LabelRequirement.of(ZONE, IN, tuple(sorted(left)))
    return replace(made, offerings=offerings, requirements=requirements)
