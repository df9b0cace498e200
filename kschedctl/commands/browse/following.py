"""A background thread that follows a live cluster and prepares each new state before it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Thread
from time import monotonic, sleep
from typing import NamedTuple

from kschedctl.commands.browse.session import BrowseSession
from kschedctl.errors import KschedctlError

REST_FACTOR = 2.0
"""The pause after a state, as a multiple of the time its preparation took. Most time remains for the UI."""
LONGEST_REST = 30.0
"""The longest pause, in seconds."""


class LiveSessions(NamedTuple):
    """The sessions of a live cluster."""

    sessions: Iterator[BrowseSession]
    """The states that follow the first."""
    restart: Callable[[], Iterator[BrowseSession]]
    """Read the cluster again from the start after the connection was lost."""


@dataclass(frozen=True)
class SessionFollower:
    """The thread that delivers the sessions of a live cluster."""

    on_session: Callable[[BrowseSession], object]
    """Called with each new session."""
    on_lost: Callable[[str], object]
    """Called with the error after which no more sessions follow."""
    on_bug: Callable[[Exception], object]
    """Called with an unexpected exception."""

    def start(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        """Start the thread, a daemon because it may wait for changes for hours."""
        Thread(target=self._follow, args=(sessions,), daemon=True, name="browse-following").start()

    def _follow(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        """Prepare and deliver each session, pausing in between."""
        try:
            for session in sessions():
                started = monotonic()
                _ = session.pods_by_cause, session.workloads
                self.on_session(session)
                sleep(min(REST_FACTOR * (monotonic() - started), LONGEST_REST))
        except KschedctlError as error:
            self.on_lost(str(error))
        except Exception as error:
            self.on_bug(error)
