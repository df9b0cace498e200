"""All pending pods grouped by what keeps them pending: the document, and its page."""

from __future__ import annotations

from kschedctl.render.explanation import TONES
from kschedctl.render.page import Cell, Column, Marked, Page, Style, Table, Tone, count, paragraph, section
from kschedctl.reports.explanation import Document

EXAMPLES_SHOWN = 2


class PendingGroup(Document, frozen=True):
    """Pods that wait for the same reasons. ``cause`` is told of the first of them; ``next`` is a command."""

    verdict: str
    cause: str
    pods: tuple[str, ...]
    next: str


class PendingPods(Document, frozen=True):
    """The groups, the largest first. ``scope`` says in words where was looked; ``hints`` are commands to try."""

    scope: str
    groups: tuple[PendingGroup, ...] = ()
    hints: tuple[str, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "PendingPods"


def pending_page(report: PendingPods, style: Style) -> Page:
    """The table of causes, then what to type next."""
    pods = sum(len(group.pods) for group in report.groups)
    if not pods:
        return (paragraph(Marked("Nothing is pending", Tone.GOOD), report.scope),)
    waiting = f"{count(pods, 'pod')} pending {report.scope}, {count(len(report.groups), 'cause')}:"
    columns = [Column("pods", right=True), Column("verdict", keep=True), Column("cause"), Column("for example")]
    if style.wide:
        columns.append(Column("next"))
    table = Table(tuple(columns), tuple(_row(group, style) for group in report.groups))
    hints = report.hints or (report.groups[0].next,)
    lines = [paragraph(Marked(f"  {hint}", Tone.CODE)) for hint in hints]
    return (paragraph(Marked(waiting, Tone.STRONG)), table, *section("Next", *lines))


def _row(group: PendingGroup, style: Style) -> tuple[Cell, ...]:
    shown = group.pods if style.wide else group.pods[:EXAMPLES_SHOWN]
    verdict = Marked(group.verdict, TONES.get(group.verdict, Tone.WARNING))
    row: tuple[Cell, ...] = (f"{len(group.pods):,}", verdict, group.cause, ", ".join(shown))
    return (*row, Marked(group.next, Tone.CODE)) if style.wide else row
