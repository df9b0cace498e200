"""What makes no pods, but has a say in where they are: budgets, priorities, claims, classes of storage, autoscalers.

Upstream: pkg/apis/{policy,scheduling,core,storage,autoscaling}/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from kschedctl.api import objects as api
from kschedctl.api.field_errors import (
    FieldError,
    Path,
    TypedString,
    ValidationErrors,
    deduplicate,
    duplicate,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.objects import LabelSelector, Struct
from kschedctl.api.priority import validate_priority_class
from kschedctl.api.validation import names, written
from kschedctl.api.validation.metadata import object_meta
from kschedctl.api.validation.selectors import label_selector
from kschedctl.api.validation.strategies import at_most_all, int_or_percent
from kschedctl.api.validation.volumes import claim

SPEC: Path = ("spec",)
EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
RECLAIM_POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


class _ShownBudget(msgspec.Struct, frozen=True, rename="pascal"):
    """The spec of a budget as upstream prints it."""

    min_available: int | str | None
    selector: LabelSelector | None
    max_unavailable: int | str | None
    unhealthy_pod_eviction_policy: str | None


def budget(pdb: api.PodDisruptionBudget) -> ValidationErrors:
    """Upstream: ValidatePodDisruptionBudgetSpec."""
    spec = pdb.spec
    yield from object_meta(pdb.metadata, ("metadata",), names.dns_subdomain)
    yield from both_numbers(spec)
    for field, number in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if number is not None:
            yield from int_or_percent(number, (*SPEC, field))
            yield from at_most_all(number, (*SPEC, field))
    yield from label_selector(spec.selector, (*SPEC, "selector"))
    policy = spec.unhealthy_pod_eviction_policy
    if policy is not None and policy not in EVICTION_POLICIES:
        yield not_supported((*SPEC, "unhealthyPodEvictionPolicy"), TypedString(policy), EVICTION_POLICIES)


def both_numbers(spec: api.PodDisruptionBudgetSpec) -> ValidationErrors:
    """A budget may set one of its two numbers; the second is at fault."""
    if spec.min_available is not None and spec.max_unavailable is not None:
        shown = _ShownBudget(
            spec.min_available, spec.selector, spec.max_unavailable, spec.unhealthy_pod_eviction_policy
        )
        fault = invalid(SPEC, shown, "minAvailable and maxUnavailable cannot be both set")
        yield fault._replace(at=(*SPEC, "maxUnavailable"))


def priority_class(class_: api.PriorityClass) -> ValidationErrors:
    """Upstream: ValidatePriorityClass."""
    yield from _unscoped(class_.metadata)
    yield from validate_priority_class(class_)


def persistent_volume_claim(volume_claim: api.PersistentVolumeClaim) -> ValidationErrors:
    """Upstream: ValidatePersistentVolumeClaim."""
    yield from object_meta(volume_claim.metadata, ("metadata",), names.dns_subdomain)
    yield from claim(volume_claim.spec, SPEC)


def storage_class(class_: written.StorageClass) -> ValidationErrors:
    """Upstream: ValidateStorageClass, of all but its parameters."""
    yield from _unscoped(class_.metadata)
    if class_.provisioner:
        yield from names.check(("provisioner",), class_.provisioner.lower(), names.qualified_name)
    else:
        yield required(("provisioner",))
    if class_.reclaim_policy and class_.reclaim_policy not in RECLAIM_POLICIES:
        yield not_supported(("reclaimPolicy",), TypedString(class_.reclaim_policy), RECLAIM_POLICIES)
    if class_.volume_binding_mode is not None and class_.volume_binding_mode not in BINDING_MODES:
        yield not_supported(("volumeBindingMode",), TypedString(class_.volume_binding_mode), BINDING_MODES)
    for i, term in enumerate(class_.allowed_topologies):
        yield from _topology(term, ("allowedTopologies", i, "matchLabelExpressions"))


def _topology(term: api.TopologySelectorTerm, path: Path) -> ValidationErrors:
    """Upstream: ValidateTopologySelectorTerm."""
    seen = set()
    for i, requirement in enumerate(term.match_label_expressions):
        if not requirement.values:
            yield required((*path, i, "values"))
        for j, value in enumerate(requirement.values):
            if value in requirement.values[:j]:
                yield duplicate((*path, i, "values", j), value)
        yield from names.check((*path, i, "key"), requirement.key, names.qualified_name)
        if requirement.key in seen:
            yield duplicate((*path, i, "key"), requirement.key)
        seen.add(requirement.key)


def autoscaler(scaler: written.Autoscaler) -> ValidationErrors:
    """Upstream: ValidateHorizontalPodAutoscaler, of its numbers; a minimum of 0 is for who measures other things."""
    spec = scaler.spec
    yield from object_meta(scaler.metadata, ("metadata",), names.dns_subdomain)
    if spec.min_replicas is not None and spec.min_replicas < 0:
        yield invalid((*SPEC, "minReplicas"), spec.min_replicas, "must be greater than or equal to 0")
    if not spec.max_replicas:
        yield required((*SPEC, "maxReplicas"), "must be set and greater than 0")
    elif spec.max_replicas < 0:
        yield invalid((*SPEC, "maxReplicas"), spec.max_replicas, "must be greater than or equal to 1")
    if spec.min_replicas is not None and spec.max_replicas < spec.min_replicas:
        yield invalid((*SPEC, "maxReplicas"), spec.max_replicas, "must be greater than or equal to `minReplicas`")
    for field, value in (("kind", spec.scale_target_ref.kind), ("name", spec.scale_target_ref.name)):
        if not value:
            yield required((*SPEC, "scaleTargetRef", field))


def _unscoped(meta: api.ObjectMeta) -> ValidationErrors:
    yield from object_meta(replace(meta, namespace=""), ("metadata",), names.dns_subdomain)


KINDS: dict[str, type[Struct]] = {
    "PodDisruptionBudget": api.PodDisruptionBudget,
    "PriorityClass": api.PriorityClass,
    "PersistentVolumeClaim": api.PersistentVolumeClaim,
    "StorageClass": written.StorageClass,
    "HorizontalPodAutoscaler": written.Autoscaler,
}
"""Kind -> the struct that ``errors`` takes."""

_RULES: dict[str, Callable[[Any], ValidationErrors]] = {
    "PodDisruptionBudget": budget,
    "PriorityClass": priority_class,
    "PersistentVolumeClaim": persistent_volume_claim,
    "StorageClass": storage_class,
    "HorizontalPodAutoscaler": autoscaler,
}


def errors(kind: str, obj: Struct) -> list[FieldError]:
    """What the API server refuses in an object of KINDS, each once and in its order; empty where it takes the object.

    >>> [str(error) for error in errors("StorageClass", written.StorageClass(api.ObjectMeta("fast")))]
    ['provisioner: Required value']
    """
    return deduplicate(_RULES[kind](obj))
