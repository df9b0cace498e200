"""Validation of containers and their ports.

Upstream: validateContainers, validateInitContainers, validateContainerCommon.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
from kschedctl.api.validation import ValidationOptions, names
from kschedctl.api.validation.resources import validate_container_resources
from kschedctl.api.validation.written import Container, PodSpec, Port, VolumeMount

PROTOCOLS = ("SCTP", "TCP", "UDP")
RESTART_POLICIES = ("Always", "Never", "OnFailure")


def validate_containers(
    spec: PodSpec, volumes: Collection[str], path: Path, options: ValidationOptions
) -> ValidationErrors:
    """Validate the containers and init containers of a pod spec. ``volumes`` are the names of its valid volumes.

    The order of the errors is upstream's, which differs between containers and init containers.
    """
    if not spec.containers:
        yield required((*path, "containers"))
    seen: set[str] = set()
    for i, container in enumerate(spec.containers):
        at = (*path, "containers", i)
        yield from _validate_container(container, spec, volumes, at)
        if container.name in seen:
            yield duplicate((*at, "name"), container.name)
        seen.add(container.name)
        yield from _validate_restart_policy(container, at, options)
    yield from _validate_unique_host_ports(spec.containers, (*path, "containers"))
    for i, container in enumerate(spec.init_containers):
        at = (*path, "initContainers", i)
        yield from _validate_container(container, spec, volumes, at)
        yield from _validate_restart_policy(container, at, options, init=True)
        if container.name in seen:
            yield duplicate((*at, "name"), container.name)
        elif container.name:
            seen.add(container.name)
        # Init containers run one after the other, so each may use the same host ports.
        yield from _validate_unique_host_ports((container,), (*path, "initContainers"))


def validate_host_network_ports(spec: PodSpec, path: Path, options: ValidationOptions) -> ValidationErrors:
    """Validate that host ports equal container ports if the pod uses host networking.

    Upstream: validatePodHostNetworkDeps.
    """
    if not spec.host_network:
        return
    for i, container in enumerate(spec.containers):
        for j, port in enumerate(container.ports):
            if (options.is_pod or port.host_port) and port.host_port != port.container_port:
                at = (*path, "containers", i, "ports", j, "hostPort")
                yield invalid(at, port.host_port, "must match `containerPort` when `hostNetwork` is true")


def validate_image_names(spec: PodSpec, path: Path) -> ValidationErrors:
    """Validate that images have no surrounding blanks. Templates are exempt. Upstream: validateContainerOnlyForPod."""
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers):
            if container.image != container.image.strip():
                at = (*path, field, i, "image")
                yield invalid(at, container.image, "must not have leading or trailing whitespace")


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

    The protocol of a port defaults to TCP.
    """
    seen = set()
    for i, port in enumerate(ports):
        at = (*path, i)
        if problems := names.validate_port_name(port.name) if port.name else []:
            yield from (invalid((*at, "name"), port.name, problem) for problem in problems)
        elif port.name in seen:
            yield duplicate((*at, "name"), port.name)
        elif port.name:
            seen.add(port.name)
        if port.container_port:
            yield from _validate_port_number(port.container_port, (*at, "containerPort"))
        else:
            yield required((*at, "containerPort"))
        if port.host_port:
            yield from _validate_port_number(port.host_port, (*at, "hostPort"))
        if port.protocol and port.protocol not in PROTOCOLS:
            yield not_supported((*at, "protocol"), TypedString(port.protocol), PROTOCOLS)


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
    """Validate a container's own restart policy.

    Upstream: validateContainerRestartPolicy, validateInitContainerRestartPolicy.
    """
    policy = container.restart_policy
    at = (*path, "restartPolicy")
    allowed: tuple[str, ...] | None = None
    if options.container_restart_rules:
        allowed = RESTART_POLICIES
    elif init:
        allowed = ("Always",)
    if policy is None:
        return
    if allowed is None:
        yield forbidden(at, "may not be set for non-init containers")
    elif policy not in allowed:
        yield not_supported(at, TypedString(policy), allowed)
