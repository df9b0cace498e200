"""The first line of the screen, and the one above the keys."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from kschedctl.cli.browse.lines import WARNING
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
