"""Validation of a pod that is created, and of a pod template, with their containers.

Upstream: ValidatePodCreate, ValidatePodTemplateSpec, validateContainers, validateInitContainers and
validateContainerCommon.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    not_found,
    not_supported,
    required,
)
from kschedctl.api.priority import POLICIES
from kschedctl.api.quantity import QuantityError
from kschedctl.api.validation import ValidationOptions, names
from kschedctl.api.validation.names import validate_annotation_keys, validate_object_meta
from kschedctl.api.validation.placement import (
    validate_node_affinity,
    validate_pod_affinity,
    validate_spread_constraints,
    validate_tolerations,
)
from kschedctl.api.validation.resources import validate_container_resources, validate_overhead, validate_pod_resources
from kschedctl.api.validation.volumes import validate_volumes
from kschedctl.api.validation.written import Container, Pod, PodSpec, Port, Template, VolumeMount

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_CLAIM_NAMES = (
    ("resource_claim_name", "resourceClaimName"),
    ("resource_claim_template_name", "resourceClaimTemplateName"),
)

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_CONTAINER_RESTART_POLICIES = ("Always", "Never", "OnFailure")


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
    yield from _validate_image_names(spec, ("spec",))
    if spec.node_name and spec.scheduling_gates:
        yield forbidden(("spec", "nodeName"), "cannot be set until all schedulingGates have been cleared")


def validate_template(template: Template, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate a pod template. The pods built from it are validated again when they are created."""
    # Upstream's messages name paths without `metadata`, which do not exist. `location` is where the field really is.
    metadata_path = (*path, "metadata")
    yield from names.validate_labels(template.metadata.labels, (*path, "labels"), (*metadata_path, "labels"))
    for error in validate_annotation_keys(template.metadata.annotations, (*path, "annotations")):
        yield error.located_at((*metadata_path, "annotations"))
    template_options = options._replace(is_pod=False)
    yield from validate_pod_spec(template.spec, pod_name="", path=(*path, "spec"), options=template_options)


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
    yield from _validate_containers(spec, valid_volumes, path, options)
    if options.pod_level_resources:
        yield from validate_pod_resources(spec, (*path, "resources"))
    yield from _validate_host_network_ports(spec, path, options)
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
    """Validate the node affinity, pod affinity and pod anti-affinity that are set."""
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
    """Validate that a pod's claim names either a ResourceClaim or a ResourceClaimTemplate, by a valid name."""
    names_by_field = {field: getattr(claim, attribute) for attribute, field in _CLAIM_NAMES}
    source_names = {field: name for field, name in names_by_field.items() if name is not None}
    printed_claim = _PrintedClaim(claim.name, claim.resource_claim_name, claim.resource_claim_template_name)
    has_both_sources = len(source_names) > 1
    if has_both_sources:
        rule = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield invalid(path, printed_claim, rule)
    if not source_names:
        yield invalid(path, printed_claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for field, name in source_names.items():
        yield from names.validate_syntax((*path, field), name, names.validate_dns_subdomain)


def _validate_containers(
    spec: PodSpec, volumes: Collection[str], path: Path, options: ValidationOptions
) -> ValidationErrors:
    """Validate the containers and init containers of a pod spec. ``volumes`` are the names of its valid volumes.

    The order of the errors is upstream's, which differs between containers and init containers.
    """
    if not spec.containers:
        yield required((*path, "containers"))
    seen: set[str] = set()
    for i, container in enumerate(spec.containers):
        field_path = (*path, "containers", i)
        yield from _validate_container(container, spec, volumes, field_path)
        if container.name in seen:
            yield duplicate((*field_path, "name"), container.name)
        seen.add(container.name)
        yield from _validate_restart_policy(container, field_path, options)
    yield from _validate_unique_host_ports(spec.containers, (*path, "containers"))
    for i, container in enumerate(spec.init_containers):
        field_path = (*path, "initContainers", i)
        yield from _validate_container(container, spec, volumes, field_path)
        yield from _validate_restart_policy(container, field_path, options, init=True)
        if container.name in seen:
            yield duplicate((*field_path, "name"), container.name)
        elif container.name:
            seen.add(container.name)
        # Init containers run one after the other, so each may use the same host ports.
        yield from _validate_unique_host_ports((container,), (*path, "initContainers"))


def _validate_host_network_ports(spec: PodSpec, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate that host ports equal container ports if the pod uses host networking.

    A template may leave host ports unset. Upstream: validatePodHostNetworkDeps.
    """
    if not spec.host_network:
        return
    for i, container in enumerate(spec.containers):
        for j, port in enumerate(container.ports):
            is_unset_in_template = not options.is_pod and not port.host_port
            if not is_unset_in_template and port.host_port != port.container_port:
                field_path = (*path, "containers", i, "ports", j, "hostPort")
                yield invalid(field_path, port.host_port, "must match `containerPort` when `hostNetwork` is true")


def _validate_image_names(spec: PodSpec, path: Path) -> ValidationErrors:
    """Validate that images have no surrounding blanks. Templates are exempt. Upstream: validateContainerOnlyForPod."""
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            if container.image != container.image.strip():
                field_path = (*path, field, i, "image")
                yield invalid(field_path, container.image, "must not have leading or trailing whitespace")


def _validate_container(container: Container, spec: PodSpec, volumes: Collection[str], path: Path) -> ValidationErrors:
    """Validate a container's name, image, ports, volume mounts and resources."""
    if container.name:
        yield from names.validate_syntax((*path, "name"), container.name, names.validate_dns_label)
    else:
        yield required((*path, "name"))
    if not container.image:
        yield required((*path, "image"))
    yield from _validate_container_ports(container.ports, (*path, "ports"))
    yield from _validate_volume_mounts(container.volume_mounts, volumes, (*path, "volumeMounts"))
    claims = {claim.name for claim in spec.resource_claims} - {""}
    yield from validate_container_resources(container.resources, claims, (*path, "resources"))


def _validate_container_ports(ports: Sequence[Port], path: Path) -> ValidationErrors:
    """Validate container ports. Upstream: validateContainerPorts.

    The containerPort is required, and names must be unique. A port needs no protocol, because it defaults to TCP.
    """
    seen = set()
    for i, port in enumerate(ports):
        field_path = (*path, i)
        problems = names.validate_port_name(port.name) if port.name else []
        if problems:
            yield from (invalid((*field_path, "name"), port.name, problem) for problem in problems)
        elif port.name in seen:
            yield duplicate((*field_path, "name"), port.name)
        elif port.name:
            seen.add(port.name)
        if port.container_port:
            yield from _validate_port_number(port.container_port, (*field_path, "containerPort"))
        else:
            yield required((*field_path, "containerPort"))
        if port.host_port:
            yield from _validate_port_number(port.host_port, (*field_path, "hostPort"))
        if port.protocol and port.protocol not in _PROTOCOLS:
            yield not_supported((*field_path, "protocol"), TypedString(port.protocol), _PROTOCOLS)


def _validate_port_number(number: int, path: Path) -> ValidationErrors:
    """Validate that a port number is between 1 and 65535."""
    if not 1 <= number <= 65535:
        yield invalid(path, number, "must be between 1 and 65535, inclusive")


def _validate_unique_host_ports(containers: Sequence[Container], path: Path) -> ValidationErrors:
    """Validate that no host port is used twice. Upstream: AccumulateUniqueHostPorts."""
    seen = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.ports):
            text = f"{port.protocol or 'TCP'}/{port.host_ip}/{port.host_port}"
            if port.host_port and text in seen:
                yield duplicate((*path, i, "ports", j, "hostPort"), text)
            seen.add(text)


def _validate_volume_mounts(mounts: Sequence[VolumeMount], volumes: Collection[str], path: Path) -> ValidationErrors:
    """Validate that volume mounts name valid volumes and have distinct paths. Upstream: ValidateVolumeMounts."""
    seen = set()
    for i, mount in enumerate(mounts):
        if not mount.name:
            yield required((*path, i, "name"))
        if mount.name not in volumes:
            yield not_found((*path, i, "name"), mount.name)
        if not mount.mount_path:
            yield required((*path, i, "mountPath"))
        if mount.mount_path in seen:
            yield invalid((*path, i, "mountPath"), mount.mount_path, "must be unique")
        seen.add(mount.mount_path)


def _validate_restart_policy(
    container: Container, path: Path, options: ValidationOptions, init: bool = False
) -> ValidationErrors:
    """Validate a container's own restart policy. ``init`` says whether it is an init container.

    Without the gate ContainerRestartRules, only init containers may have one, namely Always. Upstream:
    validateContainerRestartPolicy, validateInitContainerRestartPolicy.
    """
    policy = container.restart_policy
    if policy is None:
        return
    field_path = (*path, "restartPolicy")
    allowed: tuple[str, ...] | None = None  # None if no policy is allowed
    if options.container_restart_rules:
        allowed = _CONTAINER_RESTART_POLICIES
    elif init:
        allowed = ("Always",)
    if allowed is None:
        yield forbidden(field_path, "may not be set for non-init containers")
    elif policy not in allowed:
        yield not_supported(field_path, TypedString(policy), allowed)
