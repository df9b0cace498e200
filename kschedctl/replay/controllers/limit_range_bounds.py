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
    if not ranges:
        return []

    # The amounts that the containers have after admission added defaults
    request = AdmissionRequest(cluster, "Pod", copy.deepcopy(dict(drop_nulls(manifest))), namespace, ranges)
    defaults.set_defaults(request)
    limit_ranger.add_default_resources(request)
    amounts_by_container: dict[str, dict[str, Quantities]] = {}
    for container in (*request.containers, *request.init_containers):
        resources = container.get("resources") or {}
        amounts = {part: parse_quantities(resources.get(part) or {}) for part in PARTS}
        amounts_by_container[str(container.get("name", ""))] = amounts
    original = copy.deepcopy(amounts_by_container)

    # Fit each container, then the sums of the regular containers
    items = [item for limit_range in ranges for item in limit_range.spec.limits]
    for amounts in amounts_by_container.values():
        _fit_container(amounts, [item for item in items if item.type == limit_ranger.CONTAINER_TYPE])
    regular = [amounts_by_container[str(container.get("name", ""))] for container in request.containers]
    for item in items:
        if item.type == limit_ranger.POD_TYPE:
            _fit_pod(regular, item)
    return list(_iter_changed_settings(original, amounts_by_container))


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
    ratio_maps = (item.max_limit_request_ratio for item in items)
    ratios = [parse_quantities(ratio_map)[name] for ratio_map in ratio_maps if name in ratio_map]
    return _Bounds(max(minima, default=None), min(maxima, default=None), min(ratios, default=None))


def _clamp_amounts(amounts: _RequestAndLimit, bounds: _Bounds, resource: str) -> _RequestAndLimit:
    """Clamp the request and the limit to the bounds, and raise the request if the ratio requires it.

    A missing request is set if there is a minimum; a missing limit stays missing.
    """
    request, limit = amounts
    if bounds.maximum is not None and request is not None:
        request = min(request, bounds.maximum)
    if bounds.maximum is not None and limit is not None:
        limit = min(limit, bounds.maximum)
    if bounds.minimum is not None:
        request = max(request or ZERO, bounds.minimum)
    if request is not None and limit is not None:
        limit = max(limit, request)
        if bounds.max_ratio is not None and bounds.max_ratio > ZERO:
            request = max(request, _compute_least_request(limit, bounds.max_ratio, resource))
    return _RequestAndLimit(request, limit)


def _compute_least_request(limit: Quantity, ratio: Quantity, resource: str) -> Quantity:
    """Return the lowest request that the ratio allows for this limit, rounded up. CPU is counted in millicores."""
    if resource == "cpu":
        return Quantity(-(-limit.milli_value() * 1000 // ratio.milli_value()), MILLI)
    return Quantity(-(-limit.value() * 1000 // ratio.milli_value()), 0, limit.format)


def _fit_pod(containers: list[dict[str, Quantities]], item: LimitRangeItem) -> None:
    """Change the containers' amounts so that their sums are within an item's bounds.

    The largest container takes the whole change.
    """
    for name, maximum in parse_quantities(item.max).items():
        _lower_to_maximum(containers, name, maximum)
    for name, minimum in parse_quantities(item.min).items():
        _raise_to_minimum(containers, name, minimum)


def _lower_to_maximum(containers: list[dict[str, Quantities]], name: str, maximum: Quantity) -> None:
    """Lower the limit and the request of the largest container if their sums exceed the maximum.

    A container with a request needs a limit, because the maximum applies to both. An amount stays if lowering it would
    leave nothing.
    """
    for amounts in containers:
        if name in amounts[REQUESTS]:
            amounts[LIMITS].setdefault(name, amounts[REQUESTS][name])
    for part in (LIMITS, REQUESTS):
        excess = _sum_amounts(containers, part, name).sub(maximum)
        largest = max(containers, key=partial(_get_amount, part, name))
        if excess > ZERO and _get_amount(part, name, largest) > excess:
            largest[part][name] = largest[part][name].sub(excess)
    for amounts in containers:
        if name in amounts[REQUESTS] and name in amounts[LIMITS]:
            amounts[REQUESTS][name] = min(amounts[REQUESTS][name], amounts[LIMITS][name])


def _raise_to_minimum(containers: list[dict[str, Quantities]], name: str, minimum: Quantity) -> None:
    """Raise the request of the largest container, and its limit if needed, if the sum is below the minimum."""
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
                if amount == old_amount:
                    continue
                change = f"request {amount} {resource}" if part == REQUESTS else f"limit {resource} to {amount}"
                if old_amount is not None:
                    change += f" instead of {old_amount}"
                yield ResourceSetting(name, part, resource, str(amount), f"{change}{location}")
