"""Explanations of why a node's devices cannot fill requests: how many fit, and why the others do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId
from kschedctl.scheduler.plugins.dynamic_resources.allocator import Search, SearchPosition
from kschedctl.scheduler.plugins.dynamic_resources.claims import ALL
from kschedctl.scheduler.plugins.dynamic_resources.constraints import find_attribute
from kschedctl.scheduler.plugins.dynamic_resources.facts import DeviceFault, DevicesUnfit, PoolTrouble, RequestedDevices
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.pools import Pool, PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, ClaimRequests, Request


def diagnose_node(inventory: Inventory, row: int, claims: Sequence[ClaimRequests]) -> DevicesUnfit:
    """Return the requests that the node's devices cannot fill, or all requests if each can be filled on its own."""
    search = Search(inventory, row, claims)
    faults: list[RequestedDevices] = []
    fits: list[RequestedDevices] = []
    for index, claim in enumerate(claims):
        for position, alternatives in enumerate(claim.requests):
            requests = [
                _count_fitting_devices(search, SearchPosition(index, position, i)) for i in range(len(alternatives))
            ]
            short = [request for enough, request in requests if not enough]
            (faults if len(short) == len(requests) else fits).extend(
                short if len(short) == len(requests) else [requests[0][1]]
            )
    pools = tuple(_describe_pool(pool) for pool in search.pools if not pool.usable)
    if faults:
        return DevicesUnfit(tuple(faults), pools=pools)
    constraints = (
        _format_constraint(c.match_attribute, c.distinct_attribute) for claim in claims for c in claim.constraints
    )
    return DevicesUnfit(tuple(fits), together=True, constraints=tuple(constraints), pools=pools)


class FreeDevices(NamedTuple):
    """The free devices of a node that fit one alternative of a request."""

    claim: str
    request: str
    alternative: str
    wanted: int
    """The number of devices that the request wants."""
    devices: frozenset[DeviceId]


def iter_free_devices(inventory: Inventory, row: int, claims: Sequence[ClaimRequests]) -> Iterator[FreeDevices]:
    """Yield the free devices for each request with a count, as if it were the only request."""
    search = Search(inventory, row, claims)
    for index, claim in enumerate(claims):
        for position, alternatives in enumerate(claim.requests):
            for i, request in enumerate(alternatives):
                if request.mode != ALL:
                    devices = _find_free_devices(search, SearchPosition(index, position, i), request)
                    yield FreeDevices(
                        claim.key, request.parent or request.name, request.full_name, request.count, devices
                    )


def _find_free_devices(search: Search, position: SearchPosition, request: Request) -> frozenset[DeviceId]:
    """Return the devices that fit the request and are free."""
    fitting = [place for place in search.places if not _find_misfit(search, request, *place)]
    return frozenset(place[1].id for place in fitting if not _find_obstacle(search, position, request, *place))


def _count_fitting_devices(search: Search, position: SearchPosition) -> tuple[bool, RequestedDevices]:
    """Return whether enough devices fit the request on its own, with their number and the reasons against the
    others.
    """
    claim = search.claims[position.claim]
    request = claim.requests[position.request][position.alternative]
    wanted = None if request.mode == ALL else request.count
    devices = RequestedDevices(claim.key, request.full_name, wanted, devices=len(search.places), free=0)
    if not search.places:
        return False, devices
    misfits: Counter[DeviceFault] = Counter()
    obstacles: Counter[DeviceFault] = Counter()
    free = 0
    for place in search.places:
        misfit = _find_misfit(search, request, *place)
        if misfit is not None:
            misfits[misfit] += 1
            continue
        obstacle = _find_obstacle(search, position, request, *place)
        if obstacle is not None:
            obstacles[obstacle] += 1
        else:
            free += 1
    faults = tuple(replace(fault, devices=count) for fault, count in (obstacles + misfits).most_common())
    enough = bool(free and not obstacles) if request.mode == ALL else free >= request.count
    return enough, replace(devices, free=free, faults=faults)


def _find_misfit(search: Search, request: Request, pool: Pool, device: PooledDevice) -> DeviceFault | None:
    """Return the reason why the request does not select the device, or None if it does."""
    for selector in request.selectors:
        source = selector.source.partition(":")[0]
        try:
            if not search.inventory.matches_selector(selector, device, search.features.newer_allocator):
                return DeviceFault("NotSelected", source=source, expression=selector.text)
        except AllocationError as error:
            return DeviceFault("SelectorFails", error.text, source, selector.text)
    if device.device.binding_conditions and not search.features.binding_conditions:
        return DeviceFault("HasBindingConditions")
    return None if search.inventory.is_on_node(device, search.row) else DeviceFault("OnOtherNodes")


def _find_obstacle(
    search: Search, position: SearchPosition, request: Request, pool: Pool, device: PooledDevice
) -> DeviceFault | None:
    """Return the first reason why a selected device cannot be allocated, or None."""
    available = search.inventory.compute_available_counters(pool)
    obstacles = {
        DeviceFault("Allocated"): search.is_in_use(position, device),
        DeviceFault("WithoutCapacity"): not search.has_capacity(request, device),
        DeviceFault("ShortOfCounters"): any(n > available.get(counter, 0) for counter, n in device.consumes.items()),
    }
    taint = request.find_untolerated_taint(device.device) if search.features.device_taints else None
    if taint:
        obstacles[DeviceFault("Tainted", str(taint))] = True
    for constraint in search.claims[position.claim].constraints:
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        missing = request.is_named_in(constraint.requests) and find_attribute(device, attribute) is None
        obstacles[DeviceFault("WithoutAttribute", attribute)] = missing
    return next((fault for fault, applies in obstacles.items() if applies), None)


def _format_constraint(match: str | None, distinct: str | None) -> str:
    """Format a constraint as in the claim's YAML."""
    return f"matchAttribute {match}" if match is not None else f"distinctAttribute {distinct}"


def _describe_pool(pool: Pool) -> PoolTrouble:
    """Return the reason why the pool is unusable."""
    return PoolTrouble(pool.label, "" if pool.incomplete else str(pool.invalid))
