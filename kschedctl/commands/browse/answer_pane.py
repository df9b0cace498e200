"""The right pane: the explanation of the chosen pod, in tabs."""

from __future__ import annotations

from msgspec.structs import replace
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.events import Click, DescendantBlur, DescendantFocus
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from kschedctl.commands.browse.answers import (
    LEAST_WIDTH,
    MAP,
    NODE_ORDERS,
    NODES,
    REMEDIES,
    SCORES,
    TABS,
    WHY,
    AnsweredQuestion,
    LaidOutAnswer,
    TextArea,
    describe_node,
    lay_out_answer,
    list_node_lines,
    list_node_map_lines,
    list_remedy_lines,
)
from kschedctl.commands.browse.lines import LineList, ListLine, Openable, wrap_text
from kschedctl.commands.remedies.report import Remedies
from kschedctl.reports.remedy import Remedy, sort_verified_fixes_first


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
        """Render the numbered tabs, and highlight the current one."""
        line = Text(no_wrap=True)
        for number, tab in enumerate(TABS, 1):
            if tab != self.current_tab:
                look = ""
            elif self.has_focus_inside:
                look = "reverse bold"
            else:
                look = "underline bold"
            line.append(self._build_label(number, tab), look)
        return line

    def _build_label(self, number: int, tab: str) -> str:
        """Build a tab's label. The label has the same width whether or not the tab is the current one."""
        text = f"{number} {tab.capitalize()}"
        return f"[{text}]" if tab == self.current_tab else f" {text} "

    def on_click(self, event: Click) -> None:
        """Post a message with the clicked tab. Nothing happens if the click was beside the tabs."""
        right = 0
        for number, tab in enumerate(TABS, 1):
            right += len(self._build_label(number, tab))
            if event.x < right:
                self.post_message(self.Clicked(tab))
                return


FACT_LINES = 3


