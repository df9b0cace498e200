"""What became of gangs of other projects while a queue is worked off, as far as it decides what becomes of them."""

from __future__ import annotations

from typing import Protocol

from kschedctl.api.gangs import GangKey

NANOSECONDS = 10**9


class QueueTime(Protocol):
    """Nanoseconds of the queue: ``time`` stands still, ``now`` is later at each look."""

    time: int

    def now(self) -> int: ...


class GangHistory:
    """``failed``: when each gang failed last. What holds at one time holds throughout an attempt.

    Upstream: PodGroupManager in pkg/coscheduling/core/core.go of kubernetes-sigs/scheduler-plugins.
    """

    def __init__(self, clock: QueueTime) -> None:
        self.clock = clock
        self.failed: dict[GangKey, int] = {}
        self._left_alone: dict[GangKey, int] = {}
        self._missed: dict[GangKey, int] = {}
        """Until when those are left alone that were so when some pod was bound or evicted last."""
        self._granted: dict[GangKey, int] = {}

    def leave_alone(self, key: GangKey, seconds: int) -> None:
        """Nobody of it is tried for so long; that does not end later for one that is left alone already."""
        if seconds and not self.is_left_alone(key):
            self._left_alone[key] = self.clock.time + seconds * NANOSECONDS

    def is_left_alone(self, key: GangKey) -> bool:
        return key in self._left_alone and self.clock.time <= self._left_alone[key]

    def note_move(self) -> None:
        """A pod was bound or evicted, which those that are left alone now do not make use of before their time."""
        self._missed = {key: end for key, end in self._left_alone.items() if self.clock.time <= end}

    def next_return(self) -> int | None:
        """The first end of these times that nobody has been told of."""
        return min(self._missed.values(), default=None)

    def flushed(self) -> None:
        """Everybody is tried again now."""
        self._missed = {key: end for key, end in self._missed.items() if self.clock.time <= end}

    def grant(self, key: GangKey, seconds: int) -> None:
        """For so long it is taken to have the resources that it wants at the least."""
        if not self.is_granted(key):
            self._granted[key] = self.clock.time + seconds * NANOSECONDS

    def is_granted(self, key: GangKey) -> bool:
        return key in self._granted and self.clock.time <= self._granted[key]

    def state(self, key: GangKey) -> tuple[bool, bool]:
        """What a pod of it is asked by now: whether it is left alone, and has been granted its resources."""
        return self.is_left_alone(key), self.is_granted(key)

    def fail(self, key: GangKey) -> None:
        """Some pod of it fits nowhere, or had to leave its node."""
        self._granted.pop(key, None)
        self.failed[key] = self.clock.now()
