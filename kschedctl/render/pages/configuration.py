"""The pages of kube-scheduler itself: its effective configuration, its version, what versions changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kschedctl.render.page import Block, Marked, Page, Paragraph, Stack, Style, paragraph
from kschedctl.render.tables import PLAIN, Row, as_is, listed, numbers, table_of
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.configuration import EffectiveConfiguration, EffectiveProfile
from kschedctl.reports.version import Version
from kschedctl.reports.version_changes import VersionChange, VersionChanges


def configuration_page(report: EffectiveConfiguration, style: Style) -> Page:
    """Plugins in the order in which they run, with weights and who enabled them."""
    blocks: list[Block] = []
    if report.configured_by:
        blocks.append(paragraph(f"kube-scheduler {report.kube_version}, configured by {report.configured_by}"))
    if report.ignored:
        said = f"kube-scheduler {report.kube_version} does not know it: {'; '.join(report.ignored)}"
        blocks.append(paragraph(Marked("ignored:", Tone.WARNING), said))
    percentages = {profile.percentage_of_nodes_to_score for profile in report.profiles}
    shown = ", ".join("adaptive" if p == 0 else f"{p} %" for p in sorted(percentages))
    limits = f"back-off {report.pod_initial_backoff_seconds} to {report.pod_max_backoff_seconds} s"
    blocks.append(paragraph(f"percentageOfNodesToScore {shown}; {limits}; parallelism {report.parallelism}"))
    for profile in report.profiles:
        blocks += _plugins(profile)
        blocks += _args(profile)
    if report.extenders:
        blocks.append(paragraph("Extenders, in this order:", ", ".join(report.extenders)))
    return tuple(blocks)


def _plugins(profile: EffectiveProfile) -> Page:
    columns = (Column("point"), Column("plugin", keep=True), *numbers("weight"), Column("enabled by"))
    rows = [
        (
            point.point if i == 0 else "",
            plugin.name,
            "" if plugin.weight is None else str(plugin.weight),
            Marked(plugin.origin, Tone.FAINT if plugin.origin == "default" else Tone.STRONG),
        )
        for point in profile.points
        for i, plugin in enumerate(point.plugins)
    ]
    return table_of(rows, columns, as_is, limit=None, title=f"Profile {profile.scheduler_name}")


def _args(profile: EffectiveProfile) -> Page:
    given = {"args": lambda plugin: json.dumps(plugin.args, ensure_ascii=False)}
    return listed(profile.args, PLAIN, given, title=f"Arguments of {profile.scheduler_name}", limit=None)


# -- versions ---------------------------------------------------------------------------------------------------------


def version_page(report: Version, style: Style) -> Page:
    """The client's, what it replays, and the cluster's."""
    lines = [
        f"Client Version: {report.client_version}",
        f"Replays kube-scheduler: {report.replays[0]} to {report.replays[-1]}",
    ]
    if report.cluster:
        server = report.cluster.server_version or "not known"
        lines.append(f"Server Version: {server} of {report.cluster.source}, replayed as {report.cluster.kube_version}")
    return tuple(map(paragraph, lines))


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
    return table_of(changes, columns, row, limit=None, title=title, full=gates or style.narrow)


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
