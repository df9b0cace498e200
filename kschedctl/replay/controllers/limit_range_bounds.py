"""TODO."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kschedctl.admission import defaults, limit_ranger
from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import LimitRangeItem
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import MILLI, Quantity
from kschedctl.cluster import Cluster, without_nulls

REQUESTS, LIMITS = "requests", "limits"
PARTS = (REQUESTS, LIMITS)
ZERO = Quantity(0)


class Amount(NamedTuple):
    """What a container is to say of a resource; ``words``: with what it said before."""

    container: str
    part: str
    resource: str
    amount: str
    words: str


class _Bounds(NamedTuple):
    """What all items of a type say of a resource."""

    least: Quantity | None
    most: Quantity | None
    ratio: Quantity | None


class _Asked(NamedTuple):
    request: Quantity | None
    limit: Quantity | None


def within_bounds(cluster: Cluster, namespace: str, manifest: JsonObject) -> list[Amount]:
    """What the containers would have to say otherwise; nothing where that is not known, or nothing is wrong."""
    ranges = tuple(map(limit_ranger.stored, cluster.in_namespace("limit_ranges", namespace)))
    request = AdmissionRequest(cluster, "Pod", copy.deepcopy(dict(without_nulls(manifest))), namespace, ranges)
    if not ranges:
        return []
    defaults.fill_in(request)
    limit_ranger.fill_in(request)
    items = [item for limit_range in ranges for item in limit_range.spec.limits]
    containers = {
        str(container.get("name", "")): {
            part: parse_quantities((container.get("resources") or {}).get(part) or {}) for part in PARTS
        }
        for container in (*request.containers, *request.init_containers)
    }
    before = copy.deepcopy(containers)
    for amounts in containers.values():
        _fit_container(amounts, [item for item in items if item.type == limit_ranger.OF_CONTAINER])
    regular = [containers[str(container.get("name", ""))] for container in request.containers]
    for item in items:
        if item.type == limit_ranger.OF_POD:
            _fit_pod(regular, item)
    return list(_differences(before, containers))


def _fit_container(amounts: dict[str, Quantities], items: Iterable[LimitRangeItem]) -> None:
    items = list(items)
    named = {name for item in items for name in (*item.min, *item.max, *item.max_limit_request_ratio)}
    for name in sorted(named.union(*amounts.values())):
        asked = _Asked(amounts[REQUESTS].get(name), amounts[LIMITS].get(name))
        fitted = _fitted(asked, _bounds_of(name, items), name)
        for part, amount in zip(PARTS, fitted, strict=True):
            if amount is not None:
                amounts[part][name] = amount


def _bounds_of(name: str, items: Iterable[LimitRangeItem]) -> _Bounds:
    items = list(items)
    least = [parse_quantities(item.min)[name] for item in items if name in item.min]
    most = [parse_quantities(item.max)[name] for item in items if name in item.max]
    ratios = (item.max_limit_request_ratio for item in items)
    ratio = [parse_quantities(each)[name] for each in ratios if name in each]
    return _Bounds(max(least, default=None), min(most, default=None), min(ratio, default=None))


def _fitted(asked: _Asked, bounds: _Bounds, resource: str) -> _Asked:
    """Within the bounds: no more than the most, then no less than the least, then the request nearer to the limit."""
    request, limit = asked
    if bounds.most is not None:
        request, limit = (amount and min(amount, bounds.most) for amount in asked)
    if bounds.least is not None:
        request = max(request or ZERO, bounds.least)
    if request is not None and limit is not None:
        limit = max(limit, request)
        if bounds.ratio is not None and bounds.ratio > ZERO:
            request = max(request, _share(limit, bounds.ratio, resource))
    return _Asked(request, limit)


def _share(limit: Quantity, ratio: Quantity, resource: str) -> Quantity:
    """The least request that the ratio leaves."""
    if resource == "cpu":
        return Quantity(-(-limit.milli_value() * 1000 // ratio.milli_value()), MILLI)
    return Quantity(-(-limit.value() * 1000 // ratio.milli_value()), 0, limit.format)


def _fit_pod(containers: list[dict[str, Quantities]], item: LimitRangeItem) -> None:
    """The sums of a pod within its bounds: the largest container gives up, or gets, what they are beyond these."""
    for name, most in parse_quantities(item.max).items():
        for amounts in containers:
            if name in amounts[REQUESTS]:
                amounts[LIMITS].setdefault(name, amounts[REQUESTS][name])
        for part in reversed(PARTS):
            over = _sum(containers, part, name).sub(most)
            largest = max(containers, key=partial(_amount, part, name))
            if over > ZERO and _amount(part, name, largest) > over:
                largest[part][name] = largest[part][name].sub(over)
        for amounts in containers:
            if name in amounts[REQUESTS] and name in amounts[LIMITS]:
                amounts[REQUESTS][name] = min(amounts[REQUESTS][name], amounts[LIMITS][name])
    for name, least in parse_quantities(item.min).items():
        lacking = least.sub(_sum(containers, REQUESTS, name))
        if lacking > ZERO:
            largest = max(containers, key=partial(_amount, REQUESTS, name))
            largest[REQUESTS][name] = _amount(REQUESTS, name, largest).add(lacking)
            if name in largest[LIMITS]:
                largest[LIMITS][name] = max(largest[LIMITS][name], largest[REQUESTS][name])


def _amount(part: str, name: str, amounts: Mapping[str, Quantities]) -> Quantity:
    return amounts[part].get(name, ZERO)


def _sum(containers: Iterable[Mapping[str, Quantities]], part: str, name: str) -> Quantity:
    total = ZERO
    for amounts in containers:
        total = total.add(_amount(part, name, amounts))
    return total


def _differences(
    before: Mapping[str, Mapping[str, Quantities]], after: Mapping[str, Mapping[str, Quantities]]
) -> Iterator[Amount]:
    for name, amounts in after.items():
        of = f" in container {name}" if len(after) > 1 else ""
        for part in PARTS:
            for resource, amount in sorted(amounts[part].items()):
                old = before[name][part].get(resource)
                if amount != old:
                    instead = f" instead of {old}" if old is not None else ""
                    said = f"request {amount} {resource}" if part == REQUESTS else f"limit {resource} to {amount}"
                    yield Amount(name, part, resource, str(amount), f"{said}{instead}{of}")
