"""Requests of a pod as scheduler-plugins counts them: sidecars count like any other init container.

Upstream: GetPodEffectiveRequest in pkg/util/resource.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from kschedctl.api.objects import Container, Pod
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.errors import InputError
from kschedctl.snapshot.pod_info import to_amounts

Requests = Mapping[str, int]
"""Resource -> amount: millicores, bytes or units."""


def sum_effective_requests(pod: Pod) -> dict[str, int]:
    """Return a pod's requests: the larger of all containers and any init container, plus overhead.

    Raises InputError for an invalid amount.
    """
    total = add_requests(*(parse_container_requests(pod, container) for container in pod.spec.containers))
    init = (parse_container_requests(pod, container) for container in pod.spec.init_containers)
    return add_requests(reduce(_max_requests, init, total), _parse_amounts(pod, pod.spec.overhead))


def parse_container_requests(pod: Pod, container: Container) -> Requests:
    """Parse the requests of one container. Raises InputError that names the pod."""
    return _parse_amounts(pod, container.resources.requests)


def add_requests(*requests: Requests) -> dict[str, int]:
    """Return the sum of several requests, resource by resource.

    >>> add_requests({"cpu": 1}, {"cpu": 2, "memory": 5})
    {'cpu': 3, 'memory': 5}
    """
    names = dict.fromkeys(name for request in requests for name in request)
    return {name: sum(request.get(name, 0) for request in requests) for name in names}


def _max_requests(first: Requests, second: Requests) -> dict[str, int]:
    """Return the larger amount of each resource."""
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}


def _parse_amounts(pod: Pod, resources: Mapping[str, str | int | float]) -> Requests:
    """Parse resource quantities. Raises InputError that names the pod."""
    try:
        return to_amounts(parse_quantities(dict(resources)))
    except QuantityError as error:
        raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None
