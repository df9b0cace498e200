"""Requests of a pod as scheduler-plugins counts them, and the QoS class that follows from requests and limits.

Sidecars count like any other init container. Upstream: GetPodEffectiveRequest in pkg/util/resource.go of
kubernetes-sigs/scheduler-plugins, and ComputePodQOS in pkg/apis/core/v1/helper/qos/qos.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import reduce

from kschedctl.api.objects import Container, Pod, ResourceRequirements
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.errors import InputError
from kschedctl.snapshot.pod_info import convert_to_amounts

Requests = Mapping[str, int]
"""Resource -> amount: millicores, bytes or units."""
MILLICORES = 1000
"""The amount of one whole CPU."""


def sum_effective_requests(pod: Pod) -> dict[str, int]:
    """Return the pod's requests: the sum of its containers or a larger init container, plus the pod's overhead.

    The larger amount is taken for each resource separately. Raises InputError for an invalid amount.
    """
    containers = add_requests(*(parse_container_requests(pod, container) for container in pod.spec.containers))
    init_containers = (parse_container_requests(pod, container) for container in pod.spec.init_containers)
    largest = reduce(_max_requests, init_containers, containers)
    return add_requests(largest, _parse_amounts(pod, pod.spec.overhead))


def parse_container_requests(pod: Pod, container: Container) -> Requests:
    """Parse the requests of one container. Raises InputError that names the pod."""
    return _parse_amounts(pod, container.resources.requests)


def add_requests(*requests: Requests) -> dict[str, int]:
    """Return the sum of several requests, resource by resource.

    >>> add_requests({"cpu": 1}, {"cpu": 2, "memory": 5})
    {'cpu': 3, 'memory': 5}
    """
    total: dict[str, int] = {}
    for terms in requests:
        for name, amount in terms.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max_requests(first: Requests, second: Requests) -> dict[str, int]:
    """Return the larger of two requests, resource by resource. A missing resource counts as 0."""
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}


def _parse_amounts(pod: Pod, resources: Mapping[str, str | int | float]) -> Requests:
    """Parse resource quantities. Raises InputError naming the pod if an amount is invalid."""
    try:
        return convert_to_amounts(parse_quantities(dict(resources)))
    except QuantityError as error:
        raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None


class QualityOfService(StrEnum):
    """The QoS classes of Kubernetes."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def compute_qos_class(pod: Pod) -> QualityOfService:
    """Return a pod's QoS class, based on its pod-level resources or, without them, on its containers.

    Raises InputError naming the pod if an amount is invalid.
    """
    spec = pod.spec
    pod_resources = spec.resources
    resources = (
        [pod_resources]
        if pod_resources is not None
        else [c.resources for c in (*spec.containers, *spec.init_containers)]
    )
    try:
        return _determine_qos_class(resources)
    except QuantityError as error:
        raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None


def _determine_qos_class(containers: Iterable[ResourceRequirements]) -> QualityOfService:
    """Return the QoS class for the resources of containers.

    The class is BestEffort if nothing is requested or limited. The class is Guaranteed if all containers limit cpu and
    memory, and the total requests equal the total limits. Otherwise, the class is Burstable.
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for resources in containers:
        _add_positive_amounts(requests, parse_quantities(resources.requests))
        container_limits = _add_positive_amounts(limits, parse_quantities(resources.limits))
        all_limited &= len(container_limits) == 2  # cpu and memory
    if not requests and not limits:
        return QualityOfService.BEST_EFFORT
    return QualityOfService.GUARANTEED if all_limited and requests == limits else QualityOfService.BURSTABLE


def _add_positive_amounts(total: dict[str, int], quantities: Quantities) -> Mapping[str, int]:
    """Add the positive amounts of cpu and memory to `total` in place, and return these amounts."""
    positive = {
        name: amount for name, amount in convert_to_amounts(quantities).items() if name in (CPU, MEMORY) and amount > 0
    }
    for name, amount in positive.items():
        total[name] = total.get(name, 0) + amount
    return positive
