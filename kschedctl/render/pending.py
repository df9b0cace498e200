"""All pending pods grouped by what keeps them pending: the document, and its page."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.render.explanation import TONES, not_replayed_section
from kschedctl.render.page import (
    Cell,
    Column,
    Command,
    Marked,
    Page,
    Style,
    Table,
    Tone,
    count,
    paragraph,
    section,
    shown_first,
)
from kschedctl.reports.explanation import Document

GROUPS_SHOWN, EXAMPLES_SHOWN = 25, 2


class PendingGroup(Document, frozen=True):
    """Pods that wait for the same reasons.

    ``cause`` is told of the first of them, as is ``message``, kube-scheduler's own; ``next`` is a command.
    """

    verdict: str
    cause: str
    message: str | None
    pods: tuple[str, ...]
    next: str


class PendingPods(Document, frozen=True):
    """The groups, those that do not schedule first. ``scope``: where was looked; ``hints``: commands to try.

    ``not_replayed`` names what could change an answer but was left out.
    """

    scope: str
    groups: tuple[PendingGroup, ...] = ()
    hints: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "PendingPods"


def pending_page(report: PendingPods, style: Style) -> Page:
    """The table of causes, then what to type next."""
    pods = sum(len(group.pods) for group in report.groups)
    if not pods:
        nothing = paragraph(Marked("Nothing is pending", Tone.GOOD), report.scope)
        return (nothing, *(section("But elsewhere", *map(Command, report.hints)) if report.hints else ()))
    title = f"{count(pods, 'pod')} pending {report.scope}, {count(len(report.groups), 'cause')}"
    hints = report.hints or (report.groups[0].next,)
    table = section(title, _table(report.groups, style))
    return (*table, *not_replayed_section(report.not_replayed), *section("Next", *map(Command, hints)))


def _table(groups: tuple[PendingGroup, ...], style: Style) -> Table:
    shown, note = shown_first(groups, None if style.wide else GROUPS_SHOWN, "-o wide shows all")
    columns = [Column("pods", right=True), Column("verdict", keep=True), Column("cause")]
    columns += [] if style.narrow else [Column("for example", keep=True)]
    columns += [Column("next")] if style.wide and not style.narrow else []
    return Table(tuple(columns), tuple(row for group in shown for row in _rows(group, style)), note)


def _rows(group: PendingGroup, style: Style) -> Iterator[tuple[Cell, ...]]:
    """One row, the examples beside the cause; or beneath it where there is no room."""
    some = group.pods if style.wide else group.pods[:EXAMPLES_SHOWN]
    examples = ", ".join(some) + (", …" if len(some) < len(group.pods) else "")
    verdict = Marked(group.verdict, TONES.get(group.verdict, Tone.WARNING))
    row = (f"{len(group.pods):,}", verdict, group.cause)
    if style.narrow:
        yield row
        yield (Marked(examples, Tone.FAINT),)
    else:
        yield (*row, examples, *([Marked(group.next, Tone.CODE)] if style.wide else []))
