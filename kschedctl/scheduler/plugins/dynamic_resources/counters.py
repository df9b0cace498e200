"""Counters that a search takes from pools, which upstream keeps by the pool's name, whatever its driver.

Upstream: checkAvailableCounters in structured/internal/incubating/allocator_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable

from kschedctl.scheduler.plugins.dynamic_resources.pools import Counters, Pool, PooledDevice


class TakenCounters:
    """Counters that devices consume, by pool; ``available``: what allocated devices leave over of one's counters."""

    def __init__(self, available: Callable[[Pool], Counters]) -> None:
        self._available_of = available
        self._available: dict[str, Counters] = {}
        self._taken: dict[str, Counters] = {}

    def take(self, pool: Pool, device: PooledDevice) -> bool:
        """Take those of a device if there are enough."""
        name = pool.id[1]
        if name not in self._available:
            self._available[name] = self._available_of(pool)
        self._add(name, device, 1)
        taken = self._taken[name]
        if all(amount >= taken.get(counter, 0) for counter, amount in self._available[name].items()):
            return True
        self._add(name, device, -1)
        return False

    def give_back(self, pool: Pool, device: PooledDevice) -> None:
        """Gives back what a device consumes that was given up."""
        self._add(pool.id[1], device, -1)

    def _add(self, name: str, device: PooledDevice, sign: int) -> None:
        taken = self._taken.setdefault(name, {})
        for counter, amount in device.consumes.items():
            taken[counter] = taken.get(counter, 0) + sign * amount
