"""How many machines of reserved capacity are left, and who holds them.

Upstream: pkg/controllers/provisioning/scheduling/reservationmanager.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import RESERVED


class Reservations:
    """``left``: by the id of the reservation; ``held``: by host."""

    def __init__(self, left: Mapping[str, int]) -> None:
        self.left = dict(left)
        self.held: dict[str, set[str]] = {}

    def can_reserve(self, host: str, reservation: str) -> bool:
        return reservation in self.held.get(host, ()) or self.left[reservation] > 0

    def hold(self, host: str, reservations: Iterable[str]) -> None:
        """A host holds these, and no others."""
        wanted, known = set(reservations), self.held.get(host, set())
        for reservation in wanted - known:
            self.left[reservation] -= 1
        for reservation in known - wanted:
            self.left[reservation] += 1
        self.held[host] = wanted


def reserved_capacity(types: Iterable[InstanceType]) -> dict[str, int]:
    """The capacity of each reservation, the smallest that any offering says."""
    capacities: dict[str, int] = {}
    for instance_type in types:
        for offering in instance_type.offerings:
            if offering.capacity_type == RESERVED:
                known = capacities.get(offering.reservation, offering.reservation_capacity)
                capacities[offering.reservation] = min(known, offering.reservation_capacity)
    return capacities
