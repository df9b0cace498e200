"""Kinds that lint knows from manifests alone, with the fields that its rules read: no cluster that is read has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kschedctl.api.objects import SelectorRequirement, Struct, Taint

Scalar = str | int | float | bool


class ScaleTarget(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct, frozen=True):
    min_replicas: int = 1
    max_replicas: int | None = None
    scale_target_ref: ScaleTarget = ScaleTarget()


class HorizontalPodAutoscaler(Struct, frozen=True):
    spec: AutoscalerSpec = AutoscalerSpec()


class ScopeRequirement(Struct, frozen=True):
    scope_name: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Struct, frozen=True):
    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(Struct, frozen=True):
    scope_selector: ScopeSelector = ScopeSelector()


class ResourceQuota(Struct, frozen=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class PoolRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[Scalar, ...] = ()


class PoolMeta(Struct, frozen=True):
    labels: dict[str, Scalar] = msgspec.field(default_factory=dict)


class PoolNodeSpec(Struct, frozen=True):
    requirements: tuple[PoolRequirement, ...] = ()
    taints: tuple[Taint, ...] = ()


class PoolTemplate(Struct, frozen=True):
    metadata: PoolMeta = PoolMeta()
    spec: PoolNodeSpec = PoolNodeSpec()


class NodePoolSpec(Struct, frozen=True):
    template: PoolTemplate = PoolTemplate()


class NodePool(Struct, frozen=True):
    """Of Karpenter."""

    spec: NodePoolSpec = NodePoolSpec()

    @property
    def labels(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.spec.template.metadata.labels.items()}

    @property
    def requirements(self) -> list[SelectorRequirement]:
        declared = self.spec.template.spec.requirements
        return [SelectorRequirement(r.key, r.operator, tuple(map(str, r.values))) for r in declared if r.operator]


_KINDS: dict[str, tuple[str, type[Struct]]] = {
    "HorizontalPodAutoscaler": ("autoscaling", HorizontalPodAutoscaler),
    "ResourceQuota": ("", ResourceQuota),
    "NodePool": ("karpenter.sh", NodePool),
}


def struct_of(document: Mapping[str, Any]) -> type[Struct] | None:
    """What a document is read as, if it is of one of these kinds; other groups of the API may use their names too."""
    group, struct = _KINDS.get(str(document.get("kind")), ("", None))
    version = str(document.get("apiVersion") or "")
    return struct if not version or version.rpartition("/")[0] == group else None
