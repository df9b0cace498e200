"""A live cluster beside the screen: each new state of it, made ready before it is shown, until it is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Thread
from time import monotonic, sleep
from typing import NamedTuple

from kschedctl.commands.browse.session import BrowseSession
from kschedctl.errors import KschedctlError

REST = 2.0
"""So many times as long as a state took to be made ready the next one waits: most of the time is for who looks."""
LONGEST_REST = 30.0


class LiveSessions(NamedTuple):
    """The states of a live cluster to come, and how it is read ``again`` from the start."""

    sessions: Iterator[BrowseSession]
    again: Callable[[], Iterator[BrowseSession]]


@dataclass(frozen=True)
class SessionFollower:
    """``take`` is given each state, ``lost`` the error after which there are no more of them, ``failed`` any other."""

    take: Callable[[BrowseSession], object]
    lost: Callable[[str], object]
    failed: Callable[[Exception], object]

    def start(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        """The thread is a daemon: it may wait for news for hours."""
        Thread(target=self._follow, args=(sessions,), daemon=True, name="browse-following").start()

    def _follow(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        try:
            for session in sessions():
                started = monotonic()
                _ = session.pending, session.owners
                self.take(session)
                sleep(min(REST * (monotonic() - started), LONGEST_REST))
        except KschedctlError as error:
            self.lost(str(error))
        except Exception as error:
            self.failed(error)
