"""The page of VersionChanges: rules and texts, plugins, feature gates; each with what it was before and is after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.render.page import Cell, Marked, Page, Paragraph, Stack, Style, Table, paragraph, section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.version_changes import VersionChange, VersionChanges

HEADINGS = {"rule": "Rules and texts", "plugin": "Plugins", "gate": "Feature gates"}


def version_changes_page(report: VersionChanges, style: Style) -> Page:
    """A table of each sort of change."""
    blocks: list[Page] = [tuple(_summary(report))]
    for sort, heading in HEADINGS.items():
        found = [change for change in report.changes if change.sort == sort]
        if found:
            blocks.append(section(heading, _gates(found) if sort == "gate" else _rules(found, style)))
    return tuple(block for page in blocks for block in page)


def _summary(report: VersionChanges) -> Iterator[Paragraph]:
    first, last = report.versions[0], report.versions[-1]
    if not report.compared:
        yield paragraph(f"What changed in kube-scheduler from {first} to {last}, as far as it is replayed")
    elif report.changes:
        yield paragraph(f"What differs between kube-scheduler {first} and {last}, as far as it is replayed")
    else:
        yield paragraph(Marked(f"Nothing differs between kube-scheduler {first} and {last}", Tone.GOOD))


def _rules(changes: Sequence[VersionChange], style: Style) -> Table:
    """What changed beside its plugin, or beneath it for want of room."""
    since, *others = Column("since", keep=True), Column("what"), Column("before"), Column("after", beneath="→")
    if style.narrow:
        return Table((since, *others), tuple((_since(c), _named(c), c.before, c.after) for c in changes))
    columns = (since, Column("plugin", keep=True), *others, Column("upstream"))
    rows = tuple((_since(c), c.where, c.what, c.before, c.after, Marked(c.upstream, Tone.FAINT)) for c in changes)
    return Table(columns, rows).without_empty_columns()


def _named(change: VersionChange) -> Stack:
    return Stack((Marked(change.where, Tone.STRONG), change.what, Marked(change.upstream, Tone.FAINT)))


def _gates(changes: Sequence[VersionChange]) -> Table:
    columns = (Column("since", keep=True), Column("gate", keep=True), Column("before"), Column("after", beneath="→"))
    return Table(columns, tuple((_since(c), c.where, c.before, c.after) for c in changes))


def _since(change: VersionChange) -> Cell | Stack:
    return Stack(change.since)
