"""Fixes for devices that are allocated to other pods, tainted, or out of the pod's reach."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints, Row
from kschedctl.api.objects import Device, DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.fixes.ways import device_claims, device_requests, node_resources, waiting
from kschedctl.fixes.ways.held_volumes import iter_pod_stop_fixes
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId, list_held_devices
from kschedctl.scheduler.plugins.dynamic_resources.facts import ClaimsUnusable, DevicesUnfit
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources

UNTAINT, FREE = 40, 35
MOST_HOLDERS = 4
"""The most claims, and the most pods of a claim, from which devices are taken."""
HELD_BY_OTHERS = frozenset({"Allocated", "ShortOfCounters", "WithoutCapacity"})
"""Faults of devices that other claims hold as a whole or in part."""
MOST_DEVICE_STATES = 40
"""With more distinct states, nodes are told apart only by their numbers of devices and of allocated devices."""


def iter_device_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for a rejection by DynamicResources.

    If the node's devices do not satisfy the claims, the fixes change the requests, free devices, or remove taints from
    devices. If allocated claims cannot be used on the node, the fixes free the first of these claims. A rejection
    without a fact is due to claims or classes, which the fixes create, correct or recreate.
    """
    match rejection.fact:
        case DevicesUnfit() as fact:
            yield from node_resources.iter_fewer_devices_fixes(trial_node, fact)
            yield from device_requests.iter_device_request_fixes(trial_node, fact)
            faults = [fault for request in fact.requests for fault in request.faults]
            is_any_device_held_by_others = any(fault.reason in HELD_BY_OTHERS for fault in faults)
            if fact.together or is_any_device_held_by_others:
                yield from _iter_device_release_fixes(trial_node)
            for what in dict.fromkeys(fault.what for fault in faults if fault.reason == "Tainted"):
                yield from _iter_device_taint_removal_fixes(trial_node, what)
        case ClaimsUnusable(claims=claims):
            if claims:
                yield from _iter_reallocation_fixes(trial_node, claims[0].claim)
        case None:
            yield from device_claims.iter_resource_claim_fixes(trial_node)
            yield from device_requests.iter_missing_device_class_fixes(trial_node)


# -- devices that other claims hold ----------------------------------------------------------------------------------


def _iter_device_release_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes that free devices of the node, starting with the claims that hold the fewest of them.

    At most MOST_HOLDERS claims are considered.
    """
    view = trial_node.cycle.view
    visible_devices = _find_visible_devices(trial_node)
    holders: list[tuple[int, ResourceClaim]] = []
    for claim in view.objects.of("ResourceClaim"):
        held_count = sum(holding.device in visible_devices for holding in list_held_devices(claim, shares=True))
        if held_count:
            holders.append((held_count, claim))
    holders.sort(key=lambda holder: holder[0])
    for _held_count, claim in holders[:MOST_HOLDERS]:
        yield from _iter_claim_release_fixes(trial_node, claim)


def _find_visible_devices(trial_node: TrialNode) -> set[DeviceId]:
    """Return the ids of the devices that the node can use, or an empty set if DynamicResources has no state."""
    evaluation = trial_node.cycle.pre_filter.find_state(DynamicResources)
    pools = evaluation.inventory.get_pools(trial_node.known_row) if evaluation else ()
    return {device.id for pool in pools for device in pool.devices}


def _iter_claim_release_fixes(trial_node: TrialNode, claim: ResourceClaim) -> Iterator[Fix]:
    """Yield the fix that frees the claim's devices if no pod uses it, otherwise fixes that stop its running users.

    At most `MOST_HOLDERS` pods are proposed to be stopped.
    """
    users = claim.status.reserved_for
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    if not users:
        key = ObjectKey.of(claim)
        text = f"free the devices of ResourceClaim {name}, which no pod uses"
        edits = (ObjectEdit(key, _without_allocation),)
        commands = (device_claims.render_claim_recreation(claim),)
        weakens = f"ResourceClaim {name} loses its devices"
        yield Fix(
            kind=FixKind.FREE_DEVICES,
            target=key,
            text=text,
            by="operator",
            edits=edits,
            cost=FREE,
            weakens=weakens,
            commands=commands,
            variant_of="claim",
            where=name,
        )
        return
    pods = trial_node.cycle.view.pods.index
    for user in users[:MOST_HOLDERS]:
        position = pods.get(f"{claim.metadata.namespace}/{user.name}")
        if user.resource == "pods" and position is not None and trial_node.cycle.view.has_node(position):
            yield from iter_pod_stop_fixes(trial_node, position)


def _without_allocation(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim without its allocation."""
    return replace(claim, status=replace(claim.status, allocation=None, devices=()))


def _iter_reallocation_fixes(trial_node: TrialNode, key: str) -> Iterator[Fix]:
    """Yield the fix that recreates a claim whose devices the pod cannot reach, so that the claim gets other devices.

    If other pods use the claim, fixes that stop the first `MOST_HOLDERS` of them are yielded instead. ``key`` is the
    claim's ``namespace/name``. Nothing is yielded if the claim does not exist.
    """
    claim = device_claims.find_resource_claim(trial_node, key.rpartition("/")[2])
    if claim is None:
        return
    other_users = [user for user in claim.status.reserved_for if user.uid != trial_node.trial.pod.metadata.uid]
    for user in other_users[:MOST_HOLDERS]:
        position = trial_node.cycle.view.pods.index.get(f"{claim.metadata.namespace}/{user.name}")
        if user.resource == "pods" and position is not None:
            yield from iter_pod_stop_fixes(trial_node, position)
    if not other_users:
        object_key = ObjectKey.of(claim)
        text = f"recreate ResourceClaim {key}, so that its devices are allocated where the pod can run"
        edits = (ObjectEdit(object_key, _without_allocation_and_users),)
        commands = (device_claims.render_claim_recreation(claim),)
        yield Fix(
            kind=FixKind.FREE_DEVICES,
            target=object_key,
            text=text,
            by="author",
            edits=edits,
            cost=FREE,
            commands=commands,
            price=Price.WISH,
        )


