"""The browser: pending pods by cause at the left; why, nodes, scores and remedies of the chosen one at the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import sleep
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import DataTable, Footer, Input, OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from kschedctl.api.ownership import Owner
from kschedctl.cli.browse.answers import NODES, REMEDIES, SCORES, WHY, answer_line, explained, node_rows, remedied
from kschedctl.cli.browse.listing import NODE, POD, WORKLOAD, Entry, entries, headline
from kschedctl.cli.browse.screens import HelpScreen, PageScreen, text_of
from kschedctl.cli.browse.session import BrowseSession
from kschedctl.errors import KschedctlError
from kschedctl.render.page import Page, Style
from kschedctl.render.printable import printable
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.remedies import Remedies

TABS = (WHY, NODES, SCORES, REMEDIES)
SEARCH, AS_IF = "search", "as-if"
MOMENT = 0.05
"""Seconds for which a pod has to stay chosen before it is explained."""


class Browser(App[None]):
    """``clusters``: the cluster again each time that it changes, of a live one."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "browse.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask('search')", "Search"),
        Binding("a", "ask('as-if')", "As if"),
        Binding("w", "workload", "Workload"),
        Binding("c", "copy", "Copy"),
        Binding("question_mark", "help", "Help"),
        Binding("q", "quit", "Quit"),
        *(Binding(str(i + 1), f"tab('{tab}')", show=False) for i, tab in enumerate(TABS)),
        Binding("escape", "leave", show=False),
    ]

    def __init__(self, session: BrowseSession, clusters: Iterator[BrowseSession] | None = None) -> None:
        super().__init__()
        self.session, self.clusters = session, clusters
        self.chosen = ""
        self.words = ""
        self.asking = ""
        self.listed: dict[str, Entry] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Horizontal():
            yield OptionList(id="list")
            with Vertical(id="answer"):
                yield Static(id="verdict")
                with TabbedContent(id="tabs"):
                    for tab in TABS:
                        with TabPane(tab.capitalize(), id=tab):
                            if tab == NODES:
                                yield DataTable(id="node-table", cursor_type="row", zebra_stripes=True)
                            else:
                                with VerticalScroll():
                                    yield Static(id=f"{tab}-text")
        yield Input(id="ask")
        yield Footer()

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        table.add_columns("node", "answer", "total")
        self.query_one("#ask").display = False
        self.query_one(OptionList).focus()
        self.read()
        if self.clusters is not None:
            self.follow(self.clusters)

    # -- the list ------------------------------------------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="list")
    def read(self, text: str = "") -> None:
        found = entries(self.session, text)
        self.call_from_thread(self.show_list, found)

    def show_list(self, found: list[Entry]) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        self.listed = {entry.id: entry for entry in found}
        options.add_options([Option(_line(e), e.id, disabled=e.is_heading) for e in found])
        self.query_one("#head", Static).update(Text(headline(self.session)))
        ids = [entry.id for entry in found if not entry.is_heading]
        chosen = f"{POD}{self.chosen}"
        if ids:
            options.highlighted = options.get_option_index(chosen if chosen in ids else ids[0])

    @on(OptionList.OptionHighlighted, "#list")
    def choose(self, event: OptionList.OptionHighlighted) -> None:
        entry = self.listed.get(event.option_id or "")
        if entry is not None and entry.id.startswith(POD) and entry.name != self.chosen:
            self.chosen, self.words = entry.name, ""
            self.explain(self.chosen, "")

    @on(OptionList.OptionSelected, "#list")
    def open(self, event: OptionList.OptionSelected) -> None:
        entry = self.listed[event.option_id or ""]
        if entry.id.startswith(NODE):
            self.open_node(entry.name)
        elif entry.id.startswith(WORKLOAD) and entry.owner is not None:
            self.open_workload(entry.owner)
        else:
            self.query_one(TabbedContent).query_one("Tabs").focus()

    # -- the answer ----------------------------------------------------------------------------------------------------

    @work(thread=True, exclusive=True, group="answer")
    def explain(self, key: str, words: str) -> None:
        """Explain first, since the search for remedies may take seconds; what is out of date is not shown."""
        worker = get_current_worker()
        sleep(MOMENT)
        if worker.is_cancelled:
            return
        try:
            asked = self.session.asked(key, words)
            if asked is None:
                self.call_from_thread(self.say, f"{key} is gone")
                return
            report = self.session.explain(asked)
            if not worker.is_cancelled:
                self.call_from_thread(self.show_answer, report, words)
            found = self.session.remedies(asked, lambda: not worker.is_cancelled)
            if found is not None and not worker.is_cancelled:
                self.call_from_thread(self.show_remedies, found)
        except KschedctlError as error:
            self.call_from_thread(self.say, str(error))

    def show_answer(self, report: Explanation, words: str) -> None:
        as_if = f" as if {printable(words)}" if words else ""
        self.say(f"{printable(report.pod)}{as_if}\n{printable(answer_line(report))}")
        for tab, page in explained(report, self.style).items():
            self.show_page(tab, page)
        self.query_one("#remedies-text", Static).update(Text("searching …"))
        table = self.query_one(DataTable)
        table.clear()
        for row in node_rows(report):
            table.add_row(*(Text(cell) for cell in row), key=row[0])

    def show_remedies(self, report: Remedies) -> None:
        self.show_page(REMEDIES, remedied(report, self.style))

    def show_page(self, tab: str, page: Page) -> None:
        self.query_one(f"#{tab}-text", Static).update(text_of(page, self.style.width))

    def say(self, text: str) -> None:
        self.query_one("#verdict", Static).update(Text(text))

    @property
    def style(self) -> Style:
        """For the room at the right."""
        return Style(width=max(self.query_one("#answer").size.width - 3, 40), color=True)

    # -- what keys do --------------------------------------------------------------------------------------------------

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        if name == NODES:
            self.query_one(DataTable).focus()
        else:
            self.query_one(f"#{name} VerticalScroll").focus()

    def action_ask(self, what: str) -> None:
        line = self.query_one(Input)
        self.asking = what
        line.placeholder = "as if: priority=1000 cpu=500m tolerate=gpu node=NAME" if what == AS_IF else "search"
        line.value = self.words if what == AS_IF else ""
        line.display = True
        line.focus()

    @on(Input.Changed, "#ask")
    def ask(self, event: Input.Changed) -> None:
        if self.asking == SEARCH:
            self.show_list(entries(self.session, event.value))

    @on(Input.Submitted, "#ask")
    def asked(self, event: Input.Submitted) -> None:
        if self.asking == AS_IF and self.chosen:
            self.words = event.value
            self.explain(self.chosen, self.words)
        self.close_line()

    def close_line(self) -> None:
        self.asking = ""
        self.query_one(Input).display = False
        self.query_one(OptionList).focus()

    def action_leave(self) -> None:
        if self.asking == SEARCH:
            self.read()
        elif self.words and not self.asking:
            self.words = ""
            self.explain(self.chosen, "")
        self.close_line()

    @on(DataTable.RowSelected)
    def row(self, event: DataTable.RowSelected) -> None:
        if event.row_key.value:
            self.open_node(event.row_key.value)

    def action_workload(self) -> None:
        owner = self.session.owner(self.chosen) if self.chosen else None
        if owner is not None:
            self.open_workload(owner)

    def open_node(self, name: str) -> None:
        self.open_page(lambda style: self.session.node(name, style))

    def open_workload(self, owner: Owner) -> None:
        self.open_page(lambda style: self.session.workload(owner, style))

    @work(thread=True, group="page")
    def open_page(self, make: Callable[[Style], Page]) -> None:
        width = self.size.width - 8
        text = text_of(make(Style(width=width, color=True)), width)
        self.call_from_thread(self.push_screen, PageScreen(text))

    def action_copy(self) -> None:
        command = self.session.command(self.chosen) if self.chosen else ""
        if command:
            self.copy_to_clipboard(command)
            self.notify(printable(command), title="Copied", markup=False)

    def action_help(self) -> None:
        self.push_screen(HelpScreen())

    # -- live ----------------------------------------------------------------------------------------------------------

    @work(thread=True, group="watch")
    def follow(self, clusters: Iterator[BrowseSession]) -> None:
        """Each new state of the cluster takes the place of the one before; what is looked at stays."""
        for session in clusters:
            if get_current_worker().is_cancelled:
                return
            self.session = session
            self.call_from_thread(self.read)
            if self.chosen:
                self.call_from_thread(self.explain, self.chosen, self.words)


def _line(entry: Entry) -> Text:
    """Cut where there is no room: the answer has it in full."""
    return Text(entry.text if entry.is_heading else f"  {entry.text}", entry.style, no_wrap=True, overflow="ellipsis")
