"""Fixes that change what a ResourceClaim requests: fewer devices, another DeviceClass, or fewer conditions."""

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
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.device_claims import SpecChange, change_claim_spec, find_claim, find_claim_name
from kschedctl.fixes.ways.missing_objects import NEAR
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
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


def change_requests(tried: TriedNode, fact: DevicesUnfit) -> Iterator[Fix]:
    """Yield changes of the requests that the node's devices cannot fill."""
    for request in fact.requests:
        claim = _find_own_claim(tried, request)
        if claim is None or any(device_request.device_class_name for device_request in claim.spec.devices.requests):
            continue  # the extended resources of the pod, or a claim of resource.k8s.io/v1beta1, where fields differ
        yield from _request_fewer(tried, claim, request, fact.together)
        for fault in request.faults:
            yield from _fix_fault(tried, claim, request, fault)
        yield from _use_other_classes(tried, claim, request.request)
        yield from _drop_request(tried, claim, request.request)
        if fact.together:
            yield from _drop_constraints(tried, claim)


def _find_own_claim(tried: TriedNode, request: RequestedDevices) -> ResourceClaim | None:
    """Return the claim of a request if the pod refers to it, or None."""
    name = request.claim.rpartition("/")[2]
    names = {find_claim_name(tried.trial.pod, reference) for reference in tried.trial.pod.spec.resource_claims}
    return find_claim(tried, name) if name in names else None


# -- how many --------------------------------------------------------------------------------------------------------


def _request_fewer(tried: TriedNode, claim: ResourceClaim, request: RequestedDevices, together: bool) -> Iterator[Fix]:
    """Yield the fix that requests only as many devices as are free, or one fewer if the requests conflict."""
    wanted = request.wanted
    count = request.free if wanted is None or not together else wanted - 1
    if count <= 0 or count == wanted:
        return
    before = "all" if wanted is None else str(wanted)
    yield change_claim_spec(
        tried,
        claim,
        _change_request(request.request, lambda asked: replace(asked, allocation_mode="ExactCount", count=count)),
        kind=FixKind.FEWER_DEVICES,
        target=(request.request, count),
        what=f", asking for {count} device{'s' * (count > 1)} instead of {before} (request {request.request})",
        cost=FEWER,
    )


# -- which -----------------------------------------------------------------------------------------------------------


def _fix_fault(tried: TriedNode, claim: ResourceClaim, request: RequestedDevices, fault: DeviceFault) -> Iterator[Fix]:
    """Yield changes that make the request accept the devices with this fault."""
    name = request.request
    match fault.reason:
        case "NotSelected" | "SelectorFails" if fault.source.startswith(OF_CLAIM):
            yield _drop_selector(tried, claim, name, fault.expression)
        case "Tainted":
            yield _tolerate_taint(tried, claim, name, fault.what)
        case "WithoutCapacity":
            what = f", without its capacity (request {name})"
            change = _change_request(name, lambda asked: replace(asked, capacity=None))
            yield change_claim_spec(
                tried, claim, change, kind=FixKind.DROP_DEVICE_CAPACITY, target=name, what=what, cost=DROP
            )
        case "WithoutAttribute":
            yield from _drop_constraints(tried, claim, fault.what)


def _drop_selector(tried: TriedNode, claim: ResourceClaim, name: str, expression: str) -> Fix:
    """Build the fix that drops a CEL selector from the request."""

    def change(asked: AskedT) -> AskedT:
        left = tuple(
            selector for selector in asked.selectors if selector.cel is None or selector.cel.expression != expression
        )
        return replace(asked, selectors=left)

    what = f", without the condition {expression} (request {name})"
    target = name, expression
    return change_claim_spec(
        tried,
        claim,
        _change_request(name, change),
        kind=FixKind.DROP_DEVICE_SELECTOR,
        target=target,
        what=what,
        cost=DROP,
    )


def _tolerate_taint(tried: TriedNode, claim: ResourceClaim, name: str, taint: str) -> Fix:
    """Build the fix that makes the request tolerate a device taint."""
    key = taint.partition(":")[0].partition("=")[0]

    def change(asked: AskedT) -> AskedT:
        return replace(asked, tolerations=(*asked.tolerations, DeviceToleration(key, "Exists")))

    return change_claim_spec(
        tried,
        claim,
        _change_request(name, change),
        kind=FixKind.TOLERATE_DEVICE_TAINT,
        target=(name, key),
        what=f", tolerating the taint {taint} of devices (request {name})",
        cost=TOLERATE,
        weakens="the pod may get devices that are tainted",
    )


def _drop_request(tried: TriedNode, claim: ResourceClaim, name: str) -> Iterator[Fix]:
    """Yield the fix that drops the request, unless it is the only one or a constraint names it."""
    outer = name.partition("/")[0]
    devices = claim.spec.devices
    named = {request.partition("/")[0] for constraint in devices.constraints for request in constraint.requests}
    if len(devices.requests) < 2 or outer in named:
        return

    def change(known: DeviceClaim) -> DeviceClaim:
        return replace(known, requests=tuple(request for request in known.requests if request.name != outer))

    yield change_claim_spec(
        tried,
        claim,
        change,
        kind=FixKind.DROP_DEVICE_REQUEST,
        target=outer,
        what=f", without request {outer}",
        cost=DROP_REQUEST,
        weakens=f"the pod runs without the devices of request {outer}",
    )


