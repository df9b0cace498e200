"""The resources that a pod requests: containers, init containers, sidecars, pod level, overhead, in-place resize.

Upstream: staging/src/k8s.io/component-helpers/resource/helpers.go (v1.36, v1.37.0-beta.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api import resource_names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Container, ContainerStatus, Pod, ResourceRequirements, Resources
from kschedctl.api.quantity import Quantity, parse_quantity

Quantities = dict[str, Quantity]
"""Quantities by resource name."""


class ComparedRequests(StrEnum):
    """The requests of which the largest counts while a pod is resized: desired, allocated and actuated."""

    PER_CONTAINER = "for each container, the largest of its desired, allocated and actual requests"
    SUMMED = "for the whole pod, the largest of the total desired, allocated and actual requests"


COMPARED_REQUESTS = ByVersion(
    "requests that the scheduler assumes for a pod during an in-place resize",
    (("", ComparedRequests.PER_CONTAINER), ("1.37", ComparedRequests.SUMMED)),
    "#140047",
)


class Options(NamedTuple):
    """The rules by which requests are counted. By default, they are kube-scheduler v1.36's rules for pods on a node."""

    use_status: bool = True
    pod_level: bool = True
    pod_level_resize: bool = True
    overhead: bool = True
    dra_node_allocatable: bool = False
    non_missing: Mapping[str, Quantity] = {}
    """Container requests to assume for resources that a container does not name."""
    sidecar_ports: bool = True
    """True if host ports of restartable init containers count."""
    compared_requests: ComparedRequests = ComparedRequests.PER_CONTAINER
    """The value of COMPARED_REQUESTS for the version."""

    @property
    def sums_before_comparing(self) -> bool:
        """Return whether the requests of all containers are summed before desired and actual sums are compared."""
        return self.use_status and self.compared_requests is ComparedRequests.SUMMED


def parse_quantities(resources: Resources) -> Quantities:
    """Parse the quantities of a ResourceList, which may have surrounding blanks. Raises QuantityError."""
    return {name: parse_quantity(text.strip() if isinstance(text, str) else text) for name, text in resources.items()}


def compute_pod_requests(
    pod: Pod, options: Options = Options(), from_devices: Sequence[Mapping[str, Quantity]] | None = None
) -> Quantities:
    """Compute the requests of a pod: the larger of its needs during startup and while running.

    Depending on the options, pod-level requests replace those of the containers, and the overhead is added.
    ``from_devices`` has the node resources that the devices of each claim provide. By default, these resources are read
    from the pod's status. Raises QuantityError for a quantity that cannot be parsed.
    """
    requests = aggregate_container_requests(pod, options, from_devices)
    resources = pod.spec.resources
    if options.pod_level and resources is not None:
        requests |= _compute_pod_level_requests(pod, resources, options)
    if options.overhead:
        _add_amounts(requests, parse_quantities(pod.spec.overhead))
    return requests


def has_pod_level_requests(pod: Pod) -> bool:
    """Return whether the pod itself, not its containers, requests cpu, memory or huge pages."""
    return pod.spec.resources is not None and any(map(resource_names.is_pod_level, pod.spec.resources.requests))


def aggregate_container_requests(
    pod: Pod, options: Options = Options(), from_devices: Sequence[Mapping[str, Quantity]] | None = None
) -> Quantities:
    """Compute the requests of all containers: their sum while running, or the peak during initialization if higher.

    ``from_devices`` has the node resources that the devices of each claim provide. By default, these resources are read
    from the pod's status.
    """
    device_resources = _read_device_resources(pod, options) if from_devices is None else from_devices
    if options.sums_before_comparing:
        return _compute_largest_requests(pod, options, device_resources)
    statuses = _index_statuses(pod) if options.use_status else {}
    containers = (_compute_container_requests(pod, container, statuses, options) for container in pod.spec.containers)
    init_containers = []
    for container in pod.spec.init_containers:
        # Only sidecars keep running, so only they can be resized.
        container_statuses = statuses if is_sidecar(container) else {}
        requests = _compute_container_requests(pod, container, container_statuses, options)
        init_containers.append((is_sidecar(container), requests))
    return _add_device_resources(device_resources, _compute_peak_amounts(containers, init_containers))


