"""The tabs at the right."""

from __future__ import annotations

from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from kschedctl.commands.browse.answers import TABS, WHY


class TabLine(Widget):
    """The tabs by their keys; the shown one stands in brackets, and all the more stands out while keys go there."""

    shown = reactive(WHY)
    entered = reactive(False)

    class Clicked(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            super().__init__()
            self.tab = tab

    def render(self) -> Text:
        line = Text(no_wrap=True)
        for number, tab in enumerate(TABS, 1):
            look = "" if tab != self.shown else "reverse bold" if self.entered else "underline bold"
            left, right = "[]" if tab == self.shown else "  "
            line.append(f"{left}{number} {tab.capitalize()}{right}", look)
        return line

    def on_click(self, event: Click) -> None:
        right = 0
        for tab in TABS:
            right += len(f" 1 {tab} ")
            if event.x < right:
                self.post_message(self.Clicked(tab))
                return
