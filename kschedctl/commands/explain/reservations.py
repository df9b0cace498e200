"""What would be bound, provisioned and allocated for a pod on each node that fits, as the Reserve plugins report it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api.objects import DeviceRequestAllocationResult
from kschedctl.commands.explain.report import DeviceReport, VolumesReport
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import Code, Plugin, PreFilterResult, Reservation, ReservePlugin, offers

Reservations = Mapping[str, Reservation]
"""Feasible node -> what would be reserved there; only nodes where anything would be."""


def reservations(cycle: Cycle) -> Reservations:
    """What all Reserve plugins of the pod's profile report together."""
    plugins = [
        (plugin, result.state)
        for plugin in cycle.framework.plugins_at("reserve")
        if offers(plugin, ReservePlugin) and (result := _before(cycle, plugin)).status.code is Code.SUCCESS
    ]
    by_node = {}
    for row in cycle.feasible.tolist() if plugins else ():
        parts = [plugin.reservation(cycle.info, cycle.view, row, state) for plugin, state in plugins]
        if any(part != Reservation() for part in parts):
            by_node[cycle.view.nodes.names[row]] = _together(parts)
    return by_node


def _before(cycle: Cycle, plugin: Plugin) -> PreFilterResult:
    """What the plugin's PreFilter said; one without has nothing against the pod."""
    return cycle.pre_filter.results.get(plugin.name, PreFilterResult())


def _together(parts: list[Reservation]) -> Reservation:
    return Reservation(
        {claim: volume for part in parts for claim, volume in part.bindings.items()},
        tuple(claim for part in parts for claim in part.provisions),
        {claim: allocation for part in parts for claim, allocation in part.allocations.items()},
    )


def volumes_by_node(by_node: Reservations) -> dict[str, VolumesReport]:
    """Node -> what would be done for the pod's volumes; only nodes where something would be."""
    return {
        node: VolumesReport(dict(reserved.bindings), reserved.provisions)
        for node, reserved in by_node.items()
        if reserved.bindings or reserved.provisions
    }


def devices_by_node(reservations_of: Reservations) -> dict[str, dict[str, tuple[DeviceReport, ...]]]:
    """Node -> claim -> the devices that it would get there; only claims that are not allocated yet."""
    by_node = {node: dict(_devices(reserved)) for node, reserved in reservations_of.items()}
    return {node: devices for node, devices in by_node.items() if devices}


def _devices(reserved: Reservation) -> Iterator[tuple[str, tuple[DeviceReport, ...]]]:
    for claim, allocation in reserved.allocations.items():
        if allocation.devices.results:
            yield claim, tuple(map(_device, allocation.devices.results))


def _device(result: DeviceRequestAllocationResult) -> DeviceReport:
    capacity = {name: str(amount) for name, amount in result.consumed_capacity.items()}
    return DeviceReport(result.request, result.driver, result.pool, result.device, bool(result.admin_access), capacity)
