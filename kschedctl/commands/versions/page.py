"""The page of what differs between versions of kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.commands.versions.report import VersionChange, VersionChanges
from kschedctl.render.page import Block, Marked, Page, Paragraph, Stack, Style, paragraph
from kschedctl.render.tables import Row, build_table
from kschedctl.reports.columns import Column, Tone

HEADINGS = {"rule": "Rules and texts", "plugin": "Plugins", "gate": "Feature gates"}


def version_changes_page(report: VersionChanges, style: Style) -> Page:
    """A table of each sort of change."""
    blocks: list[Block] = [*_summary(report)]
    for sort, heading in HEADINGS.items():
        changes = [change for change in report.changes if change.sort == sort]
        blocks += _changes(changes, heading, sort == "gate", style)
    return tuple(blocks)


def _summary(report: VersionChanges) -> Iterator[Paragraph]:
    first, last = report.versions[0], report.versions[-1]
    if not report.compared:
        yield paragraph(f"What changed in kube-scheduler from {first} to {last}, as far as it is replayed")
    elif report.changes:
        yield paragraph(f"What differs between kube-scheduler {first} and {last}, as far as it is replayed")
    else:
        yield paragraph(Marked(f"Nothing differs between kube-scheduler {first} and {last}", Tone.GOOD))


def _changes(changes: Sequence[VersionChange], title: str, gates: bool, style: Style) -> Page:
    """What changed beside its plugin, or beneath it for want of room."""
    since, what = Column("since", keep=True), Column("what")
    before, after = Column("before"), Column("after", beneath="→")
    columns: tuple[Column, ...] = (since, Column("plugin", keep=True), what, before, after, Column("upstream"))
    row = _beside
    if gates:
        columns, row = (since, Column("gate", keep=True), before, after), _gate
    elif style.narrow:
        columns, row = (since, what, before, after), _beneath
    return build_table(changes, columns, row, limit=None, title=title, full=gates or style.narrow)


def _beside(change: VersionChange) -> Row:
    return (Stack(change.since), change.where, change.what, change.before, change.after, _upstream(change))


def _beneath(change: VersionChange) -> Row:
    what = Stack((Marked(change.where, Tone.STRONG), change.what, _upstream(change)))
    return (Stack(change.since), what, change.before, change.after)


def _upstream(change: VersionChange) -> Marked:
    """The change behind it; how it is known, where no real scheduler was asked."""
    known = "" if change.basis == "answers" else f"(from {change.basis} alone)"
    return Marked(" ".join(filter(None, (change.upstream, known))), Tone.FAINT)


def _gate(change: VersionChange) -> Row:
    return (Stack(change.since), change.where, change.before, change.after)
