"""Explanations of why a node's devices cannot fill requests: how many fit, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import DeviceConstraint
from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId
from kschedctl.scheduler.plugins.dynamic_resources.allocator import Search, SearchPosition
from kschedctl.scheduler.plugins.dynamic_resources.claims import ALL
from kschedctl.scheduler.plugins.dynamic_resources.constraints import find_attribute
from kschedctl.scheduler.plugins.dynamic_resources.facts import DeviceFault, DevicesUnfit, PoolTrouble, RequestedDevices
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.pools import Pool, PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, ClaimRequests, Expression, Request


def diagnose_node(inventory: Inventory, row: int, claims: Sequence[ClaimRequests]) -> DevicesUnfit:
    """Explain why the node's devices cannot fill the requests of the claims, judging each request separately.

    The result has the requests that cannot be filled, with all their alternatives. If each request alone could be
    filled, the result has all requests, each with its first alternative, and the claims' constraints.
    """
    search = Search(inventory, row, claims)
    unfilled: list[RequestedDevices] = []
    filled: list[RequestedDevices] = []
    for claim_index, claim in enumerate(claims):
        for request_index, alternatives in enumerate(claim.requests):
            fits = []
            for index in range(len(alternatives)):
                fits.append(_count_fitting_devices(search, SearchPosition(claim_index, request_index, index)))
            if any(fit.is_enough for fit in fits):
                filled.append(fits[0].devices)
            else:
                unfilled.extend(fit.devices for fit in fits)

    unusable_pools = tuple(_build_pool_trouble(pool) for pool in search.pools if not pool.usable)
    if unfilled:
        return DevicesUnfit(tuple(unfilled), pools=unusable_pools)
    constraints = tuple(_format_constraint(constraint) for claim in claims for constraint in claim.constraints)
    return DevicesUnfit(tuple(filled), together=True, constraints=constraints, pools=unusable_pools)


class FreeDevices(NamedTuple):
    """The free devices of a node that fit one alternative of a request."""

    claim: str
    request: str
    alternative: str
    wanted: int
    """The number of devices that the request wants."""
    devices: frozenset[DeviceId]


def iter_free_devices(inventory: Inventory, row: int, claims: Sequence[ClaimRequests]) -> Iterator[FreeDevices]:
    """Yield the free devices for each exact request and each alternative, as if it were the only request.

    Requests with mode All are left out, because they do not ask for a specific number of devices.
    """
    search = Search(inventory, row, claims)
    for claim_index, claim in enumerate(claims):
        for request_index, alternatives in enumerate(claim.requests):
            for alternative_index, request in enumerate(alternatives):
                if request.mode == ALL:
                    continue
                position = SearchPosition(claim_index, request_index, alternative_index)
                yield FreeDevices(
                    claim=claim.key,
                    request=request.parent or request.name,
                    alternative=request.full_name,
                    wanted=request.count,
                    devices=_find_free_devices(search, position, request),
                )


def _find_free_devices(search: Search, position: SearchPosition, request: Request) -> frozenset[DeviceId]:
    """Return the IDs of the node's devices that fit the request and can be allocated."""
    return frozenset(
        device.id
        for pool, device in search.places
        if not _find_selection_fault(search, request, device)
        and not _find_allocation_fault(search, position, request, pool, device)
    )


class RequestFit(NamedTuple):
    """The devices of a node that fit one request."""

    is_enough: bool
    """True if the devices suffice if this is the only request."""
    devices: RequestedDevices


def _count_fitting_devices(search: Search, position: SearchPosition) -> RequestFit:
    """Count the node's devices that the request could get, and tally the other devices by what stands in the way.

    The result also says whether the devices are enough. A request with mode All needs every device that it selects, and
    at least one.
    """
    claim = search.claims[position.claim]
    alternatives = claim.requests[position.request]
    request = alternatives[position.alternative]
    wants_all = request.mode == ALL

    misfits: Counter[DeviceFault] = Counter()  # why devices are not selected
    obstacles: Counter[DeviceFault] = Counter()  # why selected devices cannot be allocated
    free = 0
    for pool, device in search.places:
        misfit = _find_selection_fault(search, request, device)
        if misfit is not None:
            misfits[misfit] += 1
            continue
        obstacle = _find_allocation_fault(search, position, request, pool, device)
        if obstacle is not None:
            obstacles[obstacle] += 1
        else:
            free += 1

    is_enough = (free > 0 and not obstacles) if wants_all else free >= request.count
    faults = tuple(replace(fault, devices=count) for fault, count in (obstacles + misfits).most_common())
    devices = RequestedDevices(
        claim.key,
        request.full_name,
        wanted=None if wants_all else request.count,
        devices=len(search.places),
        free=free,
        faults=faults,
    )
    return RequestFit(is_enough, devices)


def _build_selector_fault(reason: str, selector: Expression, error: str = "") -> DeviceFault:
    """Build the fault that a CEL selector does not match a device, or fails with an error."""
    return DeviceFault(reason, error, selector.holder, selector.text, of_class=selector.of_class)


def _find_selection_fault(search: Search, request: Request, device: PooledDevice) -> DeviceFault | None:
    """Return the first reason why the request does not select the device or the node cannot use it, or None."""
    for selector in request.selectors:
        try:
            if not search.inventory.matches_selector(selector, device, shares=search.features.uses_newer_allocator):
                return _build_selector_fault("NotSelected", selector)
        except AllocationError as error:
            return _build_selector_fault("SelectorFails", selector, error.text)
    if device.device.binding_conditions and not search.features.binding_conditions:
        return DeviceFault("HasBindingConditions")
    if not search.inventory.is_on_node(device, search.row):
        return DeviceFault("OnOtherNodes")
    return None


def _find_allocation_fault(
    search: Search, position: SearchPosition, request: Request, pool: Pool, device: PooledDevice
) -> DeviceFault | None:
    """Return the first reason why the request cannot get a device that it selects, or None.

    The device may be allocated, have too little capacity or too few counters left, have a taint, or lack the attribute
    of a constraint.
    """
    if search.is_in_use(position, device):
        return DeviceFault("Allocated")
    if not search.has_capacity(request, device):
        return DeviceFault("WithoutCapacity")
    available = search.inventory.compute_available_counters(pool)
    if any(amount > available.get(counter, 0) for counter, amount in device.consumes.items()):
        return DeviceFault("ShortOfCounters")
    taint = request.find_untolerated_taint(device.device) if search.features.device_taints else None
    if taint is not None:
        return DeviceFault("Tainted", str(taint))
    for constraint in search.claims[position.claim].constraints:
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        if request.is_named_in(constraint.requests) and find_attribute(device, attribute) is None:
            return DeviceFault("WithoutAttribute", attribute)
    return None


def _format_constraint(constraint: DeviceConstraint) -> str:
    """Format a constraint as in the claim's YAML."""
    if constraint.match_attribute is not None:
        return f"matchAttribute {constraint.match_attribute}"
    return f"distinctAttribute {constraint.distinct_attribute}"


def _build_pool_trouble(pool: Pool) -> PoolTrouble:
    """Build the fact that a pool is incomplete, or that it is invalid and why."""
    return PoolTrouble(pool.label, "" if pool.incomplete else str(pool.invalid))
