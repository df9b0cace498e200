"""The API server's answer to a manifest, as a document: kind Admission."""

from __future__ import annotations

from kschedctl.api.json_values import JsonObject
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report


class OtherOutcome(Document, frozen=True):
    """An answer that another try may get if the server goes through several objects in random order."""

    code: int
    message: str | None = None


class Admission(Report, frozen=True):
    """The API server's answer to a manifest."""

    code: int
    """The HTTP status code."""
    allowed: bool
    reason: str | None = None
    message: str | None = None
    """The server's message. A generated suffix of a name is written as `*`."""
    warnings: tuple[str, ...] = ()
    object: JsonObject | None = None
    """The metadata and spec that are stored, or None if nothing is."""
    changed: tuple[str, ...] = ()
    """The changes that admission makes, and the object that is responsible for each."""
    varies: tuple[OtherOutcome, ...] = ()
    """Other answers that further tries may get by chance."""

    def first_line(self) -> tuple[str, ...]:
        """Return whether the object is admitted, and the server's message."""
        return ("Admitted" if self.allowed else f"Refused ({self.code}):", self.message or "")
