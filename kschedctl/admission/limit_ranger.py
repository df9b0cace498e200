"""The admission plugin LimitRanger: defaults for containers, and bounds for containers, pods and claims.

Upstream: plugin/pkg/admission/limitranger/admission.go, pkg/apis/core/v1/defaults.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.admission.defaults import set_pod_level_requests
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.copying import replace
from kschedctl.api.objects import LimitRange, LimitRangeItem, Resources
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import INT64_MAX, Quantity

ANNOTATION = "kubernetes.io/limit-ranger"
CONTAINER_TYPE, POD_TYPE, CLAIM_TYPE = "Container", "Pod", "PersistentVolumeClaim"
MAX_MILLI = INT64_MAX // 1000


def with_api_defaults(limit_range: LimitRange) -> LimitRange:
    """Return the LimitRange with the defaults that the API server adds to its items for containers.

    Missing default limits are set to the maxima. Missing default requests are set to the default limits or, without
    these, to the minima.
    """
    items = tuple(
        _apply_api_defaults(item) if item.type == CONTAINER_TYPE else item for item in limit_range.spec.limits
    )
    return replace(limit_range, spec=replace(limit_range.spec, limits=items))


def _apply_api_defaults(item: LimitRangeItem) -> LimitRangeItem:
    """Return the item for containers with its default limits and default requests completed."""
    limits = {**item.max, **item.default}
    return replace(item, default=limits, default_request={**item.min, **limits, **item.default_request})


def have_different_container_defaults(ranges: Sequence[LimitRange]) -> bool:
    """Return whether any two LimitRanges have different defaults for containers.

    The order of the LimitRanges matters only if their defaults differ.
    """
    first_amounts: dict[tuple[str, str], str | int | float] = {}
    for limit_range in ranges:
        for default in _iter_container_defaults(limit_range):
            first_amount = first_amounts.setdefault((default.part, default.resource), default.amount)
            if first_amount != default.amount:
                return True
    return False


class _ContainerDefault(NamedTuple):
    """A default request or limit for containers."""

    part: str
    """``requests`` or ``limits``."""
    resource: str
    amount: str | int | float


def _iter_container_defaults(limit_range: LimitRange) -> Iterator[_ContainerDefault]:
    """Yield the default limits and requests that a LimitRange has for containers."""
    for item in limit_range.spec.limits:
        if item.type == CONTAINER_TYPE:
            for part, amounts in (("limits", item.default), ("requests", item.default_request)):
                for resource, amount in amounts.items():
                    yield _ContainerDefault(part, resource, amount)


def add_default_resources(request: AdmissionRequest) -> None:
    """Add the default requests and limits of all LimitRanges to the containers of a pod in place.

    The added amounts are recorded in the request and in an annotation of the pod. If there is any LimitRange, missing
    pod-level requests are set afterwards. An object that is not a pod stays unchanged.
    """
    if not request.is_pod:
        return
    for limit_range in request.limit_ranges:
        changes = _add_defaults_of_limit_range(request, limit_range)
        if changes:
            request.annotate(
                ANNOTATION, f"LimitRanger plugin set: {'; '.join(change.annotation for change in changes)}"
            )
            amounts = {name: amount for change in changes for name, amount in change.amounts.items()}
            defaults = ", ".join(f"{name} {amount}" for name, amount in amounts.items())
            description = f"{defaults} by LimitRange {request.namespace}/{limit_range.metadata.name}"
            request.changed.append(description)
            request.resource_defaults.append(description)
    if request.limit_ranges:
        set_pod_level_requests(request)


class _AddedDefaults(NamedTuple):
    """The defaults that a container got for its requests or limits."""

    annotation: str
    """The text in upstream's annotation."""
    amounts: Resources


