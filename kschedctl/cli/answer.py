"""What a command answers: a document, how to show it, and the exit code."""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.document import Document

SCHEDULES, DOES_NOT_SCHEDULE, UNDECIDED = 0, 1, 5


@dataclass(frozen=True)
class Answer:
    """``format`` is a key of RENDERERS."""

    document: Document
    format: str
    style: Style
    exit_code: int = SCHEDULES

    def content(self) -> str | bytes:
        """Bytes of a picture that is no text."""
        return RENDERERS[self.format](self.document, self.style)
