"""Report structs for terminating victims and for the scheduler's last message about a pod."""

from __future__ import annotations

from kschedctl.reports.document import Document


class TerminatingVictim(Document, frozen=True, kw_only=True):
    """A pod that terminates to make room for another pod."""

    pod: str
    node: str
    asked: str = ""
    """When its deletion was requested; empty if unknown."""
    due: str = ""
    """When its grace period ends; empty if unknown."""
    overdue: str = ""
    """For how long it should have been gone; empty while it has time."""


class LastWords(Document, frozen=True, kw_only=True):
    """The scheduler's last message about a pod."""

    message: str
    at: str = ""
    """The time of the message; for a condition, the time of the first rejection."""
    age: str = ""
    source: str = ""
    """Where the message is from: an event, or the pod's condition."""
    attempts: int = 0
    """The number of known rejections, 0 if unknown. Events expire within the hour, and several may be merged into
    one.
    """