def _without_allocation_and_users(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim without its allocation and reservations."""
    freed_claim = _without_allocation(claim)
    return replace(freed_claim, status=replace(freed_claim.status, reserved_for=()))


# -- taints of devices -----------------------------------------------------------------------------------------------


def _iter_device_taint_removal_fixes(trial_node: TrialNode, taint_text: str) -> Iterator[Fix]:
    """Yield fixes that delete DeviceTaintRules with the taint, or have the driver remove the taint from its devices.

    The driver's fixes are yielded for each ResourceSlice with the taint that the node can use.
    """
    view = trial_node.cycle.view
    # Taints from rules
    for rule in view.objects.of("DeviceTaintRule"):
        if _is_taint(rule.spec.taint, taint_text):
            key = ObjectKey.of(rule)
            text = f"delete DeviceTaintRule {rule.metadata.name}, which taints devices with {taint_text}"
            weakens = f"devices are no longer tainted with {taint_text}"
            edits = (ObjectEdit(key, _delete_rule),)
            commands = (kubectl.render_delete(key),)
            yield Fix(
                kind=FixKind.DELETE_DEVICE_TAINT_RULE,
                target=key,
                text=text,
                by="operator",
                edits=edits,
                cost=UNTAINT,
                weakens=weakens,
                commands=commands,
            )

    # Taints that drivers set in the ResourceSlices of the node
    visible_pools = {(driver, pool) for driver, pool, _device in _find_visible_devices(trial_node)}
    for resource_slice in view.objects.of("ResourceSlice"):
        key = ObjectKey.of(resource_slice)
        spec = resource_slice.spec
        is_visible = (spec.driver, spec.pool.name) in visible_pools
        if is_visible and any(_has_taint(device, taint_text) for device in spec.devices):
            devices_text = f"the devices of ResourceSlice {key.name}"
            text = f"have driver {spec.driver} remove the taint {taint_text} from {devices_text}"
            edits = (ObjectEdit(key, _build_device_untainting(taint_text)),)
            yield Fix(
                kind=FixKind.UNTAINT_DEVICES,
                target=(key, taint_text),
                text=text,
                by="operator",
                edits=edits,
                cost=UNTAINT,
                variant_of=taint_text,
                where=key.name,
            )


def _delete_rule(rule: DeviceTaintRule) -> None:
    """Return None, which as the result of an edit deletes the rule."""
    return


def _is_taint(taint: DeviceTaint, taint_text: str) -> bool:
    """Return whether this is the taint that a fault describes by `taint_text`, as KEY=VALUE:EFFECT."""
    return str(taint) == taint_text


def _has_taint(device: Device, taint_text: str) -> bool:
    """Return whether the device has the taint that `taint_text` describes, as KEY=VALUE:EFFECT."""
    return any(_is_taint(taint, taint_text) for taint in device.taints)


def _build_device_untainting(taint_text: str) -> Callable[[ResourceSlice], ResourceSlice]:
    """Return a function that removes the taint from all devices of a ResourceSlice."""

    def change(current: ResourceSlice) -> ResourceSlice:
        """Return the ResourceSlice without the taint."""
        devices = tuple(
            replace(device, taints=tuple(taint for taint in device.taints if not _is_taint(taint, taint_text)))
            for device in current.spec.devices
        )
        return replace(current, spec=replace(current.spec, devices=devices))

    return change


def _build_device_columns(cycle: Cycle) -> tuple[Ints, ...]:
    """Build a single column (N,) with equal codes for nodes whose devices are in the same state.

    If there are more than `MOST_DEVICE_STATES` states, nodes with equal numbers of devices and of allocated devices get
    equal codes. Return () if DynamicResources has no state in this cycle.
    """
    evaluation = cycle.pre_filter.find_state(DynamicResources)
    if evaluation is None:
        return ()
    rows = [Row(row) for row in range(len(cycle.view.nodes))]
    codes = _number_distinct_values(evaluation.build_node_key(row, claim_unavailable=False) for row in rows)
    if codes.max(initial=0) >= MOST_DEVICE_STATES:
        codes = _number_distinct_values(_count_devices(evaluation.inventory, row) for row in rows)
    return (codes,)


def _number_distinct_values(values: Iterable[Hashable]) -> Ints:
    """Return a number for each value, (N,), so that equal values have equal numbers. Numbers start at 0."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _count_devices(inventory: Inventory, row: Row) -> tuple[int, int]:
    """Return how many devices a node has, and how many of them are allocated."""
    devices = [device.id for pool in inventory.get_pools(row) for device in pool.devices]
    return len(devices), sum(map(inventory.state.is_allocated, devices))


REMEDIES = {
    DynamicResources: PluginRemedies(
        (waiting.iter_termination_wait_fixes, iter_device_fixes), columns=_build_device_columns
    )
}
