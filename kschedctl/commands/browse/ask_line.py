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
    """The input line, hidden while nothing is entered."""

    asking = ""
    """SEARCH, SEARCH_NODES or AS_IF while text is entered, else ""."""

    def compose(self) -> ComposeResult:
        yield Static(id="ask-label")
        yield Input(id="ask", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.display = False

    def open(self, purpose: str, value: str) -> None:
        """Open the line for SEARCH, SEARCH_NODES or AS_IF with an initial value."""
        self.asking = purpose
        self.display = True
        self.query_one("#ask-label", Static).update(f"{purpose}: ")
        line = self.query_one(Input)
        line.placeholder, line.value = HINTS[purpose], value
        line.cursor_position = len(value)
        line.focus()
        self.app.refresh_bindings()

    def close(self) -> str:
        """Hide the line and return its purpose."""
        asked, self.asking, self.display = self.asking, "", False
        self.app.refresh_bindings()
        return asked
