"""A live cluster kept current: every kind followed in a thread of its own, and a new Cluster after changes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from queue import Empty, Full, Queue

from kschedctl.cluster import Cluster
from kschedctl.errors import ClusterError
from kschedctl.sources.live_http import Server
from kschedctl.sources.live_kind import KindFollower, News
from kschedctl.sources.live_lists import Listing
from kschedctl.sources.live_reading import Reading
from kschedctl.sources.live_watch import Event, changed

log = logging.getLogger(__name__)

SETTLE_SECONDS, LONGEST_SETTLE = 0.5, 3.0
MOST_UPDATES = 10_000
"""That wait to be taken in; watches that say more have to wait."""


@dataclass(frozen=True)
class Update:
    """What the follower of a kind has to say."""

    kind: str
    news: News


@dataclass
class Follower:
    """Follows all kinds of a reading until ``stop``."""

    server: Server
    reading: Reading
    updates: Queue[Update] = field(default_factory=lambda: Queue(MOST_UPDATES))
    stopped: threading.Event = field(default_factory=threading.Event)
    settle: float = SETTLE_SECONDS
    lost: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def clusters(self) -> Iterator[Cluster]:
        """The cluster as it was read, then again after each burst of changes. Raises ClusterError."""
        yield self.reading.cluster()
        for kind, listing in self.reading.listings.items():
            tell, lost = partial(self._tell, kind), partial(self._lost, kind)
            follower = KindFollower(self.server, kind, listing, tell, lost, self.stopped)
            threading.Thread(target=follower.run, daemon=True, name=f"watch-{kind}").start()
        try:
            while True:
                self._take_in(self._burst())
                yield self.reading.cluster()
        finally:
            self.stopped.set()
            self.server.close()

    def _tell(self, kind: str, news: News) -> None:
        while not self.stopped.is_set():
            try:
                return self.updates.put(Update(kind, news), timeout=1.0)
            except Full:
                continue
        return None

    def _lost(self, kind: str, why: str) -> None:
        """Say it once when the server does not answer any more, and when it does again."""
        with self.lock:
            before = bool(self.lost)
            if why:
                self.lost.add(kind)
            else:
                self.lost.discard(kind)
            if self.lost and not before:
                now = f"{datetime.now():%H:%M:%S}"
                log.warning("warning: %s: %s: answers are of %s until it is back", self.server.host, why, now)
            elif before and not self.lost:
                log.warning("note: %s is back", self.server.host)

    def _burst(self) -> list[Update]:
        """The next updates: those that come within a moment of each other, though not endlessly many."""
        found = [self._next(None)]
        end = time.monotonic() + LONGEST_SETTLE
        while time.monotonic() < end:
            try:
                found.append(self._next(self.settle))
            except Empty:
                break
        return found

    def _next(self, timeout: float | None) -> Update:
        """Waits in short steps, so that an interrupt is heard. Raises Empty."""
        if timeout is not None:
            return self.updates.get(timeout=timeout)
        while True:
            try:
                return self.updates.get(timeout=1.0)
            except Empty:
                continue

    def _take_in(self, updates: list[Update]) -> None:
        listings = dict(self.reading.listings)
        for kind in dict.fromkeys(update.kind for update in updates):
            listing, events = listings[kind], list[Event]()
            for news in (update.news for update in updates if update.kind == kind):
                if isinstance(news, ClusterError):
                    raise news
                if isinstance(news, Listing):
                    listing, events = news, []
                else:
                    events.append(news)
            if events:
                changes = {event.key: event.object for event in events if event.key is not None}
                listing = changed(listing, changes, events[-1].resource_version)
            listings[kind] = listing
        self.reading = replace(self.reading, listings=listings, changed={})
