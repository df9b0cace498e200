"""The class of quality of service of a pod, by what its containers request and are limited to.

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
    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def quality_of_service(pod: Pod) -> QualityOfService:
    """Raises InputError that names the pod, for an amount that is none."""
    spec = pod.spec
    whole = spec.resources
    parts = [whole] if whole is not None else [c.resources for c in (*spec.containers, *spec.init_containers)]
    try:
        return _of(parts)
    except QuantityError as error:
        raise InputError(error.what, where=f"Pod {pod.key}", hint=error.hint) from None


def _of(parts: Iterable[ResourceRequirements]) -> QualityOfService:
    """Guaranteed: each part limits cpu and memory, and all request together what they are limited to."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    limited = True
    for part in parts:
        _add(requests, parse_quantities(part.requests))
        limited &= len(_add(limits, parse_quantities(part.limits))) == 2
    if not requests and not limits:
        return QualityOfService.BEST_EFFORT
    return QualityOfService.GUARANTEED if limited and requests == limits else QualityOfService.BURSTABLE


def _add(total: dict[str, int], more: Quantities) -> Mapping[str, int]:
    """The amounts of cpu and memory above zero, which are added to the total."""
    some = {name: amount for name, amount in to_amounts(more).items() if name in (CPU, MEMORY) and amount > 0}
    for name, amount in some.items():
        total[name] = total.get(name, 0) + amount
    return some
