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
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.fixes.ways.device_claims import SpecChange, build_spec_change_fix, find_claim_name, find_resource_claim
from kschedctl.fixes.ways.missing_objects import NAME_CUTOFF
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.plugins.dynamic_resources.facts import DeviceFault, DevicesUnfit, RequestedDevices
from kschedctl.text.counts import counted

CORRECT, CREATE_CLASS, FEWER, OTHER_CLASS, TOLERATE, DROP, DROP_REQUEST = 10, 25, 30, 35, 40, 45, 55
MOST_CLASSES = 4
"""The most DeviceClasses or drivers that are proposed for one request."""
AnyDeviceRequest = ExactDeviceRequest | DeviceSubRequest
"""A request itself, or one of its alternatives."""
DeviceRequestT = TypeVar("DeviceRequestT", ExactDeviceRequest, DeviceSubRequest)


class DeviceRequestChange(Protocol):
    """A change of a device request that keeps its type."""

    def __call__(self, request: DeviceRequestT, /) -> DeviceRequestT: ...


def iter_device_request_fixes(trial_node: TrialNode, fact: DevicesUnfit) -> Iterator[Fix]:
    """Yield fixes that change the device requests that the node cannot satisfy.

    The fixes request fewer devices, accept devices with the faults that were found, use another DeviceClass, or drop a
    request or constraint. Requests for extended resources and claims in the format of v1beta1 are skipped.
    """
    for request in fact.requests:
        claim = _find_claim_of_request(trial_node, request)
        if claim is None:
            continue  # the request is for the pod's extended resources
        if any(device_request.device_class_name for device_request in claim.spec.devices.requests):
            continue  # the claim is of resource.k8s.io/v1beta1, where the fields differ
        yield from _iter_fewer_devices_fixes(trial_node, claim, request, conflicting=fact.together)
        for fault in request.faults:
            yield from _iter_device_fault_fixes(trial_node, claim, request, fault)
        yield from _iter_other_device_class_fixes(trial_node, claim, request.request)
        yield from _iter_request_removal_fixes(trial_node, claim, request.request)
        if fact.together:
            yield from _iter_constraint_removal_fixes(trial_node, claim)


def _find_claim_of_request(trial_node: TrialNode, request: RequestedDevices) -> ResourceClaim | None:
    """Return the claim that contains a request, or None if no reference of the pod names the claim."""
    name = request.claim.rpartition("/")[2]
    names = {
        find_claim_name(trial_node.trial.pod, reference) for reference in trial_node.trial.pod.spec.resource_claims
    }
    return find_resource_claim(trial_node, name) if name in names else None


# -- how many --------------------------------------------------------------------------------------------------------


def _iter_fewer_devices_fixes(
    trial_node: TrialNode, claim: ResourceClaim, request: RequestedDevices, conflicting: bool
) -> Iterator[Fix]:
    """Yield the fix that requests as many devices as are free.

    If the claim's requests only fail together (`conflicting`), the fix requests one device fewer instead. There is no
    fix if no device would remain or the count would stay the same.
    """
    old_count = request.wanted  # None for all devices
    count = request.free
    if conflicting and old_count is not None:
        count = old_count - 1
    if count <= 0 or count == old_count:
        return

    def change(current: DeviceRequestT) -> DeviceRequestT:
        """Return the request for this number of devices."""
        return replace(current, allocation_mode="ExactCount", count=count)

    old_text = "all" if old_count is None else str(old_count)
    yield build_spec_change_fix(
        trial_node,
        claim,
        _build_claim_spec_change(request.request, change),
        kind=FixKind.FEWER_DEVICES,
        target=(request.request, count),
        text_end=f", requesting {counted(count, 'device')} instead of {old_text} (request {request.request})",
        cost=FEWER,
    )


# -- which -----------------------------------------------------------------------------------------------------------


def _iter_device_fault_fixes(
    trial_node: TrialNode, claim: ResourceClaim, request: RequestedDevices, fault: DeviceFault
) -> Iterator[Fix]:
    """Yield fixes that make the request accept devices with this fault.

    A fix drops a selector, a capacity or constraints on an attribute, or tolerates a taint. Nothing is yielded for
    faults that no change to the claim can resolve, such as an unmet selector of the DeviceClass.
    """
    name = request.request
    match fault.reason:
        case "NotSelected" | "SelectorFails" if not fault.of_class:
            yield _build_selector_removal_fix(trial_node, claim, name, fault.expression)
        case "Tainted":
            yield _build_toleration_fix(trial_node, claim, name, fault.what)
        case "WithoutCapacity":
            text_end = f", without the capacity that request {name} requires"
            change = _build_claim_spec_change(name, lambda device_request: replace(device_request, capacity=None))
            yield build_spec_change_fix(
                trial_node, claim, change, kind=FixKind.DROP_DEVICE_CAPACITY, target=name, text_end=text_end, cost=DROP
            )
        case "WithoutAttribute":
            yield from _iter_constraint_removal_fixes(trial_node, claim, fault.what)


