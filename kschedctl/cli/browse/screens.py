"""Screens over the browser: a page of something, and the help."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kschedctl.render.page import Page, Style
from kschedctl.render.terminal import show
from kschedctl.studies.browsing.supposing import SUPPOSABLE

HELP = f"""\
Pending pods stand at the left, by cause; what is said of the chosen one at the right.

  Up Down     choose a pod, or a row          Enter  open
  Tab         to the other side, and back     Esc    back
  1 2 3 4     why, nodes, scores, remedies
  /           search pods, causes, nodes and workloads
  a           as if: ask again with another priority, request, toleration, or one more node
  w           the workload of the pod
  c           copy the command that asks the same
  ?           this help                       q      quit

As if: {SUPPOSABLE}
"""


def text_of(page: Page, width: int, colors: bool = True) -> Text:
    """The page as it would be printed."""
    return Text.from_ansi(show(page, Style(width=max(width, 40), color=colors)))


class PageScreen(ModalScreen[None]):
    """A page to scroll in, until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back"),
    ]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self.text)


class HelpScreen(PageScreen):
    """What keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "dismiss", "Back"),
    ]

    def __init__(self) -> None:
        super().__init__(Text(HELP))
