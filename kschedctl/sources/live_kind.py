"""One kind of a live cluster kept current: its watch, taken up again where it broke off, or its list when it cannot be.

An API server that starts anew refuses for some seconds what it grants later (401, 403) and ends watches with errors of
all sorts: none of that is taken for good before it has lasted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event as Flag
from time import monotonic

from kschedctl.errors import ClusterError
from kschedctl.sources.live_http import BrokenOffError, RefusedError, Server, UnauthorizedError
from kschedctl.sources.live_lists import GONE, Listing, plural, read_path
from kschedctl.sources.live_watch import Event, watch

log = logging.getLogger(__name__)

WATCH_SECONDS = 300.0
FIRST_WAIT, LONGEST_WAIT = 0.5, 3.0
STARTING_SECONDS, PATIENCE_SECONDS = 30.0, 180.0
"""How long a watch or a list may be refused by a server that starts, and how long it may not answer at all."""
STEADY_SECONDS = 10.0
POLL_SECONDS = 30.0
WORTH_TELLING = 4
"""Failures in a row; a server that starts anew is back before, or it takes long."""
News = Event | Listing | ClusterError


@dataclass
class Streak:
    """Failures in a row."""

    count: int = 0
    since: float = 0.0

    def add(self) -> float:
        """One more; the seconds since the first."""
        self.since = self.since if self.count else monotonic()
        self.count += 1
        return monotonic() - self.since

    def pause(self) -> float:
        """The seconds until the next try."""
        return min(FIRST_WAIT * 2.0 ** min(self.count - 1, 10), LONGEST_WAIT)


@dataclass
class KindFollower:
    """Follows a kind from a listing on until it is stopped.

    ``tell`` takes the news: events, a new list after it had to start over, an error that ends it; ``lost`` takes why
    the server does not answer, and nothing once it does.
    """

    server: Server
    kind: str
    listing: Listing
    tell: Callable[[News], None]
    lost: Callable[[str], None]
    stopped: Flag
    stale: bool = False
    polls: int = 0
    begun: float = float("inf")
    unwatched: Streak = field(default_factory=Streak)
    unlisted: Streak = field(default_factory=Streak)

    def run(self) -> None:
        """Until it is stopped, or an error was told."""
        self.listing = self.listing._replace(objects=())
        while not self.stopped.is_set():
            try:
                if self.stale:
                    self._list()
                self._watch()
            except (RefusedError, BrokenOffError, ClusterError) as error:
                wait = self._unlisted(error) if self.stale else self._unwatched(error)
                if wait is None:
                    self.tell(self._end(error))
                    return
                self.stopped.wait(wait)

    def _list(self) -> None:
        fresh = read_path(self.server, self.kind, self.listing.path)
        self.tell(fresh)
        self.lost("")
        self.listing, self.stale, self.unlisted = fresh._replace(objects=()), False, Streak()

    def _watch(self) -> None:
        """Until the server ends it, as it does now and then."""
        self.begun = float("inf")
        for event in watch(self.server, self.kind, self.listing, seconds=WATCH_SECONDS):
            if event.begins:
                self.begun = monotonic()
                self.lost("")
                continue
            self._well()
            self.listing = self.listing._replace(
                resource_version=event.resource_version or self.listing.resource_version
            )
            if event.key is not None:
                self.tell(event)
            if self.stopped.is_set():
                return
        self._well()
        self.stopped.wait(FIRST_WAIT)

    def _well(self) -> None:
        self.unwatched, self.polls = Streak(), 0

    def _unwatched(self, error: Exception) -> float:
        """The watch failed: how long to wait, and whether to list before the next one."""
        if monotonic() - self.begun > STEADY_SECONDS:
            self._well()
        lasted = self.unwatched.add()
        log.info("the watch of %s: %s", plural(self.kind), error)
        if isinstance(error, RefusedError) and error.code == GONE:
            self.stale = True
            return 0.0 if self.unwatched.count == 1 else self.unwatched.pause()
        if lasted <= STARTING_SECONDS:
            self._say_lost(error, self.unwatched)
            return self.unwatched.pause()
        self.stale = True
        self.polls += 1
        if self.polls == 2:  # a list came in between
            log.warning("warning: %s cannot be watched (%s): listed every %g s", plural(self.kind), error, POLL_SECONDS)
        return POLL_SECONDS if self.polls > 1 else 0.0

    def _unlisted(self, error: Exception) -> float | None:
        """The list failed: how long to wait, None for giving up."""
        lasted = self.unlisted.add()
        self._say_lost(error, self.unlisted)
        refused = isinstance(error, RefusedError | UnauthorizedError)
        return None if lasted > (STARTING_SECONDS if refused else PATIENCE_SECONDS) else self.unlisted.pause()

    def _say_lost(self, error: Exception, streak: Streak) -> None:
        if streak.count >= WORTH_TELLING:
            self.lost(error.what if isinstance(error, ClusterError) else str(error))

    def _end(self, error: Exception) -> ClusterError:
        return error if isinstance(error, ClusterError) else ClusterError(str(error), where=self.server.host)
