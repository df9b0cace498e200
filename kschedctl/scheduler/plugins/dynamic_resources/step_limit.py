"""The limit on search steps, which replaces the time limit of upstream's search."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.plugins.helper.device_features import Features

STEPS_PER_SECOND = 1_200_000
"""Devices that upstream tries per second. In the default time limit of ten seconds it tries 2**23, but not 2**24."""
MAX_STEPS = 500_000
"""The number of devices after which a search is given up here."""
UNDECIDED = f"the search for devices was given up after {MAX_STEPS:,} steps without a result"
FILTER_SECONDS = 10.0
"""The default of DynamicResources' filterTimeout."""


class DeviceSearchOrder(StrEnum):
    """The order in which the incubating allocator tries several devices for one request."""

    ANY = "arbitrary"
    DEVICE_ORDER = "as listed in the ResourceSlices"


SEARCH_ORDER = ByVersion(
    "order in which the incubating allocator tries devices for a request",
    (("", DeviceSearchOrder.ANY), ("1.36", DeviceSearchOrder.DEVICE_ORDER)),
)


class SearchTimeoutError(Exception):
    """The error if the search took too long. ``upstream`` is True if kube-scheduler would time out as well."""

    def __init__(self, upstream: bool) -> None:
        self.upstream = upstream
        super().__init__("timed out" if upstream else UNDECIDED)


class StepLimit:
    """A counter of the devices that the search tries. If ``seconds`` is 0, upstream's search has no time limit."""

    def __init__(self, seconds: float, features: Features) -> None:
        self.max_steps = int(seconds * STEPS_PER_SECOND) if seconds else None
        """The number of steps after which upstream's search times out, or None."""
        searches_in_any_order = SEARCH_ORDER.at(features.release) is DeviceSearchOrder.ANY
        self.any_order = searches_in_any_order or not features.uses_newer_allocator
        """True if upstream tries the devices for a request in every order."""
        self.tried = 0
        """The number of steps taken here."""
        self.in_vain = 0
        """The number of steps that only upstream takes, in searches that are skipped here."""

    def count_step(self) -> None:
        """Count a device that the search tries.

        Raises SearchTimeoutError if upstream's search would have timed out, or if the search takes too long here.
        """
        self.tried += 1
        self._check_limit()
        if self.tried > MAX_STEPS:
            raise SearchTimeoutError(upstream=False)

    def can_skip_search(self, devices: int, *, all_tried: bool) -> bool:
        """Return whether to skip a search that is known to fail, since it needs more than `devices` devices.

        If upstream tries all sequences of devices (`all_tried`), all of them are added to the count of steps, and the
        result is True. Otherwise, upstream may stop early, and the result says whether all sequences are within the
        limit of steps. Raises SearchTimeoutError if `all_tried` is true and there are too many sequences.
        """
        steps = self._count_device_sequences(devices)
        if all_tried:
            self.in_vain += steps
            self._check_limit()
            return True
        return self.max_steps is None or self.tried + self.in_vain + steps <= self.max_steps

    def _check_limit(self) -> None:
        """Raise SearchTimeoutError if upstream would have timed out by now."""
        if self.max_steps is not None and self.tried + self.in_vain > self.max_steps:
            raise SearchTimeoutError(upstream=True)

    def _count_device_sequences(self, devices: int) -> int:
        """Return how many sequences of devices, of any length, upstream can try with the given number of devices.

        If upstream tries devices only in their given order, this is the number of subsets. If it tries them in any
        order, it is the number of arrangements of all subsets.
        """
        if not self.any_order:
            return 1 << devices  # 2 to the power of `devices`
        # Begin with the single sequence without devices, then add the sequences of one device, of two and so on
        sequences_of_length = 1
        total = 1
        for choices in range(devices, 0, -1):
            sequences_of_length *= choices
            total += sequences_of_length
        return total


@dataclass
class CostAllowance:
    """The CEL cost that may still be spent."""

    remaining: int = 30_000_000
    """The remaining cost units."""
    cheap: int = 10_000
    """The cost up to which evaluations are free."""

    def spend(self, cost: int) -> None:
        """Subtract the cost of an evaluation from `remaining`, unless the cost is at most `cheap`."""
        if cost > self.cheap:
            self.remaining -= cost
