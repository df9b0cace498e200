"""What the scheduler would write into the claims' status: the devices found, and for which nodes they are.

Upstream: structured/internal/incubating/allocator_incubating.go, Allocate and createNodeSelector (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kschedctl.api.objects import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorTerm,
    SelectorRequirement,
)
from kschedctl.scheduler.plugins.dynamic_resources.allocator import Result
from kschedctl.scheduler.plugins.dynamic_resources.pools import PooledDevice
from kschedctl.scheduler.plugins.helper.device_features import Features


def allocation_result(
    results: Sequence[Result], devices: Sequence[PooledDevice], itself: NodeSelector, features: Features
) -> AllocationResult:
    """One claim's allocation on a node: of each result the device there; its shares carry no ID yet.

    ``itself`` selects the node alone.
    """
    found = [_device(result, device, features) for result, device in zip(results, devices, strict=True)]
    return AllocationResult(DeviceAllocationResult(tuple(found)), _node_selector(devices, itself))


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
        consumed_capacity={name: str(each) for name, each in result.consumed.items()} if result.consumed else {},
        binding_conditions=device.binding_conditions if conditions else (),
        binding_failure_conditions=device.binding_failure_conditions if conditions else (),
    )


def _node_selector(devices: Iterable[PooledDevice], itself: NodeSelector) -> NodeSelector | None:
    """The node itself when a device is local to it, else what all the devices demand of nodes, None for any node."""
    fields: list[SelectorRequirement] = []
    expressions: list[SelectorRequirement] = []
    for pooled in devices:
        spec, device = pooled.slice.spec, pooled.device
        holder = device if spec.per_device_node_selection else spec
        if holder.node_name is not None or device.binds_to_node:
            return itself
        for term in holder.node_selector.node_selector_terms if holder.node_selector else ():
            _extend(fields, term.match_fields)
            _extend(expressions, term.match_expressions)
    if not (fields or expressions):
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _extend(found: list[SelectorRequirement], more: tuple[SelectorRequirement, ...]) -> None:
    for new in more:
        if not any(
            (new.key, new.operator, set(new.values or ())) == (old.key, old.operator, set(old.values or ()))
            for old in found
        ):
            found.append(new)
