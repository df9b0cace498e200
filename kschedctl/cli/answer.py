"""What a command answers: a document, how to show it, and the exit code."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Self

import msgspec

from kschedctl.api.copying import replace
from kschedctl.render.page import Style, plots_of
from kschedctl.render.renderers import RENDERERS, build_page
from kschedctl.reports.document import Document

log = logging.getLogger(__name__)

SCHEDULES, DOES_NOT_SCHEDULE, UNDECIDED = 0, 1, 5


class Answer(msgspec.Struct, frozen=True):
    """``format`` is a key of RENDERERS."""

    document: Document
    format: str
    style: Style
    exit_code: int = SCHEDULES

    def made_by(self, command: str) -> Self:
        """With the time and the command line, for reports that are passed on."""
        made = (("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")), ("command", command))
        return replace(self, style=replace(self.style, about=(*self.style.about, *made)))

    def content(self) -> str | bytes:
        """Bytes of a picture that is no text."""
        if self.style.plots and not plots_of(build_page(self.document, self.style)):
            log.warning("note: this answer has no plots, and --plot adds nothing to it")
        return RENDERERS[self.format](self.document, self.style)
