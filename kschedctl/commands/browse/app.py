"""The browser: pending pods by cause at the left; why, nodes, scores and remedies of the chosen one at the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import Resize
from textual.widgets import Input

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.answer_pane import AnswerPane
from kschedctl.commands.browse.answers import NODES, REMEDIES, Answered, LaidOut, laid_out, remedy_page
from kschedctl.commands.browse.ask_line import AS_IF, SEARCH, SEARCH_NODES, AskLine
from kschedctl.commands.browse.copying import NO_COMMAND, NO_POD, asking, commands_of
from kschedctl.commands.browse.desk import Desk, Urgency
from kschedctl.commands.browse.drill import drilled
from kschedctl.commands.browse.following import LiveSessions, SessionFollower
from kschedctl.commands.browse.keys import KEYS
from kschedctl.commands.browse.lines import NAMESPACE, POD, REASON, Layout, LineList, ListLine, Openable, cut
from kschedctl.commands.browse.listing import PodListing, headline, listing, namespaces, of_workload
from kschedctl.commands.browse.screens import DrillScreen, HelpScreen, LinesScreen, TextScreen
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.commands.browse.status_lines import HeadLine, KeyLine, NoteLine
from kschedctl.commands.browse.tidying import PAUSE, TidyApp
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.remedies.report import Remedies
from kschedctl.errors import KschedctlError

PATIENCE = 0.2
"""Seconds after which it is said that an answer is being computed."""
BUG = 4
"""The exit code."""
NARROW = 64
"""With fewer columns the sides stand one above the other."""


class Browser(TidyApp):
    """``live``: of a live cluster what comes of it. ``copied``: the commands that were copied.

    ``failure``: what ended it that nobody expected.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "browse.tcss"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, session: BrowseSession, live: LiveSessions | None = None) -> None:
        super().__init__()
        self.session, self.live = session, live
        self.desk = Desk(self._failed)
        self.key = self.words = ""
        self.shown = PodListing()
        self.before: tuple[BrowseSession, Explanation] | None = None
        self.state = ""
        self.copied: list[str] = []
        self.failure: Exception | None = None
        self.listed = False

    def compose(self) -> ComposeResult:
        yield HeadLine(id="head")
        with Container(id="sides"):
            yield LineList("list")
            yield AnswerPane()
        yield NoteLine(id="note")
        yield AskLine()
        yield KeyLine()

    def on_mount(self) -> None:
        self.theme = "ansi-dark" if "ansi-dark" in self.available_themes else self.theme
        self.pods.show(lambda width: [ListLine("reading …", "dim")])
        self.pods.focus()
        self._head()
        self.read()
        self.set_interval(PAUSE, self._tidy)
        if self.live is not None:
            self._follow(lambda: self.live.sessions if self.live else iter(()))

    def _tidy(self) -> None:
        if not self.desk.busy:
            self.tidy()

    def on_resize(self, event: Resize) -> None:
        self.screen_stack[0].set_class(event.size.width < NARROW, "narrow")

    @property
    def pods(self) -> LineList:
        return self.screen_stack[0].query_one("#list", LineList)

    @property
    def pane(self) -> AnswerPane:
        return self.screen_stack[0].query_one(AnswerPane)

    @property
    def line(self) -> AskLine:
        return self.screen_stack[0].query_one(AskLine)

    def later(self, show: Callable[..., object], *what: object) -> None:
        """Have something shown, from any thread; nothing any more once the program ends."""
        self.call_later(lambda: show(*what) if self.is_running else None)

    # -- the list ------------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """List what there is, or what is searched for."""
        session, shown = self.session, self.shown

        def question() -> None:
            self.later(self._show_list, session, shown, listing(session, shown))

        self.desk.ask(Urgency.LIST, question)

    def _show_list(self, session: BrowseSession, shown: PodListing, layout: Layout) -> None:
        if (session, shown) == (self.session, self.shown):
            self.listed = True
            self._head()
            self.pods.show(layout, Openable(POD, self.key))
            self._tell_fate()

    def _tell_fate(self) -> None:
        """What became of the chosen pod, where it waits no more."""
        fate = self.session.fate(self.key) if self.key else ""
        if fate:
            self.note(f"{self.key} {fate}")
        if Openable(POD, self.key) not in self.pods.subjects and not self.filter:
            chosen = self.pods.chosen
            self._choose(chosen.name if chosen else "")

    def _head(self) -> None:
        searched = f'search "{self.filter}", Esc ends it' if self.filter else ""
        heading = headline(self.session) if self.listed else "replaying …"
        self.screen_stack[0].query_one(HeadLine).tell(searched, self.shown.told, self.state, heading)

    @property
    def filter(self) -> str:
        """What is searched for."""
        return self.shown.text

    def show_only(self, **shown: str) -> None:
        """List the pods otherwise: fields of PodListing."""
        self.shown = self.shown._replace(**shown)
        self.read()

    def note(self, text: str) -> None:
        """A line above the keys, until the next one."""
        self.screen_stack[0].query_one(NoteLine).tell(text)

    @on(LineList.Moved, "#list")
    def choose(self, event: LineList.Moved) -> None:
        if event.subject is not None and event.subject.kind == POD:
            self._choose(event.subject.name)

    def _choose(self, key: str) -> None:
        if key != self.key:
            self.key, self.words = key, ""
            if key:
                self.ask_about("")
            else:
                self.pane.say("")

    @on(LineList.Opened)
    def open(self, event: LineList.Opened) -> None:
        subject = event.subject
        if subject is None:
            return
        if event.lines is self.pods and subject.kind == POD:
            self.pane.enter()
        elif subject.kind == POD:
            self._go_to(subject.name)
        elif subject.kind == NAMESPACE:
            self.pop_screen()
            self.show_only(namespace=subject.name)
        elif subject.kind == REASON:
            self.pane.open_tab(NODES)
            self.pane.filter_nodes(subject.name)
        elif self.pane.remedy is not None and event.lines.id == "remedy-list":
            self.push_screen(TextScreen(remedy_page(self.pane.remedy)))
        else:
            self.drill(subject)

    def _go_to(self, key: str) -> None:
        """Choose a pending pod wherever it is named."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        if self.filter:
            self.show_only(text="")
        places = {subject: at for at, subject in enumerate(self.pods.subjects)}
        at = places.get(Openable(POD, key))
        if at is None:
            self._choose(key)
        else:
            self.pods.move(at)
        self.pods.focus()

    # -- the answer ----------------------------------------------------------------------------------------------------

    def ask_about(self, words: str) -> None:
        """Have the chosen pod explained as the words have it; its remedies follow, which may take seconds."""
        key, session, room = self.key, self.session, self.pane.room

        def question() -> None:
            try:
                before = self._as_it_is(session, key)
                asked = session.asked(key, words)
                answered = Answered(session.explain(asked), before, words) if words else Answered(before)
                shown = laid_out(answered, room)
            except KschedctlError as error:
                self.later(self._refuse, key, words, str(error))
                return
            self.later(self._show_answer, key, words, shown)
            self.desk.ask(Urgency.REMEDIES, lambda: self._find_remedies(session, key, words))

        self.desk.ask(Urgency.ANSWER, question)
        self.set_timer(PATIENCE, lambda: self.later(self._tell_wait, key))

    def _tell_wait(self, key: str) -> None:
        if self.key == key and self.desk.busy:
            self.pane.wait_for(key)

    def _as_it_is(self, session: BrowseSession, key: str) -> Explanation:
        """The pod without any supposition; what was said of it last is kept."""
        if self.before is None or self.before[0] is not session or self.before[1].pod != key:
            self.before = session, session.explain(session.asked(key))
        return self.before[1]

    def _find_remedies(self, session: BrowseSession, key: str, words: str) -> None:
        remedies = session.remedies(session.asked(key, words), self.desk.give_way)
        self.later(self._show_remedies, session, key, words, remedies)

    def _show_answer(self, key: str, words: str, shown: LaidOut) -> None:
        self.untidy = True
        if key == self.key:
            self.words = words
            self.pane.show(shown)
            if self.line.asking == AS_IF:
                self.close_line()

    def _refuse(self, key: str, words: str, why: str) -> None:
        """What was supposed makes no sense, and can be corrected; or the pod is gone."""
        if key == self.key:
            if words and self.line.asking != AS_IF:  # it made sense before the cluster changed
                self.words = ""
                self.ask_about("")
            elif not words:
                self.pane.say(key)
            self.note(why)

    def _show_remedies(self, session: BrowseSession, key: str, words: str, remedies: Remedies) -> None:
        if (session, key, words) == (self.session, self.key, self.words):
            self.pane.show_remedies(remedies)

    # -- what keys do --------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While one types keys are letters."""
        return not self.line.asking or action in ("leave", "quit")

    def action_tab(self, name: str) -> None:
        self.pane.open_tab(name)

    def action_ask(self, what: str) -> None:
        """Open the line in which one types."""
        if what == AS_IF and not self.key:
            return
        if what == SEARCH and self.pane.tab == NODES and self.pane.node_list.has_focus:
            what = SEARCH_NODES
        values = {AS_IF: self.words, SEARCH: self.filter, SEARCH_NODES: self.pane.filtered}
        self.line.open(what, values[what])

    @on(Input.Changed, "#ask")
    def typed(self, event: Input.Changed) -> None:
        if self.line.asking == SEARCH and event.value != self.filter:
            self.show_only(text=event.value)
        elif self.line.asking == SEARCH_NODES:
            self.pane.filter_nodes(event.value)

    @on(Input.Submitted, "#ask")
    def submitted(self, event: Input.Submitted) -> None:
        if self.line.asking == AS_IF:
            self.note("")
            self.ask_about(" ".join(event.value.split()))
        else:
            self.close_line()

    def close_line(self) -> None:
        asked = self.line.close()
        (self.pane.node_list if asked == SEARCH_NODES else self.pods).focus()

    def action_leave(self) -> None:
        """One step back: the line, what was searched among nodes, the right side, the supposition, the search."""
        self.note("")
        if self.line.asking:
            self._leave_line()
        elif self.pane.filtered and self.pane.node_list.has_focus:
            self.pane.filter_nodes("")
        elif not self.pods.has_focus:
            self.pods.focus()
        elif self.words:
            self.ask_about("")
        elif self.filter:
            self.show_only(text="")
        else:
            self.show_only(namespace="")

    def _leave_line(self) -> None:
        if self.line.asking == SEARCH:
            self.show_only(text="")
        elif self.line.asking == SEARCH_NODES:
            self.pane.filter_nodes("")
        self.close_line()

    def action_sort(self) -> None:
        """Pods, or nodes where the keys go to these, in the next order."""
        if self.pane.tab == NODES and self.pane.node_list.has_focus:
            self.note(f"nodes by {self.pane.sort_nodes()}")
        else:
            self.show_only(order=self.shown.next_order)

    def action_namespace(self) -> None:
        layout = namespaces(self.session)
        self.push_screen(LinesScreen(lambda screen: screen.show(layout)))

    def action_workload(self) -> None:
        owner: Owner | None = self.session.owner(self.key) if self.key else None
        if owner is not None:
            self.drill(of_workload(owner))

    def action_copy(self) -> None:
        """What the terminal does with it nobody tells: it is shown, and printed in the end."""
        remedy, tab = self.pane.remedy, self.pane.tab
        text = commands_of(remedy) if remedy else asking(self.session, self.key, self.words, tab == REMEDIES)
        if text:
            self.copied.append(text)
            self.copy_to_clipboard(text)
            self.note(f"copied: {text}")
        else:
            self.note(NO_COMMAND if remedy else NO_POD)

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    # -- nodes and workloads -------------------------------------------------------------------------------------------

    def drill(self, subject: Openable) -> None:
        self.push_screen(DrillScreen(subject, partial(self._drilled, subject)))

    def _drilled(self, subject: Openable, screen: LinesScreen) -> None:
        session = self.session

        def question() -> None:
            layout = drilled(session, subject, self.desk.give_way)
            self.later(self._show_drilled, screen, layout)

        if not screen.lines.lines:
            screen.show(lambda width: [ListLine(f"{cut(subject.name, width - 12)} replaying …", "dim")])
        self.desk.ask(Urgency.PAGE, question)

    def _show_drilled(self, screen: LinesScreen, layout: Layout) -> None:
        if screen in self.screen_stack:
            screen.show(layout)

    # -- live ----------------------------------------------------------------------------------------------------------

    def take(self, session: BrowseSession) -> None:
        """Another state of the cluster takes the place of the one before; what is looked at stays."""
        self.session = session
        self.state = f"live {datetime.now():%H:%M:%S}"
        self.read()
        if self.key and not session.fate(self.key):
            self.ask_about(self.words)
        for screen in (stacked for stacked in self.screen_stack if isinstance(stacked, DrillScreen)):
            screen.refreshed(screen)

    def lost(self, why: str) -> None:
        self.state = f"not live since {datetime.now():%H:%M:%S}"
        self._head()
        self.note(f"not live any more, r reads it again: {why}")

    def action_again(self) -> None:
        if self.live is not None and self.state.startswith("not live"):
            self.state = "connecting …"
            self._head()
            self.note("")
            self._follow(self.live.again)

    def _follow(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        take, lost = partial(self.later, self.take), partial(self.later, self.lost)
        SessionFollower(take, lost, self._failed).start(sessions)

    def _failed(self, error: Exception) -> None:
        """What nobody expected ends the program; who started it tells."""
        self.failure = error
        self.later(self.exit, None, BUG)
