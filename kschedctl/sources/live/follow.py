"""Continuous updates of a live cluster: one watch per kind, resumed after failures, and a new Cluster after changes."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Queue

from kschedctl.api.kinds import KINDS
from kschedctl.cluster import Cluster
from kschedctl.errors import ClusterError
from kschedctl.sources.live.http import BrokenOffError, RefusedError, Server
from kschedctl.sources.live.lists import (
    GONE,
    Listing,
    ObjectTuple,
    WatchEvent,
    apply_changes,
    read_list_at,
    watch_changes,
)
from kschedctl.sources.live.reading import Reading

log = logging.getLogger(__name__)

WATCH_SECONDS = 300.0
"""The time after which a watch is started again."""
SETTLE_SECONDS = 0.5
"""The default time without an update that ends a burst of changes."""
MAX_SETTLE_SECONDS = 3.0
"""The maximum length of a burst of changes."""
FIRST_WAIT, MAX_WAIT = 0.5, 30.0
"""The first and the longest wait in seconds before a failed watch is started again."""
MAX_FAILURES = 10
"""The maximum number of failures of a watch without an event in between."""
POLL_SECONDS = 30.0
"""The time between two lists of a kind that cannot be watched."""


@dataclass(frozen=True)
class Update:
    """An update from the watch of one kind."""

    kind: str
    news: WatchEvent | Listing | ClusterError
    """An event, a new list after the watch had to start over, or the error that ended the watch."""


@dataclass
class Follower:
    """A watcher of all kinds of a reading, with one thread per kind."""

    server: Server
    reading: Reading
    updates: Queue[Update] = field(default_factory=Queue)
    stopped: threading.Event = field(default_factory=threading.Event)
    """An event that ends all watches once it is set."""
    settle: float = field(default_factory=lambda: SETTLE_SECONDS)
    """The number of seconds without an update that end a burst of changes."""
    every: float = math.inf
    """The number of seconds without a change after which the cluster is yielded again."""

    def iter_clusters(self) -> Iterator[Cluster]:
        """Yield the cluster as it was read, and again after each burst of changes.

        The cluster is also yielded after ``every`` seconds without changes. Raises ClusterError if the cluster can no
        longer be read.
        """
        yield self.reading.build_cluster()
        for kind, listing in self.reading.listings.items():
            threading.Thread(target=self._watch_kind, args=(kind, listing), daemon=True, name=f"watch-{kind}").start()
        try:
            while True:
                self._apply_updates(self._collect_update_burst())
                yield self.reading.build_cluster()
        finally:
            self.stopped.set()

    def _collect_update_burst(self) -> list[Update]:
        """Collect updates until none arrives for ``settle`` seconds, for at most MAX_SETTLE_SECONDS.

        Return [] if no update arrives for ``every`` seconds.
        """
        updates = list[Update]()
        with suppress(Empty):  # raised if no further update arrives
            updates.append(self._wait_for_update())
            end = time.monotonic() + MAX_SETTLE_SECONDS
            while time.monotonic() < end:
                updates.append(self.updates.get(timeout=self.settle))
        return updates

    def _wait_for_update(self) -> Update:
        """Wait for the next update in short steps, so that interrupts are handled.

        Raises Empty after ``every`` seconds.
        """
        end = time.monotonic() + self.every
        while True:
            try:
                return self.updates.get(timeout=min(max(end - time.monotonic(), 0.0), 1.0))
            except Empty:
                if time.monotonic() >= end:
                    raise

    def _apply_updates(self, updates: list[Update]) -> None:
        """Apply the updates to the reading.

        If a kind was listed again, its earlier updates are dropped. Raises ClusterError if one of the updates is an
        error.
        """
        listings = dict(self.reading.listings)
        for kind in dict.fromkeys(update.kind for update in updates):
            news_of_kind = [update.news for update in updates if update.kind == kind]
            listings[kind] = _apply_news(listings[kind], news_of_kind)
        self.reading = replace(self.reading, listings=listings, changed={})

    def _watch_kind(self, kind: str, listing: Listing) -> None:
        """Watch a kind and queue its updates until ``stopped`` is set or an error ends the watch.

        A watch that breaks off is resumed, at most MAX_FAILURES times without an event. If the server denies the watch
        or no longer knows its version, the kind is listed again.
        """
        failures = 0  # since the last event
        while not self.stopped.is_set():
            try:
                for resumable_listing in self._queue_events(kind, listing):
                    listing = resumable_listing
                    failures = 0
                    if self.stopped.is_set():
                        return
                self.stopped.wait(FIRST_WAIT)
            except RefusedError as error:
                is_version_too_old = error.code == GONE
                if is_version_too_old:
                    if failures:  # the new list was too old as well
                        self._back_off(failures)
                    failures += 1
                fresh = self._list_kind_again(kind, listing, error)
                if fresh is None:
                    return
                listing = fresh
            except BrokenOffError as error:
                failures += 1
                if failures > MAX_FAILURES:
                    self.updates.put(Update(kind, ClusterError(str(error), where=self.server.host)))
                    return
                log.info("the watch of %s ended: %s", KINDS[kind].plural, error)
                self._back_off(failures)
            except ClusterError as error:
                self.updates.put(Update(kind, error))
                return

    def _queue_events(self, kind: str, listing: Listing) -> Iterator[Listing]:
        """Watch the changes after a listing, queue the events of objects, and yield a listing after each event.

        The watch can be resumed from the yielded listing, which has no objects. Raises the errors of watch_changes.
        """
        for event in watch_changes(self.server, kind, listing, seconds=WATCH_SECONDS):
            if event.key is not None:  # a bookmark only has a version
                self.updates.put(Update(kind, event))
            version = event.resource_version or listing.resource_version
            listing = listing._replace(objects=ObjectTuple(), resource_version=version)
            yield listing

    def _back_off(self, failures: int) -> None:
        """Wait before the next try, exponentially longer with the number of failures, or until ``stopped`` is set."""
        self.stopped.wait(min(FIRST_WAIT * 2**failures, MAX_WAIT))

    def _list_kind_again(self, kind: str, listing: Listing, rejection: RefusedError) -> Listing | None:
        """List the kind again and queue the new list, or queue the error and return None.

        If the kind cannot be watched, a warning is logged and POLL_SECONDS pass first. The returned listing has no
        objects.
        """
        if rejection.code != GONE:
            plural = KINDS[kind].plural
            log.warning(
                "warning: %s cannot be watched (%s), so they are listed every %g s", plural, rejection, POLL_SECONDS
            )
            self.stopped.wait(POLL_SECONDS)
        try:
            fresh = read_list_at(self.server, kind, listing.path, listing.fields)
        except ClusterError as error:
            self.updates.put(Update(kind, error))
            return None
        except RefusedError as error:
            self.updates.put(Update(kind, ClusterError(str(error), where=self.server.host)))
            return None
        self.updates.put(Update(kind, fresh))
        return fresh._replace(objects=ObjectTuple())


def _apply_news(listing: Listing, news: Iterable[WatchEvent | Listing | ClusterError]) -> Listing:
    """Return the listing of a kind after the kind's updates. A new list takes the place of everything before.

    Raises ClusterError if one of the updates is an error.
    """
    events = list[WatchEvent]()
    for item in news:
        if isinstance(item, ClusterError):
            raise item
        if isinstance(item, Listing):
            listing = item
            events = []
        else:
            events.append(item)
    if not events:
        return listing
    changes = {event.key: event.object for event in events if event.key is not None}
    return apply_changes(listing, changes, events[-1].resource_version)