def _drop_constraints(tried: TriedNode, claim: ResourceClaim, attribute: str = "") -> Iterator[Fix]:
    """Yield a fix for each constraint to drop, restricted to those on `attribute` if given."""
    for constraint in claim.spec.devices.constraints:
        about = constraint.match_attribute or constraint.distinct_attribute or ""
        if attribute in ("", about):
            alike = "the same" if constraint.match_attribute else "another"
            target, what = (about, constraint.requests), f", without the constraint that devices have {alike} {about}"
            change = _without_constraint(constraint)
            yield change_claim_spec(
                tried, claim, change, kind=FixKind.DROP_DEVICE_CONSTRAINT, target=target, what=what, cost=DROP
            )


def _without_constraint(constraint: DeviceConstraint) -> SpecChange:
    """Return a change that drops the constraint."""
    return lambda known: replace(known, constraints=tuple(other for other in known.constraints if other != constraint))


def _use_other_classes(tried: TriedNode, claim: ResourceClaim, request: str) -> Iterator[Fix]:
    """Yield fixes that request another of the cluster's DeviceClasses."""
    own = _find_class_name(claim, request)
    names = [class_.metadata.name for class_ in tried.cycle.view.cluster.device_classes]
    for name in [name for name in names if name != own][:MOST]:
        yield _use_class(tried, claim, request, name, cost=OTHER_CLASS)


def _use_class(
    tried: TriedNode,
    claim: ResourceClaim,
    request: str,
    name: str,
    *,
    cost: int,
    kind: FixKind = FixKind.OTHER_DEVICE_CLASS,
    price: Price | None = None,
) -> Fix:
    """Build the fix that requests devices of another class."""
    what = f" with device class {name} instead of {_find_class_name(claim, request)} (request {request})"
    change = _change_request(request, lambda asked: replace(asked, device_class_name=name))
    where = f"class {name}"
    return change_claim_spec(
        tried, claim, change, kind=kind, target=(request, name), what=what, cost=cost, where=where, price=price
    )


def _find_class_name(claim: ResourceClaim, name: str) -> str:
    """Return the class of the request with that name, or an empty string."""
    return next((asked.device_class_name for full, asked in _iter_requests(claim) if full == name), "")


def _iter_requests(claim: ResourceClaim) -> Iterator[tuple[str, Asked]]:
    """Yield the full name and the content of each request, or of each of its alternatives."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative


def _change_request(name: str, change: AskedChange) -> SpecChange:
    """Return a change of a claim's spec that applies `change` to the request of that name."""

    def of_request(request: DeviceRequest) -> DeviceRequest:
        exactly = change(request.exactly) if request.exactly is not None and request.name == name else request.exactly
        alternatives = tuple(
            change(subrequest) if f"{request.name}/{subrequest.name}" == name else subrequest
            for subrequest in request.first_available
        )
        return replace(request, exactly=exactly, first_available=alternatives)

    return lambda known: replace(known, requests=tuple(map(of_request, known.requests)))


# -- classes that are not there --------------------------------------------------------------------------------------


def fix_missing_class(tried: TriedNode) -> Iterator[Fix]:
    """Yield fixes for the first DeviceClass that a claim of the pod requests and that does not exist."""
    known = {class_.metadata.name for class_ in tried.cycle.view.cluster.device_classes}
    for reference in tried.trial.pod.spec.resource_claims:
        name = find_claim_name(tried.trial.pod, reference)
        claim = find_claim(tried, name) if name else None
        for request, asked in _iter_requests(claim) if claim is not None and claim.status.allocation is None else ():
            if claim is not None and asked.device_class_name not in known:
                yield from _fix_class(tried, claim, request, asked.device_class_name)
                return


def _fix_class(tried: TriedNode, claim: ResourceClaim, request: str, missing: str) -> Iterator[Fix]:
    """Yield fixes that use an existing class instead of the missing one, or create the class for a known driver."""
    names = [class_.metadata.name for class_ in tried.cycle.view.cluster.device_classes]
    near = get_close_matches(missing, names, n=2, cutoff=NEAR)
    for right in near:
        yield _use_class(tried, claim, request, right, cost=CORRECT, kind=FixKind.CORRECT_DEVICE_CLASS)
    for other in [name for name in names if name not in near][:MOST]:
        yield _use_class(tried, claim, request, other, cost=OTHER_CLASS, price=Price.CORRECTION)
    drivers = dict.fromkeys(slice_.spec.driver for slice_ in tried.cycle.view.cluster.resource_slices)
    for place, driver in enumerate(list(drivers)[:MOST]):
        selector = DeviceSelector(CELDeviceSelector(f'device.driver == "{driver}"'))
        new = DeviceClass(ObjectMeta(missing), DeviceClassSpec((selector,)))
        text = f"create DeviceClass {missing} for the devices of driver {driver}"
        command = kubectl.render_apply(kubectl.build_manifest(ObjectKey.of(new), new))
        target, cost = (missing, driver), CREATE_CLASS + place
        yield Fix(
            FixKind.CREATE_DEVICE_CLASS,
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
