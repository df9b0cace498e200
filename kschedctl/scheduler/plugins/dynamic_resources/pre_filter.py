"""What is known of a pod's devices before any node is looked at: its claims, their classes, where allocated ones are.

Upstream: PreFilter in plugins/dynamicresources/dynamicresources.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector
from kschedctl.api.objects import DeviceRequest, Pod, PodSpec, ResourceClaim
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.extended_resources import IN_MEMORY_NAME, build_empty_claim, is_any_backed
from kschedctl.scheduler.plugins.dynamic_resources.claims import (
    ClaimError,
    PodClaims,
    binding_failed,
    extended_resource_claim,
    key,
)
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import Evaluation, HeldClaim
from kschedctl.scheduler.plugins.dynamic_resources.facts import UnusableClaim
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory, inventory_of
from kschedctl.scheduler.plugins.dynamic_resources.pod_groups import group_of
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_masks import match_node_selector
from kschedctl.snapshot.pod_info import PodInfo

_encode = msgspec.msgpack.Encoder(order="sorted").encode

HAS_ALTERNATIVES = ByVersion("whether a request can have alternatives", (("", False), ("1.33", True)), "KEP 4816")


def claims_of(info: PodInfo, view: Fork, features: Features) -> tuple[ResourceClaim, ...]:
    """The pod's own claims in order. Raises ClaimError."""
    return inventory_of(view, features).claims_of(info)


class DevicesWanted(NamedTuple):
    """What pods alike ask for of whose claims the same are still to be allocated, of the same specs.

    ``resources``: the extended resources that they request, if devices may stand for some of them; ``requested``: which
    containers request how much then.
    """

    resources: tuple[str, ...]
    requested: bytes


def evaluation_of(
    info: PodInfo, view: Fork, features: Features, filter_timeout: float, binding_timeout: float
) -> Evaluation | None:
    """None for a pod that needs no devices; timeouts in seconds, 0 for none. Raises ClaimError and PluginError."""
    inventory = inventory_of(view, features)
    own = inventory.claims_of(info)
    if features.workload_claims:
        group_of(info.pod, inventory)
    wanted = tuple([None if claim.status.allocation else inventory.wanted(claim) for claim in own])
    ask = partial(_devices_wanted, info, own, inventory)
    asked = ask() if info.alike is None else inventory.facts.get((info.alike, wanted), ask)
    if not own and not asked.resources:
        return None
    extended = _extended_claim(info.pod, inventory) if asked.resources else None
    claims = PodClaims(own, extended)
    held = {
        i: _held(claim, inventory, binding_timeout) for i, claim in enumerate(claims.all) if claim.status.allocation
    }
    named = extended is not None and extended.metadata.name != IN_MEMORY_NAME
    like = None if held or named else (wanted, asked, filter_timeout)
    return Evaluation(inventory, info.pod, claims, held, asked.resources, like, filter_timeout)


def _devices_wanted(info: PodInfo, own: Iterable[ResourceClaim], inventory: Inventory) -> DevicesWanted:
    """Raises ClaimError and PluginError where a claim cannot be allocated as far as its classes go."""
    for claim in own:
        if claim.status.allocation is None:
            _check(claim, inventory)
    classes = inventory.classes_by_resource
    requests = {} if _named(info.spec).isdisjoint(classes) else _requests(info)
    if not is_any_backed(requests, classes):
        return DevicesWanted((), b"")
    containers = [
        (c.name, c.restart_policy, c.resources.requests) for c in (*info.spec.init_containers, *info.spec.containers)
    ]
    return DevicesWanted(
        tuple([name for name, amount in requests.items() if amount and is_dra_extended(name)]), _encode(containers)
    )


def _extended_claim(pod: Pod, inventory: Inventory) -> ResourceClaim:
    """The claim of an earlier scheduling attempt, or the one that stands for it."""
    return extended_resource_claim(pod, inventory.claims) or build_empty_claim(pod)


def _named(spec: PodSpec) -> set[str]:
    """The resources that a pod names in its requests."""
    requests = {name for c in (*spec.init_containers, *spec.containers) for name in c.resources.requests}
    return requests.union(spec.overhead, spec.resources.requests if spec.resources else ())


def _requests(info: PodInfo) -> dict[str, int]:
    return info.compute_amounts(info.options._replace(use_status=False, pod_level=True, dra_node_allocatable=False))


def _held(claim: ResourceClaim, inventory: Inventory, timeout: float) -> HeldClaim:
    """An allocated claim; its devices may also be such that will not become ready. Raises PluginError."""
    unselected = _unselected(claim, inventory)
    failure = binding_failed(claim, timeout, datetime.now(UTC)) if inventory.features.binding_conditions else ""
    return HeldClaim(unselected, unselected | bool(failure), UnusableClaim(key(claim), failure))


def _check(claim: ResourceClaim, inventory: Inventory) -> None:
    """Raises ClaimError and PluginError."""
    for request in claim.spec.devices.requests:
        for name, class_name in _class_names(claim, request, inventory.features):
            if not class_name:
                raise PluginError(f"request {name}: unsupported request type")
            if class_name not in inventory.classes:
                raise ClaimError(f"request {name}: device class {class_name} does not exist")


def _unselected(claim: ResourceClaim, inventory: Inventory) -> Bools:
    """(N,): the nodes that an allocated claim's node selector leaves out. Raises PluginError."""
    selector = claim.status.allocation.node_selector if claim.status.allocation else None
    if selector is None:
        return np.zeros(len(inventory.nodes), np.bool_)
    compiled = compile_node_selector(selector)
    try:
        compiled.raise_errors()
    except NodeSelectorError as error:
        raise PluginError(str(error)) from None
    return ~match_node_selector(inventory.nodes, compiled)


def _class_names(claim: ResourceClaim, request: DeviceRequest, features: Features) -> Iterator[tuple[str, str]]:
    """The name of a request, or of each of its alternatives, and its class. Raises ClaimError."""
    if request.exactly is not None:
        yield request.name, request.exactly.device_class_name
        return
    if not HAS_ALTERNATIVES.at(features.release):
        yield request.name, ""
        return
    where = f"resource claim {key(claim)}, request {request.name}"
    if not request.first_available:
        raise ClaimError(f"{where}: unknown request type")
    elif not features.prioritized_list:
        raise ClaimError(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
    else:
        for alternative in request.first_available:
            yield f"{request.name}/{alternative.name}", alternative.device_class_name
