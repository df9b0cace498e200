"""Remaining capacity of reservations, and the hosts that hold them.

Upstream: pkg/controllers/provisioning/scheduling/reservationmanager.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import RESERVED


class Reservations:
    """Capacity reservations during a run."""

    def __init__(self, left: Mapping[str, int]) -> None:
        self.left = dict(left)
        self.held: dict[str, set[str]] = {}

    def can_reserve(self, host: str, reservation: str) -> bool:
        """Return whether the host holds the reservation or some of it remains."""
        return reservation in self.held.get(host, ()) or self.left[reservation] > 0

    def set_held(self, host: str, reservations: Iterable[str]) -> None:
        """Let the host hold exactly these reservations."""
        requested, previous = set(reservations), self.held.get(host, set())
        for reservation in requested - previous:
            self.left[reservation] -= 1
        for reservation in previous - requested:
            self.left[reservation] += 1
        self.held[host] = requested


def compute_reservation_capacity(types: Iterable[InstanceType]) -> dict[str, int]:
    """Return the capacity of each reservation, the smallest that any offering reports."""
    capacities: dict[str, int] = {}
    for instance_type in types:
        for offering in instance_type.offerings:
            if offering.capacity_type == RESERVED:
                known = capacities.get(offering.reservation, offering.reservation_capacity)
                capacities[offering.reservation] = min(known, offering.reservation_capacity)
    return capacities
