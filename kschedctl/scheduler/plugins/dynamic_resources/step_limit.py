"""How many devices a search may try: upstream ends one after some seconds, and some it could only try in vain.

Upstream: allocateOne in structured/internal/incubating/allocator_incubating.go and Filter in
plugins/dynamicresources/dynamicresources.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.plugins.helper.device_features import Features

STEPS_A_SECOND = 1_200_000
"""Devices that upstream tries: 2**23 fit into the ten seconds that it has by default, 2**24 do not."""
MAX_STEPS = 500_000
"""Devices that are tried here, whatever upstream would do."""
UNDECIDED = f"whether devices can be allocated is not decided after {MAX_STEPS:,} steps of the search"
FILTER_SECONDS = 10.0
"""The default of DynamicResources' filterTimeout."""


class DeviceSearchOrder(StrEnum):
    """The orders in which the newer allocator tries several devices for one request."""

    ANY = "any"
    DEVICE_ORDER = "that of the devices"


SEARCH_ORDER = ByVersion(
    "in which order its newer allocator tries several devices for a request",
    (("", DeviceSearchOrder.ANY), ("1.36", DeviceSearchOrder.DEVICE_ORDER)),
)


class SearchTimeoutError(Exception):
    """The search takes too long; ``upstream``: for the scheduler, not only for here."""

    def __init__(self, upstream: bool) -> None:
        self.upstream = upstream
        super().__init__("timed out" if upstream else UNDECIDED)


class StepLimit:
    """Counts ``tried`` devices, and those that upstream would try ``in_vain`` where there are too few.

    With 0 ``seconds`` it has no limit.
    """

    def __init__(self, seconds: float, features: Features) -> None:
        self.most = int(seconds * STEPS_A_SECOND) if seconds else None
        self.any_order = SEARCH_ORDER.at(features.release) is DeviceSearchOrder.ANY or not features.newer_allocator
        self.tried = self.in_vain = 0

    def step(self) -> None:
        """Raises SearchTimeoutError."""
        self.tried += 1
        self._check()
        if self.tried > MAX_STEPS:
            raise SearchTimeoutError(upstream=False)

    def refuses(self, devices: int, all_tried: bool) -> bool:
        """Whether a request for more devices than there are is refused in time.

        ``all_tried``: nothing but their number ends upstream's search; else it may be over sooner than can be told.
        Raises SearchTimeoutError.
        """
        steps = self._sequences(devices)
        if all_tried:
            self.in_vain += steps
            self._check()
        return all_tried or self.most is None or self.tried + self.in_vain + steps <= self.most

    def _check(self) -> None:
        if self.most is not None and self.tried + self.in_vain > self.most:
            raise SearchTimeoutError(upstream=True)

    def _sequences(self, devices: int) -> int:
        """How many sequences there are of any number of devices."""
        if not self.any_order:
            return 1 << devices
        total = sequences = 1
        for left in range(devices, 0, -1):
            sequences *= left
            total += sequences
        return total


@dataclass
class Allowance:
    """``left`` of it, in units of cost; evaluations that are ``cheap`` take nothing."""

    left: int = 30_000_000
    cheap: int = 10_000

    def take(self, cost: int) -> None:
        """Count an evaluation."""
        self.left -= cost if cost > self.cheap else 0
