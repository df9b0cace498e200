"""What would be bound, provisioned and allocated for a pod on each node that fits."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kschedctl.reports.explanation import DeviceReport, VolumesReport
from kschedctl.scheduler.cycle import Cycle
from kschedctl.scheduler.dynamic_resources.claims import key
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.dynamic_resources import DynamicResources
from kschedctl.scheduler.plugins.volume_binding import VolumeBinding

Wanted = TypeVar("Wanted", VolumeBinding, DynamicResources)


def volumes_by_node(cycle: Cycle) -> dict[str, VolumesReport]:
    """Feasible node -> what VolumeBinding would do there; only nodes where it would do something."""
    plugin = _plugin(cycle, VolumeBinding)
    if plugin is None:
        return {}
    state, found = cycle.pre_filter.results[plugin.name].state, {}
    for row in cycle.feasible.tolist():
        bindings, provisions = plugin.bindings(cycle.info, cycle.view, state, row)
        if bindings or provisions:
            found[cycle.view.nodes.names[row]] = VolumesReport(bindings, provisions)
    return found


def devices_by_node(cycle: Cycle) -> dict[str, dict[str, tuple[DeviceReport, ...]]]:
    """Feasible node -> claim -> the devices that it would get there; only claims that are not allocated yet."""
    plugin = _plugin(cycle, DynamicResources)
    if plugin is None:
        return {}
    state, found = cycle.pre_filter.results[plugin.name].state, {}
    claims = [key(claim) for claim in state.claims.to_allocate]
    for row in cycle.feasible.tolist():
        allocations = plugin.allocations(cycle.info, cycle.view, state, row)
        devices = [msgspec.convert(a["devices"].get("results", ()), tuple[DeviceReport, ...]) for a in allocations]
        by_claim = {claim: got for claim, got in zip(claims, devices, strict=False) if got}
        if by_claim:
            found[cycle.view.nodes.names[row]] = by_claim
    return found


def _plugin(cycle: Cycle, kind: type[Wanted]) -> Wanted | None:
    """The Filter plugin of this kind, if the profile has it and the pod has something for it to do."""
    for plugin in cycle.framework.at("filter"):
        result = cycle.pre_filter.results.get(plugin.name)
        if isinstance(plugin, kind) and result is not None and result.status.code is Code.SUCCESS:
            return plugin
    return None
