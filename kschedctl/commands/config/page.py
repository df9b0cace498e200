"""The page of an effective scheduler configuration."""

from __future__ import annotations

import json

from kschedctl.lint.effective_configuration import EffectiveConfiguration, EffectiveProfile
from kschedctl.render.page import Block, Marked, Page, Style, paragraph
from kschedctl.render.tables import PLAIN, build_struct_table, build_table, keep_row, number_columns
from kschedctl.reports.columns import Column, Tone


def build_configuration_page(report: EffectiveConfiguration, style: Style) -> Page:
    """Build the page: general settings, then each profile's plugins and arguments, then extenders."""
    blocks: list[Block] = []
    if report.configured_by:
        blocks.append(paragraph(f"kube-scheduler {report.kube_version}, configured by {report.configured_by}"))
    if report.ignored:
        message = f"kube-scheduler {report.kube_version} does not support: {'; '.join(report.ignored)}"
        blocks.append(paragraph(Marked("Ignored:", Tone.WARNING), message))
    percentages = {profile.percentage_of_nodes_to_score for profile in report.profiles}
    shown = ", ".join("adaptive" if percentage == 0 else f"{percentage}%" for percentage in sorted(percentages))
    limits = f"back-off {report.pod_initial_backoff_seconds} to {report.pod_max_backoff_seconds} s"
    blocks.append(paragraph(f"percentageOfNodesToScore {shown}; {limits}; parallelism {report.parallelism}"))
    for profile in report.profiles:
        blocks += _build_plugin_table(profile)
        blocks += _build_arguments_table(profile)
    if report.extenders:
        blocks.append(paragraph("Extenders, in this order:", ", ".join(report.extenders)))
    return tuple(blocks)


def _build_plugin_table(profile: EffectiveProfile) -> Page:
    """Build the table of a profile's plugins at each extension point, in the order in which they run."""
    columns = (Column("point"), Column("plugin", keep=True), *number_columns("weight"), Column("enabled by"))
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
    return build_table(rows, columns, keep_row, limit=None, title=f"Profile {profile.scheduler_name}")


def _build_arguments_table(profile: EffectiveProfile) -> Page:
    """Build the table of a profile's plugin arguments."""
    formatters = {"args": lambda plugin: json.dumps(plugin.args, ensure_ascii=False)}
    return build_struct_table(
        profile.args, PLAIN, formatters, title=f"Arguments of {profile.scheduler_name}", limit=None
    )
