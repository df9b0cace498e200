"""The input line for searches and assumptions."""

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
    """The input line, which is hidden unless it is open."""

    purpose = ""
    """SEARCH, SEARCH_NODES or AS_IF while the line is open, otherwise an empty string."""

    def compose(self) -> ComposeResult:
        yield Static(id="ask-label")
        yield Input(id="ask", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.display = False

    def open(self, new_purpose: str, value: str) -> None:
        """Open the line for SEARCH, SEARCH_NODES or AS_IF with an initial value."""
        self.purpose = new_purpose
        self.display = True
        self.query_one("#ask-label", Static).update(f"{new_purpose}: ")
        line = self.query_one(Input)
        line.placeholder, line.value = HINTS[new_purpose], value
        line.cursor_position = len(value)
        line.focus()
        self.app.refresh_bindings()

    def close(self) -> str:
        """Hide the line, and return the purpose that it had."""
        old_purpose, self.purpose, self.display = self.purpose, "", False
        self.app.refresh_bindings()
        return old_purpose
