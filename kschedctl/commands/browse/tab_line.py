"""The line of tabs in the right pane."""

from __future__ import annotations

from rich.text import Text
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from kschedctl.commands.browse.answers import TABS, WHY


class TabLine(Widget):
    """The tabs with their keys. The current tab is in brackets, and highlighted while its content has the focus."""

    current_tab = reactive(WHY)
    has_focus_inside = reactive(False)

    class Clicked(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            super().__init__()
            self.tab = tab

    def render(self) -> Text:
        """Render the tabs."""
        line = Text(no_wrap=True)
        for number, tab in enumerate(TABS, 1):
            look = "" if tab != self.current_tab else "reverse bold" if self.has_focus_inside else "underline bold"
            left, right = "[]" if tab == self.current_tab else "  "
            line.append(f"{left}{number} {tab.capitalize()}{right}", look)
        return line

    def on_click(self, event: Click) -> None:
        """Post a message with the tab that was clicked."""
        right = 0
        for tab in TABS:
            right += len(f" 1 {tab} ")
            if event.x < right:
                self.post_message(self.Clicked(tab))
                return
