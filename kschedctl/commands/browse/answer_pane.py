"""The right side: what is said of the chosen pod, in tabs."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.events import DescendantBlur, DescendantFocus
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from kschedctl.commands.browse.answers import (
    LEAST_WIDTH,
    MAP,
    NODE_ORDERS,
    NODES,
    REMEDIES,
    SCORES,
    WHY,
    Answered,
    LaidOut,
    Room,
    laid_out,
    node_fact,
    node_lines,
    remedy_lines,
)
from kschedctl.commands.browse.lines import LineList, ListLine, Openable, wrapped
from kschedctl.commands.browse.map_lines import map_lines
from kschedctl.commands.browse.tab_line import TabLine
from kschedctl.commands.remedies.report import Remedies
from kschedctl.reports.remedy import Remedy

FACT_LINES = 3


class AnswerPane(Vertical):
    """Shows an explanation, and remedies when they are found; lays them out anew when its width changes."""

    def __init__(self) -> None:
        super().__init__(id="answer")
        self.told: Answered | None = None
        self.found: Remedies | None = None
        self.filtered = ""
        self.node_order = NODE_ORDERS[0]
        self._room: Room | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="verdict")
        yield TabLine(id="tabs")
        with ContentSwitcher(initial=WHY, id="pages"):
            with VerticalScroll(id=WHY):
                yield Static(id="why-text")
            with Vertical(id=NODES):
                yield LineList("node-list")
                yield Static(id="node-fact")
            with VerticalScroll(id=SCORES):
                yield Static(id="scores-text")
            with Vertical(id=REMEDIES):
                yield LineList("remedy-list")
            with Vertical(id=MAP):
                yield LineList("map-list")

    @property
    def tab(self) -> str:
        return self.query_one(TabLine).shown

    @property
    def node_list(self) -> LineList:
        return self.query_one("#node-list", LineList)

    @property
    def room(self) -> Room:
        """Less the scroll bar's column, and the padding."""
        return Room(max(self.size.width - 3, LEAST_WIDTH), max(self.app.size.height // 4, 2))

    def open_tab(self, tab: str) -> None:
        """Show it, and have the keys go there."""
        self.query_one(TabLine).shown = tab
        self.query_one(ContentSwitcher).current = tab
        self.enter()

    def enter(self) -> None:
        """Have the keys go to the tab that is shown."""
        inner: Widget = self.query_one(f"#{self.tab}")
        (inner if inner.can_focus else inner.query_one(LineList)).focus()

    def wait_for(self, key: str) -> None:
        """The answer about that pod is still to come."""
        if self.told is None or self.told.report.pod != key:
            self._clear(f"{key}\nreplaying …")

    def say(self, text: str) -> None:
        """There is nothing else to say."""
        self._clear(text)

    def _clear(self, text: str) -> None:
        self.told = self.found = None
        lines = [line for paragraph in text.splitlines() for line in wrapped(paragraph, self.room.width, "  ", 2)]
        self._put(Text("\n".join(lines)), {WHY: Text(), SCORES: Text()})
        self._forget()
        self._show_nodes()
        self._show_remedies()

    def show(self, shown: LaidOut) -> None:
        """Another explanation; its remedies are being searched for."""
        if self.told is None or self.told.report.pod != shown.told.report.pod:
            self._forget()
        self.told, self.found = shown.told, None
        if shown.room != self.room:
            shown = laid_out(shown.told, self.room)
        self._room = shown.room
        self._put(shown.verdict, shown.texts)
        self._show_nodes()
        self._show_remedies()

    def _forget(self) -> None:
        """What is next is about another pod."""
        self.filtered = ""
        for tab in (WHY, SCORES):
            self.query_one(f"#{tab}", VerticalScroll).scroll_home(animate=False)
        for listed in self.query(LineList):
            listed.forget()

    def _put(self, above: Text, texts: dict[str, Text]) -> None:
        self.query_one("#verdict", Static).update(above)
        for tab, text in texts.items():
            self.query_one(f"#{tab}-text", Static).update(text)

    def show_remedies(self, remedies: Remedies) -> None:
        self.found = remedies
        self._show_remedies()

    def filter_nodes(self, text: str) -> None:
        """Show only the nodes that have the text in their name or answer."""
        self.filtered = text
        self._show_nodes()

    def sort_nodes(self) -> str:
        """Show them in the next order, which is told."""
        self.node_order = NODE_ORDERS[(NODE_ORDERS.index(self.node_order) + 1) % len(NODE_ORDERS)]
        self._show_nodes()
        return self.node_order

    def on_resize(self) -> None:
        if self.told is not None and self._room != self.room:
            self._room = self.room
            shown = laid_out(self.told, self.room)
            self._put(shown.verdict, shown.texts)
            self._show_fact(self.node_list.chosen)

    def _show_nodes(self) -> None:
        answered, text, order = self.told, self.filtered, self.node_order
        self.node_list.show(lambda width: node_lines(answered.report, width, text, order) if answered else ())
        map_list = self.query_one("#map-list", LineList)
        map_list.show(lambda width: map_lines(answered.report, width) if answered else ())
        self._show_fact(self.node_list.chosen)

    def _show_remedies(self) -> None:
        answered, remedies, listed = self.told, self.found, self.query_one("#remedy-list", LineList)
        if remedies is None:
            listed.show(lambda width: [ListLine("searching …", "dim")] if answered else ())
        else:
            listed.show(lambda width: remedy_lines(remedies, width))

    @property
    def remedy(self) -> Remedy | None:
        """The chosen one, where remedies are shown."""
        chosen = self.query_one("#remedy-list", LineList).chosen
        return self.found.remedies[int(chosen.name) - 1] if self.found and chosen and self.tab == REMEDIES else None

    @on(LineList.Moved, "#node-list")
    def tell_fact(self, event: LineList.Moved) -> None:
        self._show_fact(event.subject)

    def _show_fact(self, subject: Openable | None) -> None:
        fact = ""
        if self.told is not None and subject is not None:
            fact = node_fact(self.told.report, subject.name, self.room.width, FACT_LINES)
        self.query_one("#node-fact", Static).update(Text(fact))

    @on(TabLine.Clicked)
    def tab_clicked(self, event: TabLine.Clicked) -> None:
        self.open_tab(event.tab)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.query_one(TabLine).entered = True

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        self.query_one(TabLine).entered = False
