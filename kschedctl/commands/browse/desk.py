"""What takes time is done by a thread beside the screen: of each kind of question only the latest is answered."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from threading import Condition, Thread

Question = Callable[[], None]


class Urgency(IntEnum):
    """The more urgent first."""

    LIST = 0
    PAGE = 1
    ANSWER = 2
    REMEDIES = 3


class UnwantedError(Exception):
    """Something else was asked meanwhile."""


class Desk:
    """Answers questions one at a time, which may share what they compute.

    A question hands over what it found itself. ``failed`` is told of what none of them should raise. The thread is a
    daemon: nobody who leaves has to wait for it.
    """

    def __init__(self, failed: Callable[[Exception], object]) -> None:
        self._failed = failed
        self._waiting: dict[Urgency, Question] = {}
        self._working: list[Urgency] = []
        self._changed = Condition()
        Thread(target=self._work, daemon=True, name="browse-desk").start()

    def ask(self, kind: Urgency, question: Question) -> None:
        """In the place of one of that kind that waits; remedies of an answer before are not wanted any more."""
        with self._changed:
            self._waiting[kind] = question
            if kind is Urgency.ANSWER:
                self._waiting.pop(Urgency.REMEDIES, None)
            self._changed.notify_all()

    @property
    def busy(self) -> bool:
        with self._changed:
            return bool(self._waiting or self._working)

    def give_way(self) -> None:
        """Called by a long question again and again: what is more urgent is answered meanwhile.

        Raises UnwantedError when it is out of date.
        """
        with self._changed:
            mine = self._working[-1]
            if Urgency.ANSWER in self._waiting and mine >= Urgency.ANSWER:
                raise UnwantedError
        while (urgent := self._take(before=mine)) is not None:
            self._answer(*urgent)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
            if (task := self._take()) is not None:
                self._answer(*task)

    def _take(self, before: Urgency | None = None) -> tuple[Urgency, Question] | None:
        with self._changed:
            kinds = [kind for kind in self._waiting if before is None or kind < before]
            if not kinds:
                return None
            kind = min(kinds)
            self._working.append(kind)
            return kind, self._waiting.pop(kind)

    def _answer(self, kind: Urgency, question: Question) -> None:
        try:
            question()
        except UnwantedError:
            pass
        except Exception as error:
            self._failed(error)
        finally:
            with self._changed:
                self._working.remove(kind)