def _add_defaults_of_limit_range(request: AdmissionRequest, limit_range: LimitRange) -> list[_AddedDefaults]:
    """Add the defaults of one LimitRange to the containers of a pod in place, and return what was added."""
    limits: Resources = {}
    requests: Resources = {}
    for item in limit_range.spec.limits:
        if item.type == CONTAINER_TYPE:
            limits, requests = {**limits, **item.default}, {**requests, **item.default_request}

    titled_containers = [(f"container {container.get('name', '')}", container) for container in request.containers]
    titled_containers += [
        (f"init container {container.get('name', '')}", container) for container in request.init_containers
    ]
    all_added = []
    for container_title, container in titled_containers:
        resources = container.setdefault("resources", {})
        for part, noun, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
            added = sorted(_add_missing_defaults(resources, part, defaults))
            if added:
                annotation = f"{', '.join(added)} {noun} for {container_title}"
                amounts = {f"{part}.{name}": defaults[name] for name in added}
                all_added.append(_AddedDefaults(annotation, amounts))
    return all_added


def _add_missing_defaults(resources: Writable, part: str, defaults: Resources) -> list[str]:
    """Add missing defaults to the requests or limits in place, and return the names of the added resources.

    ``part`` is ``requests`` or ``limits``.
    """
    existing = resources.get(part) or {}
    missing_names = [name for name in defaults if name not in existing]
    if missing_names:
        resources[part] = {**existing, **{name: defaults[name] for name in missing_names}}
    return missing_names


