"""The page of differences between versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.commands.versions.report import VersionChange, VersionChanges
from kschedctl.render.page import Block, Bullets, Command, Heading, Marked, Page, Paragraph, Stack, Style, paragraph
from kschedctl.render.tables import Row, build_table
from kschedctl.reports.columns import Column, Tone

HEADINGS = {"rule": "Rules and messages", "plugin": "Plugins", "gate": "Feature gates"}
"""Kind of change -> the heading of its table."""
QUEUEING_HINT = (
    "queueing hint: a plugin's function that decides whether an event makes the scheduler retry a pod that the plugin "
    "rejected"
)


def build_version_changes_page(report: VersionChanges, style: Style) -> Page:
    """Build the page, with one table per kind of change. A comparison begins with the consequences of an upgrade."""
    blocks: list[Block] = [*_iter_summary_lines(report)]
    direction = "before → after"
    if report.compared:
        direction = f"{report.versions[0]} → {report.versions[-1]}"
        blocks += _build_consequences(report, style)
    for sort, heading in HEADINGS.items():
        changes = [change for change in report.changes if change.sort == sort]
        blocks += _build_changes_table(changes, heading, sort == "gate", direction, style)
        if any("queueing hint" in change.what for change in changes):
            blocks.append(paragraph(Marked(QUEUEING_HINT, Tone.FAINT)))
    return tuple(blocks)


def _iter_summary_lines(report: VersionChanges) -> Iterator[Paragraph]:
    """Yield lines about the versions: the range of all versions, or whether the two compared versions differ.

    A version that is only replayed from its sources gets a warning.
    """
    first, last = report.versions[0], report.versions[-1]
    if not report.compared:
        yield paragraph(f"Changes of kube-scheduler from {first} to {last} that the replay covers")
    elif report.changes:
        yield paragraph(*report.build_first_line())
        yield paragraph(
            Marked(
                f"Only differences between kube-scheduler {first} and {last} that the replay covers are listed",
                Tone.FAINT,
            )
        )
    else:
        yield paragraph(
            Marked(f"No differences between kube-scheduler {first} and {last} that the replay covers", Tone.GOOD)
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
    return (Heading("What an upgrade brings"), Bullets(consequences), *commands)


def _build_changes_table(
    changes: Sequence[VersionChange], title: str, for_gates: bool, direction: str, style: Style
) -> Page:
    """Build a table of changes.

    The table of feature gates has columns for the stages before and after. Every other change is described in one cell.
    `direction` names the versions on both sides of the arrow in that cell.
    """
    compared = direction != "before → after"
    since = Column("last changed" if compared else "since", keep=True)
    columns: tuple[Column, ...]
    if for_gates:
        default = Column("default changed in", beneath="default changed in")
        before, after = direction.split(" → ")
        columns = (since, Column("gate", keep=True), Column(before), Column(after, beneath="→"), default)
        build_row = _build_gate_row
    elif style.narrow:
        columns = (since, Column(f"plugin and change, {direction}"))
        build_row = _build_narrow_row
    else:
        columns = (since, Column("plugin", keep=True), Column(f"change, {direction}"), Column("upstream"))
        build_row = _build_wide_row
    return build_table(changes, columns, build_row, limit=None, title=title, full=for_gates or style.narrow)


def _build_wide_row(change: VersionChange) -> Row:
    """Build the row of a change, with the plugin in its own column."""
    return (Stack(change.since), change.where, _describe_change(change), _describe_basis(change))


def _build_narrow_row(change: VersionChange) -> Row:
    """Build the row of a change, with the plugin above the description in one cell."""
    what = Stack((Marked(change.where, Tone.STRONG), _describe_change(change), _describe_basis(change)))
    return (Stack(change.since), what)


def _describe_change(change: VersionChange) -> str:
    """Describe the behavior that differs, and its values before and after."""
    return f"{change.what}: {' → '.join((change.before, *change.between, change.after))}"


def _describe_basis(change: VersionChange) -> Marked:
    """Name upstream's change, and say how it is known if no real scheduler confirmed it."""
    basis = "" if change.basis == "answers" else f"(known from {change.basis} only)"
    return Marked(" ".join(filter(None, (change.upstream, basis))), Tone.FAINT)


def _build_gate_row(change: VersionChange) -> Row:
    """Build the row of a feature gate. The default may be older than the latest change of its stage."""
    between = tuple(Marked(state, Tone.FAINT) for state in change.between)
    after = Stack((change.after, *between)) if between else change.after
    return (Stack(change.since), change.where, change.before, after, change.switched)
