"""Kinds that lint reads from manifests only, with the fields that its rules need."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodeClassReference, NodePool
from kschedctl.api.objects import LimitRange, ResourceQuota, SelectorRequirement, Struct, Taint

Scalar = str | int | float | bool


class ScaleTarget(Struct, frozen=True):
    """A reference to the workload that an autoscaler scales."""

    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct, frozen=True):
    """The spec of a HorizontalPodAutoscaler."""

    min_replicas: int = 1
    max_replicas: int | None = None
    scale_target_ref: ScaleTarget = ScaleTarget()


class ScalingLimits(NamedTuple):
    """The workload that an autoscaler scales, and the bounds of its replicas."""

    kind: str
    name: str
    min_replicas: int
    max_replicas: int


class Scaler(Struct, frozen=True):
    """An autoscaler of workloads."""

    @property
    def limits(self) -> ScalingLimits | None:
        """The scaled workload and its bounds, or None if the API server would refuse the autoscaler."""
        raise NotImplementedError


class HorizontalPodAutoscaler(Scaler, frozen=True):
    """A HorizontalPodAutoscaler of Kubernetes."""

    spec: AutoscalerSpec = AutoscalerSpec()

    @property
    def limits(self) -> ScalingLimits | None:
        """The scaled workload and its replica bounds, or None if the required maxReplicas is missing."""
        spec = self.spec
        if spec.max_replicas is None:
            return None
        target = spec.scale_target_ref
        return ScalingLimits(target.kind, target.name, spec.min_replicas, spec.max_replicas)


class ScaledObjectSpec(Struct, frozen=True):
    """The spec of a ScaledObject."""

    min_replica_count: int = 0
    max_replica_count: int = 100
    scale_target_ref: ScaleTarget = ScaleTarget()


class ScaledObject(Scaler, frozen=True):
    """A ScaledObject of KEDA.

    The lower bound on replicas is at least 1: KEDA scales to zero only if there is no work, and then nothing is
    evicted.
    """

    spec: ScaledObjectSpec = ScaledObjectSpec()

    @property
    def limits(self) -> ScalingLimits:
        """The scaled workload, a Deployment by default, and its bounds. The lower bound is at least 1."""
        spec = self.spec
        kind = spec.scale_target_ref.kind or "Deployment"
        return ScalingLimits(kind, spec.scale_target_ref.name, max(spec.min_replica_count, 1), spec.max_replica_count)


WELL_KNOWN_DOMAINS = ("kubernetes.io/", "k8s.io/", "karpenter.sh/", "karpenter.k8s.")
"""Domains of labels that a Karpenter node pool may set without declaring them."""


class PoolRequirement(Struct, frozen=True):
    """A requirement on the labels of a NodePool's nodes."""

    key: str = ""
    operator: str = ""
    values: tuple[Scalar, ...] = ()
    min_values: int | None = None


class PoolMeta(Struct, frozen=True):
    """The metadata of the nodes that a NodePool creates."""

    labels: dict[str, Scalar] = msgspec.field(default_factory=dict)


class PoolNodeSpec(Struct, frozen=True):
    """The spec of the nodes that a NodePool creates."""

    requirements: tuple[PoolRequirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class_ref: NodeClassReference = NodeClassReference()


class PoolTemplate(Struct, frozen=True):
    """The template of a NodePool's nodes."""

    metadata: PoolMeta = PoolMeta()
    spec: PoolNodeSpec = PoolNodeSpec()


class PoolBudget(Struct, frozen=True):
    """A disruption budget of a NodePool."""

    nodes: Scalar = ""
    reasons: tuple[str, ...] = ()
    schedule: str | None = None


class WrittenDisruption(Struct, frozen=True):
    """The disruption settings of a NodePool."""

    budgets: tuple[PoolBudget, ...] = ()


class WrittenPoolSpec(Struct, frozen=True):
    """The spec of a NodePool."""

    template: PoolTemplate = PoolTemplate()
    disruption: WrittenDisruption = WrittenDisruption()
    limits: dict[str, Scalar] | None = None
    weight: int | None = None


class WrittenNodePool(Struct, frozen=True):
    """A Karpenter NodePool as it is written in a manifest."""

    spec: WrittenPoolSpec = WrittenPoolSpec()

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the pool's nodes, with their values as strings."""
        return {key: str(value) for key, value in self.spec.template.metadata.labels.items()}

    @property
    def requirements(self) -> list[SelectorRequirement]:
        """The requirements on the nodes' labels, without incomplete ones that lack an operator."""
        declared = self.spec.template.spec.requirements
        return [
            SelectorRequirement(requirement.key, requirement.operator, tuple(map(str, requirement.values)))
            for requirement in declared
            if requirement.operator
        ]


def to_written_pool(pool: NodePool) -> WrittenNodePool:
    """Convert a cluster's NodePool to the struct that lint reads from manifests."""
    return convert_builtins(msgspec.to_builtins(pool), WrittenNodePool)


AUTOSCALERS: tuple[type[Scaler], ...] = (HorizontalPodAutoscaler, ScaledObject)


class ReplicaLimitFields(NamedTuple):
    """The fields of an autoscaler's spec that limit the replicas."""

    minimum: str
    maximum: str


REPLICA_LIMIT_FIELDS = {
    "HorizontalPodAutoscaler": ReplicaLimitFields("minReplicas", "maxReplicas"),
    "ScaledObject": ReplicaLimitFields("minReplicaCount", "maxReplicaCount"),
}
"""Kind of autoscaler -> its fields that limit the replicas."""

NAMESPACE_LIMITS: dict[str, type[Struct]] = {"ResourceQuota": ResourceQuota, "LimitRange": LimitRange}
"""The kinds that limit what may be created in a namespace."""

_GROUPS_AND_STRUCTS: dict[str, tuple[str, type[Struct]]] = {
    "ScaledObject": ("keda.sh", ScaledObject),
    "HorizontalPodAutoscaler": ("autoscaling", HorizontalPodAutoscaler),
    **{kind: ("", struct) for kind, struct in NAMESPACE_LIMITS.items()},
    "NodePool": ("karpenter.sh", WrittenNodePool),
}


def get_manifest_struct(document: JsonObject) -> type[Struct] | None:
    """Return the struct for a document whose kind only lint reads, or None for any other document.

    If the document has an apiVersion, its API group also has to match.
    """
    group, struct = _GROUPS_AND_STRUCTS.get(str(document.get("kind")), ("", None))
    api_version = str(document.get("apiVersion") or "")
    if api_version and api_version.rpartition("/")[0] != group:
        return None
    return struct
