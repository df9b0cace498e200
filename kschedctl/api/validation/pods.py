"""Validation of a pod that is created, and of a pod template. Upstream: ValidatePodCreate, ValidatePodTemplateSpec."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.defaults import apply_pod_defaults, merge_affinity_label_keys, merge_spread_label_keys
from kschedctl.api.field_errors import (
    Path,
    TypedString,
    ValidationErrors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.priority import POLICIES
from kschedctl.api.quantity import QuantityError
from kschedctl.api.validation import ValidationOptions, names
from kschedctl.api.validation.containers import validate_containers, validate_host_network_ports, validate_image_names
from kschedctl.api.validation.names import validate_annotation_keys, validate_object_meta
from kschedctl.api.validation.placement import (
    validate_node_affinity,
    validate_pod_affinity,
    validate_spread_constraints,
    validate_tolerations,
)
from kschedctl.api.validation.resources import validate_overhead, validate_pod_resources
from kschedctl.api.validation.volumes import validate_volumes
from kschedctl.api.validation.written import Pod, PodSpec, Template

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_CLAIM_NAMES = (
    ("resource_claim_name", "resourceClaimName"),
    ("resource_claim_template_name", "resourceClaimTemplateName"),
)


class _PrintedClaim(msgspec.Struct, frozen=True, rename="pascal"):
    """A claim of a pod as upstream prints it in an error."""

    name: str
    resource_claim_name: str | None
    resource_claim_template_name: str | None


def validate_pod(manifest: Pod, options: ValidationOptions) -> ValidationErrors:
    """Validate a pod that is about to be created."""
    options = options._replace(is_pod=True)
    spec = apply_spec_defaults(manifest, options)
    yield from validate_object_meta(manifest.metadata, ("metadata",), names.validate_dns_subdomain)
    yield from validate_pod_spec(spec, manifest.metadata.name, ("spec",), options)
    yield from validate_image_names(spec, ("spec",))
    if spec.node_name and spec.scheduling_gates:
        yield forbidden(("spec", "nodeName"), "cannot be set until all schedulingGates have been cleared")


def validate_template(template: Template, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate a pod template. The pods built from it are validated again when they are created."""
    yield from names.validate_labels(template.metadata.labels, (*path, "labels"), (*path, "metadata", "labels"))
    annotations_path = (*path, "metadata", "annotations")
    for error in validate_annotation_keys(template.metadata.annotations, (*path, "annotations")):
        yield error._replace(at=annotations_path)  # upstream's path does not exist
    yield from validate_pod_spec(template.spec, "", (*path, "spec"), options._replace(is_pod=False))


def apply_spec_defaults(manifest: Template, options: ValidationOptions) -> PodSpec:
    """Return the spec of a pod or template with the defaults that the API server sets before validation.

    Defaults that depend on an invalid quantity are left out.
    """
    pod = api.Pod(api.PodMeta(labels=manifest.metadata.labels), manifest.spec)
    with suppress(QuantityError):  # is reported where the quantity is validated
        pod = apply_pod_defaults(pod)
    pod = merge_affinity_label_keys(pod)
    if options.selector_merge:
        pod = merge_spread_label_keys(pod)
    assert isinstance(pod.spec, PodSpec)
    return pod.spec


