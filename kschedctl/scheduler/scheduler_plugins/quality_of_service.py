"""Compute a pod's QoS class from the requests and limits of its containers.

Upstream: pkg/apis/core/v1/helper/qos/qos.go (v1.36: ComputePodQOS).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from kschedctl.api.objects import Pod, ResourceRequirements
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.api.resource_names import CPU, MEMORY
from kschedctl.errors import InputError
from kschedctl.snapshot.pod_info import to_amounts


class QualityOfService(StrEnum):
    """The QoS classes of Kubernetes."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def compute_qos_class(pod: Pod) -> QualityOfService:
    """Return a pod's QoS class. Raises InputError that names the pod if an amount is invalid."""
    spec = pod.spec
    pod_resources = spec.resources
    resources = (
        [pod_resources]
        if pod_resources is not None
        else [c.resources for c in (*spec.containers, *spec.init_containers)]
    )
    try:
        return _classify(resources)
    except QuantityError as error:
        raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None


def _classify(containers: Iterable[ResourceRequirements]) -> QualityOfService:
    """Return the QoS class of a pod's resources.

    It is Guaranteed if all containers limit cpu and memory and the total requests equal the total limits.
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for resources in containers:
        _add_positive_amounts(requests, parse_quantities(resources.requests))
        all_limited &= len(_add_positive_amounts(limits, parse_quantities(resources.limits))) == 2
    if not requests and not limits:
        return QualityOfService.BEST_EFFORT
    return QualityOfService.GUARANTEED if all_limited and requests == limits else QualityOfService.BURSTABLE


def _add_positive_amounts(total: dict[str, int], quantities: Quantities) -> Mapping[str, int]:
    """Add the positive amounts of cpu and memory to the total, and return them."""
    positive = {name: amount for name, amount in to_amounts(quantities).items() if name in (CPU, MEMORY) and amount > 0}
    for name, amount in positive.items():
        total[name] = total.get(name, 0) + amount
    return positive
