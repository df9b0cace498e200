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
    """Build the page: a summary, then one table per kind of change.

    For a comparison, the consequences of an upgrade are listed between the summary and the tables. A line explains
    queueing hints below each table that mentions them.
    """
    blocks: list[Block] = [*_iter_summary_lines(report)]
    if report.compared:
        blocks += _build_consequences(report, style)
    for sort, heading in HEADINGS.items():
        changes = [change for change in report.changes if change.sort == sort]
        if sort == "gate":
            blocks += _build_gates_table(changes, heading, report, style)
        else:
            blocks += _build_rules_table(changes, heading, report, style)
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
        yield paragraph(*report.build_headline_parts())
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
        yield paragraph(Marked("Not verified:", Tone.WARNING), report.unverified)


def _build_consequences(report: VersionChanges, style: Style) -> Page:
    """Build a list of the consequences of an upgrade, with the command that shows what it changes in a cluster.

    Return () if there are no consequences.
    """
    consequences = tuple(report.iter_consequences())
    if not consequences:
        return ()
    commands = (Command(command) for group in style.commands.values() for command in group)
    return (Heading("What an upgrade changes"), Bullets(consequences), *commands)


def _build_gates_table(changes: Sequence[VersionChange], title: str, report: VersionChanges, style: Style) -> Page:
    """Build the table of feature gates, with columns for the states before and after each change.

    If a gate had other states between two compared versions, these have a column of their own. Narrow output has all
    states of a gate in one column.
    """
    before, after = _name_state_columns(report)
    is_narrow = style.width < MIN_WIDTH_FOR_COLUMNS
    has_states_between = any(change.between for change in changes)
    state_columns: tuple[Column, ...]
    if is_narrow:
        state_columns = (Column("state by version"),)
    elif has_states_between:
        state_columns = (Column(before), Column("in between"), Column(after, beneath=f"{after}:"))
    else:
        state_columns = (Column(before), Column(after, beneath=f"{after}:"))

    def build_row(change: VersionChange) -> Row:
        """Build the row of a gate."""
        states: Row
        if is_narrow:
            states = (Stack(_list_states(change, before, after)),)
        elif has_states_between:
            states = (change.before, Stack(change.between), change.after)
        else:
            states = (change.before, change.after)
        return (Stack(change.since), change.where, *states)

    columns = (_build_since_column(report), Column("gate", keep=True), *state_columns)
    return build_table(changes, columns, build_row, limit=None, title=title, full=True)


def _build_rules_table(changes: Sequence[VersionChange], title: str, report: VersionChanges, style: Style) -> Page:
    """Build a table of changes of rules or plugins, with columns for the states before and after each change.

    States that existed only between two compared versions are listed above the last state. Narrow output has everything
    about a change in one column, with a line for each state.
    """
    before, after = _name_state_columns(report)
    since = _build_since_column(report)

    def build_row(change: VersionChange) -> Row:
        """Build the row of a change, with the states before and after in their own columns."""
        later_states = Stack(_list_later_states(change, after)) if change.between else change.after
        return (Stack(change.since), change.where, change.what, change.before, later_states, _describe_basis(change))

    def build_narrow_row(change: VersionChange) -> Row:
        """Build the row of a change, with everything but its version in one cell."""
        heading = Marked(change.where, Tone.STRONG)
        states = _list_states(change, before, after)
        return (Stack(change.since), Stack((heading, change.what, *states, _describe_basis(change))))

    if style.width < MIN_WIDTH_FOR_COLUMNS:
        narrow_columns = (since, Column("plugin and change"))
        return build_table(changes, narrow_columns, build_narrow_row, limit=None, title=title, full=True)
    columns = (
        since,
        Column("plugin", keep=True),
        Column("what changed"),
        Column(before),
        Column(after, beneath=f"{after}:"),
        Column("upstream"),
    )
    return build_table(changes, columns, build_row, limit=None, title=title, full=False)


def _name_state_columns(report: VersionChanges) -> tuple[str, str]:
    """Return the names of the columns for the states before and after a change: in a comparison, the two versions."""
    return (report.versions[0], report.versions[-1]) if report.compared else ("before", "after")


def _build_since_column(report: VersionChanges) -> Column:
    """Build the column for the version that made a change. In a comparison, it is the last one that did."""
    return Column("last changed" if report.compared else "since", keep=True)


def _list_states(change: VersionChange, before: str, after: str) -> tuple[str, ...]:
    """List the states of what changed in the order of versions, each with its version. Short states share a line."""
    lines = (f"{before}: {change.before}", *_list_later_states(change, after))
    is_short = max(len(change.before), len(change.after)) <= MAX_SHORT_STATE
    return (", ".join(lines),) if is_short and not change.between else lines


def _list_later_states(change: VersionChange, after: str) -> tuple[str, ...]:
    """List the states after the first one, each with the version that introduced it or, for the last, with `after`."""
    return (*(state.removeprefix("from ") for state in change.between), f"{after}: {change.after}")


def _describe_basis(change: VersionChange) -> Marked:
    """Name upstream's change, and say how it is known if no real scheduler confirmed it."""
    basis = "" if change.basis == "answers" else f"(known from {change.basis} only)"
    return Marked(" ".join(filter(None, (change.upstream, basis))), Tone.FAINT)