def validate_pod_spec(spec: PodSpec, pod_name: str, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate a pod spec. ``pod_name`` is empty for a template. Upstream: ValidatePodSpec."""
    errors, valid_volumes = validate_volumes(spec.volumes, pod_name, (*path, "volumes"), options)
    yield from errors
    yield from _validate_resource_claims(spec.resource_claims, (*path, "resourceClaims"))
    yield from validate_containers(spec, valid_volumes, path, options)
    if options.pod_level_resources:
        yield from validate_pod_resources(spec, (*path, "resources"))
    yield from validate_host_network_ports(spec, path, options)
    if spec.restart_policy not in ("", *RESTART_POLICIES):
        yield not_supported((*path, "restartPolicy"), TypedString(spec.restart_policy), RESTART_POLICIES)
    yield from names.validate_labels(spec.node_selector, (*path, "nodeSelector"))
    yield from _validate_affinity(spec.affinity, (*path, "affinity"))
    yield from _validate_scheduling_gates(spec.scheduling_gates, (*path, "schedulingGates"))
    constraints_path = (*path, "topologySpreadConstraints")
    yield from validate_spread_constraints(spec.topology_spread_constraints, constraints_path, options)
    if spec.host_network and spec.host_users is False and not options.user_namespaces_host_network:
        yield forbidden((*path, "hostNetwork"), "when `hostUsers` is false")
    if spec.node_name:
        yield from names.validate_syntax((*path, "nodeName"), spec.node_name, names.validate_dns_subdomain)
    yield from validate_tolerations(spec.tolerations, (*path, "tolerations"), options)
    yield from _validate_priority_and_classes(spec, path)
    yield from validate_overhead(spec.overhead, (*path, "overhead"))


def _validate_affinity(affinity: api.Affinity | None, path: Path) -> ValidationErrors:
    """Validate node affinity, pod affinity and pod anti-affinity."""
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        yield from validate_node_affinity(affinity.node_affinity, (*path, "nodeAffinity"))
    if affinity.pod_affinity is not None:
        yield from validate_pod_affinity(affinity.pod_affinity, (*path, "podAffinity"))
    if affinity.pod_anti_affinity is not None:
        yield from validate_pod_affinity(affinity.pod_anti_affinity, (*path, "podAntiAffinity"))


def _validate_priority_and_classes(spec: PodSpec, path: Path) -> ValidationErrors:
    """Validate the names of PriorityClass and RuntimeClass, and the preemption policy."""
    if spec.priority_class_name:
        yield from names.validate_syntax(
            (*path, "priorityClassName"), spec.priority_class_name, names.validate_dns_subdomain
        )
    if spec.runtime_class_name is not None:
        yield from names.validate_syntax(
            (*path, "runtimeClassName"), spec.runtime_class_name, names.validate_dns_subdomain
        )
    if spec.preemption_policy == "":
        yield required((*path, "preemptionPolicy"))
    elif spec.preemption_policy is not None and spec.preemption_policy not in POLICIES:
        yield not_supported((*path, "preemptionPolicy"), TypedString(spec.preemption_policy), POLICIES)


def _validate_scheduling_gates(gates: Sequence[api.PodSchedulingGate], path: Path) -> ValidationErrors:
    """Validate that scheduling gates have valid and distinct names. Upstream: validateSchedulingGates."""
    seen = set()
    for i, gate in enumerate(gates):
        yield from names.validate_syntax((*path, i), gate.name, names.validate_qualified_name)
        if gate.name in seen:
            yield duplicate((*path, i), gate.name)
        seen.add(gate.name)


def _validate_resource_claims(claims: Sequence[api.PodResourceClaim], path: Path) -> ValidationErrors:
    """Validate the names and sources of resource claims. Upstream: validatePodResourceClaims."""
    seen = set()
    for i, claim in enumerate(claims):
        claim_path = (*path, i)
        if not claim.name:
            yield required((*claim_path, "name"))
        elif claim.name in seen:
            yield duplicate((*claim_path, "name"), claim.name)
        else:
            yield from names.validate_syntax((*claim_path, "name"), claim.name, names.validate_dns_label)
            seen.add(claim.name)
        yield from _validate_claim_source(claim, claim_path)


def _validate_claim_source(claim: api.PodResourceClaim, path: Path) -> ValidationErrors:
    """Validate that a claim of a pod names either a ResourceClaim or a ResourceClaimTemplate."""
    names_by_field = {field: getattr(claim, attribute) for attribute, field in _CLAIM_NAMES}
    source_names = {field: name for field, name in names_by_field.items() if name is not None}
    printed_claim = _PrintedClaim(claim.name, claim.resource_claim_name, claim.resource_claim_template_name)
    if len(source_names) == 2:
        rule = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield invalid(path, printed_claim, rule)
    if not source_names:
        yield invalid(path, printed_claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for field, name in source_names.items():
        yield from names.validate_syntax((*path, field), name, names.validate_dns_subdomain)
