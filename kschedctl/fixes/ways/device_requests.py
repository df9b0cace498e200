"""Requests for devices: fewer, of another class, with fewer conditions; what is asked, in another form."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Protocol, TypeVar

from msgspec.structs import replace

from kschedctl.api.objects import (
    CELDeviceSelector,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ObjectMeta,
    ResourceClaim,
)
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.device_claims import SpecChange, asking, found, named
from kschedctl.fixes.ways.missing_objects import NEAR
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.dynamic_resources.facts import DeviceFault, DevicesUnfit, RequestedDevices

CORRECT, CREATE_CLASS, FEWER, OTHER_CLASS, TOLERATE, DROP, DROP_REQUEST = 10, 25, 30, 35, 40, 45, 55
MOST = 4
OF_CLAIM = "claim "
"""How the source of a selector begins that the claim itself has."""
Asked = ExactDeviceRequest | DeviceSubRequest
AskedT = TypeVar("AskedT", ExactDeviceRequest, DeviceSubRequest)


class AskedChange(Protocol):
    """What is asked for in another form, of the same kind."""

    def __call__(self, asked: AskedT) -> AskedT: ...


def fewer_or_others(tried: TriedNode, fact: DevicesUnfit) -> Iterator[Fix]:
    """What could be asked instead by the requests that the node's devices do not fill."""
    for request in fact.requests:
        claim = _claim(tried, request)
        if claim is None or any(device_request.device_class_name for device_request in claim.spec.devices.requests):
            continue  # the extended resources of the pod, or a claim of resource.k8s.io/v1beta1, where fields differ
        yield from _fewer(tried, claim, request, fact.together)
        for fault in request.faults:
            yield from _against(tried, claim, request, fault)
        yield from _other_classes(tried, claim, request.request)
        yield from _without_request(tried, claim, request.request)
        if fact.together:
            yield from _without_constraints(tried, claim)


def _claim(tried: TriedNode, request: RequestedDevices) -> ResourceClaim | None:
    """The claim of a request, if it is the pod's own."""
    name = request.claim.rpartition("/")[2]
    names = {named(tried.trial.pod, reference) for reference in tried.trial.pod.spec.resource_claims}
    return found(tried, name) if name in names else None


# -- how many --------------------------------------------------------------------------------------------------------


def _fewer(tried: TriedNode, claim: ResourceClaim, request: RequestedDevices, together: bool) -> Iterator[Fix]:
    """As many as are free; where all requests together are too many, one fewer of each."""
    wanted = request.wanted
    count = request.free if wanted is None or not together else wanted - 1
    if count <= 0 or count == wanted:
        return
    before = "all" if wanted is None else str(wanted)
    yield asking(
        tried,
        claim,
        _in_request(request.request, lambda asked: replace(asked, allocation_mode="ExactCount", count=count)),
        kind="FewerDevices",
        target=(request.request, count),
        what=f", asking for {count} device{'s' * (count > 1)} instead of {before} (request {request.request})",
        cost=FEWER,
    )


# -- which -----------------------------------------------------------------------------------------------------------


def _against(tried: TriedNode, claim: ResourceClaim, request: RequestedDevices, fault: DeviceFault) -> Iterator[Fix]:
    """What is asked of devices that these do not have."""
    name = request.request
    match fault.reason:
        case "NotSelected" | "SelectorFails" if fault.source.startswith(OF_CLAIM):
            yield _unconditional(tried, claim, name, fault.expression)
        case "Tainted":
            yield _tolerant(tried, claim, name, fault.what)
        case "WithoutCapacity":
            what = f", without its capacity (request {name})"
            change = _in_request(name, lambda asked: replace(asked, capacity=None))
            yield asking(tried, claim, change, kind="DropDeviceCapacity", target=name, what=what, cost=DROP)
        case "WithoutAttribute":
            yield from _without_constraints(tried, claim, fault.what)


def _unconditional(tried: TriedNode, claim: ResourceClaim, name: str, expression: str) -> Fix:
    def change(asked: AskedT) -> AskedT:
        left = tuple(
            selector for selector in asked.selectors if selector.cel is None or selector.cel.expression != expression
        )
        return replace(asked, selectors=left)

    what = f", without the condition {expression} (request {name})"
    target = name, expression
    return asking(
        tried, claim, _in_request(name, change), kind="DropDeviceSelector", target=target, what=what, cost=DROP
    )


def _tolerant(tried: TriedNode, claim: ResourceClaim, name: str, taint: str) -> Fix:
    key = taint.partition(":")[0].partition("=")[0]

    def change(asked: AskedT) -> AskedT:
        return replace(asked, tolerations=(*asked.tolerations, DeviceToleration(key, "Exists")))

    return asking(
        tried,
        claim,
        _in_request(name, change),
        kind="TolerateDeviceTaint",
        target=(name, key),
        what=f", tolerating the taint {taint} of devices (request {name})",
        cost=TOLERATE,
        weakens="the pod may get devices that are tainted",
    )