def _compute_largest_requests(
    pod: Pod, options: Options, device_resources: Sequence[Mapping[str, Quantity]]
) -> Quantities:
    """Compute, per resource, the largest of the desired, allocated and actuated requests of all containers.

    Desired requests do not count if the resize is infeasible. Pod-level requests in the status replace the containers'
    allocated and actuated requests, and already include devices.
    """
    status = pod.status
    infeasible = _is_resize_infeasible(pod)
    largest: Quantities = {}
    if not infeasible:
        desired = _compute_peak_requests(pod, options, _select_desired_requests)
        largest = _add_device_resources(device_resources, desired)
    if options.pod_level_resize and status.allocated_resources and status.resources and status.resources.requests:
        _raise_amounts(largest, parse_quantities(status.allocated_resources))
        _raise_amounts(largest, parse_quantities(status.resources.requests))
        return largest

    select_allocated = partial(_select_allocated_requests, infeasible=infeasible)
    select_actuated = partial(_select_actuated_requests, infeasible=infeasible)
    allocated = _compute_peak_requests(pod, options, select_allocated)
    actuated = _compute_peak_requests(pod, options, select_actuated)
    _raise_amounts(largest, _add_device_resources(device_resources, allocated))
    _raise_amounts(largest, actuated)
    return largest


def _compute_peak_requests(
    pod: Pod, options: Options, select_requests: Callable[[Container, ContainerStatus | None], Resources]
) -> Quantities:
    """Return the most that the pod's containers request at any time, while init containers run or afterwards.

    ``select_requests`` returns the requests to use for a container and its status, which is None if the pod has no
    status for the container.
    """
    statuses = {status.name: status for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)}

    def parse_requests(container: Container) -> Quantities:
        """Parse the selected requests of a container, with the amounts to assume for missing resources."""
        return {**options.non_missing, **parse_quantities(select_requests(container, statuses.get(container.name)))}

    init_containers = [(is_sidecar(container), parse_requests(container)) for container in pod.spec.init_containers]
    return _compute_peak_amounts(map(parse_requests, pod.spec.containers), init_containers)


def _select_desired_requests(container: Container, status: ContainerStatus | None) -> Resources:
    """Return the requests of the container's spec."""
    return container.resources.requests


def _select_allocated_requests(container: Container, status: ContainerStatus | None, infeasible: bool) -> Resources:
    """Return the requests that the kubelet allocated.

    Without allocated requests, return the spec's requests, or none if the resize is infeasible.
    """
    if status is not None and status.allocated_resources:
        return status.allocated_resources
    return {} if infeasible else container.resources.requests


def _select_actuated_requests(container: Container, status: ContainerStatus | None, infeasible: bool) -> Resources:
    """Return the requests that the container runs with, or the allocated requests if the status has none."""
    if status is not None and status.resources is not None and status.resources.requests:
        return status.resources.requests
    return _select_allocated_requests(container, status, infeasible)


def _add_device_resources(device_resources: Iterable[Mapping[str, Quantity]], total: Quantities) -> Quantities:
    """Add the device resources of all claims to the total, in place, and return the total."""
    for amounts in device_resources:
        _add_amounts(total, amounts)
    return total


def _read_device_resources(pod: Pod, options: Options) -> list[Quantities]:
    """Return the node resources that the pod's devices provide according to its status, one mapping per claim.

    Return [] if ``options.dra_node_allocatable`` is off.
    """
    claims = pod.status.node_allocatable_resource_claim_statuses if options.dra_node_allocatable else ()
    return [parse_quantities(claim.resources) for claim in claims]


def aggregate_container_limits(containers: Iterable[Container], init_containers: Iterable[Container]) -> Quantities:
    """Compute the limits of all containers: their sum while running, or the peak during initialization if higher."""
    return _compute_peak_amounts(
        (parse_quantities(container.resources.limits) for container in containers),
        ((is_sidecar(container), parse_quantities(container.resources.limits)) for container in init_containers),
    )


def is_sidecar(container: Container) -> bool:
    """Return whether an init container keeps running beside the containers after it."""
    return container.restart_policy == "Always"


def _compute_peak_amounts(
    containers: Iterable[Quantities], init_containers: Iterable[tuple[bool, Quantities]]
) -> Quantities:
    """Return the largest amounts that the containers need at the same time.

    `init_containers` has pairs (is a sidecar, amounts), in order. Init containers run one by one, each together with
    the sidecars before it. The given amounts are modified.
    """
    total: Quantities = {}
    for amounts in containers:
        _add_amounts(total, amounts)
    sidecars: Quantities = {}
    peak: Quantities = {}
    for sidecar, amounts in init_containers:
        if sidecar:  # keeps running beside the containers and all later init containers
            _add_amounts(total, amounts)
            _add_amounts(sidecars, amounts)
            _raise_amounts(peak, sidecars)
        else:
            _add_amounts(amounts, sidecars)
            _raise_amounts(peak, amounts)
    _raise_amounts(total, peak)
    return total


def _index_statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Return the statuses with resources by container name."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.name: status for status in statuses if status.resources is not None}


