"""Why a node's devices do not do: for each request, how many devices fit and what is wrong with the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.scheduler.plugins.dynamic_resources.allocated import DeviceId
from kschedctl.scheduler.plugins.dynamic_resources.allocator import At, Search
from kschedctl.scheduler.plugins.dynamic_resources.claims import ALL
from kschedctl.scheduler.plugins.dynamic_resources.constraints import lookup
from kschedctl.scheduler.plugins.dynamic_resources.facts import DeviceFault, DevicesUnfit, PoolTrouble, RequestedDevices
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.pools import Pool, PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, ClaimRequests, Request


def diagnose(inventory: Inventory, row: int, claims: Sequence[ClaimRequests]) -> DevicesUnfit:
    """The requests that the node's devices cannot fill one by one; if there are none, that they cannot all at once."""
    search = Search(inventory, row, claims)
    faults: list[RequestedDevices] = []
    fits: list[RequestedDevices] = []
    for index, claim in enumerate(claims):
        for position, alternatives in enumerate(claim.requests):
            requests = [_request(search, At(index, position, i)) for i in range(len(alternatives))]
            short = [request for enough, request in requests if not enough]
            (faults if len(short) == len(requests) else fits).extend(
                short if len(short) == len(requests) else [requests[0][1]]
            )
    pools = tuple(_trouble(pool) for pool in search.pools if not pool.usable)
    if faults:
        return DevicesUnfit(tuple(faults), pools=pools)
    constraints = (_constraint(c.match_attribute, c.distinct_attribute) for claim in claims for c in claim.constraints)
    return DevicesUnfit(tuple(fits), together=True, constraints=tuple(constraints), pools=pools)


class FreeDevices(NamedTuple):
    """The free ``devices`` of a node that an alternative of a request could have, each by itself, of so many wanted."""

    claim: str
    request: str
    alternative: str
    wanted: int
    devices: frozenset[DeviceId]


def free_devices(inventory: Inventory, row: int, claims: Sequence[ClaimRequests]) -> Iterator[FreeDevices]:
    """Those of a node, for each request that says how many it wants; what other requests take of them is left aside."""
    search = Search(inventory, row, claims)
    for index, claim in enumerate(claims):
        for position, alternatives in enumerate(claim.requests):
            for i, request in enumerate(alternatives):
                if request.mode != ALL:
                    devices = _free(search, At(index, position, i), request)
                    yield FreeDevices(
                        claim.key, request.parent or request.name, request.full_name, request.count, devices
                    )


def _free(search: Search, at: At, request: Request) -> frozenset[DeviceId]:
    fitting = [place for place in search.places if not _misfit(search, request, *place)]
    return frozenset(place[1].id for place in fitting if not _obstacle(search, at, request, *place))


def _request(search: Search, at: At) -> tuple[bool, RequestedDevices]:
    """Whether enough devices fit the request by itself, and how many do."""
    claim, request = search.claims[at.claim], search.claims[at.claim].requests[at.request][at.alternative]
    devices = RequestedDevices(
        claim.key, request.full_name, None if request.mode == ALL else request.count, len(search.places), 0
    )
    if not search.places:
        return False, devices
    misfits = Counter(filter(None, (_misfit(search, request, *place) for place in search.places)))
    fitting = [place for place in search.places if not _misfit(search, request, *place)]
    obstacles = Counter(filter(None, (_obstacle(search, at, request, *place) for place in fitting)))
    free = len(fitting) - obstacles.total()
    faults = tuple(replace(fault, devices=count) for fault, count in (obstacles + misfits).most_common())
    enough = bool(free and not obstacles) if request.mode == ALL else free >= request.count
    return enough, replace(devices, free=free, faults=faults)


def _misfit(search: Search, request: Request, pool: Pool, device: PooledDevice) -> DeviceFault | None:
    """Why the request is not about a device at all, None if it is."""
    for selector in request.selectors:
        source = selector.source.partition(":")[0]
        try:
            if not search.inventory.selects(selector, device, search.features.newer_allocator):
                return DeviceFault("NotSelected", source=source, expression=selector.text)
        except AllocationError as error:
            return DeviceFault("SelectorFails", error.text, source, selector.text)
    if device.device.binding_conditions and not search.features.binding_conditions:
        return DeviceFault("HasBindingConditions")
    return None if search.inventory.on_node(device, search.row) else DeviceFault("OnOtherNodes")


def _obstacle(search: Search, at: At, request: Request, pool: Pool, device: PooledDevice) -> DeviceFault | None:
    """The first thing in the way of a device that the request is about."""
    available = search.inventory.available(pool)
    obstacles = {
        DeviceFault("Allocated"): search.in_use(at, device),
        DeviceFault("WithoutCapacity"): not search.has_capacity(request, device),
        DeviceFault("ShortOfCounters"): any(n > available.get(counter, 0) for counter, n in device.consumes.items()),
    }
    taint = request.taint_against(device.device) if search.features.device_taints else None
    if taint:
        obstacles[DeviceFault("Tainted", str(taint))] = True
    for constraint in search.claims[at.claim].constraints:
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        missing = request.named_in(constraint.requests) and lookup(device, attribute) is None
        obstacles[DeviceFault("WithoutAttribute", attribute)] = missing
    return next((fault for fault, applies in obstacles.items() if applies), None)


def _constraint(match: str | None, distinct: str | None) -> str:
    return f"matchAttribute {match}" if match is not None else f"distinctAttribute {distinct}"


def _trouble(pool: Pool) -> PoolTrouble:
    return PoolTrouble(pool.label, "" if pool.incomplete else str(pool.invalid))
