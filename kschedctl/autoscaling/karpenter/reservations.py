"""Capacity reservations in a run: their remaining capacity and the hosts that hold them.

Upstream: pkg/controllers/provisioning/scheduling/reservationmanager.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import RESERVED


class Reservations:
    """The remaining capacity of each reservation during a run, and the reservations that each host holds."""

    def __init__(self, capacities: Mapping[str, int]) -> None:
        self.remaining = dict(capacities)
        self.held: dict[str, set[str]] = {}

    def can_reserve(self, host: str, reservation: str) -> bool:
        """Return whether the host already holds the reservation or the reservation has capacity left."""
        return reservation in self.held.get(host, ()) or self.remaining[reservation] > 0

    def set_held(self, host: str, reservations: Iterable[str]) -> None:
        """Make the host hold exactly these reservations, and adjust their remaining capacity."""
        requested, previous = set(reservations), self.held.get(host, set())
        for reservation in requested - previous:
            self.remaining[reservation] -= 1
        for reservation in previous - requested:
            self.remaining[reservation] += 1
        self.held[host] = requested


def compute_reservation_capacity(types: Iterable[InstanceType]) -> dict[str, int]:
    """Return the capacity of each reservation. If its offerings differ, the smallest capacity counts."""
    capacities: dict[str, int] = {}
    for instance_type in types:
        for offering in instance_type.offerings:
            if offering.capacity_type == RESERVED:
                smallest = capacities.get(offering.reservation, offering.reservation_capacity)
                capacities[offering.reservation] = min(smallest, offering.reservation_capacity)
    return capacities