def _build_selector_removal_fix(trial_node: TrialNode, claim: ResourceClaim, request_name: str, expression: str) -> Fix:
    """Build the fix that drops the CEL selector with this expression from the request."""

    def change(current: DeviceRequestT) -> DeviceRequestT:
        """Return the request without the selector."""
        remaining_selectors = tuple(
            selector for selector in current.selectors if selector.cel is None or selector.cel.expression != expression
        )
        return replace(current, selectors=remaining_selectors)

    text_end = f", without the selector {expression} (request {request_name})"
    target = request_name, expression
    return build_spec_change_fix(
        trial_node,
        claim,
        _build_claim_spec_change(request_name, change),
        kind=FixKind.DROP_DEVICE_SELECTOR,
        target=target,
        text_end=text_end,
        cost=DROP,
    )


def _build_toleration_fix(trial_node: TrialNode, claim: ResourceClaim, request_name: str, taint: str) -> Fix:
    """Build the fix that makes the request tolerate all device taints with the key of `taint`.

    `taint` has the form KEY=VALUE:EFFECT.
    """
    key_and_value, _, _ = taint.partition(":")
    key, _, _ = key_and_value.partition("=")

    def change(current: DeviceRequestT) -> DeviceRequestT:
        """Return the request with the toleration."""
        return replace(current, tolerations=(*current.tolerations, DeviceToleration(key, "Exists")))

    return build_spec_change_fix(
        trial_node,
        claim,
        _build_claim_spec_change(request_name, change),
        kind=FixKind.TOLERATE_DEVICE_TAINT,
        target=(request_name, key),
        text_end=f", tolerating the device taint {taint} (request {request_name})",
        cost=TOLERATE,
        weakens="the pod may get tainted devices",
    )


def _iter_request_removal_fixes(trial_node: TrialNode, claim: ResourceClaim, request_name: str) -> Iterator[Fix]:
    """Yield the fix that drops the request, unless it is the claim's only request or a constraint names it.

    If `request_name` has the form REQUEST/ALTERNATIVE, the request is dropped with all its alternatives.
    """
    top_request = request_name.partition("/")[0]
    devices = claim.spec.devices
    constrained_requests = {
        request.partition("/")[0] for constraint in devices.constraints for request in constraint.requests
    }
    if len(devices.requests) < 2 or top_request in constrained_requests:
        return

    def change(current: DeviceClaim) -> DeviceClaim:
        """Return the claim's devices without the request."""
        return replace(current, requests=tuple(request for request in current.requests if request.name != top_request))

    yield build_spec_change_fix(
        trial_node,
        claim,
        change,
        kind=FixKind.DROP_DEVICE_REQUEST,
        target=top_request,
        text_end=f", without request {top_request}",
        cost=DROP_REQUEST,
        weakens=f"the pod runs without the devices of request {top_request}",
    )


def _iter_constraint_removal_fixes(trial_node: TrialNode, claim: ResourceClaim, attribute: str = "") -> Iterator[Fix]:
    """Yield a fix for each of the claim's constraints that drops the constraint.

    If an attribute is given, only constraints on this attribute are dropped.
    """
    for constraint in claim.spec.devices.constraints:
        constrained_attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        if attribute in ("", constrained_attribute):
            relation = "the same" if constraint.match_attribute else "a different"
            yield build_spec_change_fix(
                trial_node,
                claim,
                _build_constraint_removal(constraint),
                kind=FixKind.DROP_DEVICE_CONSTRAINT,
                target=(constrained_attribute, constraint.requests),
                text_end=f", without the constraint that all devices have {relation} {constrained_attribute}",
                cost=DROP,
            )


def _build_constraint_removal(constraint: DeviceConstraint) -> SpecChange:
    """Return a function that removes the constraint from a claim's spec."""
    return lambda current: replace(
        current, constraints=tuple(other for other in current.constraints if other != constraint)
    )


def _iter_other_device_class_fixes(trial_node: TrialNode, claim: ResourceClaim, request: str) -> Iterator[Fix]:
    """Yield fixes that make the request ask for another DeviceClass, one for each of the first `MOST_CLASSES`."""
    current_name = _find_device_class_name(claim, request)
    names = [class_.metadata.name for class_ in trial_node.cycle.view.cluster.device_classes]
    other_names = [name for name in names if name != current_name]
    for name in other_names[:MOST_CLASSES]:
        yield _build_device_class_fix(trial_node, claim, request, name, cost=OTHER_CLASS)


