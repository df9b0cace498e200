"""Background threads: one answers the user's questions, the other follows a live cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from threading import Condition, Thread
from time import monotonic, sleep
from typing import NamedTuple

from kschedctl.commands.browse.session import BrowseSession
from kschedctl.errors import KschedctlError

Question = Callable[[], None]


class Urgency(IntEnum):
    """Kinds of questions, most urgent first."""

    LIST = 0
    PAGE = 1
    ANSWER = 2
    REMEDIES = 3


class OutdatedError(Exception):
    """The question is outdated because the user has asked another one."""


class QuestionQueue:
    """A background thread that answers one question at a time.

    A question is a function that delivers its own answer. Unexpected exceptions are passed to the callback `failed`.
    The thread is a daemon, so that exiting does not wait for it.
    """

    def __init__(self, failed: Callable[[Exception], object]) -> None:
        self._failed = failed
        self._waiting: dict[Urgency, Question] = {}
        self._working: list[Urgency] = []
        self._changed = Condition()
        Thread(target=self._answer_questions_forever, daemon=True, name="browse-desk").start()

    def ask(self, kind: Urgency, question: Question) -> None:
        """Queue a question. It replaces a waiting question of the same kind.

        A new ANSWER also drops a waiting REMEDIES, which is about the previous answer.
        """
        with self._changed:
            self._waiting[kind] = question
            if kind is Urgency.ANSWER:
                self._waiting.pop(Urgency.REMEDIES, None)
            self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        """True if a question is waiting or being answered."""
        with self._changed:
            return bool(self._waiting or self._working)

    def answer_more_urgent_questions(self) -> None:
        """Answer the waiting questions that are more urgent than the question which calls this method.

        Long-running questions call it from time to time. Raises OutdatedError if a new ANSWER replaces the calling
        question.
        """
        with self._changed:
            current = self._working[-1]  # a question can be interrupted by more urgent questions
            if Urgency.ANSWER in self._waiting and current >= Urgency.ANSWER:
                raise OutdatedError
        while (task := self._take_most_urgent_question(before=current)) is not None:
            self._answer_question(*task)

    def _answer_questions_forever(self) -> None:
        """Wait for questions, and answer the most urgent one first, without end."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
            if (task := self._take_most_urgent_question()) is not None:
                self._answer_question(*task)

    def _take_most_urgent_question(self, before: Urgency | None = None) -> tuple[Urgency, Question] | None:
        """Remove and return the most urgent question with its urgency, or return None if there is none.

        With `before`, only questions more urgent than `before` are considered. The caller must answer the question,
        which counts as being answered from now on.
        """
        with self._changed:
            urgencies = [urgency for urgency in self._waiting if before is None or urgency < before]
            if not urgencies:
                return None
            urgency = min(urgencies)
            self._working.append(urgency)
            return urgency, self._waiting.pop(urgency)

    def _answer_question(self, kind: Urgency, question: Question) -> None:
        """Run a question taken from the queue, and then allow the next question of this urgency.

        A question that becomes outdated while it runs is dropped. Any other exception is passed to the callback
        `failed`.
        """
        try:
            question()
        except OutdatedError:
            pass
        except Exception as error:
            self._failed(error)
        finally:
            with self._changed:
                self._working.remove(kind)


REST_FACTOR = 2.0
"""The length of the pause after a state, as a multiple of its preparation, so that most time remains for the UI."""
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
        Thread(target=self._deliver_sessions, args=(sessions,), daemon=True, name="browse-following").start()

    def _deliver_sessions(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        """Deliver each session when it is ready, until there are no more or an error occurs.

        Results that the UI would have to wait for are computed before the delivery. The pause after each session is in
        proportion to the time that the session took, and lasts at most MAX_REST_SECONDS. A lost connection and other
        KschedctlErrors are reported to `on_lost`, unexpected exceptions to `on_bug`.
        """
        try:
            for session in sessions():
                started = monotonic()
                _ = session.pods_by_cause, session.workloads  # computed here so that the UI does not wait for them
                self.on_session(session)
                sleep(min(REST_FACTOR * (monotonic() - started), MAX_REST_SECONDS))
        except KschedctlError as error:
            self.on_lost(str(error))
        except Exception as error:
            self.on_bug(error)
