"""When pods were refused last, and which victims still terminate, as parts of reports."""

from __future__ import annotations

from kschedctl.reports.document import Document


class TerminatingVictim(Document, frozen=True, kw_only=True):
    """A pod that leaves so that another one may come: ``asked`` to go at that time, to be gone by ``due``.

    Both are empty where they are not known. ``overdue``: for how long it should have been gone, empty while it has
    time.
    """

    pod: str
    node: str
    asked: str = ""
    due: str = ""
    overdue: str = ""


class LastWords(Document, frozen=True, kw_only=True):
    """What the scheduler last said of a pod, ``at`` what time, and ``source``: an event, or the pod's condition.

    The time of a condition is that of the first refusal. ``attempts``: how often it is known to have been refused, at
    least: events are gone within the hour, and several may be one; 0 where nothing is known.
    """

    message: str
    at: str = ""
    age: str = ""
    source: str = ""
    attempts: int = 0
