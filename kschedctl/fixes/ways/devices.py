"""Devices: others hold them, they are tainted, or allocated where the pod cannot be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints, Row
from kschedctl.api.objects import Device, DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import device_claims, device_requests, extended_resources, waiting
from kschedctl.fixes.ways.stopped_pods import stopped
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


def unfit(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """What DynamicResources has against the node, or against the pod."""
    match refusal.fact:
        case DevicesUnfit() as fact:
            yield from extended_resources.fewer(tried, fact)
            yield from device_requests.fewer_or_others(tried, fact)
            faults = [fault for request in fact.requests for fault in request.faults]
            if fact.together or any(fault.reason in HELD for fault in faults):
                yield from _given_back(tried)
            for what in dict.fromkeys(fault.what for fault in faults if fault.reason == "Tainted"):
                yield from _untainted(tried, what)
        case ClaimsUnusable(claims=claims):
            for unusable in claims[:1]:
                yield from _allocated_anew(tried, unusable.claim)
        case None:
            yield from device_claims.claims(tried)
            yield from device_requests.classes(tried)


# -- devices that others have ----------------------------------------------------------------------------------------


def _given_back(tried: TriedNode) -> Iterator[Fix]:
    """The claims that hold devices of the node, those with the fewest first: freed, with the pods that use them."""
    view = tried.cycle.view
    here = _devices(tried)
    holders: list[tuple[int, ResourceClaim]] = []
    for claim in view.objects.of("ResourceClaim"):
        held = sum(holding.device in here for holding in list_held_devices(claim, shares=True))
        if held:
            holders.append((held, claim))
    for _, claim in sorted(holders, key=lambda holder: holder[0])[:MOST]:
        yield from _freed(tried, claim)


def _devices(tried: TriedNode) -> set[DeviceId]:
    """The devices that the node sees."""
    evaluation = tried.cycle.pre_filter.find_state(DynamicResources)
    pools = evaluation.inventory.pools(tried.at) if evaluation else ()
    return {device.id for pool in pools for device in pool.devices}


def _freed(tried: TriedNode, claim: ResourceClaim) -> Iterator[Fix]:
    """Nobody's claim is freed; of one that pods use one of these is stopped."""
    users, name = claim.status.reserved_for, f"{claim.metadata.namespace}/{claim.metadata.name}"
    if not users:
        key = ObjectKey.of(claim)
        text = f"give the devices of ResourceClaim {name} back, which no pod uses"
        edits, commands = (ObjectEdit(key, _unallocated),), (device_claims.recreation(claim),)
        weakens = f"ResourceClaim {name} no longer has devices"
        yield Fix("FreeDevices", key, text, "operator", edits, FREE, weakens, commands, "claim", name)
    pods = tried.cycle.view.pods.index
    for user in users[:MOST]:
        position = pods.get(f"{claim.metadata.namespace}/{user.name}")
        if user.resource == "pods" and position is not None and tried.cycle.view.node[position] >= 0:
            yield from stopped(tried, position)


def _unallocated(claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, status=replace(claim.status, allocation=None, devices=()))


def _allocated_anew(tried: TriedNode, key: str) -> Iterator[Fix]:
    """A claim of the pod whose devices are of no use to it: given back, so that others are looked for."""
    claim = device_claims.found(tried, key.rpartition("/")[2])
    if claim is None:
        return
    others = [user for user in claim.status.reserved_for if user.uid != tried.trial.pod.metadata.uid]
    for user in others[:MOST]:
        position = tried.cycle.view.pods.index.get(f"{claim.metadata.namespace}/{user.name}")
        if user.resource == "pods" and position is not None:
            yield from stopped(tried, position)
    if not others:
        own = ObjectKey.of(claim)
        text = f"recreate ResourceClaim {key}, so that it gets devices where the pod goes"
        edits, commands = (ObjectEdit(own, _free_of_all),), (device_claims.recreation(claim),)
        yield Fix("FreeDevices", own, text, "author", edits, FREE, "", commands, price=Price.WISH)


def _free_of_all(claim: ResourceClaim) -> ResourceClaim:
    return replace(_unallocated(claim), status=replace(_unallocated(claim).status, reserved_for=()))


# -- taints of devices -----------------------------------------------------------------------------------------------


def _untainted(tried: TriedNode, what: str) -> Iterator[Fix]:
    """The rules that taint, and the slices in which drivers say so."""
    view = tried.cycle.view
    for rule in view.objects.of("DeviceTaintRule"):
        if _says(rule.spec.taint, what):
            key = ObjectKey.of(rule)
            text = f"delete DeviceTaintRule {rule.metadata.name}, which taints devices with {what}"
            weakens = f"devices are no longer tainted with {what}"
            edits, commands = (ObjectEdit(key, _none),), (kubectl.render_delete(key),)
            yield Fix("DeleteDeviceTaintRule", key, text, "operator", edits, UNTAINT, weakens, commands)
    own = {device[:2] for device in _devices(tried)}
    for resource_slice in view.objects.of("ResourceSlice"):
        key, spec = ObjectKey.of(resource_slice), resource_slice.spec
        if (spec.driver, spec.pool.name) in own and any(_tainted(device, what) for device in spec.devices):
            text = f"have driver {spec.driver} remove the taint {what} from the devices of ResourceSlice {key.name}"
            edits = (ObjectEdit(key, _without(what)),)
            yield Fix("UntaintDevices", (key, what), text, "operator", edits, UNTAINT, variant_of=what, where=key.name)


def _none(rule: DeviceTaintRule) -> None:
    return None


def _says(taint: DeviceTaint, what: str) -> bool:
    return str(taint) == what


def _tainted(device: Device, what: str) -> bool:
    return any(_says(taint, what) for taint in device.taints)


def _without(what: str) -> Callable[[ResourceSlice], ResourceSlice]:
    def change(known: ResourceSlice) -> ResourceSlice:
        devices = tuple(
            replace(device, taints=tuple(taint for taint in device.taints if not _says(taint, what)))
            for device in known.spec.devices
        )
        return replace(known, spec=replace(known.spec, devices=devices))

    return change


def _columns(cycle: Cycle) -> Iterator[Ints]:
    """What devices nodes have; where there are too many sorts of nodes, how many, and how many of these are free."""
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    if evaluation is None:
        return
    rows = [Row(row) for row in range(len(cycle.view.nodes))]
    looks = _codes(evaluation.build_node_key(row, claim_unavailable=False) for row in rows)
    yield looks if looks.max(initial=0) < MOST_LOOKS else _codes(_amounts(evaluation.inventory, row) for row in rows)


def _codes(values: Iterable[Hashable]) -> Ints:
    """(N,): a number for each that is another."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def _amounts(inventory: Inventory, row: Row) -> tuple[int, int]:
    """How many devices a node has, and how many of them are allocated."""
    devices = [device.id for pool in inventory.pools(row) for device in pool.devices]
    return len(devices), sum(map(inventory.state.is_allocated, devices))


REMEDIES = {DynamicResources: PluginRemedies((waiting.leaving, unfit), columns=_columns)}