def check_limit_range_bounds(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the object breaks bounds of a LimitRange.

    The error lists all breaches of the first LimitRange that has any.
    """
    for limit_range in request.limit_ranges:
        messages = list(dict.fromkeys(_iter_breach_messages(request, limit_range)))
        if len(messages) == 1:
            raise request.build_denial_error(messages[0])
        if messages:
            raise request.build_denial_error(f"[{', '.join(messages)}]")


class Breach(NamedTuple):
    """A violation of a bound."""

    part: str
    """``requests`` or ``limits``."""
    name: str
    """The resource."""
    message: str
    """The API server's message."""


def _iter_breach_messages(request: AdmissionRequest, limit_range: LimitRange) -> Iterator[str]:
    """Yield the messages about the object's violations of a LimitRange."""
    for item in limit_range.spec.limits:
        for breach in _iter_object_breaches(request, item):
            yield breach.message


def _iter_object_breaches(request: AdmissionRequest, item: LimitRangeItem) -> Iterator[Breach]:
    """Yield the bounds of a LimitRange item that the request's pod, its containers or the request's claim break."""
    if request.is_pod and item.type == CONTAINER_TYPE:
        for container in (*request.containers, *request.init_containers):
            resources = container.get("resources") or {}
            requests = parse_quantities(resources.get("requests") or {})
            limits = parse_quantities(resources.get("limits") or {})
            yield from iter_limit_range_breaches(item, requests, limits)
    elif request.is_pod and item.type == POD_TYPE:
        requests, limits = request.sum_pod_resources(overhead=False)
        yield from iter_limit_range_breaches(item, requests, limits)
    elif request.kind == "PersistentVolumeClaim" and item.type == CLAIM_TYPE:
        resources = request.spec.get("resources") or {}
        yield from iter_claim_breaches(item, parse_quantities(resources.get("requests") or {}))


def iter_limit_range_breaches(item: LimitRangeItem, requests: Quantities, limits: Quantities) -> Iterator[Breach]:
    """Yield the bounds of a LimitRange item that the requests and limits of a container or pod break."""
    for name, minimum in parse_quantities(item.min).items():
        yield from _iter_minimum_breaches(
            _BoundedAmount(item.type, name, requests.get(name), limit=limits.get(name), bound=minimum)
        )
    for name, maximum in parse_quantities(item.max).items():
        yield from _iter_maximum_breaches(
            _BoundedAmount(item.type, name, requests.get(name), limit=limits.get(name), bound=maximum)
        )
    for name, ratio in parse_quantities(item.max_limit_request_ratio).items():
        yield from _iter_ratio_breaches(
            _BoundedAmount(item.type, name, requests.get(name), limit=limits.get(name), bound=ratio)
        )


class _CommonUnitAmounts(NamedTuple):
    """The amounts of a _BoundedAmount as numbers in the same unit."""

    request: int
    limit: int
    bound: int


class _BoundedAmount(NamedTuple):
    """A resource's request and limit, and a bound on them."""

    type: str
    name: str
    request: Quantity | None
    limit: Quantity | None
    bound: Quantity

    def build_breach(self, part: str, message: str) -> Breach:
        """Build the violation of this bound in ``part`` of the resources, with its message."""
        return Breach(part, self.name, message)

    def convert_to_common_unit(self) -> _CommonUnitAmounts:
        """Return request, limit and bound in thousandths, or in units if thousandths would overflow an int64.

        A missing request or limit counts as 0.
        """
        amounts = [amount or _ZERO for amount in (self.request, self.limit, self.bound)]
        fits_milli = all(amount.value() <= MAX_MILLI for amount in amounts)
        return _CommonUnitAmounts(*(amount.milli_value() if fits_milli else amount.value() for amount in amounts))


_ZERO = Quantity(0)


def _iter_minimum_breaches(amount: _BoundedAmount) -> Iterator[Breach]:
    """Yield a breach if the request is missing or below the minimum, or if the limit is below the minimum."""
    numbers = amount.convert_to_common_unit()
    message = f"minimum {amount.name} usage per {amount.type} is {amount.bound}"
    if amount.request is None:
        yield amount.build_breach("requests", f"{message}.  No request is specified")
    elif numbers.request < numbers.bound:
        yield amount.build_breach("requests", f"{message}, but request is {amount.request}")
    elif amount.limit is not None and numbers.limit < numbers.bound:
        yield amount.build_breach("limits", f"{message}, but limit is {amount.limit}")


def _iter_maximum_breaches(amount: _BoundedAmount) -> Iterator[Breach]:
    """Yield a breach if the limit is missing or above the maximum, or if the request is above the maximum."""
    numbers = amount.convert_to_common_unit()
    message = f"maximum {amount.name} usage per {amount.type} is {amount.bound}"
    if amount.limit is None:
        yield amount.build_breach("limits", f"{message}.  No limit is specified")
    elif numbers.limit > numbers.bound:
        yield amount.build_breach("limits", f"{message}, but limit is {amount.limit}")
    elif amount.request is not None and numbers.request > numbers.bound:
        yield amount.build_breach("requests", f"{message}, but request is {amount.request}")


def _iter_ratio_breaches(amount: _BoundedAmount) -> Iterator[Breach]:
    """Yield a breach if the request or limit is missing or 0, or if their ratio is above the maximum."""
    numbers = amount.convert_to_common_unit()
    message = f"{amount.name} max limit to request ratio per {amount.type} is {amount.bound}, but"
    if not numbers.request:
        yield amount.build_breach("requests", f"{message} no request is specified or request is 0")
    elif not numbers.limit:
        yield amount.build_breach("limits", f"{message} no limit is specified or limit is 0")
    else:
        ratio = numbers.limit / numbers.request
        # Like upstream, compare in thousandths unless the bound would overflow an int64
        if amount.bound.value() <= MAX_MILLI:
            is_exceeded = ratio * 1000 > float(amount.bound.milli_value())
        else:
            is_exceeded = ratio > float(amount.bound.value())
        if is_exceeded:
            yield amount.build_breach("limits", f"{message} provided ratio is {ratio:f}")


def iter_claim_breaches(item: LimitRangeItem, requests: Mapping[str, Quantity]) -> Iterator[Breach]:
    """Yield a breach for each minimum and maximum of a LimitRange item that a claim's requests violate."""
    for name, minimum in parse_quantities(item.min).items():
        yield from _iter_minimum_breaches(
            _BoundedAmount(item.type, name, requests.get(name), limit=None, bound=minimum)
        )
    for name, maximum in parse_quantities(item.max).items():
        yield from _iter_maximum_request_breaches(
            _BoundedAmount(item.type, name, requests.get(name), limit=None, bound=maximum)
        )


def _iter_maximum_request_breaches(amount: _BoundedAmount) -> Iterator[Breach]:
    """Yield a breach if a claim's request is missing or above the maximum. Limits of claims are not compared."""
    numbers = amount.convert_to_common_unit()
    message = f"maximum {amount.name} usage per {amount.type} is {amount.bound}"
    if amount.request is None:
        yield amount.build_breach("requests", f"{message}.  No request is specified")
    elif numbers.request > numbers.bound:
        yield amount.build_breach("requests", f"{message}, but request is {amount.request}")