def _compute_container_requests(
    pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], options: Options
) -> Quantities:
    """Compute a container's requests.

    If its status shows an in-place resize, the largest of the old and new amounts count.
    """
    requests = parse_quantities(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        requests = _compute_requests_during_resize(pod, requests, status.resources, status.allocated_resources)
    return {**options.non_missing, **requests}


def _compute_pod_level_requests(pod: Pod, resources: ResourceRequirements, options: Options) -> Quantities:
    """Compute the requests at pod level.

    During an in-place resize of the pod, the largest of the amounts before and after the resize count.
    """
    requests = parse_quantities(resources.requests)
    effective_requests = requests
    if options.use_status and options.pod_level_resize and pod.status.resources is not None:
        effective_requests = _compute_requests_during_resize(
            pod, requests, pod.status.resources, pod.status.allocated_resources
        )
    # Since 1.37, resources that only the status names count as well
    if options.sums_before_comparing:
        return {name: amount for name, amount in effective_requests.items() if resource_names.is_pod_level(name)}
    zero = parse_quantity("0")
    return {name: effective_requests.get(name, zero) for name in requests if resource_names.is_pod_level(name)}


def _compute_requests_during_resize(
    pod: Pod, spec: Quantities, actuated: ResourceRequirements, allocated: Resources
) -> Quantities:
    """Return, for each resource, the largest of the desired, actuated and allocated requests during an in-place resize.

    Desired requests do not count if the resize is infeasible. kube-scheduler 1.33.0 to 1.33.3 crashes if an actuated or
    allocated resource is not desired (#132895, fixed in 1.33.4). The crash is not replayed.
    """
    result = {} if _is_resize_infeasible(pod) else dict(spec)
    _raise_amounts(result, parse_quantities(actuated.requests))
    _raise_amounts(result, parse_quantities(allocated))
    return result


def _is_resize_infeasible(pod: Pod) -> bool:
    """Return whether the kubelet reports that an in-place resize can never happen on the node."""
    conditions = pod.status.conditions
    pending = next((condition for condition in conditions if condition.type == "PodResizePending"), None)
    return pending is not None and pending.reason == "Infeasible"


def is_resize_deferred(pod: Pod) -> bool:
    """Return whether the kubelet deferred an in-place resize of the pod because its node has no room.

    kube-scheduler counts the new requests anyway. Before 1.33 the deferral is in status.resize instead of a condition.
    """
    reasons = [
        condition.reason
        for condition in pod.status.conditions
        if condition.type == "PodResizePending" and condition.status != "False"
    ]
    return "Deferred" in (*reasons, pod.status.resize)


def revert_pending_resize(pod: Pod) -> Pod:
    """Return the pod with its requests and limits replaced by the amounts that the kubelet has allocated.

    Containers without a status, and resources without an allocated amount, keep the amounts of the spec.
    """
    spec = pod.spec
    status = pod.status
    statuses = {s.name: s for s in (*status.init_container_statuses, *status.container_statuses)}

    def revert_container(container: Container) -> Container:
        """Return the container with the resources that its status reports, if it has a status."""
        container_status = statuses.get(container.name)
        if container_status is None:
            return container
        allocated = container_status.allocated_resources
        reverted_resources = _replace_by_allocated_requests(container.resources, container_status.resources, allocated)
        return replace(container, resources=reverted_resources)

    pod_resources = spec.resources
    if pod_resources:
        pod_resources = _replace_by_allocated_requests(pod_resources, status.resources, status.allocated_resources)
    reverted_spec = replace(
        spec,
        containers=tuple(map(revert_container, spec.containers)),
        init_containers=tuple(map(revert_container, spec.init_containers)),
        resources=pod_resources,
    )
    return replace(pod, spec=reverted_spec)


def _replace_by_allocated_requests(
    requirements: ResourceRequirements, actuated: ResourceRequirements | None, allocated: Resources
) -> ResourceRequirements:
    """Return the requirements with the allocated requests, or else the actuated requests, and the actuated limits.

    Amounts without a counterpart are kept.
    """
    requests = allocated or (actuated.requests if actuated else {})
    limits = actuated.limits if actuated else {}
    return replace(
        requirements,
        requests={name: requests.get(name, amount) for name, amount in requirements.requests.items()},
        limits={name: limits.get(name, amount) for name, amount in requirements.limits.items()},
    )


def _add_amounts(total: Quantities, amounts: Mapping[str, Quantity]) -> None:
    """Add amounts to the total, in place."""
    for name, quantity in amounts.items():
        total[name] = total[name].add(quantity) if name in total else quantity


def _raise_amounts(total: Quantities, minima: Mapping[str, Quantity]) -> None:
    """Raise the amounts of the total, in place, to at least the amounts in ``minima``. Missing amounts are added."""
    for name, quantity in minima.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity
