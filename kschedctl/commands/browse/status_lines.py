"""The lines above and below the panes: header, note, keys, and the input line for searches and assumptions."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Click
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from kschedctl.commands.browse.lines import WARNING
from kschedctl.text.printable import printable

MAX_NOTE = 1000
"""The maximum number of characters of a note."""


def describe_copied_text(text: str) -> str:
    """Describe what was copied: the first line without comments, and how many lines there are if there are several.

    >>> describe_copied_text("# deletes the pod\\nkubectl delete pod a\\nkubectl apply -f a.yaml")
    'copied 3 lines: kubectl delete pod a …'
    """
    lines = text.splitlines()
    if len(lines) < 2:
        return f"copied: {text}"
    first = next((line for line in lines if not line.startswith("#")), lines[0])
    return f"copied {len(lines):,} lines: {first} …"


class HeaderLine(Static):
    """The first line of the screen, truncated to the width."""

    full_text = ""

    def show_parts(self, *parts: str) -> None:
        """Show the non-empty parts, joined by dots."""
        self.full_text = printable(" · ".join(filter(None, parts)))
        self.on_resize()

    def on_resize(self) -> None:
        """Truncate the text to the new width."""
        text = Text(self.full_text)
        text.truncate(max(self.size.width, 1), overflow="ellipsis")
        self.update(text)


class NoteLine(Static):
    """The note above the keys. It is hidden if there is no note."""

    def on_mount(self) -> None:
        """Hide the line until there is a note."""
        self.display = False

    def show_note(self, text: str) -> None:
        """Show a note in place of the previous one. An empty text hides the line."""
        self.update(Text(printable(text[:MAX_NOTE]), WARNING))
        self.display = bool(text)


class ShownKey(NamedTuple):
    """A key in the line of keys."""

    key: str
    symbol: str
    """The key as it is displayed, such as ⏎ for enter."""
    description: str


class KeyLine(Widget):
    """The keys of the focused widget and its ancestors. They can also be clicked.

    Textual's own Footer rebuilds one widget per key whenever the keys change, which is half the cost of a keystroke.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--face", "key-line--does"}

    keys: reactive[tuple[ShownKey, ...]] = reactive(())

    def on_mount(self) -> None:
        """Update the keys whenever the bindings of the screen change."""
        self.screen.bindings_updated_signal.subscribe(self, self._update_keys)

    def _update_keys(self, screen: Screen[object]) -> None:
        """Show the keys of the active bindings. If several keys have the same action, the first is shown.

        Nothing changes while another screen or another application has the focus.
        """
        if self.app.app_focus and self.is_attached and screen is self.screen:
            key_by_action: dict[str, ShownKey] = {}
            for _, binding, _, _ in screen.active_bindings.values():
                if binding.show:
                    key = ShownKey(binding.key, self.app.get_key_display(binding), binding.description)
                    key_by_action.setdefault(binding.action, key)
            self.keys = tuple(key_by_action.values())

    def render(self) -> Text:
        """Render the keys with their descriptions."""
        key_style = self.get_component_rich_style("key-line--face")
        description_style = self.get_component_rich_style("key-line--does")
        line = Text(no_wrap=True)
        for key, description in self._list_descriptions():
            line.append(f" {key.symbol} ", key_style)
            line.append(description, description_style)
        return line

    def _list_descriptions(self) -> list[tuple[ShownKey, str]]:
        """Return each key with its description.

        If the line is too narrow, only the first key, help, has a description.
        """
        described = [(key, f"{key.description} ") for key in self.keys]
        if sum(Text(f" {key.symbol} {description}").cell_len for key, description in described) <= self.size.width:
            return described
        return [(key, description if number == 0 else "") for number, (key, description) in enumerate(described)]

    def on_click(self, event: Click) -> None:
        """Simulate pressing the clicked key. Nothing happens if the click was beside the keys."""
        end_column = 0
        for key, description in self._list_descriptions():
            end_column += Text(f" {key.symbol} {description}").cell_len
            if event.x < end_column:
                self.app.simulate_key(key.key)
                return


SEARCH, SEARCH_NODES, AS_IF, GO_TO_PLACE = "search", "search nodes", "as if", "go to"
GO_TO = ("pods", "nodes", "ns", "why", "scores", "fixes", "map", "help", "q")
"""The words that the line for GO_TO_PLACE takes besides names."""
HINTS = {
    GO_TO_PLACE: f"{', '.join(GO_TO)}, or a name",
    SEARCH: "part of a name or a cause",
    SEARCH_NODES: "part of a name or an answer",
    AS_IF: "cpu=500m memory=1Gi priority=9 class=NAME tolerate=KEY node=NODE",
}


class AskLine(Horizontal):
    """The input line, which is hidden unless it is open."""

    purpose = ""
    """SEARCH, SEARCH_NODES, AS_IF or GO_TO_PLACE while the line is open, otherwise an empty string."""

    def compose(self) -> ComposeResult:
        """Yield the label and the input field."""
        yield Static(id="ask-label")
        yield Input(id="ask", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        """Hide the line until it is opened."""
        self.display = False

    def open(self, new_purpose: str, value: str) -> None:
        """Show and focus the line for one of the purposes in HINTS, with `value` as the text to edit."""
        self.purpose = new_purpose
        self.display = True
        self.query_one("#ask-label", Static).update(f"{new_purpose}: ")
        line = self.query_one(Input)
        line.placeholder, line.value = HINTS[new_purpose], value
        line.cursor_position = len(value)
        line.focus()
        self.app.refresh_bindings()

    def close_and_get_purpose(self) -> str:
        """Hide the line, and return the purpose for which it was open."""
        old_purpose = self.purpose
        self.purpose = ""
        self.display = False
        self.app.refresh_bindings()
        return old_purpose
