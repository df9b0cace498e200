"""Fixes for devices that are allocated to other pods, tainted, or out of the pod's reach."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints, Row
from kschedctl.api.objects import Device, DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import device_claims, device_requests, extended_resources, waiting
from kschedctl.fixes.ways.stopped_pods import stop_pod
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId, list_held_devices
from kschedctl.scheduler.plugins.dynamic_resources.facts import ClaimsUnusable, DevicesUnfit
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources

UNTAINT, FREE = 40, 35
MOST = 4
HELD = frozenset({"Allocated", "ShortOfCounters", "WithoutCapacity"})
"""What is wrong with devices of which others have something."""
MOST_LOOKS = 40
"""Nodes of more sorts of devices are told apart by how many they have, and how many of these are allocated."""


def fix_devices(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes for the node's or the pod's rejection by DynamicResources."""
    match refusal.fact:
        case DevicesUnfit() as fact:
            yield from extended_resources.request_fewer(tried, fact)
            yield from device_requests.change_requests(tried, fact)
            faults = [fault for request in fact.requests for fault in request.faults]
            if fact.together or any(fault.reason in HELD for fault in faults):
                yield from _free_devices(tried)
            for what in dict.fromkeys(fault.what for fault in faults if fault.reason == "Tainted"):
                yield from _remove_taint(tried, what)
        case ClaimsUnusable(claims=claims):
            for unusable in claims[:1]:
                yield from _reallocate(tried, unusable.claim)
        case None:
            yield from device_claims.claims(tried)
            yield from device_requests.fix_missing_class(tried)


# -- devices that others have ----------------------------------------------------------------------------------------


def _free_devices(tried: TriedNode) -> Iterator[Fix]:
    """Yield fixes that free claims with devices of the node, those with the fewest devices first."""
    view = tried.cycle.view
    here = _find_visible_devices(tried)
    holders: list[tuple[int, ResourceClaim]] = []
    for claim in view.objects.of("ResourceClaim"):
        held = sum(holding.device in here for holding in list_held_devices(claim, shares=True))
        if held:
            holders.append((held, claim))
    for _, claim in sorted(holders, key=lambda holder: holder[0])[:MOST]:
        yield from _free_claim(tried, claim)


def _find_visible_devices(tried: TriedNode) -> set[DeviceId]:
    """Return the ids of the devices that the node sees."""
    evaluation = tried.cycle.pre_filter.find_state(DynamicResources)
    pools = evaluation.inventory.get_pools(tried.at) if evaluation else ()
    return {device.id for pool in pools for device in pool.devices}


def _free_claim(tried: TriedNode, claim: ResourceClaim) -> Iterator[Fix]:
    """Yield the fix that deallocates an unused claim, or fixes that stop a pod that uses it."""
    users, name = claim.status.reserved_for, f"{claim.metadata.namespace}/{claim.metadata.name}"
    if not users:
        key = ObjectKey.of(claim)
        text = f"give the devices of ResourceClaim {name} back, which no pod uses"
        edits, commands = (ObjectEdit(key, _unallocated),), (device_claims.render_recreation(claim),)
        weakens = f"ResourceClaim {name} no longer has devices"
        yield Fix(FixKind.FREE_DEVICES, key, text, "operator", edits, FREE, weakens, commands, "claim", name)
    pods = tried.cycle.view.pods.index
    for user in users[:MOST]:
        position = pods.get(f"{claim.metadata.namespace}/{user.name}")
        if user.resource == "pods" and position is not None and tried.cycle.view.node[position] >= 0:
            yield from stop_pod(tried, position)


