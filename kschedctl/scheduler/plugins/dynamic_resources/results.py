"""The allocation results that the scheduler writes into the status of claims: devices and a node selector.

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


class AllocatedDevice(NamedTuple):
    """A device that the search allocated to a request."""

    request: Request
    device: PooledDevice
    consumed: Quantities
    """The capacity that is consumed of a shared device."""
    shared: bool
    """Whether the device can be allocated several times."""
    charged: bool = False
    """Whether this allocation was charged to the counters of the pool."""
    first: bool = False
    """Whether this is the first share of the device in the search."""


Allocation = tuple[tuple[AllocatedDevice, ...], ...]
"""The devices of each claim."""


def build_allocation_result(
    results: Sequence[AllocatedDevice], devices: Sequence[PooledDevice], node_selector: NodeSelector, features: Features
) -> AllocationResult:
    """Build one claim's allocation on a node. Shares have no ID yet.

    ``devices`` are the node's devices for the results, and ``node_selector`` is a selector for the node alone.
    """
    allocated = [
        _build_device_result(result, device, features) for result, device in zip(results, devices, strict=True)
    ]
    return AllocationResult(DeviceAllocationResult(tuple(allocated)), _build_node_selector(devices, node_selector))


def check_node_selectors(claims: Iterable[ResourceClaim], allocation: Allocation) -> None:
    """Raise AllocationError if a device's node selector has several terms, which upstream cannot combine."""
    for claim, results in zip(claims, allocation, strict=True):
        for result in results:
            name, local, selector = _find_node_restriction(result.device)
            if name is not None or local:
                break
            terms = len(selector.node_selector_terms) if selector else 0
            if terms > 1:
                problem = f"unsupported ResourceSlice.NodeSelector with {terms} terms"
                raise AllocationError(f"create NodeSelector for claim {claim.metadata.name}: {problem}")


def _find_node_restriction(pooled: PooledDevice) -> tuple[str | None, bool, NodeSelector | None]:
    """Return the device's node name, whether it binds to the allocated node, and its node selector."""
    spec, device = pooled.slice.spec, pooled.device
    holder = device if spec.per_device_node_selection else spec
    return holder.node_name, bool(device.binds_to_node), holder.node_selector


def _build_device_result(
    result: AllocatedDevice, pooled: PooledDevice, features: Features
) -> DeviceRequestAllocationResult:
    """Build the result for one device."""
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


def _build_node_selector(devices: Iterable[PooledDevice], own_node: NodeSelector) -> NodeSelector | None:
    """Build the selector for the nodes on which all devices can be used, or None for any node.

    A device that is local to its node restricts the selector to this node.
    """
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for pooled in devices:
        name, local, selector = _find_node_restriction(pooled)
        if name is not None or local:
            return own_node
        for term in selector.node_selector_terms if selector else ():
            _extend_requirements(fields, term.match_fields)
            _extend_requirements(expressions, term.match_expressions)
    if not (fields or expressions):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _extend_requirements(requirements: list[SelectorRequirement], more: tuple[SelectorRequirement, ...]) -> None:
    """Append the requirements that are not in the list yet."""
    for new in more:
        if not any(
            (new.key, new.operator, set(new.values or ())) == (old.key, old.operator, set(old.values or ()))
            for old in requirements
        ):
            requirements.append(new)
