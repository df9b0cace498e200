"""LimitRanges: defaults for containers, and bounds for containers, pods and claims.

Upstream: plugin/pkg/admission/limitranger/admission.go, pkg/apis/core/v1/defaults.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.admission.defaults import pod_level_requests
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.copying import replace
from kschedctl.api.objects import LimitRange, LimitRangeItem, Resources
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.quantity import INT64_MAX, Quantity

ANNOTATION = "kubernetes.io/limit-ranger"
OF_CONTAINER, OF_POD, OF_CLAIM = "Container", "Pod", "PersistentVolumeClaim"
MAX_MILLI = INT64_MAX // 1000


def stored(limit_range: LimitRange) -> LimitRange:
    """The LimitRange with what the API server fills in: a maximum is a default limit, a default limit a request."""
    items = tuple(_stored(item) if item.type == OF_CONTAINER else item for item in limit_range.spec.limits)
    return replace(limit_range, spec=replace(limit_range.spec, limits=items))


def _stored(item: LimitRangeItem) -> LimitRangeItem:
    limits = {**item.max, **item.default}
    return replace(item, default=limits, default_request={**item.min, **limits, **item.default_request})


def differ(ranges: Sequence[LimitRange]) -> bool:
    """Whether two of the LimitRanges have different defaults for containers, so that the first one decides."""
    known: dict[tuple[str, str], str | int | float] = {}
    pairs = (pair for limit_range in ranges for pair in _defaults(limit_range))
    return any(known.setdefault(of, amount) != amount for of, amount in pairs)


def _defaults(limit_range: LimitRange) -> Iterator[tuple[tuple[str, str], str | int | float]]:
    for item in limit_range.spec.limits:
        if item.type == OF_CONTAINER:
            for part, amounts in (("limits", item.default), ("requests", item.default_request)):
                yield from (((part, name), amount) for name, amount in amounts.items())


def fill_in(request: AdmissionRequest) -> None:
    """Defaults for the containers of a pod, of one LimitRange after the other."""
    if not request.is_pod:
        return
    for limit_range in request.limit_ranges:
        changes = list(_fill_in(request, limit_range))
        if changes:
            request.annotate(ANNOTATION, f"LimitRanger plugin set: {'; '.join(change.told for change in changes)}")
            amounts = {name: amount for change in changes for name, amount in change.amounts.items()}
            given = ", ".join(f"{name} {amount}" for name, amount in amounts.items())
            request.changed.append(f"{given} by LimitRange {request.namespace}/{limit_range.metadata.name}")
    if request.limit_ranges:
        pod_level_requests(request)


class _Filled(NamedTuple):
    """What a container got of its requests or limits, as upstream's annotation says it, and how much."""

    told: str
    amounts: Resources


def _fill_in(request: AdmissionRequest, limit_range: LimitRange) -> Iterator[_Filled]:
    limits: Resources = {}
    requests: Resources = {}
    for item in limit_range.spec.limits:
        if item.type == OF_CONTAINER:
            limits, requests = {**limits, **item.default}, {**requests, **item.default_request}
    for what, containers in (("container", request.containers), ("init container", request.init_containers)):
        for container in containers:
            resources = container.setdefault("resources", {})
            for part, defaults in (("requests", requests), ("limits", limits)):
                added = _merge(resources, part, defaults)
                if added:
                    words = f"{', '.join(sorted(added))} {part[:-1]} for {what} {container.get('name', '')}"
                    yield _Filled(words, {f"{part}.{name}": defaults[name] for name in sorted(added)})


def _merge(resources: Writable, part: str, defaults: Resources) -> list[str]:
    """The names of the defaults that were missing."""
    own = resources.get(part) or {}
    added = [name for name in defaults if name not in own]
    if added:
        resources[part] = {**own, **{name: defaults[name] for name in added}}
    return added


