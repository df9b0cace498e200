"""Why a node's devices do not do: for each request, how many devices fit and what is wrong with the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kschedctl.scheduler.dynamic_resources.allocator import At, Search, taint_against
from kschedctl.scheduler.dynamic_resources.claims import ALL
from kschedctl.scheduler.dynamic_resources.constraints import lookup
from kschedctl.scheduler.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.dynamic_resources.pools import Pool, PooledDevice
from kschedctl.scheduler.dynamic_resources.requests import AllocationError, ClaimRequests, Request


def diagnose(inventory: Inventory, row: int, claims: Sequence[ClaimRequests]) -> str:
    """The requests that the node's devices cannot fill one by one; if there are none, that they cannot all at once."""
    search = Search(inventory, row, claims)
    faults: list[str] = []
    fits: list[str] = []
    for index, claim in enumerate(claims):
        for position, alternatives in enumerate(claim.requests):
            found = [_request(search, At(index, position, i)) for i in range(len(alternatives))]
            short = [text for enough, text in found if not enough]
            (faults if len(short) == len(found) else fits).extend(short if len(short) == len(found) else [found[0][1]])
    pools = [f"pool {pool.label} is {_trouble(pool)}" for pool in search.pools if not pool.usable]
    if faults:
        return "; ".join((*faults, *pools))
    constraints = [_constraint(c.match_attribute, c.distinct_attribute) for claim in claims for c in claim.constraints]
    together = f"no choice of devices meets {' and '.join(constraints)}" if constraints else "not all at once"
    return "; ".join((*fits, together, *pools))


def _request(search: Search, at: At) -> tuple[bool, str]:
    """Whether enough devices fit the request by itself, and the count in words."""
    claim, request = search.claims[at.claim], search.claims[at.claim].requests[at.request][at.alternative]
    wanted = "all devices" if request.mode == ALL else f"{request.count} device{'s' * (request.count != 1)}"
    text = f"{claim.key} request {request.full_name} wants {wanted}"
    if not search.places:
        return False, f"{text}, the node has none"
    misfits = Counter(filter(None, (_misfit(search, request, *place) for place in search.places)))
    fitting = [place for place in search.places if not _misfit(search, request, *place)]
    obstacles = Counter(filter(None, (_obstacle(search, at, request, *place) for place in fitting)))
    free = len(fitting) - obstacles.total()
    faults = ", ".join(f"{count} {fault}" for fault, count in (obstacles + misfits).most_common())
    text += f", {free} of {len(search.places)} fit" + f" ({faults})" * bool(faults)
    return bool(free and not obstacles) if request.mode == ALL else free >= request.count, text


def _misfit(search: Search, request: Request, pool: Pool, device: PooledDevice) -> str:
    """Why the request is not about a device at all, empty if it is."""
    for selector in request.selectors:
        where = f"{selector.source.partition(':')[0]}: {_shortened(selector.text)}"
        try:
            if not search.inventory.selects(selector, device):
                return f"not selected by {where}"
        except AllocationError as error:
            return f"failing by {error.text} in {where}"
    if device.device.binding_conditions and not search.features.binding_conditions:
        return "with binding conditions"
    return "" if search.inventory.on_node(device, search.row) else "for other nodes"


def _obstacle(search: Search, at: At, request: Request, pool: Pool, device: PooledDevice) -> str:
    """The first thing in the way of a device that the request is about."""
    available = pool.available or {}
    obstacles = {
        "allocated": search.in_use(at, device),
        "without the capacity": not search.has_capacity(request, device),
        "short of shared counters": any(n > available.get(counter, 0) for counter, n in device.consumes.items()),
    }
    taint = taint_against(device, request) if search.features.device_taints else None
    if taint:
        obstacles[f"tainted {taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}"] = True
    for constraint in search.claims[at.claim].constraints:
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        missing = request.named_in(constraint.requests) and lookup(device, attribute) is None
        obstacles[f"without attribute {attribute}"] = missing
    return next((text for text, applies in obstacles.items() if applies), "")


def _shortened(expression: str) -> str:
    line = " ".join(expression.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def _constraint(match: str | None, distinct: str | None) -> str:
    return f"matchAttribute {match}" if match is not None else f"distinctAttribute {distinct}"


def _trouble(pool: Pool) -> str:
    return "incomplete" if pool.incomplete else f"invalid: {pool.invalid}"
