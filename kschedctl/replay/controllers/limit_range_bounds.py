"""The nearest requests and limits for a pod that the LimitRanges of its namespace allow.

Upstream: plugin/pkg/admission/limitranger/admission.go (v1.36).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kschedctl.admission import defaults, limit_ranger
from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.json_values import JsonObject, drop_nulls
from kschedctl.api.objects import LimitRangeItem
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import MILLI, Quantity
from kschedctl.cluster import Cluster

REQUESTS, LIMITS = "requests", "limits"
PARTS = (REQUESTS, LIMITS)
ZERO = Quantity(0)


class ResourceSetting(NamedTuple):
    """A request or limit that a container should set."""

    container: str
    """The container's name."""
    part: str
    """``requests`` or ``limits``."""
    resource: str
    amount: str
    description: str
    """The change in words, with the old amount."""


class _Bounds(NamedTuple):
    """The bounds that all LimitRange items of a type set for one resource."""

    minimum: Quantity | None
    maximum: Quantity | None
    max_ratio: Quantity | None
    """The highest allowed ratio of limit to request."""


class _RequestAndLimit(NamedTuple):
    """The request and the limit of a container for one resource."""

    request: Quantity | None
    limit: Quantity | None


def find_allowed_resources(cluster: Cluster, namespace: str, manifest: JsonObject) -> list[ResourceSetting]:
    """Return the settings that containers have to change so that all LimitRanges allow the pod.

    The list is empty if nothing has to change or the LimitRanges are not known.
    """
    ranges = tuple(map(limit_ranger.with_api_defaults, cluster.in_namespace("limit_ranges", namespace)))
    request = AdmissionRequest(cluster, "Pod", copy.deepcopy(dict(drop_nulls(manifest))), namespace, ranges)
    if not ranges:
        return []
    defaults.set_defaults(request)
    limit_ranger.add_default_resources(request)
    items = [item for limit_range in ranges for item in limit_range.spec.limits]
    containers = {
        str(container.get("name", "")): {
            part: parse_quantities((container.get("resources") or {}).get(part) or {}) for part in PARTS
        }
        for container in (*request.containers, *request.init_containers)
    }
    original = copy.deepcopy(containers)
    for amounts in containers.values():
        _fit_container(amounts, [item for item in items if item.type == limit_ranger.CONTAINER_TYPE])
    regular = [containers[str(container.get("name", ""))] for container in request.containers]
    for item in items:
        if item.type == limit_ranger.POD_TYPE:
            _fit_pod(regular, item)
    return list(_iter_changed_settings(original, containers))


def _fit_container(amounts: dict[str, Quantities], items: Iterable[LimitRangeItem]) -> None:
    """Change the amounts of one container so that they are within the bounds of the items."""
    items = list(items)
    bounded_resources = {name for item in items for name in (*item.min, *item.max, *item.max_limit_request_ratio)}
    for name in sorted(bounded_resources.union(*amounts.values())):
        original = _RequestAndLimit(amounts[REQUESTS].get(name), amounts[LIMITS].get(name))
        fitted = _clamp_amounts(original, _combine_bounds(name, items), name)
        for part, amount in zip(PARTS, fitted, strict=True):
            if amount is not None:
                amounts[part][name] = amount


def _combine_bounds(name: str, items: Iterable[LimitRangeItem]) -> _Bounds:
    """Return the strictest bounds that the items set for the resource."""
    items = list(items)
    minima = [parse_quantities(item.min)[name] for item in items if name in item.min]
    maxima = [parse_quantities(item.max)[name] for item in items if name in item.max]
    ratio_lists = (item.max_limit_request_ratio for item in items)
    ratio = [parse_quantities(ratio_list)[name] for ratio_list in ratio_lists if name in ratio_list]
    return _Bounds(max(minima, default=None), min(maxima, default=None), min(ratio, default=None))


def _clamp_amounts(amounts: _RequestAndLimit, bounds: _Bounds, resource: str) -> _RequestAndLimit:
    """Clamp the request and the limit to the bounds, and raise the request if the ratio requires it."""
    request, limit = amounts
    if bounds.maximum is not None:
        request, limit = (amount and min(amount, bounds.maximum) for amount in amounts)
    if bounds.minimum is not None:
        request = max(request or ZERO, bounds.minimum)
    if request is not None and limit is not None:
        limit = max(limit, request)
        if bounds.max_ratio is not None and bounds.max_ratio > ZERO:
            request = max(request, _compute_least_request(limit, bounds.max_ratio, resource))
    return _RequestAndLimit(request, limit)


def _compute_least_request(limit: Quantity, ratio: Quantity, resource: str) -> Quantity:
    """Return the lowest request that the ratio allows for this limit."""
    if resource == "cpu":
        return Quantity(-(-limit.milli_value() * 1000 // ratio.milli_value()), MILLI)
    return Quantity(-(-limit.value() * 1000 // ratio.milli_value()), 0, limit.format)


def _fit_pod(containers: list[dict[str, Quantities]], item: LimitRangeItem) -> None:
    """Change the containers' amounts so that their sums are within an item's bounds.

    The largest container takes the whole change.
    """
    for name, maximum in parse_quantities(item.max).items():
        for amounts in containers:
            if name in amounts[REQUESTS]:
                amounts[LIMITS].setdefault(name, amounts[REQUESTS][name])
        for part in reversed(PARTS):
            excess = _sum_amounts(containers, part, name).sub(maximum)
            largest = max(containers, key=partial(_get_amount, part, name))
            if excess > ZERO and _get_amount(part, name, largest) > excess:
                largest[part][name] = largest[part][name].sub(excess)
        for amounts in containers:
            if name in amounts[REQUESTS] and name in amounts[LIMITS]:
                amounts[REQUESTS][name] = min(amounts[REQUESTS][name], amounts[LIMITS][name])
    for name, minimum in parse_quantities(item.min).items():
        deficit = minimum.sub(_sum_amounts(containers, REQUESTS, name))
        if deficit > ZERO:
            largest = max(containers, key=partial(_get_amount, REQUESTS, name))
            largest[REQUESTS][name] = _get_amount(REQUESTS, name, largest).add(deficit)
            if name in largest[LIMITS]:
                largest[LIMITS][name] = max(largest[LIMITS][name], largest[REQUESTS][name])


def _get_amount(part: str, name: str, amounts: Mapping[str, Quantities]) -> Quantity:
    """Return the container's amount of a resource in its requests or limits, or zero."""
    return amounts[part].get(name, ZERO)


def _sum_amounts(containers: Iterable[Mapping[str, Quantities]], part: str, name: str) -> Quantity:
    """Sum the amounts of a resource over the containers."""
    total = ZERO
    for amounts in containers:
        total = total.add(_get_amount(part, name, amounts))
    return total


def _iter_changed_settings(
    before: Mapping[str, Mapping[str, Quantities]], after: Mapping[str, Mapping[str, Quantities]]
) -> Iterator[ResourceSetting]:
    """Yield the settings that differ between the original and the fitted amounts."""
    for name, amounts in after.items():
        location = f" in container {name}" if len(after) > 1 else ""
        for part in PARTS:
            for resource, amount in sorted(amounts[part].items()):
                old_amount = before[name][part].get(resource)
                if amount != old_amount:
                    replaced = f" instead of {old_amount}" if old_amount is not None else ""
                    setting = f"request {amount} {resource}" if part == REQUESTS else f"limit {resource} to {amount}"
                    yield ResourceSetting(name, part, resource, str(amount), f"{setting}{replaced}{location}")
