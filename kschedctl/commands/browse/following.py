"""A background thread that follows a live cluster, and prepares each new state before it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Thread
from time import monotonic, sleep
from typing import NamedTuple

from kschedctl.commands.browse.session import BrowseSession
from kschedctl.errors import KschedctlError

REST_FACTOR = 2.0
"""How much longer than the preparation of a state the pause after it is. Most time remains for the UI."""
MAX_REST_SECONDS = 30.0
"""The longest pause between two states."""


class LiveSessions(NamedTuple):
    """The sessions of a live cluster."""

    sessions: Iterator[BrowseSession]
    """The sessions after the first one."""
    restart: Callable[[], Iterator[BrowseSession]]
    """Reads the cluster again after the connection was lost."""


@dataclass(frozen=True)
class SessionFollower:
    """A thread that delivers the sessions of a live cluster."""

    on_session: Callable[[BrowseSession], object]
    """Called with each new session."""
    on_lost: Callable[[str], object]
    """Called with an error message when the connection is lost."""
    on_bug: Callable[[Exception], object]
    """Called with an unexpected exception."""

    def start(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        """Start the thread. It is a daemon because it may wait hours for changes."""
        Thread(target=self._follow, args=(sessions,), daemon=True, name="browse-following").start()

    def _follow(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        """Prepare and deliver each session, and pause after it."""
        try:
            for session in sessions():
                started = monotonic()
                _ = session.pods_by_cause, session.workloads
                self.on_session(session)
                sleep(min(REST_FACTOR * (monotonic() - started), MAX_REST_SECONDS))
        except KschedctlError as error:
            self.on_lost(str(error))
        except Exception as error:
            self.on_bug(error)
