"""The page of an EffectiveConfiguration: a table a profile, then arguments."""

from __future__ import annotations

import json

from kschedctl.render.page import Block, Marked, Page, Style, Table, paragraph, section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.configuration import EffectiveConfiguration, EffectiveProfile


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
        blocks += section(f"Profile {profile.scheduler_name}", _plugins(profile))
        blocks += section(f"Arguments of {profile.scheduler_name}", _args(profile))
    if report.extenders:
        blocks.append(paragraph("Extenders, in this order:", ", ".join(report.extenders)))
    return tuple(blocks)


def _plugins(profile: EffectiveProfile) -> Table:
    columns = (Column("point"), Column("plugin", keep=True), Column("weight", right=True), Column("enabled by"))
    rows = tuple(
        (
            point.point if i == 0 else "",
            plugin.name,
            "" if plugin.weight is None else str(plugin.weight),
            Marked(plugin.origin, Tone.FAINT if plugin.origin == "default" else Tone.STRONG),
        )
        for point in profile.points
        for i, plugin in enumerate(point.plugins)
    )
    return Table(columns, rows)


def _args(profile: EffectiveProfile) -> Table:
    columns = (Column("plugin", keep=True), Column("given by"), Column("arguments"))
    return Table(columns, tuple((a.plugin, a.origin, json.dumps(a.args, ensure_ascii=False)) for a in profile.args))
