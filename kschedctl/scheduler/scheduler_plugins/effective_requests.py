"""What a pod requests as plugins of scheduler-plugins count it: sidecars are init containers like any other to them.

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


def effective_requests(pod: Pod) -> dict[str, int]:
    """What a pod asks for: its containers together or greediest init container, and the overhead. Raises InputError."""
    total = added(*(container_requests(pod, container) for container in pod.spec.containers))
    init = (container_requests(pod, container) for container in pod.spec.init_containers)
    return added(reduce(_larger, init, total), _amounts(pod, pod.spec.overhead))


def container_requests(pod: Pod, container: Container) -> Requests:
    """What one container of a pod requests. Raises InputError that names the pod."""
    return _amounts(pod, container.resources.requests)


def added(*requests: Requests) -> dict[str, int]:
    """
    >>> added({"cpu": 1}, {"cpu": 2, "memory": 5})
    {'cpu': 3, 'memory': 5}
    """
    names = dict.fromkeys(name for request in requests for name in request)
    return {name: sum(request.get(name, 0) for request in requests) for name in names}


def _larger(one: Requests, other: Requests) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _amounts(pod: Pod, resources: Mapping[str, str | int | float]) -> Requests:
    try:
        return to_amounts(parse_quantities(dict(resources)))
    except QuantityError as error:
        raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None