def _unallocated(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim without its allocation."""
    return replace(claim, status=replace(claim.status, allocation=None, devices=()))


def _reallocate(tried: TriedNode, key: str) -> Iterator[Fix]:
    """Yield fixes that free a claim of the pod whose devices are out of reach, so that others are allocated."""
    claim = device_claims.find_claim(tried, key.rpartition("/")[2])
    if claim is None:
        return
    others = [user for user in claim.status.reserved_for if user.uid != tried.trial.pod.metadata.uid]
    for user in others[:MOST]:
        position = tried.cycle.view.pods.index.get(f"{claim.metadata.namespace}/{user.name}")
        if user.resource == "pods" and position is not None:
            yield from stop_pod(tried, position)
    if not others:
        own = ObjectKey.of(claim)
        text = f"recreate ResourceClaim {key}, so that it gets devices where the pod goes"
        edits, commands = (ObjectEdit(own, _unreserved),), (device_claims.render_recreation(claim),)
        yield Fix(FixKind.FREE_DEVICES, own, text, "author", edits, FREE, "", commands, price=Price.WISH)


def _unreserved(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim without its allocation and reservations."""
    return replace(_unallocated(claim), status=replace(_unallocated(claim).status, reserved_for=()))


# -- taints of devices -----------------------------------------------------------------------------------------------


def _remove_taint(tried: TriedNode, what: str) -> Iterator[Fix]:
    """Yield fixes that delete the DeviceTaintRules with the taint, or have the driver remove it."""
    view = tried.cycle.view
    for rule in view.objects.of("DeviceTaintRule"):
        if _says(rule.spec.taint, what):
            key = ObjectKey.of(rule)
            text = f"delete DeviceTaintRule {rule.metadata.name}, which taints devices with {what}"
            weakens = f"devices are no longer tainted with {what}"
            edits, commands = (ObjectEdit(key, _none),), (kubectl.render_delete(key),)
            yield Fix(FixKind.DELETE_DEVICE_TAINT_RULE, key, text, "operator", edits, UNTAINT, weakens, commands)
    own = {device[:2] for device in _find_visible_devices(tried)}
    for resource_slice in view.objects.of("ResourceSlice"):
        key, spec = ObjectKey.of(resource_slice), resource_slice.spec
        if (spec.driver, spec.pool.name) in own and any(_has_taint(device, what) for device in spec.devices):
            text = f"have driver {spec.driver} remove the taint {what} from the devices of ResourceSlice {key.name}"
            edits = (ObjectEdit(key, _without_taint(what)),)
            yield Fix(
                FixKind.UNTAINT_DEVICES, (key, what), text, "operator", edits, UNTAINT, variant_of=what, where=key.name
            )


def _none(rule: DeviceTaintRule) -> None:
    return None


def _says(taint: DeviceTaint, what: str) -> bool:
    return str(taint) == what


def _has_taint(device: Device, what: str) -> bool:
    """Return whether the device has the taint."""
    return any(_says(taint, what) for taint in device.taints)


def _without_taint(what: str) -> Callable[[ResourceSlice], ResourceSlice]:
    """Return a change that removes the taint from a slice's devices."""

    def change(known: ResourceSlice) -> ResourceSlice:
        devices = tuple(
            replace(device, taints=tuple(taint for taint in device.taints if not _says(taint, what)))
            for device in known.spec.devices
        )
        return replace(known, spec=replace(known.spec, devices=devices))

    return change


def _columns(cycle: Cycle) -> Iterator[Ints]:
    """Yield (N,): a code per node for its devices, by their state or, if too diverse, by total and allocated counts."""
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    if evaluation is None:
        return
    rows = [Row(row) for row in range(len(cycle.view.nodes))]
    looks = _number_distinct(evaluation.build_node_key(row, claim_unavailable=False) for row in rows)
    yield (
        looks
        if looks.max(initial=0) < MOST_LOOKS
        else _number_distinct(_count_devices(evaluation.inventory, row) for row in rows)
    )


def _number_distinct(values: Iterable[Hashable]) -> Ints:
    """Return (N,): a number for each value; equal values have equal numbers."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def _count_devices(inventory: Inventory, row: Row) -> tuple[int, int]:
    """Return how many devices a node has, and how many of them are allocated."""
    devices = [device.id for pool in inventory.get_pools(row) for device in pool.devices]
    return len(devices), sum(map(inventory.state.is_allocated, devices))


REMEDIES = {DynamicResources: PluginRemedies((waiting.await_terminating, fix_devices), columns=_columns)}
