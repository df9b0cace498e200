"""What the answers of DynamicResources lean on: the claims of a pod followed as far as they lead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.objects import DeviceClass, DeviceSelector, ResourceClaim
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.cel.errors import CompileError
from kschedctl.cel.library import regular_expressions
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.plugins.dynamic_resources.claims import ClaimError, claim_name
from kschedctl.scheduler.plugins.dynamic_resources.devices import SELECTS_BY_CEL
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory, inventory_of
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NOT_RUN = Gap("have regular expressions that only RE2 can run: install kschedctl[re2]")


def claim_dependencies(info: PodInfo, view: Fork, features: Features) -> Iterator[Dependency]:
    """The kinds of what the pod's claims and extended resources refer to, and of what else they compete with."""
    inventory = inventory_of(view, features)
    for reference in info.spec.resource_claims:
        try:
            name = claim_name(info.pod, reference)
        except ClaimError:
            if info.pod.metadata.creation_timestamp is None:  # else its status says that there is none
                yield from _refusing("ResourceClaimTemplate")
            continue
        if name is not None:
            yield from _of_claim(inventory.claims.get(f"{info.namespace}/{name}"), inventory)
    if not features.extended_resource:
        return
    requests = info.incoming_requests
    if is_any_backed(requests, find_backing_classes(view.objects)):
        yield from _refusing("ResourceClaim")
        yield from _devices(inventory)
    elif any(amount and is_dra_extended(name) for name, amount in requests.items()):
        yield Dependency("DeviceClass", Effect.ADMITS)


def _of_claim(claim: ResourceClaim | None, inventory: Inventory) -> Iterator[Dependency]:
    yield from _refusing("ResourceClaim")
    if claim is None or claim.status.allocation is not None:
        return
    yield from _devices(inventory)
    exact = [r.exactly.device_class_name for r in claim.spec.devices.requests if r.exactly is not None]
    others = [a.device_class_name for r in claim.spec.devices.requests for a in r.first_available]
    if not inventory.classes.keys() >= {*exact, *others}:
        yield from _refusing("DeviceClass")


def _devices(inventory: Inventory) -> Iterator[Dependency]:
    """The kinds that tell which devices there are to be had; rules only take some away."""
    yield from _refusing("ResourceSlice")
    if not inventory.features.device_taint_rules:
        return
    yield Dependency("DeviceTaintRule", Effect.REFUSES_MORE)
    selectors = [rule.spec.device_selector for rule in inventory.objects.of("DeviceTaintRule")]
    named = {selector.device_class_name for selector in selectors if selector is not None} - {None}
    if SELECTS_BY_CEL.at(inventory.features.release) and not inventory.classes.keys() >= named:
        yield from _refusing("DeviceClass")


def _refusing(*kinds: str) -> Iterator[Dependency]:
    return (Dependency(kind, Effect.REFUSES) for kind in kinds)


def pattern_doubts(plugin: str, info: PodInfo, view: Fork, features: Features) -> Iterator[Unknown]:
    """The kinds whose selectors have regular expressions that cannot be run here, where the pod asks for devices."""
    if regular_expressions.has_re2():
        return
    inventory = inventory_of(view, features)
    try:
        claims = inventory.claims_of(info)
    except ClaimError:
        return
    own = [selector for claim in claims for selector in _own_selectors(claim)]
    classes = inventory.objects.of("DeviceClass") if claims or features.extended_resource else ()
    for kind, selectors in (("ResourceClaim", own), ("DeviceClass", _class_selectors(classes))):
        if any(_is_not_run(selector, features.lists_in_cel) for selector in selectors):
            yield Unknown(Dependency(kind, Effect.EITHER), NOT_RUN, plugin)


def _own_selectors(claim: ResourceClaim) -> Iterator[DeviceSelector]:
    if claim.status.allocation is None:
        for request in claim.spec.devices.requests:
            for asked in (request.exactly, *request.first_available):
                yield from asked.selectors if asked is not None else ()


def _class_selectors(classes: Iterable[DeviceClass]) -> list[DeviceSelector]:
    return [selector for class_ in classes for selector in class_.spec.selectors]


def _is_not_run(selector: DeviceSelector, lists: bool) -> bool:
    from kschedctl.scheduler.plugins.dynamic_resources.cel import compile_selector  # noqa: PLC0415 - the language takes a moment

    try:
        return selector.cel is not None and bool(
            compile_selector(selector.cel.expression, lists).program.unsupported_patterns
        )
    except CompileError:
        return False
