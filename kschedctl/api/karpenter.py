"""Karpenter's objects, as far as its scheduling and its disruption read them.

Upstream: pkg/apis/v1/nodepool.go, nodeclaim.go, nodeclaim_status.go, pkg/apis/v1alpha1/nodeoverlay.go
(sigs.k8s.io/karpenter v1.14.1). v1beta1 has the same fields, but for those of a pool's disruption.
"""

from __future__ import annotations

import msgspec

from kschedctl.api.objects import Condition, Int64, ObjectMeta, Resources, Struct, Taint


class RequirementWithMinValues(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()
    min_values: Int64 | None = None


class NodeClassReference(Struct, frozen=True):
    group: str = ""
    kind: str = ""
    name: str = ""


class ClaimedResources(Struct, frozen=True):
    requests: Resources = {}


class NodeClaimSpec(Struct, frozen=True):
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[RequirementWithMinValues, ...] = ()
    resources: ClaimedResources = ClaimedResources()
    node_class_ref: NodeClassReference = NodeClassReference()
    termination_grace_period: str | None = None
    expire_after: str | None = None


class NodeClaimStatus(Struct, frozen=True):
    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()
    last_pod_event_time: str | None = None


class NodeClaim(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()


class NodeClaimTemplate(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec = NodeClaimSpec()


class DisruptionBudget(Struct, frozen=True):
    """``nodes``: a number or a share; ``schedule`` and ``duration``: when it counts, always without them."""

    nodes: str | Int64 = "10%"
    reasons: tuple[str, ...] = ()
    schedule: str | None = None
    duration: str | None = None


class PoolDisruption(Struct, frozen=True):
    consolidate_after: str | None = None
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    budgets: tuple[DisruptionBudget, ...] | None = None


class NodePoolSpec(Struct, frozen=True):
    template: NodeClaimTemplate = NodeClaimTemplate()
    disruption: PoolDisruption = PoolDisruption()
    limits: Resources | None = None
    weight: Int64 | None = None
    replicas: Int64 | None = None


class NodePoolStatus(Struct, frozen=True):
    resources: Resources = {}
    conditions: tuple[Condition, ...] = ()


class NodePool(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class NodeOverlaySpec(Struct, frozen=True):
    requirements: tuple[RequirementWithMinValues, ...] = ()
    price_adjustment: str | None = None
    price: str | None = None
    capacity: Resources = {}
    weight: Int64 | None = None


class NodeOverlay(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeOverlaySpec = NodeOverlaySpec()
