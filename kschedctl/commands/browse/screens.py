"""Screens over the browser: a node or a workload, a text, and the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from kschedctl.commands.browse.keys import HELP, KEY_WIDTH
from kschedctl.commands.browse.lines import Layout, LineList, ListLine, Openable, wrapped
from kschedctl.commands.browse.status_lines import KeyLine


class LinesScreen(ModalScreen[None]):
    """Lines to look at until Esc; ``refreshed`` asks for them, again when the cluster has changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left", "dismiss", "Back"),
        Binding("question_mark", "app.help", "Help"),
        Binding("q", "app.quit", "Quit"),
        Binding("ctrl+c", "app.quit", show=False, priority=True),
    ]

    def __init__(self, refreshed: Callable[[LinesScreen], object]) -> None:
        super().__init__()
        self.refreshed = refreshed

    def compose(self) -> ComposeResult:
        yield LineList("lines")
        yield KeyLine()

    def on_mount(self) -> None:
        self.lines.focus()
        self.refreshed(self)

    @property
    def lines(self) -> LineList:
        return self.query_one("#lines", LineList)

    def show(self, make: Layout) -> None:
        self.lines.show(make)


class DrillScreen(LinesScreen):
    """A node or a workload."""

    def __init__(self, subject: Openable, refreshed: Callable[[LinesScreen], object]) -> None:
        super().__init__(refreshed)
        self.subject = subject


class TextScreen(LinesScreen):
    """Texts, one beneath the other."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "dismiss", show=False)]

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(lambda screen: screen.show(self._wrapped))
        self.texts = texts

    def _wrapped(self, width: int) -> list[ListLine]:
        return [ListLine(line) for text in self.texts for line in (*wrapped(text, width, "  "), "")]


class HelpScreen(TextScreen):
    """What keys do."""

    def __init__(self) -> None:
        super().__init__(HELP.splitlines())

    def _wrapped(self, width: int) -> list[ListLine]:
        lines = []
        for text in self.texts:
            indent = " " * KEY_WIDTH if " " in text[:KEY_WIDTH] else ""
            lines += [ListLine(line) for line in wrapped(text, width, indent)]
        return lines
