"""Lists of any length, of which only what is on the screen is laid out: a cursor goes from one subject to the next."""

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
WARNING = "magenta"
"""Yellow cannot be read on a light terminal, magenta on any."""
MOST = 2000
"""So many characters of a text are wrapped; names in it can have millions."""


class Openable(NamedTuple):
    """What can be opened: of which kind, by which name; ``owner``: of a workload; ``of``: the pod that led there."""

    kind: str
    name: str
    owner: Owner | None = None
    of: str = ""


class ListLine(NamedTuple):
    """A line as it is shown. Those of one subject that follow each other are chosen together; None for no subject."""

    text: str
    look: str = ""
    subject: Openable | None = None


class ListLines:
    """In their order; ``subjects`` has that of each. A subclass may make lines only when they are looked at."""

    def __init__(self, lines: Sequence[ListLine] = ()) -> None:
        self._lines = lines
        self.subjects: Sequence[Openable | None] = [line.subject for line in lines]

    def __len__(self) -> int:
        return len(self.subjects)

    def __getitem__(self, row: int) -> ListLine:
        return self._lines[row]


class TableLines(ListLines):
    """A table of any length: the first row of cells are the titles, each other row has a subject.

    The column ``right`` has numbers. The first has what it needs, at least a third of the width; the last is cut.
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
        cells = []
        for place, (cell, room) in enumerate(zip(self._rows[row], self._widths, strict=True)):
            fitted = cut(cell, room)
            pad = " " * (room - cell_len(fitted))
            cells.append(pad + fitted if place == self._right else fitted + pad)
        text = "  ".join(cells).rstrip()
        if cell_len(text) > self._width:
            text = f"{set_cell_size(text, self._width - 1)}…"
        return ListLine(text, "" if row else "dim", self.subjects[row])


def cut(text: str, width: int) -> str:
    """The text in so many columns: both ends of it where it is too long, since pods differ at the end.

    >>> cut("shop/checkout-7d9f6c5b8-x2x4q", 20)
    'shop/checkout…-x2x4q'
    """
    text = printable(text)
    if (text.isascii() and len(text) <= width) or (cell_len(text[:MOST]) <= width and len(text) < MOST):
        return text
    if not text.isascii() or width < 12:
        return f"{set_cell_size(text[:MOST], max(width - 1, 0)).rstrip()}…"
    end = width // 3
    return f"{text[: width - end - 1]}…{text[-end:]}"


Layout = Callable[[int], ListLines | Sequence[ListLine]]
"""The lines for a width."""


def wrapped(text: str, width: int, indent: str = "", most: int = 0) -> list[str]:
    """The text in lines of that width, those after the first indented; with ``most`` no more than so many."""
    lines = wrap(printable(text[:MOST]), max(width, 8), subsequent_indent=indent) or [""]
    if most and len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1][: max(width - 1, 7)]}…"]
    return lines


class LineList(ScrollView, can_focus=True):
    """Shows what ``show`` was given; the chosen subject stays chosen when other lines take their place."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", show=False),
        Binding("down,j", "step(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "go(0)", show=False),
        Binding("end,G", "go(-1)", show=False),
        Binding("enter", "open", "Open"),
    ]

    class Moved(Message):
        """Another subject is chosen, None when there is none."""

        def __init__(self, lines: LineList, subject: Openable | None) -> None:
            super().__init__()
            self.lines, self.subject = lines, subject

        @property
        def control(self) -> LineList:
            return self.lines

    class Opened(Moved):
        """The chosen subject is to be opened."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.lines = ListLines()
        self.starts: list[int] = []
        self.at = -1
        self._make: Layout = lambda width: ()

    def show(self, make: Layout, choose: Openable | None = None) -> None:
        """Show the lines that ``make`` lays out for a width, now and when that changes.

        Where what was chosen is not among them, ``choose`` is.
        """
        self._make = make
        self._lay_out(choose)

    def forget(self) -> None:
        """Nothing is shown nor chosen: what comes is about something else."""
        self.lines, self.starts, self.at = ListLines(), [], -1

    @property
    def chosen(self) -> Openable | None:
        return self.lines.subjects[self.starts[self.at]] if 0 <= self.at < len(self.starts) else None

    @property
    def subjects(self) -> list[Openable]:
        return [subject for start in self.starts if (subject := self.lines.subjects[start]) is not None]

    def on_resize(self) -> None:
        if self.lines and self._width != self.virtual_size.width:
            self._lay_out()

    @property
    def _width(self) -> int:
        """Without the column of the scroll bar, and of the cursor."""
        return max(self.size.width - 2, 8)

    def _lay_out(self, choose: Openable | None = None) -> None:
        before, at = self.chosen, self.at
        made = self._make(self._width)
        self.lines = made if isinstance(made, ListLines) else ListLines(made)
        subjects = self.lines.subjects
        changes = zip([None, *subjects], subjects, strict=False)
        self.starts = [i for i, (last, this) in enumerate(changes) if this is not None and this != last]
        self.virtual_size = Size(self._width, len(self.lines))
        places = {subjects[start]: i for i, start in enumerate(self.starts)}
        near = min(max(at, 0), len(self.starts) - 1)
        self.at = places.get(before, places.get(choose, near))
        self._show_chosen()
        self.refresh_bindings()
        if self.chosen != before:
            self.post_message(self.Moved(self, self.chosen))

    def _show_chosen(self) -> None:
        """All lines of the chosen subject, and the heading above the first of all."""
        if self.at >= 0:
            first, last = self._span(self.at)
            first = 0 if self.at == 0 and last < self.size.height else first
            top, height = self.scroll_offset.y, max(self.size.height, 1)
            if first < top or last - first >= height:
                self.scroll_to(y=first, animate=False, force=True)
            elif last >= top + height:
                self.scroll_to(y=last - height + 1, animate=False, force=True)
        self.refresh()

    def _span(self, at: int) -> tuple[int, int]:
        first = last = self.starts[at]
        subjects = self.lines.subjects
        while last + 1 < len(subjects) and subjects[last + 1] == subjects[first]:
            last += 1
        return first, last

    def render_line(self, y: int) -> Strip:
        row = self.scroll_offset.y + y
        base = self.rich_style
        if row >= len(self.lines):
            return Strip.blank(self.size.width, base)
        line = self.lines[row]
        look, mark = base + Look.parse(line.look), " "
        if line.subject is not None and line.subject == self.chosen:
            look, mark = look + (Look(reverse=True) if self.has_focus else Look(bold=True)), "›"
        strip = Strip([Segment(f"{mark}{line.text}", look)])
        return strip.adjust_cell_length(self.size.width, look if look.reverse else base)

    def move(self, at: int) -> None:
        """Choose the subject at that place, or the nearest."""
        if self.starts:
            at = min(max(at, 0), len(self.starts) - 1)
            if at != self.at:
                self.at = at
                self.post_message(self.Moved(self, self.chosen))
            self._show_chosen()

    def action_step(self, by: int) -> None:
        """Where there is no subject any more the lines themselves move."""
        if 0 <= self.at + by < len(self.starts):
            self.move(self.at + by)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_go(self, to: int) -> None:
        self.move(to if to >= 0 else len(self.starts) - 1)
        self.scroll_to(y=0 if to >= 0 else len(self.lines), animate=False)

    def action_page(self, by: int) -> None:
        rows = by * max(self.size.height - 1, 1)
        at = bisect_right(self.starts, self.starts[self.at] + rows) - 1 if self.starts else self.at
        if at in (-1, self.at) or (self.at == len(self.starts) - 1 and by > 0):
            self.scroll_relative(y=rows, animate=False)
        self.move(max(at, 0))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Where there is nothing to open the key is left to others."""
        return action != "open" or bool(self.starts)

    def action_open(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Opened(self, self.chosen))

    def on_click(self, event: Click) -> None:
        row = self.scroll_offset.y + event.y
        if row < len(self.lines) and self.lines.subjects[row] is not None:
            self.move(bisect_right(self.starts, row) - 1)

    def on_focus(self) -> None:
        self.refresh()

    on_blur = on_focus
