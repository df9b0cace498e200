"""The result of a command: a document, the format to print, and the exit code."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Self

import msgspec

from kschedctl.api.copying import replace
from kschedctl.render.page import Style, find_plots
from kschedctl.render.renderers import RENDERERS, build_page
from kschedctl.reports.document import Document

log = logging.getLogger(__name__)

SCHEDULES, DOES_NOT_SCHEDULE, UNDECIDED = 0, 1, 5


class Answer(msgspec.Struct, frozen=True):
    """The result of a command."""

    document: Document
    """The report to print."""
    format: str
    """A key of RENDERERS."""
    style: Style
    """Width, colors and other choices of the output."""
    exit_code: int = SCHEDULES
    cluster_name: str | None = None
    """The cluster that the answer is about, "" for none, or None for the cluster that the options name."""

    def with_provenance(self, command: str) -> Self:
        """Return the answer with the time and the command line, which saved reports show."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        about = (*self.style.about, ("made", now), ("command", command))
        return replace(self, style=replace(self.style, about=about))

    def render(self) -> str | bytes:
        """Render the answer as text, or as bytes for a PNG."""
        if self.style.plots and not find_plots(build_page(self.document, self.style)):
            log.warning("note: this answer has no plots, so --plot has no effect")
        return RENDERERS[self.format](self.document, self.style)
