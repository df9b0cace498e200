"""The page of differences between versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.commands.versions.report import VersionChange, VersionChanges
from kschedctl.render.page import (
    Block,
    Bullets,
    Command,
    Heading,
    Marked,
    Page,
    Paragraph,
    Stack,
    Style,
    paragraph,
)
from kschedctl.render.tables import Row, build_table
from kschedctl.reports.columns import Column, Tone

HEADINGS = {"rule": "Rules and messages", "plugin": "Plugins", "gate": "Feature gates"}
"""Kind of change -> the heading of its table."""
MAX_SHORT_STATE = 12
"""The number of characters up to which the states before and after a change share a line."""
MIN_WIDTH_FOR_COLUMNS = 150
"""The width from which on tables have a column for each state."""
QUEUEING_HINT = (
    "queueing hint: a plugin's function that decides whether an event makes the scheduler retry a pod that the plugin "
    "rejected"
)


def build_version_changes_page(report: VersionChanges, style: Style) -> Page:
    """Build the page, with one table per kind of change. A comparison begins with the consequences of an upgrade."""
    blocks: list[Block] = [*_iter_summary_lines(report)]
    if report.compared:
        blocks += _build_consequences(report, style)
    for sort, heading in HEADINGS.items():
        changes = [change for change in report.changes if change.sort == sort]
        blocks += _build_changes_table(changes, heading, report, style)
        if any("queueing hint" in change.what for change in changes):
            blocks.append(paragraph(Marked(QUEUEING_HINT, Tone.FAINT)))
    return tuple(blocks)


def _iter_summary_lines(report: VersionChanges) -> Iterator[Paragraph]:
    """Yield lines about the versions: the range of all versions, or whether the two compared versions differ.

    A version that is only replayed from its sources gets a warning.
    """
    first, last = report.versions[0], report.versions[-1]
    if not report.compared:
        yield paragraph(f"Changes in kube-scheduler from {first} to {last} that kschedctl replays")
    elif report.changes:
        yield paragraph(*report.build_first_line())
        yield paragraph(
            Marked(
                "This list covers only the differences that affect kschedctl's replay of kube-scheduler.",
                Tone.FAINT,
            )
        )
    else:
        yield paragraph(
            Marked(f"No differences between kube-scheduler {first} and {last} that kschedctl replays", Tone.GOOD)
        )
    if report.unverified:
        yield paragraph(Marked("not verified:", Tone.WARNING), report.unverified)


def _build_consequences(report: VersionChanges, style: Style) -> Page:
    """Build a list of the consequences of an upgrade, with the command that shows what it changes in a cluster.

    Return () if there are no consequences.
    """
    consequences = tuple(report.iter_consequences())
    if not consequences:
        return ()
    commands = (Command(command) for group in style.commands.values() for command in group)
    return (Heading("What an upgrade changes"), Bullets(consequences), *commands)


def _build_changes_table(changes: Sequence[VersionChange], title: str, report: VersionChanges, style: Style) -> Page:
    """Build a table of changes of one kind, with columns for the states before and after each change.

    In a comparison, these columns are headed by the two versions. States that existed only in versions between the two
    have a column of their own in the table of gates, and are listed above the last state in other tables. Narrow output
    has all states in one column, a line each.
    """
    before, after = (report.versions[0], report.versions[-1]) if report.compared else ("before", "after")
    for_gates = title == HEADINGS["gate"]
    has_between_column = for_gates and any(change.between for change in changes)
    since = Column("last changed" if report.compared else "since", keep=True)
    subject = (Column("gate", keep=True),) if for_gates else (Column("plugin", keep=True), Column("what changed"))
    between = (Column("in between"),) if has_between_column else ()
    states = (Column(before), *between, Column(after, beneath=f"{after}:"))
    upstream = () if for_gates else (Column("upstream"),)

    def build_row(change: VersionChange) -> Row:
        """Build the row of a change, with the states before and after in their own columns."""
        if has_between_column:
            return (Stack(change.since), change.where, change.before, Stack(change.between), change.after)
        later_states = Stack((*change.between, change.after)) if change.between else change.after
        if for_gates:
            return (Stack(change.since), change.where, change.before, later_states)
        return (Stack(change.since), change.where, change.what, change.before, later_states, _describe_basis(change))

    def build_narrow_row(change: VersionChange) -> Row:
        """Build the row of a change, with its states in one cell. Changes of rules also have everything else there."""
        lines = _list_states(change, before, after)
        if for_gates:
            return (Stack(change.since), change.where, Stack(lines))
        heading = Marked(change.where, Tone.STRONG)
        return (Stack(change.since), Stack((heading, change.what, *lines, _describe_basis(change))))

    columns = (since, *subject, *states, *upstream)
    is_narrow = style.width < MIN_WIDTH_FOR_COLUMNS
    if is_narrow and for_gates:
        columns, build_row = (since, *subject, Column("state by version")), build_narrow_row
    elif is_narrow:
        columns, build_row = (since, Column("plugin and change")), build_narrow_row
    return build_table(changes, columns, build_row, limit=None, title=title, full=for_gates or is_narrow)


def _list_states(change: VersionChange, before: str, after: str) -> tuple[str, ...]:
    """List the states of what changed in the order of versions, each with its version. Short states share a line."""
    lines = (f"{before}: {change.before}", *change.between, f"{after}: {change.after}")
    is_short = max(len(change.before), len(change.after)) <= MAX_SHORT_STATE
    return (", ".join(lines),) if is_short and not change.between else lines


def _describe_basis(change: VersionChange) -> Marked:
    """Name upstream's change, and say how it is known if no real scheduler confirmed it."""
    basis = "" if change.basis == "answers" else f"(known from {change.basis} only)"
    return Marked(" ".join(filter(None, (change.upstream, basis))), Tone.FAINT)