def check(request: AdmissionRequest) -> None:
    """Raises NotAdmittedError with all that one LimitRange has against the object."""
    for limit_range in request.limit_ranges:
        faults = list(dict.fromkeys(_faults(request, limit_range)))
        if faults:
            raise request.forbidden(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")


class Breach(NamedTuple):
    """What is against a bound, in the API server's words; ``part``: where it stands, ``requests`` or ``limits``."""

    part: str
    name: str
    message: str


def _faults(request: AdmissionRequest, limit_range: LimitRange) -> Iterator[str]:
    return (breach.message for item in limit_range.spec.limits for breach in _breaches(request, item))


def _breaches(request: AdmissionRequest, item: LimitRangeItem) -> Iterator[Breach]:
    if request.is_pod and item.type == OF_CONTAINER:
        for container in (*request.containers, *request.init_containers):
            resources = container.get("resources") or {}
            asked = parse_quantities(resources.get("requests") or {}), parse_quantities(resources.get("limits") or {})
            yield from breaches(item, *asked)
    elif request.is_pod and item.type == OF_POD:
        yield from breaches(item, *request.totals(overhead=False))
    elif request.kind == "PersistentVolumeClaim" and item.type == OF_CLAIM:
        yield from claim_breaches(item, parse_quantities((request.spec.get("resources") or {}).get("requests") or {}))


def breaches(item: LimitRangeItem, requests: Quantities, limits: Quantities) -> Iterator[Breach]:
    """What requests and limits of a container, or of a pod as a whole, have against the bounds for it."""
    for name, least in parse_quantities(item.min).items():
        yield from _least(_Asked(item.type, name, requests.get(name), limits.get(name), least))
    for name, most in parse_quantities(item.max).items():
        yield from _most(_Asked(item.type, name, requests.get(name), limits.get(name), most))
    for name, ratio in parse_quantities(item.max_limit_request_ratio).items():
        yield from _ratio(_Asked(item.type, name, requests.get(name), limits.get(name), ratio))


class _Asked(NamedTuple):
    """What is asked of a resource, and the bound on it."""

    type: str
    name: str
    request: Quantity | None
    limit: Quantity | None
    bound: Quantity

    def breach(self, part: str, message: str) -> Breach:
        return Breach(part, self.name, message)

    def amounts(self) -> tuple[int, int, int]:
        """AdmissionRequest, limit and bound, to the thousandth where that is not too much for an int64."""
        amounts = [amount or _ZERO for amount in (self.request, self.limit, self.bound)]
        fine = all(amount.value() <= MAX_MILLI for amount in amounts)
        request, limit, bound = (amount.milli_value() if fine else amount.value() for amount in amounts)
        return request, limit, bound


_ZERO = Quantity(0)


def _least(asked: _Asked) -> Iterator[Breach]:
    request, limit, bound = asked.amounts()
    said = f"minimum {asked.name} usage per {asked.type} is {asked.bound}"
    if asked.request is None:
        yield asked.breach("requests", f"{said}.  No request is specified")
    elif request < bound:
        yield asked.breach("requests", f"{said}, but request is {asked.request}")
    elif asked.limit is not None and limit < bound:
        yield asked.breach("limits", f"{said}, but limit is {asked.limit}")


def _most(asked: _Asked) -> Iterator[Breach]:
    request, limit, bound = asked.amounts()
    said = f"maximum {asked.name} usage per {asked.type} is {asked.bound}"
    if asked.limit is None:
        yield asked.breach("limits", f"{said}.  No limit is specified")
    elif limit > bound:
        yield asked.breach("limits", f"{said}, but limit is {asked.limit}")
    elif asked.request is not None and request > bound:
        yield asked.breach("requests", f"{said}, but request is {asked.request}")


def _ratio(asked: _Asked) -> Iterator[Breach]:
    request, limit, _ = asked.amounts()
    said = f"{asked.name} max limit to request ratio per {asked.type} is {asked.bound}, but"
    if not request:
        yield asked.breach("requests", f"{said} no request is specified or request is 0")
    elif not limit:
        yield asked.breach("limits", f"{said} no limit is specified or limit is 0")
    else:
        fine = asked.bound.value() <= MAX_MILLI
        ratio, most = limit / request, float(asked.bound.value())
        observed, most = (ratio * 1000, float(asked.bound.milli_value())) if fine else (ratio, most)
        if observed > most:
            yield asked.breach("limits", f"{said} provided ratio is {ratio:f}")


def claim_breaches(item: LimitRangeItem, requests: Mapping[str, Quantity]) -> Iterator[Breach]:
    """What a claim requests against the bounds for it."""
    for name, least in parse_quantities(item.min).items():
        yield from _least(_Asked(item.type, name, requests.get(name), None, least))
    for name, most in parse_quantities(item.max).items():
        asked = _Asked(item.type, name, requests.get(name), None, most)
        request, _, bound = asked.amounts()
        said = f"maximum {name} usage per {item.type} is {most}"
        if asked.request is None:
            yield asked.breach("requests", f"{said}.  No request is specified")
        elif request > bound:
            yield asked.breach("requests", f"{said}, but request is {asked.request}")
