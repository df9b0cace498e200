"""The first line of the screen and the last one, and the one above the keys."""

from __future__ import annotations

from itertools import accumulate
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.events import Click
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from kschedctl.commands.browse.lines import WARNING
from kschedctl.text.printable import printable

MOST = 1000
"""So many characters of a note are shown."""


class HeadLine(Static):
    """What is looked at, cut where there is no room."""

    told = ""

    def tell(self, *parts: str) -> None:
        self.told = printable(" · ".join(filter(None, parts)))
        self.on_resize()

    def on_resize(self) -> None:
        text = Text(self.told)
        text.truncate(max(self.size.width, 1), overflow="ellipsis")
        self.update(text)


class NoteLine(Static):
    """What is to be said just now."""

    def on_mount(self) -> None:
        self.display = False

    def tell(self, text: str) -> None:
        """In the place of what was said before; nothing where it is empty."""
        self.update(Text(printable(text[:MOST]), WARNING))
        self.display = bool(text)


class ShownKey(NamedTuple):
    """``face``: how the key is written, as ⏎ for enter."""

    key: str
    face: str
    does: str


class KeyLine(Widget):
    """Keys of the focused widget and of what is around it, which can be clicked as well.

    Textual's own Footer makes a widget of each key, anew whenever keys change: half of what a key pressed costs.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--face", "key-line--does"}

    keys: reactive[tuple[ShownKey, ...]] = reactive(())

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[object]) -> None:
        if self.app.app_focus and self.is_attached and screen is self.screen:
            first: dict[str, ShownKey] = {}  # of several keys for the same
            for _, binding, _, _ in screen.active_bindings.values():
                if binding.show:
                    key = ShownKey(binding.key, self.app.get_key_display(binding), binding.description)
                    first.setdefault(binding.action, key)
            self.keys = tuple(first.values())

    def render(self) -> Text:
        face, does = map(self.get_component_rich_style, ("key-line--face", "key-line--does"))
        line = Text(no_wrap=True)
        for key in self.keys:
            line.append(f" {key.face} ", face).append(f"{key.does} ", does)
        return line

    def on_click(self, event: Click) -> None:
        ends = accumulate(Text(f" {key.face} {key.does} ").cell_len for key in self.keys)
        clicked = next((key for key, end in zip(self.keys, ends, strict=True) if event.x < end), None)
        if clicked:
            self.app.simulate_key(clicked.key)
