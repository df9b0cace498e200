"""Screens on top of the browser: details of a node or workload, a text, and the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from kschedctl.commands.browse.keys import HELP, KEY_WIDTH
from kschedctl.commands.browse.lines import Layout, LineList, ListLine, Openable, wrap_text
from kschedctl.commands.browse.status_lines import KeyLine


class LinesScreen(ModalScreen[None]):
    """A screen with a list of lines, which Esc closes.

    The callback `refresh_lines` computes and shows the lines, first on opening and then on each change of the cluster.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left", "dismiss", "Back"),
        Binding("question_mark", "app.help", "Help"),
        Binding("q", "app.quit", "Quit"),
        Binding("ctrl+c", "app.quit", show=False, priority=True),
    ]

    def __init__(self, refresh_lines: Callable[[LinesScreen], object]) -> None:
        super().__init__()
        self.refresh_lines = refresh_lines

    def compose(self) -> ComposeResult:
        yield LineList("lines")
        yield KeyLine()

    def on_mount(self) -> None:
        self.lines.focus()
        self.refresh_lines(self)

    @property
    def lines(self) -> LineList:
        return self.query_one("#lines", LineList)

    def show(self, layout: Layout) -> None:
        """Show the lines that a layout function returns."""
        self.lines.show(layout)


class DetailsScreen(LinesScreen):
    """The details of a node or workload."""

    def __init__(self, subject: Openable, refresh_lines: Callable[[LinesScreen], object]) -> None:
        super().__init__(refresh_lines)
        self.subject = subject


class TextScreen(LinesScreen):
    """A screen with several texts."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "dismiss", show=False)]

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(lambda screen: screen.show(self._wrap_texts))
        self.texts = texts

    def _wrap_texts(self, width: int) -> list[ListLine]:
        """Wrap the texts, with a blank line after each."""
        return [ListLine(line) for text in self.texts for line in (*wrap_text(text, width, "  "), "")]


class HelpScreen(TextScreen):
    """The help screen, which lists the keys."""

    def __init__(self) -> None:
        super().__init__(HELP.splitlines())

    def _wrap_texts(self, width: int) -> list[ListLine]:
        """Wrap the help, with continuation lines aligned to the descriptions of the keys."""
        lines = []
        for text in self.texts:
            indent = " " * KEY_WIDTH if " " in text[:KEY_WIDTH] else ""
            lines += [ListLine(line) for line in wrap_text(text, width, indent)]
        return lines
