"""The application: pending pods by cause on the left; why, nodes, scores and fixes of the chosen pod on the right."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from time import monotonic
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import Event, Key, Resize
from textual.widgets import Input

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.answer_pane import AnswerPane
from kschedctl.commands.browse.answers import (
    NODES,
    REMEDIES,
    TABS,
    WHY,
    AnsweredQuestion,
    LaidOutAnswer,
    describe_remedy,
    lay_out_answer,
)
from kschedctl.commands.browse.background import LiveSessions, QuestionQueue, SessionFollower, Urgency
from kschedctl.commands.browse.drill import lay_out_details
from kschedctl.commands.browse.lines import NAMESPACE, POD, REASON, Layout, LineList, ListLine, Openable, shorten
from kschedctl.commands.browse.listing import (
    PodListing,
    build_workload_subject,
    describe_session,
    lay_out_listing,
    lay_out_namespaces,
)
from kschedctl.commands.browse.screens import KEYS, DetailsScreen, FixScreen, HelpScreen, LinesScreen
from kschedctl.commands.browse.session import BrowseSession, format_fix_commands
from kschedctl.commands.browse.status_lines import (
    AS_IF,
    GO_TO_PLACE,
    SEARCH,
    SEARCH_NODES,
    AskLine,
    HeaderLine,
    KeyLine,
    NoteLine,
    describe_copied_text,
)
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.remedies.report import Remedies
from kschedctl.errors import KschedctlError

WAIT_NOTE_DELAY = 0.2
"""The number of seconds after which a pending answer is shown as being computed."""
GO_TO_ALIASES = {
    **dict.fromkeys(("po", "pod", "pods"), "pods"),
    **dict.fromkeys(("no", "node"), NODES),
    **dict.fromkeys(("namespace", "namespaces"), "ns"),
    **dict.fromkeys(("remedy", "remedies", "fix"), REMEDIES),
    **dict.fromkeys(("quit", "q!", "exit"), "q"),
    "?": "help",
}
"""A word that k9s or kubectl takes -> the place."""
BUG_EXIT_CODE = 4
"""Exit code after an unexpected exception."""
STACKED_BELOW = 64
"""The number of columns below which the panes are stacked."""
NO_POD = "nothing to copy: no pod is selected, or the cluster was read from standard input"
NO_COMMAND = "nothing to copy: no command makes this fix; press Enter to see how to make it"


REPLAYING = " replaying …"
"""The end of the line that an empty screen shows while its contents are computed."""

IDLE_SECONDS = 3.0
"""The number of seconds without a keystroke after which garbage is collected."""


class TidyApp(App[None]):
    """An application that collects garbage when the user is idle, since this blocks everything for a moment.

    It takes 0.2 s for 5,000 nodes. Subclasses set `may_have_garbage` after dropping something large. They call
    `collect_garbage_if_idle` every IDLE_SECONDS while nothing is computed.
    """

    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.may_have_garbage, self.typed_at = False, monotonic()

    async def on_event(self, event: Event) -> None:
        """Record the time of the latest keystroke."""
        if isinstance(event, Key):
            self.typed_at = monotonic()
        await super().on_event(event)

    def collect_garbage_if_idle(self) -> None:
        """Collect garbage if there may be any and no key was pressed for IDLE_SECONDS."""
        if self.may_have_garbage and monotonic() - self.typed_at > IDLE_SECONDS:
            self.may_have_garbage = False
            gc.collect()


class Browser(TidyApp):
    """The application. On a live cluster, each new state replaces the session."""

    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "browse.tcss"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    def __init__(self, session: BrowseSession, live: LiveSessions | None = None) -> None:
        super().__init__()
        self.session, self.live = session, live
        self.questions = QuestionQueue(self._exit_with_bug)
        self.chosen_key = self.assumptions = ""
        self.pod_listing = PodListing()
        self.actual_answer: tuple[BrowseSession, Explanation] | None = None
        self.live_state = ""
        self.is_connection_lost = False
        self.copied: list[str] = []
        self.failure: Exception | None = None
        self.has_listed = False

    def compose(self) -> ComposeResult:
        """Yield the header, both panes, the note, the input line and the keys."""
        yield HeaderLine(id="head")
        with Container(id="sides"):
            yield LineList("list")
            yield AnswerPane()
        yield NoteLine(id="note")
        yield AskLine()
        yield KeyLine()

    def on_mount(self) -> None:
        """Load the list of pods, and start the background jobs.

        They collect garbage in idle times and follow the live cluster.
        """
        self.theme = "ansi-dark" if "ansi-dark" in self.available_themes else self.theme
        self.pod_list.show(lambda width: [ListLine("reading …", "dim")])
        self.pod_list.focus()
        self._update_header()
        self.refresh_list()
        self.set_interval(IDLE_SECONDS, self._collect_garbage_unless_answering)
        if self.live is not None:
            self._follow_sessions(lambda: self.live.sessions if self.live else iter(()))

    def _collect_garbage_unless_answering(self) -> None:
        """Collect garbage unless a question is being answered."""
        if not self.questions.is_busy:
            self.collect_garbage_if_idle()

    def on_resize(self, event: Resize) -> None:
        """Switch between the wide and the narrow layout."""
        self.screen_stack[0].set_class(event.size.width < STACKED_BELOW, "narrow")

    @property
    def pod_list(self) -> LineList:
        """The list of pending pods or search hits."""
        return self.screen_stack[0].query_one("#list", LineList)

    @property
    def answer_pane(self) -> AnswerPane:
        """The pane that explains the chosen pod."""
        return self.screen_stack[0].query_one(AnswerPane)

    @property
    def ask_line(self) -> AskLine:
        """The input line for searches and assumptions."""
        return self.screen_stack[0].query_one(AskLine)

    def show_later(self, show: Callable[..., object], *arguments: object) -> None:
        """Schedule a UI update from any thread. It is dropped if the application has ended."""
        self.call_later(lambda: show(*arguments) if self.is_running else None)

    # -- the list ------------------------------------------------------------------------------------------------------

    def refresh_list(self) -> None:
        """Compute the list of pods or search hits in the background, and show it."""
        session, shown = self.session, self.pod_listing

        def answer() -> None:
            """Lay out the list, and show it."""
            self.show_later(self._show_list, session, shown, lay_out_listing(session, shown))

        self.questions.ask(Urgency.LIST, answer)

    def _show_list(self, session: BrowseSession, pod_listing: PodListing, layout: Layout) -> None:
        """Show a computed list. Drop it if the session or the listing has changed since it was requested."""
        if (session, pod_listing) == (self.session, self.pod_listing):
            self.has_listed = True
            self._update_header()
            self.pod_list.show(layout, Openable(POD, self.chosen_key))
            self._note_why_chosen_pod_is_not_pending()

    def _note_why_chosen_pod_is_not_pending(self) -> None:
        """Note why the chosen pod is no longer pending. If it is still pending, there is no note.

        If the list no longer contains the pod, choose the pod under the cursor instead, except during a search.
        """
        reason = self.session.describe_why_not_pending(self.chosen_key) if self.chosen_key else ""
        if reason:
            self.note(f"{self.chosen_key} {reason}")
        if Openable(POD, self.chosen_key) not in self.pod_list.subjects and not self.search_text:
            chosen = self.pod_list.chosen
            self._choose_pod(chosen.name if chosen and chosen.kind == POD else "")

    def _update_header(self) -> None:
        """Update the header with the search, the listing, the live state and the counts."""
        search_note = f'search "{self.search_text}" (Esc to clear)' if self.search_text else ""
        counts = describe_session(self.session) if self.has_listed else "replaying …"
        # The header is on the lowest screen, above which others may be open
        self.screen_stack[0].query_one(HeaderLine).show_parts(
            search_note, self.pod_listing.description, self.live_state, counts
        )

    @property
    def search_text(self) -> str:
        """The text to search for, or an empty string."""
        return self.pod_listing.text

    def change_listing(self, **fields: str) -> None:
        """Change fields of the listing, and refresh the list."""
        self.pod_listing = self.pod_listing._replace(**fields)
        self.refresh_list()

    def note(self, text: str) -> None:
        """Show a note above the keys until another one replaces it."""
        self.screen_stack[0].query_one(NoteLine).show_note(text)

    @on(LineList.Moved, "#list")
    def on_pod_chosen(self, event: LineList.Moved) -> None:
        """Explain the pod under the cursor."""
        if event.subject is not None and event.subject.kind == POD:
            self._choose_pod(event.subject.name)

    def _choose_pod(self, key: str) -> None:
        """Choose a pod and explain it without assumptions. An empty key clears the answer."""
        if key != self.chosen_key:
            self.chosen_key, self.assumptions = key, ""
            if key:
                self.explain_chosen_pod("")
            else:
                self.answer_pane.show_message("")

    @on(LineList.Opened)
    def on_opened(self, event: LineList.Opened) -> None:
        """Open the chosen line: a pod, namespace, reason, fix, node or workload.

        Opening a pod in the list of pods moves the focus to the answer. Opening a reason shows the nodes that it
        rejects.
        """
        subject = event.subject
        if subject is None:
            return
        if event.lines is self.pod_list and subject.kind == POD:
            self.answer_pane.focus_tab()
        elif subject.kind == POD:
            self._go_to_pod(subject.name)
        elif subject.kind == NAMESPACE:
            self.pop_screen()
            self.change_listing(namespace=subject.name)
        elif subject.kind == REASON:
            self.answer_pane.open_tab(NODES)
            self.answer_pane.filter_nodes(subject.name)
        # A line of the list of fixes only has the fix's number. The pane has the fix itself.
        elif self.answer_pane.chosen_remedy is not None and event.lines.id == "remedy-list":
            self.push_screen(FixScreen(describe_remedy(self.answer_pane.chosen_remedy)))
        else:
            self.open_details(subject)

    def _go_to_pod(self, key: str) -> None:
        """Close all screens, clear the search, and choose the pod, even if the list does not show it.

        The list of pods gets the focus.
        """
        while len(self.screen_stack) > 1:
            self.pop_screen()
        if self.search_text:
            self.change_listing(text="")
        index_by_subject = {subject: index for index, subject in enumerate(self.pod_list.subjects)}
        index = index_by_subject.get(Openable(POD, key))
        if index is None:
            self._choose_pod(key)
        else:
            self.pod_list.move_to(index)
        self.pod_list.focus()

    # -- the answer ----------------------------------------------------------------------------------------------------

    def explain_chosen_pod(self, assumptions: str) -> None:
        """Explain the chosen pod under assumptions in the background, then search for fixes.

        If the answer takes long, or if an error occurs, a note says so.
        """
        key, session, room = self.chosen_key, self.session, self.answer_pane.room

        def answer() -> None:
            """Explain the pod with and without the assumptions, and show the answer or the error."""
            try:
                before = self._explain_without_assumptions(session, key)
                answered = AnsweredQuestion(before)
                if assumptions:
                    target = session.build_target(key, assumptions)
                    answered = AnsweredQuestion(session.explain(target, assumptions), before, assumptions)
                shown = lay_out_answer(answered, room)
            except KschedctlError as error:
                self.show_later(self._show_error, key, assumptions, str(error))
                return
            self.show_later(self._show_answer, key, assumptions, shown)
            self.questions.ask(Urgency.REMEDIES, lambda: self._search_and_show_fixes(session, key, assumptions))

        self.questions.ask(Urgency.ANSWER, answer)
        self.set_timer(WAIT_NOTE_DELAY, lambda: self.show_later(self._show_waiting_note, key))

    def _show_waiting_note(self, key: str) -> None:
        """Show that the pod is being replayed if there is no answer yet."""
        if self.chosen_key == key and self.questions.is_busy:
            self.answer_pane.show_waiting(key)

    def _explain_without_assumptions(self, session: BrowseSession, key: str) -> Explanation:
        """Explain the pod without assumptions. The latest explanation is cached for the next question about the pod."""
        if self.actual_answer is not None:
            answered_session, explanation = self.actual_answer
            if answered_session is session and explanation.pod == key:
                return explanation
        explanation = session.explain(session.build_target(key))
        self.actual_answer = session, explanation
        return explanation

    def _search_and_show_fixes(self, session: BrowseSession, key: str, assumptions: str) -> None:
        """Search for the pod's fixes, and show them. Questions that are more urgent are answered during the search."""
        target = session.build_target(key, assumptions)
        remedies = session.find_remedies(target, self.questions.answer_more_urgent_questions)
        self.show_later(self._show_remedies, session, key, assumptions, remedies)

    def _show_answer(self, key: str, assumptions: str, shown: LaidOutAnswer) -> None:
        """Show an explanation, and close the input line for assumptions.

        Nothing is shown if another pod was chosen meanwhile.
        """
        self.may_have_garbage = True
        if key == self.chosen_key:
            self.assumptions = assumptions
            self.answer_pane.show_answer(shown)
            if self.ask_line.purpose == AS_IF:
                self.close_ask_line()

    def _show_error(self, key: str, assumptions: str, message: str) -> None:
        """Note why the pod could not be explained, such as invalid assumptions or a deleted pod.

        If earlier assumptions are no longer valid because the cluster changed, explain the pod without assumptions.
        Nothing happens if another pod was chosen meanwhile.
        """
        if key == self.chosen_key:
            if assumptions and self.ask_line.purpose != AS_IF:  # the assumptions were valid before the cluster changed
                self.assumptions = ""
                self.explain_chosen_pod("")
            elif not assumptions:
                self.answer_pane.show_message(key)
            self.note(message)

    def _show_remedies(self, session: BrowseSession, key: str, assumptions: str, remedies: Remedies) -> None:
        """Show fixes, unless the session, the pod or the assumptions have changed meanwhile."""
        if (session, key, assumptions) == (self.session, self.chosen_key, self.assumptions):
            self.answer_pane.show_remedies(remedies)

    # -- what keys do --------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether the action is enabled. While text is entered, only going back and quitting are."""
        return not self.ask_line.purpose or action in ("go_back", "quit")

    def action_open_tab(self, name: str) -> None:
        """Open the tab with this name."""
        self.answer_pane.open_tab(name)

    def action_open_input(self, purpose: str) -> None:
        """Open the input line for a purpose: a search, a resource to go to, or assumptions about the chosen pod.

        The line starts with the current text for this purpose. If the node list has the focus, a search filters the
        nodes. Without a chosen pod, the line for assumptions is not opened.
        """
        if purpose == AS_IF and not self.chosen_key:
            return
        if purpose == SEARCH and self.answer_pane.current_tab == NODES and self.answer_pane.node_list.has_focus:
            purpose = SEARCH_NODES
        values = {AS_IF: self.assumptions, SEARCH: self.search_text, SEARCH_NODES: self.answer_pane.node_filter}
        self.ask_line.open(purpose, values.get(purpose, ""))

    @on(Input.Changed, "#ask")
    def on_typed(self, event: Input.Changed) -> None:
        """Update the search or the node filter while text is being typed."""
        if self.ask_line.purpose == SEARCH and event.value != self.search_text:
            self.change_listing(text=event.value)
        elif self.ask_line.purpose == SEARCH_NODES:
            self.answer_pane.filter_nodes(event.value)

    @on(Input.Submitted, "#ask")
    def on_submitted(self, event: Input.Submitted) -> None:
        """Explain the pod under the typed assumptions, go to the typed place, or close the search line."""
        if self.ask_line.purpose == AS_IF:
            self.note("")
            self.explain_chosen_pod(" ".join(event.value.split()))
        elif self.ask_line.purpose == GO_TO_PLACE:
            self.close_ask_line()
            self._go_to(*event.value.split())
        else:
            self.close_ask_line()

    def _go_to(self, place: str = "", name: str = "") -> None:
        """Go to a place as in k9s: a list, a tab, a namespace, the help, or the pods or nodes that match `name`.

        `q` quits, and an empty place does nothing. Any other word is searched for.
        """
        place = GO_TO_ALIASES.get(place, place)
        if place == "q":
            self.exit()
        elif place == "help":
            self.action_open_help()
        elif place == "ns" and not name:
            self.action_open_namespaces()
        elif place == "ns":
            self.change_listing(namespace="" if name == "all" else name, text="")
        elif place == "pods" and not name:
            self.change_listing(text="")
        elif place in TABS:
            self.answer_pane.open_tab(place)
            if place == NODES:
                self.answer_pane.filter_nodes(name)
        elif place:
            self.change_listing(text=name or place)

    def action_open_chosen_line(self) -> None:
        """Open the chosen line of the focused list, like Enter.

        If no line is chosen there, open the tab "why" of the chosen pod.
        """
        focused = self.focused
        if isinstance(focused, LineList) and focused.chosen is not None:
            focused.action_open()
        elif self.chosen_key:
            self.answer_pane.open_tab(WHY)

    def close_ask_line(self) -> None:
        """Close the input line, and focus the list to which it belongs."""
        purpose = self.ask_line.close_and_get_purpose()
        (self.answer_pane.node_list if purpose == SEARCH_NODES else self.pod_list).focus()

    def action_go_back(self) -> None:
        """Go back one step: leave the input line, node filter, right pane, assumptions, search or namespace.

        Only the first of these that is active is left. The note is cleared.
        """
        self.note("")
        if self.ask_line.purpose:
            self._cancel_ask_line()
        elif self.answer_pane.node_filter and self.answer_pane.node_list.has_focus:
            self.answer_pane.filter_nodes("")
        elif not self.pod_list.has_focus:
            self.pod_list.focus()
        elif self.assumptions:
            self.explain_chosen_pod(assumptions="")
        elif self.search_text:
            self.change_listing(text="")
        else:
            self.change_listing(namespace="")

    def _cancel_ask_line(self) -> None:
        """Close the input line, and discard the search or node filter that is being typed."""
        if self.ask_line.purpose == SEARCH:
            self.change_listing(text="")
        elif self.ask_line.purpose == SEARCH_NODES:
            self.answer_pane.filter_nodes("")
        self.close_ask_line()

    def action_sort_list(self) -> None:
        """Sort the focused list by its next order. This is the list of nodes or, otherwise, the list of pods."""
        if self.answer_pane.current_tab == NODES and self.answer_pane.node_list.has_focus:
            self.note(f"nodes by {self.answer_pane.sort_nodes_by_next_order()}")
        else:
            self.change_listing(order=self.pod_listing.next_order)

    def action_open_namespaces(self) -> None:
        """Open the screen on which the user picks a namespace."""
        layout = lay_out_namespaces(self.session)
        self.push_screen(LinesScreen(lambda screen: screen.show(layout)))

    def action_open_workload(self) -> None:
        """Open the screen of the chosen pod's workload."""
        owner: Owner | None = self.session.find_workload(self.chosen_key) if self.chosen_key else None
        if owner is not None:
            self.open_details(build_workload_subject(owner))

    def action_copy_commands(self) -> None:
        """Copy the commands of the chosen fix to the clipboard, or else the command that shows the same answer.

        The commands are also printed when the browser ends, because terminals do not confirm a copy. If there is
        nothing to copy, a note says why.
        """
        if isinstance(self.screen, FixScreen):  # it would cover the note
            self.pop_screen()
        remedy, tab = self.answer_pane.chosen_remedy, self.answer_pane.current_tab
        text = ""
        if remedy:
            text = format_fix_commands(remedy)
        elif self.chosen_key:
            command = "remedies" if tab == REMEDIES and not self.assumptions else "explain"
            text = self.session.build_question_command(command, self.chosen_key, self.assumptions)
        if text:
            self.copied.append(text)
            self.copy_to_clipboard(text)
            self.note(describe_copied_text(text))
        else:
            self.note(NO_COMMAND if remedy else NO_POD)

    def action_open_help(self) -> None:
        """Open the help screen."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    # -- nodes and workloads -------------------------------------------------------------------------------------------

    def open_details(self, subject: Openable) -> None:
        """Open the screen of a node, a workload or an object that lacks pods."""
        self.push_screen(DetailsScreen(subject, partial(self._refresh_details, subject)))

    def _refresh_details(self, subject: Openable, screen: LinesScreen) -> None:
        """Compute the contents of a node's or workload's screen in the background, and show them."""
        session = self.session

        def lay_out_and_show() -> None:
            """Lay out the contents of the screen, and show them."""
            layout = lay_out_details(session, subject, self.questions.answer_more_urgent_questions)
            self.show_later(self._show_details, screen, layout)

        if screen.is_empty:
            screen.show(lambda width: [ListLine(f"{shorten(subject.name, width - len(REPLAYING))}{REPLAYING}", "dim")])
        self.questions.ask(Urgency.PAGE, lay_out_and_show)

    def _show_details(self, screen: LinesScreen, layout: Layout) -> None:
        """Show the contents if the screen is still open."""
        if screen in self.screen_stack:
            screen.show(layout)

    # -- live ----------------------------------------------------------------------------------------------------------

    def replace_session(self, session: BrowseSession) -> None:
        """Show a new state of the live cluster in the list, the chosen pod's explanation and the open screens.

        A chosen pod that is no longer pending is not explained again.
        """
        self.session = session
        self.live_state = f"live {datetime.now():%H:%M:%S}"
        self.is_connection_lost = False
        self.refresh_list()
        if self.chosen_key and not session.describe_why_not_pending(self.chosen_key):
            self.explain_chosen_pod(self.assumptions)
        for screen in self.screen_stack:
            if isinstance(screen, DetailsScreen):
                screen.refresh_lines(screen)

    def on_connection_lost(self, message: str) -> None:
        """Show that the browser no longer follows the live cluster."""
        self.live_state = f"not live since {datetime.now():%H:%M:%S}"
        self.is_connection_lost = True
        self._update_header()
        self.note(f"no longer live (press r to read the cluster again): {message}")

    def action_reconnect(self) -> None:
        """Follow the live cluster again if the connection was lost. Otherwise do nothing."""
        if self.live is not None and self.is_connection_lost:
            self.is_connection_lost = False
            self.live_state = "connecting …"
            self._update_header()
            self.note("")
            self._follow_sessions(self.live.restart)

    def _follow_sessions(self, sessions: Callable[[], Iterator[BrowseSession]]) -> None:
        """Follow the live cluster in a background thread."""
        take, lost = partial(self.show_later, self.replace_session), partial(self.show_later, self.on_connection_lost)
        SessionFollower(take, lost, self._exit_with_bug).start(sessions)

    def _exit_with_bug(self, error: Exception) -> None:
        """Record an unexpected exception, and exit. The caller of run() raises the exception."""
        self.failure = error
        self.show_later(self.exit, None, BUG_EXIT_CODE)
