"""A live cluster kept current: a watch a kind, taken up again where it broke off, and a new Cluster after changes."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from queue import Empty, Queue

from kschedctl.api.kinds import KINDS
from kschedctl.cluster import Cluster
from kschedctl.errors import ClusterError
from kschedctl.sources.live.http import BrokenOffError, RefusedError, Server
from kschedctl.sources.live.lists import GONE, Listing, Others, read_path
from kschedctl.sources.live.reading import Reading
from kschedctl.sources.live.watch import WatchEvent, changed, watch

log = logging.getLogger(__name__)

WATCH_SECONDS = 300.0
SETTLE_SECONDS, LONGEST_SETTLE = 0.5, 3.0
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
MOST_FAILURES = 10
POLL_SECONDS = 30.0


@dataclass(frozen=True)
class Update:
    """What a kind's watch has to say: an event, a new list after it had to start over, or an error that ends it."""

    kind: str
    news: WatchEvent | Listing | ClusterError


@dataclass
class Follower:
    """Follows all kinds of a reading, each in a thread of its own, until ``stopped``.

    ``every``: after so many seconds without a change the cluster is given once more.
    """

    server: Server
    reading: Reading
    updates: Queue[Update] = field(default_factory=Queue)
    stopped: threading.Event = field(default_factory=threading.Event)
    settle: float = field(default_factory=lambda: SETTLE_SECONDS)
    every: float = math.inf

    def clusters(self) -> Iterator[Cluster]:
        """The cluster as it was read, then again after each burst of changes. Raises ClusterError."""
        yield self.reading.cluster()
        for kind, listing in self.reading.listings.items():
            threading.Thread(target=self._follow, args=(kind, listing), daemon=True, name=f"watch-{kind}").start()
        try:
            while True:
                self._take_in(self._burst())
                yield self.reading.cluster()
        finally:
            self.stopped.set()

    def _burst(self) -> list[Update]:
        """The next updates: those that come within a moment of each other, though not endlessly many."""
        updates = list[Update]()
        try:
            updates.append(self._next())
            end = time.monotonic() + LONGEST_SETTLE
            while time.monotonic() < end:
                updates.append(self.updates.get(timeout=self.settle))
        except Empty:
            pass
        return updates

    def _next(self) -> Update:
        """Waits in short steps, so that an interrupt is heard. Raises Empty."""
        end = time.monotonic() + self.every
        while True:
            try:
                return self.updates.get(timeout=min(max(end - time.monotonic(), 0.0), 1.0))
            except Empty:
                if time.monotonic() >= end:
                    raise

    def _take_in(self, updates: list[Update]) -> None:
        listings = dict(self.reading.listings)
        for kind in dict.fromkeys(update.kind for update in updates):
            listing, events = listings[kind], list[WatchEvent]()
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

    def _follow(self, kind: str, listing: Listing) -> None:
        failures = 0
        while not self.stopped.is_set():
            try:
                for event in watch(self.server, kind, listing, seconds=WATCH_SECONDS):
                    failures = 0
                    version = event.resource_version or listing.resource_version
                    listing = listing._replace(objects=Others(), resource_version=version)
                    if event.key is not None:
                        self.updates.put(Update(kind, event))
                    if self.stopped.is_set():
                        return
                self.stopped.wait(FIRST_WAIT)
            except RefusedError as error:
                if error.code == GONE:
                    if failures:  # no event came since the last list either
                        self.stopped.wait(min(FIRST_WAIT * 2**failures, LONGEST_WAIT))
                    failures += 1
                fresh = self._listed(kind, listing, error)
                if fresh is None:
                    return
                listing = fresh
            except BrokenOffError as error:
                failures += 1
                if failures > MOST_FAILURES:
                    self.updates.put(Update(kind, ClusterError(str(error), where=self.server.host)))
                    return
                log.info("the watch of %s broke off: %s", KINDS[kind].plural, error)
                self.stopped.wait(min(FIRST_WAIT * 2**failures, LONGEST_WAIT))
            except ClusterError as error:
                self.updates.put(Update(kind, error))
                return

    def _listed(self, kind: str, listing: Listing, refused: RefusedError) -> Listing | None:
        """The list anew: at once when the watch came too late, else every now and then, for want of a watch."""
        if refused.code != GONE:
            log.warning(
                "warning: %s cannot be watched (%s): listed every %g s", KINDS[kind].plural, refused, POLL_SECONDS
            )
            self.stopped.wait(POLL_SECONDS)
        try:
            fresh = read_path(self.server, kind, listing.path, listing.fields)
        except (RefusedError, ClusterError) as error:
            failed = error if isinstance(error, ClusterError) else ClusterError(str(error), where=self.server.host)
            self.updates.put(Update(kind, failed))
            return None
        self.updates.put(Update(kind, fresh))
        return fresh._replace(objects=Others())
