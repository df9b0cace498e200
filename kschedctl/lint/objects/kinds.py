"""Kinds that lint knows from manifests alone, with the fields that its rules read: no cluster that is read has them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodeClassReference, NodePool
from kschedctl.api.objects import LimitRange, ResourceQuota, SelectorRequirement, Struct, Taint

Scalar = str | int | float | bool


class ScaleTarget(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct, frozen=True):
    min_replicas: int = 1
    max_replicas: int | None = None
    scale_target_ref: ScaleTarget = ScaleTarget()


class ScalingLimits(NamedTuple):
    """What is scaled, and between how many pods."""

    kind: str
    name: str
    fewest: int
    most: int


class Scaler(Struct, frozen=True):
    """What scales workloads."""

    @property
    def limits(self) -> ScalingLimits | None:
        """None where the API would refuse it."""
        raise NotImplementedError


class HorizontalPodAutoscaler(Scaler, frozen=True):
    spec: AutoscalerSpec = AutoscalerSpec()

    @property
    def limits(self) -> ScalingLimits | None:
        target, most = self.spec.scale_target_ref, self.spec.max_replicas
        return None if most is None else ScalingLimits(target.kind, target.name, self.spec.min_replicas, most)


class ScaledObjectSpec(Struct, frozen=True):
    min_replica_count: int = 0
    max_replica_count: int = 100
    scale_target_ref: ScaleTarget = ScaleTarget()


class ScaledObject(Scaler, frozen=True):
    """The autoscaler of KEDA, which scales to none only when nothing is to be done: nothing is evicted then."""

    spec: ScaledObjectSpec = ScaledObjectSpec()

    @property
    def limits(self) -> ScalingLimits:
        spec = self.spec
        kind = spec.scale_target_ref.kind or "Deployment"
        return ScalingLimits(kind, spec.scale_target_ref.name, max(spec.min_replica_count, 1), spec.max_replica_count)


WELL_KNOWN_DOMAINS = ("kubernetes.io/", "k8s.io/", "karpenter.sh/", "karpenter.k8s.")
"""Domains of labels that a Karpenter node pool may set without declaring them."""


class PoolRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[Scalar, ...] = ()
    min_values: int | None = None


class PoolMeta(Struct, frozen=True):
    labels: dict[str, Scalar] = msgspec.field(default_factory=dict)


class PoolNodeSpec(Struct, frozen=True):
    requirements: tuple[PoolRequirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    node_class_ref: NodeClassReference = NodeClassReference()


class PoolTemplate(Struct, frozen=True):
    metadata: PoolMeta = PoolMeta()
    spec: PoolNodeSpec = PoolNodeSpec()


class PoolBudget(Struct, frozen=True):
    nodes: Scalar = ""
    reasons: tuple[str, ...] = ()
    schedule: str | None = None


class WrittenDisruption(Struct, frozen=True):
    budgets: tuple[PoolBudget, ...] = ()


class WrittenPoolSpec(Struct, frozen=True):
    template: PoolTemplate = PoolTemplate()
    disruption: WrittenDisruption = WrittenDisruption()
    limits: dict[str, Scalar] | None = None
    weight: int | None = None


class WrittenNodePool(Struct, frozen=True):
    """The pools of nodes that Karpenter makes."""

    spec: WrittenPoolSpec = WrittenPoolSpec()

    @property
    def labels(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.spec.template.metadata.labels.items()}

    @property
    def requirements(self) -> list[SelectorRequirement]:
        declared = self.spec.template.spec.requirements
        return [SelectorRequirement(r.key, r.operator, tuple(map(str, r.values))) for r in declared if r.operator]


def written_pool(pool: NodePool) -> WrittenNodePool:
    """A pool of a cluster, as a manifest would have it."""
    return convert_builtins(msgspec.to_builtins(pool), WrittenNodePool)


AUTOSCALERS: tuple[type[Scaler], ...] = (HorizontalPodAutoscaler, ScaledObject)

_KINDS: dict[str, tuple[str, type[Struct]]] = {
    "ScaledObject": ("keda.sh", ScaledObject),
    "HorizontalPodAutoscaler": ("autoscaling", HorizontalPodAutoscaler),
    "ResourceQuota": ("", ResourceQuota),
    "LimitRange": ("", LimitRange),
    "NodePool": ("karpenter.sh", WrittenNodePool),
}


def struct_of(document: JsonObject) -> type[Struct] | None:
    """What a document is read as, if it is of one of these kinds; other groups of the API may use their names too."""
    group, struct = _KINDS.get(str(document.get("kind")), ("", None))
    version = str(document.get("apiVersion") or "")
    return struct if not version or version.rpartition("/")[0] == group else None
