"""Counters that a search takes from pools, which upstream once kept by the pool's name, whatever its driver.

Upstream: checkAvailableCounters in structured/internal/incubating/allocator_incubating.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable

from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.plugins.dynamic_resources.allocated import PoolId
from kschedctl.scheduler.plugins.dynamic_resources.pools import Counters, Pool, PooledDevice

SETS_TOLD_APART = ByVersion(
    "what tells sets of shared counters apart", (("", "the pool"), ("1.37", "driver and pool")), "#140435"
)


class TakenCounters:
    """Counters that devices consume, by pool; ``available``: what allocated devices leave over of one's counters."""

    def __init__(self, available: Callable[[Pool], Counters], release: KubeVersion) -> None:
        self._available_of = available
        self._by_driver = SETS_TOLD_APART.at(release) == "driver and pool"
        self._available: dict[PoolId, Counters] = {}
        self._taken: dict[PoolId, Counters] = {}

    def take(self, pool: Pool, device: PooledDevice) -> bool:
        """Take those of a device if there are enough."""
        key = self._key(pool)
        if key not in self._available:
            self._available[key] = self._available_of(pool)
        self._add(key, device, 1)
        taken = self._taken[key]
        if all(amount >= taken.get(counter, 0) for counter, amount in self._available[key].items()):
            return True
        self._add(key, device, -1)
        return False

    def give_back(self, pool: Pool, device: PooledDevice) -> None:
        """Gives back what a device consumes that was given up."""
        self._add(self._key(pool), device, -1)

    def _key(self, pool: Pool) -> PoolId:
        """What its counters are kept by."""
        return pool.id if self._by_driver else ("", pool.id[1])

    def _add(self, key: PoolId, device: PooledDevice, sign: int) -> None:
        taken = self._taken.setdefault(key, {})
        for counter, amount in device.consumes.items():
            taken[counter] = taken.get(counter, 0) + sign * amount
