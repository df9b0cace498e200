"""The past failures and backoffs of other projects' gangs, which decide how a replayed queue goes on."""

from __future__ import annotations

from typing import Protocol

from kschedctl.api.gangs import GangKey

NANOSECONDS = 10**9


class QueueTime(Protocol):
    """The clock of the queue, in nanoseconds."""

    time: int
    """The current time."""

    def now(self) -> int:
        """Advance the clock and return the new time, which is later at each call."""


class GangHistory:
    """The past of gangs. `failed` is the time of each gang's last failure.

    Upstream: PodGroupManager in pkg/coscheduling/core/core.go of kubernetes-sigs/scheduler-plugins.
    """

    def __init__(self, clock: QueueTime) -> None:
        self.clock = clock
        self.failed: dict[GangKey, int] = {}
        self._backoff_ends: dict[GangKey, int] = {}
        self._missed_moves: dict[GangKey, int] = {}
        """The end of each backoff that was running when a pod was last bound or evicted."""
        self._granted: dict[GangKey, int] = {}

    def back_off(self, key: GangKey, seconds: int) -> None:
        """Keep the pods of a gang from being tried for some seconds, unless the gang is already backing off."""
        if seconds and not self.is_backing_off(key):
            self._backoff_ends[key] = self.clock.time + seconds * NANOSECONDS

    def is_backing_off(self, key: GangKey) -> bool:
        """Return whether the gang backs off, so that its pods are not tried now."""
        return key in self._backoff_ends and self.clock.time <= self._backoff_ends[key]

    def record_move(self) -> None:
        """Record that a pod was bound or evicted.

        Gangs that are backing off can benefit from the change only after their backoff.
        """
        self._missed_moves = {key: end for key, end in self._backoff_ends.items() if self.clock.time <= end}

    def find_next_return(self) -> int | None:
        """Return the first end of the backoffs during which a pod was bound or evicted, or None."""
        return min(self._missed_moves.values(), default=None)

    def forget_ended_backoffs(self) -> None:
        """Delete the records of backoffs that have ended.

        All pods of these backoffs are tried again now.
        """
        self._missed_moves = {key: end for key, end in self._missed_moves.items() if self.clock.time <= end}

    def grant_resources(self, key: GangKey, seconds: int) -> None:
        """Assume for some seconds that the minimum resources of the gang are available.

        An assumption that is still valid is not extended.
        """
        if not self.has_granted_resources(key):
            self._granted[key] = self.clock.time + seconds * NANOSECONDS

    def has_granted_resources(self, key: GangKey) -> bool:
        """Return whether the minimum resources of the gang are assumed to be available now."""
        return key in self._granted and self.clock.time <= self._granted[key]

    def get_state(self, key: GangKey) -> tuple[bool, bool]:
        """Return whether the gang backs off, and whether its minimum resources are assumed to be available."""
        return self.is_backing_off(key), self.has_granted_resources(key)

    def record_failure(self, key: GangKey) -> None:
        """Record that a pod of the gang fits nowhere or had to leave its node."""
        self._granted.pop(key, None)
        self.failed[key] = self.clock.now()