class AnswerPane(Vertical):
    """The pane with a pod's explanation and, once found, its fixes.

    Texts are laid out again when the width changes.
    """

    def __init__(self) -> None:
        super().__init__(id="answer")
        self.answered: AnsweredQuestion | None = None
        self.remedies: Remedies | None = None
        self.node_filter = ""
        self.node_order = NODE_ORDERS[0]
        self._room: TextArea | None = None

    def compose(self) -> ComposeResult:
        """Yield the verdict, the tab line, and one page per tab."""
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
    def current_tab(self) -> str:
        """The name of the visible tab."""
        return self.query_one(TabLine).current_tab

    @property
    def node_list(self) -> LineList:
        """The list in the tab of nodes."""
        return self.query_one("#node-list", LineList)

    @property
    def room(self) -> TextArea:
        """The space for text, without the scroll bar's column and the padding."""
        return TextArea(max(self.size.width - 3, LEAST_WIDTH), max(self.app.size.height // 4, 2))

    def open_tab(self, tab: str) -> None:
        """Switch to a tab, and focus its content."""
        self.query_one(TabLine).current_tab = tab
        self.query_one(ContentSwitcher).current = tab
        self.focus_tab()

    def focus_tab(self) -> None:
        """Focus the content of the current tab."""
        inner: Widget = self.query_one(f"#{self.current_tab}")
        (inner if inner.can_focus else inner.query_one(LineList)).focus()

    def show_waiting(self, key: str) -> None:
        """Show that the pod is being replayed, unless its previous explanation is still visible."""
        if self.answered is None or self.answered.report.pod != key:
            self.show_message(f"{key}\nreplaying …")

    def show_message(self, text: str) -> None:
        """Discard the explanation and its fixes, and show a text in place of the verdict."""
        self.answered = self.remedies = None
        lines = [line for paragraph in text.splitlines() for line in wrap_text(paragraph, self.room.width, "  ", 2)]
        self._update_texts(Text("\n".join(lines)), {WHY: Text(), SCORES: Text()})
        self._reset_tabs()
        self._show_nodes()
        self._show_remedies()

    def show_answer(self, laid_out: LaidOutAnswer) -> None:
        """Show an explanation. If the pane's size has changed since it was laid out, lay it out again.

        The tabs are reset if the explanation is about another pod. The fixes follow later, by `show_remedies`.
        """
        if self.answered is None or self.answered.report.pod != laid_out.answered.report.pod:
            self._reset_tabs()
        self.answered, self.remedies = laid_out.answered, None
        if laid_out.area != self.room:
            laid_out = lay_out_answer(laid_out.answered, self.room)
        self._room = laid_out.area
        self._update_texts(laid_out.verdict, laid_out.texts)
        self._show_nodes()
        self._show_remedies()

    def _reset_tabs(self) -> None:
        """Clear the node filter and all lists, and scroll the tabs to the top."""
        self.node_filter = ""
        for tab in (WHY, SCORES):
            self.query_one(f"#{tab}", VerticalScroll).scroll_home(animate=False)
        for listed in self.query(LineList):
            listed.clear()

    def _update_texts(self, verdict: Text, texts: dict[str, Text]) -> None:
        """Show the verdict above the tabs, and each text in its tab."""
        self.query_one("#verdict", Static).update(verdict)
        for tab, text in texts.items():
            self.query_one(f"#{tab}-text", Static).update(text)

    def show_remedies(self, report: Remedies) -> None:
        """Show the fixes of the explained pod, verified ones first."""
        self.remedies = replace(report, remedies=sort_verified_fixes_first(report.remedies))
        self._show_remedies()

    def filter_nodes(self, text: str) -> None:
        """Show only nodes that have the text in their name or answer."""
        self.node_filter = text
        self._show_nodes()

    def sort_nodes_by_next_order(self) -> str:
        """Sort the nodes by the next order, and return that order."""
        self.node_order = NODE_ORDERS[(NODE_ORDERS.index(self.node_order) + 1) % len(NODE_ORDERS)]
        self._show_nodes()
        return self.node_order

    def on_resize(self) -> None:
        """Lay out the explanation again if the size of the pane has changed."""
        if self.answered is not None and self._room != self.room:
            self._room = self.room
            shown = lay_out_answer(self.answered, self.room)
            self._update_texts(shown.verdict, shown.texts)
            self._describe_chosen_node(self.node_list.chosen)

    def _show_nodes(self) -> None:
        """Refresh the node list, the node map and the description of the node under the cursor."""
        answered, text, order = self.answered, self.node_filter, self.node_order
        self.node_list.show(lambda width: list_node_lines(answered.report, width, text, order) if answered else ())
        map_list = self.query_one("#map-list", LineList)
        map_list.show(lambda width: list_node_map_lines(answered.report, width) if answered else ())
        self._describe_chosen_node(self.node_list.chosen)

    def _show_remedies(self) -> None:
        """Refresh the list of fixes. While fixes are still being searched for, the list says so."""
        answered = self.answered
        remedies = self.remedies
        remedy_list = self.query_one("#remedy-list", LineList)
        if remedies is None:
            remedy_list.show(lambda width: [ListLine("searching …", "dim")] if answered else ())
        else:
            remedy_list.show(lambda width: list_remedy_lines(remedies, width))

    @property
    def chosen_remedy(self) -> Remedy | None:
        """The fix under the cursor, or None if there is none or if the Fixes tab is not open."""
        chosen_line = self.query_one("#remedy-list", LineList).chosen
        if not self.remedies or not chosen_line or self.current_tab != REMEDIES:
            return None
        number = int(chosen_line.name)  # `list_remedy_lines` names lines by the number of their fix, counted from 1
        return self.remedies.remedies[number - 1]

    @on(LineList.Moved, "#node-list")
    def on_node_chosen(self, event: LineList.Moved) -> None:
        """Show the details of the node under the cursor."""
        self._describe_chosen_node(event.subject)

    def _describe_chosen_node(self, subject: Openable | None) -> None:
        """Show below the node list why the node under the cursor is rejected, or that the pod fits there.

        Without an explanation or a chosen node, the text is empty.
        """
        fact = ""
        if self.answered is not None and subject is not None:
            fact = describe_node(self.answered.report, subject.name, self.room.width, FACT_LINES)
        self.query_one("#node-fact", Static).update(Text(fact))

    @on(TabLine.Clicked)
    def open_clicked_tab(self, event: TabLine.Clicked) -> None:
        """Open the tab that was clicked."""
        self.open_tab(event.tab)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Mark the line of tabs as focused."""
        self.query_one(TabLine).has_focus_inside = True

    def on_descendant_blur(self, event: DescendantBlur) -> None:
        """Mark the line of tabs as not focused."""
        self.query_one(TabLine).has_focus_inside = False
