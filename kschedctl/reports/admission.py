"""What the API server makes of a manifest: kind Admission."""

from __future__ import annotations

from kschedctl.api.json_values import JsonObject
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report


class OtherOutcome(Document, frozen=True):
    """What another try may give where the server goes through several objects in random order."""

    code: int
    message: str | None = None


class Admission(Report, frozen=True):
    """``code``: of HTTP; ``message``: to the letter, a generated suffix of a name as ``*``.

    ``object``: the metadata and spec that are stored, and what follows from them; None where nothing is.
    ``changed``: what was changed, and by which object; ``varies``: what other tries may give, by chance.
    """

    code: int
    allowed: bool
    reason: str | None = None
    message: str | None = None
    warnings: tuple[str, ...] = ()
    object: JsonObject | None = None
    changed: tuple[str, ...] = ()
    varies: tuple[OtherOutcome, ...] = ()

    def first_line(self) -> tuple[str, ...]:
        """Whether it is let in, and what the server says."""
        return ("Admitted" if self.allowed else f"Refused ({self.code}):", self.message or "")
