"""The kinds of objects on which the results of DynamicResources for a pod depend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.objects import DeviceClass, DeviceSelector, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.cel.errors import CompileError
from kschedctl.cel.library import regular_expressions
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.plugins.dynamic_resources.claims import ClaimError, find_claim_name
from kschedctl.scheduler.plugins.dynamic_resources.devices import SELECTS_BY_CEL
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory, get_inventory
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NOT_RUN = Gap("have regular expressions that only RE2 can run: install kschedctl[re2]")


def iter_claim_dependencies(info: PodInfo, view: Fork, features: Features) -> Iterator[Dependency]:
    """Yield the kinds whose unread objects could change the results for the pod's claims and extended resources."""
    inventory = get_inventory(view, features)
    for reference in info.spec.resource_claims:
        try:
            name = find_claim_name(info.pod, reference)
        except ClaimError:
            if info.pod.metadata.creation_timestamp is None:  # the status of an existing pod names generated claims
                yield _build_dependency("ResourceClaimTemplate")
            continue
        if name is not None:
            yield from _iter_claim_dependencies(inventory.claims.get(f"{info.namespace}/{name}"), inventory)
    if not features.extended_resource:
        return
    requests = info.incoming_requests
    if is_any_backed(requests, find_backing_classes(view.objects)):
        yield _build_dependency("ResourceClaim")
        yield from _iter_device_dependencies(inventory)
    elif any(amount and is_dra_extended(name) for name, amount in requests.items()):
        yield Dependency("DeviceClass", Effect.ADMITS)


def _iter_claim_dependencies(claim: ResourceClaim | None, inventory: Inventory) -> Iterator[Dependency]:
    """Yield the dependencies of one claim, which is None if it is missing."""
    yield _build_dependency("ResourceClaim")
    if claim is None or claim.status.allocation is not None:
        return
    yield from _iter_device_dependencies(inventory)
    class_names = {option.device_class_name for option in _iter_request_options(claim)}
    if not inventory.classes.keys() >= class_names:
        yield _build_dependency("DeviceClass")


def _iter_request_options(claim: ResourceClaim) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    """Yield the claim's exact requests and the alternatives of its other requests."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.exactly
        yield from request.first_available


def _iter_device_dependencies(inventory: Inventory) -> Iterator[Dependency]:
    """Yield dependencies on the kinds that define which devices exist. Taint rules can only remove devices."""
    yield _build_dependency("ResourceSlice")
    if not inventory.features.device_taint_rules:
        return
    yield Dependency("DeviceTaintRule", Effect.REFUSES_MORE)
    selectors = [rule.spec.device_selector for rule in inventory.objects.of("DeviceTaintRule")]
    class_names = {selector.device_class_name for selector in selectors if selector is not None} - {None}
    if SELECTS_BY_CEL.at(inventory.features.release) and not inventory.classes.keys() >= class_names:
        yield _build_dependency("DeviceClass")


def _build_dependency(kind: str) -> Dependency:
    """Build the dependency on a kind whose missing objects may reject the pod."""
    return Dependency(kind, Effect.REFUSES)


def iter_pattern_doubts(plugin: str, info: PodInfo, view: Fork, features: Features) -> Iterator[Unknown]:
    """Yield the kinds with CEL selectors that cannot be evaluated without RE2, if the pod may use devices.

    Nothing is yielded if RE2 is installed, or if a claim of the pod is missing or unusable.
    """
    if regular_expressions.has_re2():
        return
    inventory = get_inventory(view, features)
    try:
        claims = inventory.list_pod_claims(info)
    except ClaimError:
        return
    claim_selectors = [selector for claim in claims for selector in _iter_claim_selectors(claim)]
    classes = inventory.objects.of("DeviceClass") if claims or features.extended_resource else ()
    for kind, selectors in (("ResourceClaim", claim_selectors), ("DeviceClass", _list_class_selectors(classes))):
        if any(_needs_re2(selector, features.lists_in_cel) for selector in selectors):
            yield Unknown(Dependency(kind, Effect.EITHER), NOT_RUN, plugin)


def _iter_claim_selectors(claim: ResourceClaim) -> Iterator[DeviceSelector]:
    """Yield the selectors of the claim's requests, none if it is allocated."""
    if claim.status.allocation is None:
        for option in _iter_request_options(claim):
            yield from option.selectors


def _list_class_selectors(classes: Iterable[DeviceClass]) -> list[DeviceSelector]:
    """Return the selectors of all classes."""
    return [selector for class_ in classes for selector in class_.spec.selectors]


def _needs_re2(selector: DeviceSelector, lists: bool) -> bool:
    """Return whether the selector compiles and has a regular expression that cannot be evaluated without RE2."""
    if selector.cel is None:
        return False
    from kschedctl.scheduler.plugins.dynamic_resources.cel import compile_selector  # noqa: PLC0415 - the language takes a moment

    try:
        return bool(compile_selector(selector.cel.expression, lists).program.unsupported_patterns)
    except CompileError:
        return False
