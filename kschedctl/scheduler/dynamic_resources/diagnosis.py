"""Why a node's devices do not do: for each request, how many devices fit and what is wrong with the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kschedctl.scheduler.dynamic_resources.allocator import At, Search, taint_against
from kschedctl.scheduler.dynamic_resources.constraints import lookup
from kschedctl.scheduler.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.dynamic_resources.pools import Pool, PooledDevice
from kschedctl.scheduler.dynamic_resources.requests import ALL, AllocationError, ClaimRequests, Request


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
    obstacles = Counter(next(_obstacles(search, at, request, *place), "") for place in search.places)
    fitting = obstacles.pop("", 0)
    wanted = "all devices" if request.mode == ALL else f"{request.count} device{'s' * (request.count != 1)}"
    text = f"{claim.key} request {request.full_name} wants {wanted}, {fitting} of {len(search.places)} fit"
    if obstacles:
        text += f" ({', '.join(f'{count} {obstacle}' for obstacle, count in obstacles.most_common())})"
    return fitting >= (request.count if request.mode != ALL else max(fitting, 1)), text


def _obstacles(search: Search, at: At, request: Request, pool: Pool, device: PooledDevice) -> Iterator[str]:
    """What is in the way of one device, in the order in which the allocator looks."""
    if search.in_use(at, device):
        yield "allocated"
    yield from _unselected(search, request, device)
    if not search.is_selectable(at, device):
        yield "not for this node" if search.features.binding_conditions else "with binding conditions"
    if not search.has_capacity(request, device):
        yield "without the capacity"
    available = pool.available or {}
    if any(amount > available.get(counter, 0) for counter, amount in device.consumes.items()):
        yield "short of shared counters"
    if search.features.device_taints and (taint := taint_against(device, request)):
        yield f"tainted {taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}"
    for constraint in search.claims[at.claim].constraints:
        attribute = constraint.match_attribute or constraint.distinct_attribute
        if attribute and request.named_in(constraint.requests) and lookup(device, attribute) is None:
            yield f"without attribute {attribute}"


def _unselected(search: Search, request: Request, device: PooledDevice) -> Iterator[str]:
    for selector in request.selectors:
        try:
            if not search.inventory.selects(selector, device):
                yield f"not selected by {selector.source}"
        except AllocationError as error:
            yield f"failing in {error}"


def _constraint(match: str | None, distinct: str | None) -> str:
    return f"matchAttribute {match}" if match is not None else f"distinctAttribute {distinct}"


def _trouble(pool: Pool) -> str:
    return "incomplete" if pool.incomplete else f"invalid: {pool.invalid}"
