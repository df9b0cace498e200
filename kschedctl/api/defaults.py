"""What the API server fills in when a pod or node is stored, as far as scheduling reads it.

Upstream: pkg/apis/core/v1/defaults.go (v1.36). Fields whose default is a constant that only one reader needs
(a port's protocol, a spread constraint's policies) are defaulted by that reader.
"""

from __future__ import annotations

from operator import is_

from msgspec.structs import replace

from kschedctl.api import resource_names
from kschedctl.api.objects import Container, Node, Pod, PodSpec, ResourceRequirements, Resources
from kschedctl.api.pod_requests import Options, aggregate_container_requests, container_limits

DEFAULT_SCHEDULER_NAME = "default-scheduler"
DEFAULT_NAMESPACE = "default"
DEFAULT_GRACE_PERIOD_SECONDS = 30
_CONTAINERS_ONLY = Options(use_status=False, pod_level=False, overhead=False)


def default_pod(pod: Pod) -> Pod:
    """The pod as the API server would store it. Raises QuantityError where a default needs an unreadable quantity."""
    spec = default_pod_spec(pod.spec)
    if spec.resources is not None and (spec.resources.limits or spec.resources.requests):
        spec = replace(spec, resources=_default_pod_level(replace(pod, spec=spec), spec.resources))
    return pod if spec is pod.spec else replace(pod, spec=spec)


def default_pod_spec(spec: PodSpec) -> PodSpec:
    """The defaults that a spec takes by itself; the same object when there is nothing to fill in."""
    containers = tuple([_default_container(c, spec.host_network) for c in spec.containers])
    init_containers = tuple([_default_container(c, spec.host_network) for c in spec.init_containers])
    complete = spec.scheduler_name and spec.termination_grace_period_seconds is not None
    if complete and _same(containers, spec.containers) and _same(init_containers, spec.init_containers):
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
    """A node without allocatable offers its capacity."""
    if node.status.allocatable or not node.status.capacity:
        return node
    return replace(node, status=replace(node.status, allocatable=node.status.capacity))


def _default_container(container: Container, host_network: bool) -> Container:
    """Requests default to limits; with host networking a port is a host port."""
    resources = container.resources
    if not resources.limits.keys() <= resources.requests.keys():
        requests = {**resources.limits, **resources.requests}
        container = replace(container, resources=replace(resources, requests=requests))
    if host_network and any(port.host_port == 0 for port in container.ports):
        ports = tuple(replace(port, host_port=port.host_port or port.container_port) for port in container.ports)
        container = replace(container, ports=ports)
    return container


def _default_pod_level(pod: Pod, resources: ResourceRequirements) -> ResourceRequirements:
    """Pod-level huge page limits default to the containers'; requests to the containers', else to the limits."""
    limits: Resources = dict(resources.limits)
    for name, limit in container_limits(pod.spec.containers, pod.spec.init_containers).items():
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


def _same(left: tuple[Container, ...], right: tuple[Container, ...]) -> bool:
    return all(map(is_, left, right))
