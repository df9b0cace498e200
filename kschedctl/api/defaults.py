"""Defaults that the API server fills in when a pod or node is stored, limited to fields that scheduling reads.

Upstream: pkg/apis/core/v1/defaults.go (v1.36). Constant defaults that only one reader needs (a port's protocol, a
spread constraint's policies) are filled in by that reader.
"""

from __future__ import annotations

from operator import is_

from msgspec.structs import replace

from kschedctl.api import resource_names
from kschedctl.api.objects import Container, Node, Pod, PodSpec, ResourceRequirements, Resources
from kschedctl.api.pod_requests import Options, aggregate_container_limits, aggregate_container_requests

DEFAULT_SCHEDULER_NAME = "default-scheduler"
DEFAULT_NAMESPACE = "default"
DEFAULT_GRACE_PERIOD_SECONDS = 30
_CONTAINERS_ONLY = Options(use_status=False, pod_level=False, overhead=False)


def default_pod(pod: Pod) -> Pod:
    """Return the pod as the API server would store it.

    Raises QuantityError if a default depends on an unreadable quantity.
    """
    spec = default_pod_spec(pod.spec)
    if spec.resources is not None and (spec.resources.limits or spec.resources.requests):
        spec = replace(spec, resources=_default_pod_level_resources(replace(pod, spec=spec), spec.resources))
    return pod if spec is pod.spec else replace(pod, spec=spec)


def default_pod_spec(spec: PodSpec) -> PodSpec:
    """Return the spec with its own defaults filled in, or the same object if there is nothing to fill in."""
    containers = tuple([_default_container(c, spec.host_network) for c in spec.containers])
    init_containers = tuple([_default_container(c, spec.host_network) for c in spec.init_containers])
    complete = spec.scheduler_name and spec.termination_grace_period_seconds is not None
    if (
        complete
        and _are_identical(containers, spec.containers)
        and _are_identical(init_containers, spec.init_containers)
    ):
        return spec
    grace = spec.termination_grace_period_seconds
    return replace(
        spec,
        containers=containers,
        init_containers=init_containers,
        scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
        termination_grace_period_seconds=DEFAULT_GRACE_PERIOD_SECONDS if grace is None else grace,
    )


def default_node(node: Node) -> Node:
    """Return the node with allocatable defaulting to capacity."""
    if node.status.allocatable or not node.status.capacity:
        return node
    return replace(node, status=replace(node.status, allocatable=node.status.capacity))


def _default_container(container: Container, host_network: bool) -> Container:
    """Default the container's requests to its limits.

    With host networking, host ports default to container ports.
    """
    resources = container.resources
    if not resources.limits.keys() <= resources.requests.keys():
        requests = {**resources.limits, **resources.requests}
        container = replace(container, resources=replace(resources, requests=requests))
    if host_network and any(port.host_port == 0 for port in container.ports):
        ports = tuple(replace(port, host_port=port.host_port or port.container_port) for port in container.ports)
        container = replace(container, ports=ports)
    return container


def _default_pod_level_resources(pod: Pod, resources: ResourceRequirements) -> ResourceRequirements:
    """Default pod-level huge page limits to the containers' limits, and requests to the containers' requests or the
    limits.
    """
    limits: Resources = dict(resources.limits)
    for name, limit in aggregate_container_limits(pod.spec.containers, pod.spec.init_containers).items():
        if name.startswith(resource_names.HUGE_PAGES_PREFIX) and name not in resources.requests:
            limits.setdefault(name, str(limit))
    requests: Resources = dict(resources.requests)
    if limits:
        for name, request in aggregate_container_requests(pod, _CONTAINERS_ONLY).items():
            if name in (resource_names.CPU, resource_names.MEMORY):
                requests.setdefault(name, str(request))
        for name, text in limits.items():
            if resource_names.is_pod_level(name):
                requests.setdefault(name, text)
    return replace(resources, limits=limits, requests=requests)


def _are_identical(left: tuple[Container, ...], right: tuple[Container, ...]) -> bool:
    return all(map(is_, left, right))
