"""What the scheduler would write into the claims' status: the devices found, and for which nodes they are.

Upstream: structured/internal/incubating/allocator_incubating.go, Allocate and createNodeSelector (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kschedctl.api.objects import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorTerm,
    ResourceClaim,
    SelectorRequirement,
)
from kschedctl.scheduler.plugins.dynamic_resources.allocated import Quantities
from kschedctl.scheduler.plugins.dynamic_resources.pools import PooledDevice
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocationError, Request
from kschedctl.scheduler.plugins.helper.device_features import Features


class Result(NamedTuple):
    """A device for a request. ``consumed``: what a shared device gives of its capacities.

    ``charged``: it took counters of its pool; ``first``: of its shares in the search.
    """

    request: Request
    device: PooledDevice
    consumed: Quantities
    shared: bool
    charged: bool = False
    first: bool = False


Allocation = tuple[tuple[Result, ...], ...]
"""The devices of each claim."""


def allocation_result(
    results: Sequence[Result], devices: Sequence[PooledDevice], itself: NodeSelector, features: Features
) -> AllocationResult:
    """One claim's allocation on a node: of each result the device there; its shares carry no ID yet.

    ``itself`` selects the node alone.
    """
    allocated = [_device(result, device, features) for result, device in zip(results, devices, strict=True)]
    return AllocationResult(DeviceAllocationResult(tuple(allocated)), _node_selector(devices, itself))


def check_node_selectors(claims: Iterable[ResourceClaim], allocation: Allocation) -> None:
    """Upstream cannot tell for which nodes devices are of which the slice has several terms. Raises AllocationError."""
    for claim, results in zip(claims, allocation, strict=True):
        for result in results:
            name, local, selector = _holder(result.device)
            if name is not None or local:
                break
            terms = len(selector.node_selector_terms) if selector else 0
            if terms > 1:
                what = f"unsupported ResourceSlice.NodeSelector with {terms} terms"
                raise AllocationError(f"create NodeSelector for claim {claim.metadata.name}: {what}")


def _holder(pooled: PooledDevice) -> tuple[str | None, bool, NodeSelector | None]:
    """The node that a device is for by name, whether it is for the one that it is allocated on, and other nodes."""
    spec, device = pooled.slice.spec, pooled.device
    holder = device if spec.per_device_node_selection else spec
    return holder.node_name, bool(device.binds_to_node), holder.node_selector


def _device(result: Result, pooled: PooledDevice, features: Features) -> DeviceRequestAllocationResult:
    driver, pool, name = pooled.id
    device, request = pooled.device, result.request
    conditions = features.binding_conditions
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if request.admin_access else None,
        tolerations=request.tolerations,
        consumed_capacity={name: str(quantity) for name, quantity in result.consumed.items()}
        if result.consumed
        else {},
        binding_conditions=device.binding_conditions if conditions else (),
        binding_failure_conditions=device.binding_failure_conditions if conditions else (),
    )


def _node_selector(devices: Iterable[PooledDevice], itself: NodeSelector) -> NodeSelector | None:
    """The node itself when a device is local to it, else what all the devices demand of nodes, None for any node."""
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for pooled in devices:
        name, local, selector = _holder(pooled)
        if name is not None or local:
            return itself
        for term in selector.node_selector_terms if selector else ():
            _extend(fields, term.match_fields)
            _extend(expressions, term.match_expressions)
    if not (fields or expressions):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _extend(requirements: list[SelectorRequirement], more: tuple[SelectorRequirement, ...]) -> None:
    for new in more:
        if not any(
            (new.key, new.operator, set(new.values or ())) == (old.key, old.operator, set(old.values or ()))
            for old in requirements
        ):
            requirements.append(new)
