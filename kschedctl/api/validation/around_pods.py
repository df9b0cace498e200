"""Validation of objects that affect placement without creating pods, such as PDBs and PriorityClasses."""

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
    deduplicate_errors,
    duplicate,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.objects import LabelSelector, Struct
from kschedctl.api.priority import validate_priority_class
from kschedctl.api.validation import names, written
from kschedctl.api.validation.manifests import validate_at_most_100_percent, validate_non_negative_int_or_percent
from kschedctl.api.validation.names import validate_label_selector, validate_object_meta
from kschedctl.api.validation.volumes import validate_claim_spec

SPEC: Path = ("spec",)
EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
RECLAIM_POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


class _PrintedBudgetSpec(msgspec.Struct, frozen=True, rename="pascal"):
    """The spec of a PodDisruptionBudget as upstream prints it."""

    min_available: int | str | None
    selector: LabelSelector | None
    max_unavailable: int | str | None
    unhealthy_pod_eviction_policy: str | None


def validate_disruption_budget(pdb: api.PodDisruptionBudget) -> ValidationErrors:
    """Validate a PodDisruptionBudget. Upstream: ValidatePodDisruptionBudgetSpec."""
    spec = pdb.spec
    yield from validate_object_meta(pdb.metadata, ("metadata",), names.validate_dns_subdomain)
    yield from validate_single_limit(spec)
    for field, number in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if number is not None:
            yield from validate_non_negative_int_or_percent(number, (*SPEC, field))
            yield from validate_at_most_100_percent(number, (*SPEC, field))
    yield from validate_label_selector(spec.selector, (*SPEC, "selector"))
    policy = spec.unhealthy_pod_eviction_policy
    if policy is not None and policy not in EVICTION_POLICIES:
        yield not_supported((*SPEC, "unhealthyPodEvictionPolicy"), TypedString(policy), EVICTION_POLICIES)


def validate_single_limit(spec: api.PodDisruptionBudgetSpec) -> ValidationErrors:
    """Validate that a PodDisruptionBudget sets only one of minAvailable and maxUnavailable.

    The error is at maxUnavailable.
    """
    if spec.min_available is not None and spec.max_unavailable is not None:
        printed_spec = _PrintedBudgetSpec(
            spec.min_available, spec.selector, spec.max_unavailable, spec.unhealthy_pod_eviction_policy
        )
        error = invalid(SPEC, printed_spec, "minAvailable and maxUnavailable cannot be both set")
        yield error.located_at((*SPEC, "maxUnavailable"))


def validate_priority_class_object(class_: api.PriorityClass) -> ValidationErrors:
    """Validate a PriorityClass. Upstream: ValidatePriorityClass."""
    yield from _validate_cluster_scoped_meta(class_.metadata)
    yield from validate_priority_class(class_)


def validate_persistent_volume_claim(volume_claim: api.PersistentVolumeClaim) -> ValidationErrors:
    """Validate a PersistentVolumeClaim. Upstream: ValidatePersistentVolumeClaim."""
    yield from validate_object_meta(volume_claim.metadata, ("metadata",), names.validate_dns_subdomain)
    yield from validate_claim_spec(volume_claim.spec, SPEC)


def validate_storage_class(class_: written.StorageClass) -> ValidationErrors:
    """Validate a StorageClass except its parameters. Upstream: ValidateStorageClass."""
    yield from _validate_cluster_scoped_meta(class_.metadata)
    if class_.provisioner:
        yield from names.validate_syntax(("provisioner",), class_.provisioner.lower(), names.validate_qualified_name)
    else:
        yield required(("provisioner",))
    if class_.reclaim_policy and class_.reclaim_policy not in RECLAIM_POLICIES:
        yield not_supported(("reclaimPolicy",), TypedString(class_.reclaim_policy), RECLAIM_POLICIES)
    if class_.volume_binding_mode is not None and class_.volume_binding_mode not in BINDING_MODES:
        yield not_supported(("volumeBindingMode",), TypedString(class_.volume_binding_mode), BINDING_MODES)
    for i, term in enumerate(class_.allowed_topologies):
        yield from _validate_topology_term(term, ("allowedTopologies", i, "matchLabelExpressions"))


def _validate_topology_term(term: api.TopologySelectorTerm, path: Path) -> ValidationErrors:
    """Validate a topology term of a StorageClass. Upstream: ValidateTopologySelectorTerm."""
    seen = set()
    for i, requirement in enumerate(term.match_label_expressions):
        if not requirement.values:
            yield required((*path, i, "values"))
        for j, value in enumerate(requirement.values):
            if value in requirement.values[:j]:
                yield duplicate((*path, i, "values", j), value)
        yield from names.validate_syntax((*path, i, "key"), requirement.key, names.validate_qualified_name)
        if requirement.key in seen:
            yield duplicate((*path, i, "key"), requirement.key)
        seen.add(requirement.key)


def validate_autoscaler(scaler: written.Autoscaler) -> ValidationErrors:
    """Validate the metadata, replica counts and target of a HorizontalPodAutoscaler.

    A minimum of 0 is allowed, as it is for autoscalers with object or external metrics. Upstream:
    ValidateHorizontalPodAutoscaler.
    """
    spec = scaler.spec
    yield from validate_object_meta(scaler.metadata, ("metadata",), names.validate_dns_subdomain)
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


def _validate_cluster_scoped_meta(meta: api.ObjectMeta) -> ValidationErrors:
    """Validate the metadata of an object without a namespace."""
    yield from validate_object_meta(replace(meta, namespace=""), ("metadata",), names.validate_dns_subdomain)


KINDS = written.AROUND_PODS
"""The struct that ``validate_object`` takes for each kind."""

_RULES: dict[str, Callable[[Any], ValidationErrors]] = {
    "PodDisruptionBudget": validate_disruption_budget,
    "PriorityClass": validate_priority_class_object,
    "PersistentVolumeClaim": validate_persistent_volume_claim,
    "StorageClass": validate_storage_class,
    "HorizontalPodAutoscaler": validate_autoscaler,
}


def validate_object(kind: str, obj: Struct) -> list[FieldError]:
    """Return the API server's validation errors of an object of one of KINDS, in its order and without duplicates.

    >>> [str(error) for error in validate_object("StorageClass", written.StorageClass(api.ObjectMeta("fast")))]
    ['provisioner: Required value']
    """
    return deduplicate_errors(_RULES[kind](obj))