def _without_request(tried: TriedNode, claim: ResourceClaim, name: str) -> Iterator[Fix]:
    """A claim of several requests without this one; one that constraints name stays."""
    outer = name.partition("/")[0]
    devices = claim.spec.devices
    named = {request.partition("/")[0] for constraint in devices.constraints for request in constraint.requests}
    if len(devices.requests) < 2 or outer in named:
        return

    def change(known: DeviceClaim) -> DeviceClaim:
        return replace(known, requests=tuple(request for request in known.requests if request.name != outer))

    yield asking(
        tried,
        claim,
        change,
        kind="DropDeviceRequest",
        target=outer,
        what=f", without request {outer}",
        cost=DROP_REQUEST,
        weakens=f"the pod runs without the devices of request {outer}",
    )


def _without_constraints(tried: TriedNode, claim: ResourceClaim, attribute: str = "") -> Iterator[Fix]:
    """One of the claim's constraints left out, those on one attribute if one is given."""
    for constraint in claim.spec.devices.constraints:
        about = constraint.match_attribute or constraint.distinct_attribute or ""
        if attribute in ("", about):
            alike = "the same" if constraint.match_attribute else "another"
            target, what = (about, constraint.requests), f", without the constraint that devices have {alike} {about}"
            change = _unconstrained(constraint)
            yield asking(tried, claim, change, kind="DropDeviceConstraint", target=target, what=what, cost=DROP)


def _unconstrained(constraint: DeviceConstraint) -> SpecChange:
    return lambda known: replace(known, constraints=tuple(other for other in known.constraints if other != constraint))


def _other_classes(tried: TriedNode, claim: ResourceClaim, request: str) -> Iterator[Fix]:
    own = _class_of(claim, request)
    names = [class_.metadata.name for class_ in tried.cycle.view.cluster.device_classes]
    for name in [name for name in names if name != own][:MOST]:
        yield _of_class(tried, claim, request, name, cost=OTHER_CLASS)


def _of_class(
    tried: TriedNode,
    claim: ResourceClaim,
    request: str,
    name: str,
    *,
    cost: int,
    kind: str = "OtherDeviceClass",
    price: Price | None = None,
) -> Fix:
    what = f" with device class {name} instead of {_class_of(claim, request)} (request {request})"
    change = _in_request(request, lambda asked: replace(asked, device_class_name=name))
    where = f"class {name}"
    return asking(
        tried, claim, change, kind=kind, target=(request, name), what=what, cost=cost, where=where, price=price
    )


def _class_of(claim: ResourceClaim, name: str) -> str:
    return next((asked.device_class_name for full, asked in _asked(claim) if full == name), "")


def _asked(claim: ResourceClaim) -> Iterator[tuple[str, Asked]]:
    """The full name of each request, or of each of its alternatives, and what it asks for."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative


def _in_request(name: str, change: AskedChange) -> SpecChange:
    """A claim's devices with one request, or one of its alternatives, in another form."""

    def of_request(request: DeviceRequest) -> DeviceRequest:
        exactly = change(request.exactly) if request.exactly is not None and request.name == name else request.exactly
        alternatives = tuple(
            change(subrequest) if f"{request.name}/{subrequest.name}" == name else subrequest
            for subrequest in request.first_available
        )
        return replace(request, exactly=exactly, first_available=alternatives)

    return lambda known: replace(known, requests=tuple(map(of_request, known.requests)))


# -- classes that are not there --------------------------------------------------------------------------------------


def classes(tried: TriedNode) -> Iterator[Fix]:
    """The first class that a claim of the pod asks for and that is not there: another one, or the class itself."""
    known = {class_.metadata.name for class_ in tried.cycle.view.cluster.device_classes}
    for reference in tried.trial.pod.spec.resource_claims:
        name = named(tried.trial.pod, reference)
        claim = found(tried, name) if name else None
        for request, asked in _asked(claim) if claim is not None and claim.status.allocation is None else ():
            if claim is not None and asked.device_class_name not in known:
                yield from _for_missing(tried, claim, request, asked.device_class_name)
                return


def _for_missing(tried: TriedNode, claim: ResourceClaim, request: str, missing: str) -> Iterator[Fix]:
    names = [class_.metadata.name for class_ in tried.cycle.view.cluster.device_classes]
    near = get_close_matches(missing, names, n=2, cutoff=NEAR)
    for right in near:
        yield _of_class(tried, claim, request, right, cost=CORRECT, kind="CorrectDeviceClass")
    for other in [name for name in names if name not in near][:MOST]:
        yield _of_class(tried, claim, request, other, cost=OTHER_CLASS, price=Price.CORRECTION)
    drivers = dict.fromkeys(slice_.spec.driver for slice_ in tried.cycle.view.cluster.resource_slices)
    for place, driver in enumerate(list(drivers)[:MOST]):
        selector = DeviceSelector(CELDeviceSelector(f'device.driver == "{driver}"'))
        new = DeviceClass(ObjectMeta(missing), DeviceClassSpec((selector,)))
        text = f"create DeviceClass {missing} for the devices of driver {driver}"
        command = kubectl.render_apply(kubectl.build_manifest(ObjectKey.of(new), new))
        target, cost = (missing, driver), CREATE_CLASS + place
        yield Fix(
            "CreateDeviceClass",
            target,
            text,
            "operator",
            (_creation(new),),
            cost,
            "",
            (command,),
            missing,
            f"driver {driver}",
        )


def _creation(new: DeviceClass) -> ObjectEdit:
    return ObjectEdit(ObjectKey.of(new), lambda _: new)
