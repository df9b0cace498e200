"""The kinds of objects on which the results of DynamicResources for a pod depend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.objects import DeviceClass, DeviceSelector, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.plugins.dynamic_resources.claims import ClaimError, find_claim_name
from kschedctl.scheduler.plugins.dynamic_resources.devices import SELECTS_BY_CLASS_OR_CEL
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory, get_inventory
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NOT_RUN = Gap("have regular expressions that only RE2 can run: install kschedctl[re2]")


def iter_device_dependencies(info: PodInfo, view: Fork, features: Features) -> Iterator[Dependency]:
    """Yield a dependency on each kind whose unread objects could change the result for the pod.

    Nothing is yielded for a pod without claims and extended resources.
    """
    # Claims that the pod references.
    inventory = get_inventory(view, features)
    for reference in info.spec.resource_claims:
        try:
            name = find_claim_name(info.pod, reference)
        except ClaimError:
            if info.pod.metadata.creation_timestamp is None:  # the status of an existing pod names generated claims
                yield _build_false_rejection_dependency("ResourceClaimTemplate")
            continue
        if name is not None:
            claim = inventory.claims.get(f"{info.namespace}/{name}")
            yield from _iter_dependencies_of_claim(claim, inventory)

    # Extended resources that the pod requests.
    if not features.extended_resource:
        return
    requests = info.incoming_requests
    if is_any_backed(requests, find_backing_classes(view.objects)):
        yield _build_false_rejection_dependency("ResourceClaim")
        yield from _iter_inventory_dependencies(inventory)
    elif any(amount and is_dra_extended(name) for name, amount in requests.items()):
        yield Dependency("DeviceClass", Effect.ADMITS)  # an unread class may back the resource with devices


def _iter_dependencies_of_claim(claim: ResourceClaim | None, inventory: Inventory) -> Iterator[Dependency]:
    """Yield a dependency on each kind whose unread objects could change the result for one claim.

    If the claim is missing (None) or allocated, only ResourceClaims matter. Otherwise the kinds that define devices
    matter as well, and DeviceClasses if a class of the claim is missing.
    """
    yield _build_false_rejection_dependency("ResourceClaim")
    if claim is None or claim.status.allocation is not None:
        return
    yield from _iter_inventory_dependencies(inventory)
    class_names = {option.device_class_name for option in _iter_request_options(claim)}
    has_all_classes = class_names <= inventory.classes.keys()
    if not has_all_classes:
        yield _build_false_rejection_dependency("DeviceClass")


def _iter_request_options(claim: ResourceClaim) -> Iterator[ExactDeviceRequest | DeviceSubRequest]:
    """Yield the claim's exact requests and the alternatives of its other requests."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.exactly
        yield from request.first_available


def _iter_inventory_dependencies(inventory: Inventory) -> Iterator[Dependency]:
    """Yield dependencies on the kinds that define which devices can be allocated.

    ResourceSlices are always included, and DeviceTaintRules if the cluster has this feature. DeviceClasses are included
    if the release lets rules select devices by class and a rule names a class that was not read.
    """
    yield _build_false_rejection_dependency("ResourceSlice")
    if not inventory.features.device_taint_rules:
        return
    yield Dependency("DeviceTaintRule", Effect.REFUSES_MORE)
    can_select_by_class = SELECTS_BY_CLASS_OR_CEL.at(inventory.features.release)
    if not can_select_by_class:
        return
    selectors = [rule.spec.device_selector for rule in inventory.objects.of("DeviceTaintRule")]
    class_names = {
        selector.device_class_name
        for selector in selectors
        if selector is not None and selector.device_class_name is not None
    }
    has_all_classes = class_names <= inventory.classes.keys()
    if not has_all_classes:
        yield _build_false_rejection_dependency("DeviceClass")


def _build_false_rejection_dependency(kind: str) -> Dependency:
    """Build a dependency on a kind. If its objects were not read, the pod may be rejected falsely."""
    return Dependency(kind, Effect.REFUSES)


def iter_re2_unknowns(plugin: str, info: PodInfo, view: Fork, features: Features) -> Iterator[Unknown]:
    """Yield an unknown for ResourceClaims and one for DeviceClasses, if a CEL selector in them needs RE2.

    Only the pod's claims are checked. All DeviceClasses are checked if the pod has claims, or if devices may back
    extended resources. Nothing is yielded if RE2 is installed, or if a claim of the pod is missing or unusable.
    """
    inventory = get_inventory(view, features)
    try:
        claims = inventory.list_pod_claims(info)
    except ClaimError:
        return
    classes = inventory.objects.of("DeviceClass") if claims or features.extended_resource else ()
    selectors_by_kind = {
        "ResourceClaim": [selector for claim in claims for selector in _iter_claim_selectors(claim)],
        "DeviceClass": _list_class_selectors(classes),
    }
    if not any(selectors_by_kind.values()):
        return
    from kschedctl.cel.library import regular_expressions  # noqa: PLC0415 - the language takes a moment

    if regular_expressions.has_re2():
        return
    for kind, selectors in selectors_by_kind.items():
        if any(_needs_re2(selector, lists=features.lists_in_cel) for selector in selectors):
            yield Unknown(Dependency(kind, Effect.EITHER), NOT_RUN, plugin)


def _iter_claim_selectors(claim: ResourceClaim) -> Iterator[DeviceSelector]:
    """Yield the selectors of the claim's requests, or nothing if the claim is already allocated."""
    if claim.status.allocation is None:
        for option in _iter_request_options(claim):
            yield from option.selectors


def _list_class_selectors(classes: Iterable[DeviceClass]) -> list[DeviceSelector]:
    """Return the selectors of all classes."""
    return [selector for class_ in classes for selector in class_.spec.selectors]


def _needs_re2(selector: DeviceSelector, *, lists: bool) -> bool:
    """Return whether the selector compiles and has a regular expression that cannot be evaluated without RE2.

    ``lists`` allows attributes with several values.
    """
    if selector.cel is None:
        return False
    from kschedctl.cel.errors import CompileError  # noqa: PLC0415 - the language takes a moment
    from kschedctl.scheduler.plugins.dynamic_resources.cel import compile_selector  # noqa: PLC0415 - the language takes a moment

    try:
        return bool(compile_selector(selector.cel.expression, lists).program.unsupported_patterns)
    except CompileError:
        return False
