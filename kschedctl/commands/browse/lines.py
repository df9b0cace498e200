"""A scrollable list with a cursor. It can be of any length, because only visible lines are laid out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style as Look
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kschedctl.api.ownership import Owner
from kschedctl.text.printable import printable

POD, NODE, WORKLOAD, REMEDY = "pod", "node", "workload", "remedy"
REASON, NAMESPACE = "reason", "namespace"
NOT_CREATED, HELD_BACK = "not created", "held back"
WARNING = "magenta"
"""Readable on any background, unlike yellow."""
MAX_TEXT = 2000
"""The maximum number of characters of a text that are laid out. Lists of names can have millions."""


class Openable(NamedTuple):
    """An item that the Enter key opens."""

    kind: str
    """POD, NODE, WORKLOAD, REMEDY, REASON, NAMESPACE, NOT_CREATED or HELD_BACK."""
    name: str
    owner: Owner | None = None
    """The owner, for a workload."""
    from_pod: str = ""
    """The key of the pod that led to the item."""


class ListLine(NamedTuple):
    """A line of a list. Consecutive lines with the same subject form one item."""

    text: str
    style: str = ""
    """The Rich style."""
    subject: Openable | None = None
    """The item that Enter opens, or None."""


class ListLines:
    """A sequence of lines. Subclasses may build a line only when it is accessed."""

    def __init__(self, lines: Sequence[ListLine] = ()) -> None:
        self._lines = lines
        self.subjects: Sequence[Openable | None] = [line.subject for line in lines]

    def __len__(self) -> int:
        return len(self.subjects)

    def __getitem__(self, row: int) -> ListLine:
        return self._lines[row]


class TableLines(ListLines):
    """The lines of a table. The first row has the column titles, and each further row has a subject.

    The column with index `right` is right-aligned. If there is not enough room, the first column shrinks to at least a
    third of the width, and lines are truncated.
    """

    def __init__(
        self, rows: Sequence[Sequence[str]], subjects: Sequence[Openable | None], width: int, right: int = -1
    ) -> None:
        self.subjects = [None, *subjects]
        self._rows, self._width, self._right = rows, width, right
        first, *others = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
        room = width - sum(others) - 2 * len(others)
        self._widths = [min(first, max(room, width // 3)), *others]

    def __getitem__(self, row: int) -> ListLine:
        """Lay out one row as a line."""
        cells = []
        for place, (cell, room) in enumerate(zip(self._rows[row], self._widths, strict=True)):
            fitted = shorten(cell, room)
            pad = " " * (room - cell_len(fitted))
            cells.append(pad + fitted if place == self._right else fitted + pad)
        text = "  ".join(cells).rstrip()
        if cell_len(text) > self._width:
            text = f"{set_cell_size(text, self._width - 1)}…"
        return ListLine(text, "" if row else "dim", self.subjects[row])


def shorten(text: str, width: int) -> str:
    """Shorten a text to a number of columns. Both ends stay, because names of pods differ at the end.

    Only the beginning stays if the text is not ASCII or if there are fewer than 12 columns.

    >>> shorten("shop/checkout-7d9f6c5b8-x2x4q", 20)
    'shop/checkout…-x2x4q'
    """
    text = printable(text)
    if text.isascii() and len(text) <= width:
        return text
    beginning = text[:MAX_TEXT]  # to measure the columns of a longer text would take long
    if len(text) < MAX_TEXT and cell_len(beginning) <= width:
        return text
    if not text.isascii() or width < 12:
        return f"{set_cell_size(beginning, max(width - 1, 0)).rstrip()}…"
    end_length = width // 3
    return f"{text[: width - end_length - 1]}…{text[-end_length:]}"


Layout = Callable[[int], ListLines | Sequence[ListLine]]
"""A function that returns the lines for a width."""


def wrap_text(text: str, width: int, indent: str = "", max_lines: int = 0) -> list[str]:
    """Wrap a text to a width. All lines but the first are indented by `indent`.

    If there are more than `max_lines` lines, the others are cut off and the last one ends with `…`. 0 means any number
    of lines. Texts longer than MAX_TEXT are cut off without a mark. The width is at least 8.
    """
    width = max(width, 8)
    lines = wrap(printable(text[:MAX_TEXT]), width, subsequent_indent=indent) or [""]
    if max_lines and len(lines) > max_lines:
        last_line = f"{lines[max_lines - 1][: width - 1]}…"
        lines = [*lines[: max_lines - 1], last_line]
    return lines


class LineList(ScrollView, can_focus=True):
    """A scrollable list with a cursor. The cursor stays on the same subject when the lines change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move_cursor(-1)", show=False),
        Binding("down,j", "move_cursor(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "go(0)", show=False),
        Binding("end,G", "go(-1)", show=False),
        Binding("enter", "open", "Open"),
    ]

    class Moved(Message):
        """The cursor has moved to another subject, or to None if the list has no subjects."""

        def __init__(self, lines: LineList, subject: Openable | None) -> None:
            super().__init__()
            self.lines, self.subject = lines, subject

        @property
        def control(self) -> LineList:
            """The list that sent the message, by which Textual selects handlers."""
            return self.lines

    class Opened(Moved):
        """The user wants to open the subject."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.lines = ListLines()
        self.starts: list[int] = []
        """The first row of each subject."""
        self.cursor = -1
        """The index of the chosen subject in `starts`, -1 for none."""
        self._layout: Layout = lambda width: ()

    def show(self, layout: Layout, choose: Openable | None = None) -> None:
        """Show the lines that `layout` returns for the current width, now and after each resize.

        The cursor stays on its subject. If the subject has disappeared, it moves to the subject `choose`.
        """
        self._layout = layout
        self._lay_out(choose)

    def clear(self) -> None:
        """Remove all lines and the selection."""
        self.lines = ListLines()
        self.starts = []
        self.cursor = -1  # no line is selected

    @property
    def chosen(self) -> Openable | None:
        """The subject under the cursor, or None if no line has a subject."""
        if not 0 <= self.cursor < len(self.starts):
            return None
        first_row = self.starts[self.cursor]
        return self.lines.subjects[first_row]

    @property
    def subjects(self) -> list[Openable]:
        """The distinct subjects, in order."""
        return [subject for start in self.starts if (subject := self.lines.subjects[start]) is not None]

    def on_resize(self) -> None:
        """Lay out the lines again if the width has changed."""
        if self.lines and self._text_width != self.virtual_size.width:
            self._lay_out()

    @property
    def _text_width(self) -> int:
        """The width without the scroll bar and the cursor's column."""
        return max(self.size.width - 2, 8)

    def _lay_out(self, choose: Openable | None = None) -> None:
        """Lay out the lines for the current width, and restore the cursor.

        The cursor stays on its subject. If that is gone, it moves to `choose`, or else to the nearest subject. Post
        Moved if the subject under the cursor has changed.
        """
        old_subject, old_cursor = self.chosen, self.cursor
        layout = self._layout(self._text_width)
        self.lines = layout if isinstance(layout, ListLines) else ListLines(layout)
        self.virtual_size = Size(self._text_width, len(self.lines))

        # A subject may have several rows in succession. It starts at the first of them.
        subjects = self.lines.subjects
        previous_subjects = [None, *subjects[:-1]]
        self.starts = [
            row
            for row, (subject, previous) in enumerate(zip(subjects, previous_subjects, strict=False))
            if subject is not None and subject != previous
        ]

        index_by_subject = {subjects[start]: index for index, start in enumerate(self.starts)}
        nearest = min(max(old_cursor, 0), len(self.starts) - 1)
        self.cursor = index_by_subject.get(old_subject, index_by_subject.get(choose, nearest))
        self._scroll_to_chosen()
        self.refresh_bindings()
        if self.chosen != old_subject:
            self.post_message(self.Moved(self, self.chosen))

    def _scroll_to_chosen(self) -> None:
        """Scroll so that the chosen subject is visible. For the first subject, also show the heading above it.

        Of a subject that is taller than the screen, the beginning is shown.
        """
        self.refresh()
        if self.cursor < 0:
            return
        first, last = self._get_row_range(self.cursor)
        heading_is_visible_too = last < self.size.height
        if self.cursor == 0 and heading_is_visible_too:
            first = 0  # the row of the heading
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        is_above_screen = first < top
        is_below_screen = last >= top + height
        is_taller_than_screen = last - first >= height
        if is_above_screen or is_taller_than_screen:
            self.scroll_to(y=first, animate=False, force=True)
        elif is_below_screen:
            self.scroll_to(y=last - height + 1, animate=False, force=True)

    def _get_row_range(self, index: int) -> tuple[int, int]:
        """Return the first and the last row of the subject at an index."""
        first = last = self.starts[index]
        subjects = self.lines.subjects
        while last + 1 < len(subjects) and subjects[last + 1] == subjects[first]:
            last += 1
        return first, last

    def render_line(self, y: int) -> Strip:
        """Render row `y` of the screen. The rows of the chosen subject are marked and highlighted."""
        row = self.scroll_offset.y + y
        base_look = self.rich_style
        if row >= len(self.lines):
            return Strip.blank(self.size.width, base_look)
        line = self.lines[row]
        mark = " "
        look = base_look + Look.parse(line.style)
        if line.subject is not None and line.subject == self.chosen:
            mark = "›"
            look += Look(reverse=True) if self.has_focus else Look(bold=True)
        strip = Strip([Segment(f"{mark}{line.text}", look)])
        padding_look = look if look.reverse else base_look
        return strip.adjust_cell_length(self.size.width, padding_look)

    def move_to(self, index: int) -> None:
        """Move the cursor to the subject at an index, or to the nearest subject, and scroll to it.

        Post Moved if the cursor moves. Without subjects nothing happens.
        """
        if self.starts:
            index = min(max(index, 0), len(self.starts) - 1)
            if index != self.cursor:
                self.cursor = index
                self.post_message(self.Moved(self, self.chosen))
            self._scroll_to_chosen()

    def action_move_cursor(self, count: int) -> None:
        """Move the cursor by `count` items. If there is no item that far away, scroll by `count` lines instead."""
        if 0 <= self.cursor + count < len(self.starts):
            self.move_to(self.cursor + count)
        else:
            self.scroll_relative(y=count, animate=False)

    def action_go(self, to: int) -> None:
        """Move the cursor and scroll to the start (0) or the end (-1) of the list."""
        self.move_to(to if to >= 0 else len(self.starts) - 1)
        self.scroll_to(y=0 if to >= 0 else len(self.lines), animate=False)

    def action_page(self, count: int) -> None:
        """Move the cursor by `count` pages, and scroll if no other subject is that far away.

        A negative number moves the cursor up.
        """
        rows = count * max(self.size.height - 1, 1)
        index = self.cursor
        if self.starts:
            target_row = self.starts[self.cursor] + rows
            index = bisect_right(self.starts, target_row) - 1  # the last subject that begins there or above
        has_no_target = index in (-1, self.cursor)
        is_at_end = self.cursor == len(self.starts) - 1 and count > 0
        if has_no_target or is_at_end:
            self.scroll_relative(y=rows, animate=False)
        self.move_to(max(index, 0))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether the action is enabled. Enter is passed on to other widgets if there are no subjects."""
        return action != "open" or bool(self.starts)

    def action_open(self) -> None:
        """Post that the user wants to open the chosen subject."""
        if self.chosen is not None:
            self.post_message(self.Opened(self, self.chosen))

    def on_click(self, event: Click) -> None:
        """Move the cursor to the clicked subject."""
        row = self.scroll_offset.y + event.y
        if row < len(self.lines) and self.lines.subjects[row] is not None:
            self.move_to(bisect_right(self.starts, row) - 1)

    def on_focus(self) -> None:
        """Redraw the list to show the focus."""
        self.refresh()

    on_blur = on_focus