def _build_device_class_fix(
    trial_node: TrialNode,
    claim: ResourceClaim,
    request: str,
    class_name: str,
    *,
    cost: int,
    kind: FixKind = FixKind.OTHER_DEVICE_CLASS,
    price: Price | None = None,
) -> Fix:
    """Build the fix that makes the request of this name ask for devices of another DeviceClass.

    `cost` ranks the fix, and `price` is None for the usual price of its kind.
    """
    text_end = (
        f" with device class {class_name} instead of {_find_device_class_name(claim, request)} (request {request})"
    )
    change = _build_claim_spec_change(request, lambda current: replace(current, device_class_name=class_name))
    where = f"class {class_name}"
    return build_spec_change_fix(
        trial_node,
        claim,
        change,
        kind=kind,
        target=(request, class_name),
        text_end=text_end,
        cost=cost,
        where=where,
        price=price,
    )


def _find_device_class_name(claim: ResourceClaim, request_name: str) -> str:
    """Return the name of the DeviceClass that the claim's request asks for, or "" if there is no such request."""
    for full_name, request in _iter_device_requests(claim):
        if full_name == request_name:
            return request.device_class_name
    return ""


def _iter_device_requests(claim: ResourceClaim) -> Iterator[tuple[str, AnyDeviceRequest]]:
    """Yield the full name and content of each device request, or of its alternatives, named REQUEST/ALTERNATIVE."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative


def _build_claim_spec_change(name: str, change: DeviceRequestChange) -> SpecChange:
    """Return a function that applies `change` to the request or alternative of this name in a claim's spec."""

    def change_if_named(request: DeviceRequest) -> DeviceRequest:
        """Return the request, changed if it or one of its alternatives has the name."""
        exactly = request.exactly
        if exactly is not None and request.name == name:
            exactly = change(exactly)
        alternatives = tuple(
            change(subrequest) if f"{request.name}/{subrequest.name}" == name else subrequest
            for subrequest in request.first_available
        )
        return replace(request, exactly=exactly, first_available=alternatives)

    return lambda current: replace(current, requests=tuple(map(change_if_named, current.requests)))


# -- classes that do not exist ---------------------------------------------------------------------------------------


def iter_missing_device_class_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes for the first requested DeviceClass that does not exist.

    Claims that do not exist or are allocated already are left out.
    """
    known_classes = {class_.metadata.name for class_ in trial_node.cycle.view.cluster.device_classes}
    for reference in trial_node.trial.pod.spec.resource_claims:
        claim_name = find_claim_name(trial_node.trial.pod, reference)
        claim = find_resource_claim(trial_node, claim_name) if claim_name else None
        if claim is None or claim.status.allocation is not None:
            continue
        for request_name, request in _iter_device_requests(claim):
            if request.device_class_name not in known_classes:
                yield from _iter_device_class_replacement_fixes(
                    trial_node, claim, request_name, request.device_class_name
                )
                return


def _iter_device_class_replacement_fixes(
    trial_node: TrialNode, claim: ResourceClaim, request: str, missing: str
) -> Iterator[Fix]:
    """Yield fixes that request an existing class instead of the missing DeviceClass, or create the missing one.

    Classes with a similar name come first, then other classes, then a new class for the devices of each of the first
    few drivers.
    """
    names = [class_.metadata.name for class_ in trial_node.cycle.view.cluster.device_classes]
    similar_names = get_close_matches(missing, names, n=2, cutoff=NAME_CUTOFF)
    for similar_name in similar_names:
        yield _build_device_class_fix(
            trial_node, claim, request, similar_name, cost=CORRECT, kind=FixKind.CORRECT_DEVICE_CLASS
        )
    # Other classes, in place of a missing one, are corrections too
    other_names = [name for name in names if name not in similar_names]
    for other_name in other_names[:MOST_CLASSES]:
        yield _build_device_class_fix(trial_node, claim, request, other_name, cost=OTHER_CLASS, price=Price.CORRECTION)

    drivers = dict.fromkeys(slice_.spec.driver for slice_ in trial_node.cycle.view.cluster.resource_slices)
    for rank, driver in enumerate(list(drivers)[:MOST_CLASSES]):
        selector = DeviceSelector(CELDeviceSelector(f'device.driver == "{driver}"'))
        new_class = DeviceClass(ObjectMeta(missing), DeviceClassSpec((selector,)))
        text = f"create DeviceClass {missing} for the devices of driver {driver}"
        command = kubectl.render_apply(kubectl.build_manifest(ObjectKey.of(new_class), new_class))
        target = (missing, driver)
        cost = CREATE_CLASS + rank
        yield Fix(
            kind=FixKind.CREATE_DEVICE_CLASS,
            target=target,
            text=text,
            by="operator",
            edits=(_build_class_creation_edit(new_class),),
            cost=cost,
            commands=(command,),
            variant_of=missing,
            where=f"driver {driver}",
        )


def _build_class_creation_edit(new_class: DeviceClass) -> ObjectEdit:
    """Return the edit that creates the DeviceClass."""
    return ObjectEdit.create(new_class)
