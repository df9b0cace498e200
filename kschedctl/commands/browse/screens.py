"""Screens on top of the browser (details of a node or workload, a text, the help), and the key bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from kschedctl.commands.browse.answers import TABS
from kschedctl.commands.browse.lines import Layout, LineList, ListLine, Openable, wrap_text
from kschedctl.commands.browse.status_lines import GO_TO, KeyLine
from kschedctl.fixes.supposing import SUPPOSABLE


class LinesScreen(ModalScreen[None]):
    """A screen with a list of lines, which Esc closes.

    The callback `refresh_lines` computes and shows the lines, first on opening and then on each change of the cluster.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left", "dismiss", "Back"),
        Binding("question_mark", "app.open_help", "Help"),
        Binding("q", "app.quit", "Quit"),
        Binding("ctrl+c", "app.quit", show=False, priority=True),
    ]

    def __init__(self, refresh_lines: Callable[[LinesScreen], object]) -> None:
        super().__init__()
        self.refresh_lines = refresh_lines

    def compose(self) -> ComposeResult:
        """Yield the list and the line of keys."""
        yield LineList("lines")
        yield KeyLine()

    def on_mount(self) -> None:
        """Focus the list and fill it."""
        self.lines.focus()
        self.refresh_lines(self)

    @property
    def lines(self) -> LineList:
        """The list of lines."""
        return self.query_one("#lines", LineList)

    @property
    def is_empty(self) -> bool:
        """True if the screen shows no lines yet."""
        return not self.lines.lines

    def show(self, layout: Layout) -> None:
        """Show the lines that a layout function returns."""
        self.lines.show(layout)


class DetailsScreen(LinesScreen):
    """The details of a node or workload."""

    def __init__(self, subject: Openable, refresh_lines: Callable[[LinesScreen], object]) -> None:
        super().__init__(refresh_lines)
        self.subject = subject


class TextScreen(LinesScreen):
    """A screen with several texts."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "dismiss", show=False)]

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(lambda screen: screen.show(self._wrap_texts))
        self.texts = texts

    def _wrap_texts(self, width: int) -> list[ListLine]:
        """Wrap the texts, with a blank line after each."""
        return [ListLine(line) for text in self.texts for line in (*wrap_text(text, width, "  "), "")]


class FixScreen(TextScreen):
    """The details of the chosen fix."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "app.copy_commands", "Copy")]


class HelpScreen(TextScreen):
    """The help screen, which lists the keys."""

    def __init__(self) -> None:
        super().__init__(HELP.splitlines())

    def _wrap_texts(self, width: int) -> list[ListLine]:
        """Wrap the help, with continuation lines aligned to the descriptions of the keys."""
        indent = " " * KEY_WIDTH
        return [ListLine(line) for text in self.texts for line in wrap_text(text, width, indent)]


KEYS: list[BindingType] = [
    Binding("question_mark", "open_help", "Help"),
    Binding("slash", "open_input('search')", "Search"),
    Binding("colon", "open_input('go to')", show=False),
    Binding("d", "open_chosen_line", show=False),
    Binding("a", "open_input('as if')", "As if"),
    Binding("s", "sort_list", "Sort"),
    Binding("n", "open_namespaces", "NS"),
    Binding("w", "open_workload", show=False),
    Binding("c", "copy_commands", "Copy"),
    Binding("q", "quit", "Quit"),
    Binding("ctrl+c", "quit", show=False, priority=True),
    Binding("r", "reconnect", show=False),
    *(Binding(str(i + 1), f"open_tab('{tab}')", show=False) for i, tab in enumerate(TABS)),
    Binding("escape", "go_back", "Back"),
]

HELP = f"""\
Tab      switch between the list of pods and the answer about the chosen pod
Up Down  choose a pod, a node or a fix, or scroll; also j k PgUp PgDn Home End
Enter, d open or describe: a pod's answer, a node (room, pods, what would fit), a workload, a fix
Esc      go back; also ends a search or an "as if"
1 to 5   tabs: why, nodes, scores, fixes, map (Enter on a reason lists its nodes)
/        search pods by name or cause, nodes and workloads; in the list of nodes, search nodes
:        go to: {", ".join(GO_TO)}, or a name
a        as if: ask again with another priority, request or toleration, or with one more node
s        sort pods by cause, age or name; sort nodes by answer, name or pool
n        pick the namespace of the pods
w        open the workload of the pod
c        copy the command that asks the same question, or the commands of the chosen fix
r        reconnect to the live cluster after the connection was lost
q        quit

As if: {SUPPOSABLE}
e.g.   cpu=500m tolerate=nvidia.com/gpu

Copying goes through the terminal (OSC 52) and works over ssh. What was copied is also printed when you quit, for \
terminals without it."""
KEY_WIDTH = 9
