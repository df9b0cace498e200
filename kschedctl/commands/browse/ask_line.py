"""The line in which one types what to search for, or what to suppose."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static

SEARCH, SEARCH_NODES, AS_IF = "search", "search nodes", "as if"
HINTS = {
    SEARCH: "part of a name or a cause",
    SEARCH_NODES: "part of a name or an answer",
    AS_IF: "cpu=500m memory=1Gi priority=9 class=NAME tolerate=KEY node=LIKE",
}


class AskLine(Horizontal):
    """``asking``: what is being typed, empty while the line is closed."""

    asking = ""

    def compose(self) -> ComposeResult:
        yield Static(id="ask-label")
        yield Input(id="ask", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.display = False

    def open(self, what: str, value: str) -> None:
        """Ask for SEARCH, SEARCH_NODES or AS_IF; ``value``: what was said last."""
        self.asking = what
        self.display = True
        self.query_one("#ask-label", Static).update(f"{what}: ")
        line = self.query_one(Input)
        line.placeholder, line.value = HINTS[what], value
        line.cursor_position = len(value)
        line.focus()
        self.app.refresh_bindings()

    def close(self) -> str:
        """What was asked for."""
        asked, self.asking, self.display = self.asking, "", False
        self.app.refresh_bindings()
        return asked
