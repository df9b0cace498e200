"""The page about the costs of sampling, and the evidence of section "sampling"."""

from __future__ import annotations

from kschedctl.commands.audit.sampling.report import (
    SampledKind,
    SampledProfile,
    SamplingCosts,
    SamplingPoint,
    SamplingSection,
    SamplingSetting,
)
from kschedctl.render.page import (
    Block,
    Cell,
    Heading,
    Marked,
    Page,
    Stack,
    Style,
    Table,
    build_subsection,
    count,
    paragraph,
)
from kschedctl.render.plots.plot import Axis, Plot, Series
from kschedctl.render.sections import build_interruption_line, build_left_out_lines
from kschedctl.render.unseen_pods import build_not_created_section
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.unknown import describe_verdict_doubts

DEFAULT_OF_1_13 = 50
"""The default percentage before it was adapted to the size of the cluster."""
MIN_SAMPLED_NODES = 100
"""The number of nodes below which all nodes are evaluated."""
VERDICTS = {"raise": Tone.BAD, "lower": Tone.WARNING, "keep": Tone.GOOD, "idle": Tone.GOOD, "none": Tone.WARNING}
PODS_TEXTS = {
    "named": "the named pods",
    "pending": "pending pods, one for each workload",
    "running": "running pods of the largest workloads",
}


def build_sampling_page(report: SamplingCosts, style: Style) -> Page:
    """Build the page: the advice, and for each profile the setting, the kinds of pods and the curve."""
    verdict = report.profiles[0].advice.verdict if report.profiles else "none"
    page: list[Block] = [
        *build_interruption_line(report.interrupted, "the kinds of pods so far"),
        paragraph(Marked(report.headline, VERDICTS[verdict])),
    ]
    if report.not_created:
        page += build_not_created_section(report.not_created, style)
    if report.undecided:
        page.append(paragraph(Marked("Not certain:", Tone.WARNING), describe_verdict_doubts(report.unknown)))
    page += build_left_out_lines(report.not_replayed, ())

    for profile in report.profiles:
        blocks = (*_build_setting_lines(profile.setting), *_build_sampling_blocks(profile, PODS_TEXTS[report.asked]))
        if len(report.profiles) > 1:
            page += build_subsection(profile.scheduler_name, blocks)
        else:
            page += blocks
    return tuple(page)


def build_sampling_evidence(section: SamplingSection, style: Style) -> Page:
    """Build the setting, kinds and curve of each profile for an audit, except profiles that evaluate all nodes."""
    blocks: list[Block] = []
    for profile in section.profiles:
        if not _evaluates_all_nodes(profile):
            blocks += (*_build_setting_lines(profile.setting), *_build_sampling_blocks(profile, "kinds of pods"))
    return tuple(blocks)


def _evaluates_all_nodes(profile: SampledProfile) -> bool:
    """Return whether the profile evaluates all nodes, whatever percentage is set."""
    return profile.advice.verdict == "idle"


def _build_setting_lines(setting: SamplingSetting) -> Page:
    """Build the line about percentageOfNodesToScore and the number of feasible nodes that it requires.

    In a cluster so small that all nodes are evaluated, the line has only the setting, and none if it is the default.
    """
    if setting.nodes < MIN_SAMPLED_NODES and not setting.configured:
        return ()
    current = "0, the default, means (50 - nodes/125)%, but at least 5%"
    if setting.configured:
        current = f"{setting.configured} ({setting.origin})"
    if setting.nodes < MIN_SAMPLED_NODES:
        return (paragraph(Marked("percentageOfNodesToScore:", Tone.FAINT), current),)
    effect = (
        f"{setting.effective}% of {count(setting.nodes, 'node')}; the search stops at {setting.enough:,} feasible nodes"
    )
    return (paragraph(Marked("percentageOfNodesToScore:", Tone.FAINT), f"{current}. Here, that is {effect}"),)


def _build_sampling_blocks(profile: SampledProfile, pods: str) -> Page:
    """Build the table of the profile's kinds of pods, and the table and plot of the average loss by percentage.

    `pods` describes the placed pods in the table's heading. Return () if there are no kinds, or if all nodes are
    evaluated at any percentage. If the profile has no curve, return only the table of kinds.
    """
    if not profile.kinds or _evaluates_all_nodes(profile):
        return ()
    kinds = (Heading(f"Placing one more of each: {pods}"), _build_kinds_table(profile))
    if not profile.curve:
        return kinds
    # The curve has averages over all nodes from which a search may start
    limit = f"points below the best node, on average at most {profile.advice.max_loss:g}"
    return (*kinds, Heading(f"From every start: {limit}"), _build_curve_table(profile), _plot_losses(profile))


def _build_kinds_table(profile: SampledProfile) -> Table:
    """Build a table of the kinds of pods: their scores, and their losses at the current and the advised percentage."""
    columns = [Column("workload"), Column("pods", right=True), Column("fit on", right=True)]
    advised = f"at {profile.advice.percentage}%" if profile.advice.percentage else "advised"
    columns += [Column("scores", right=True), Column("lost now", right=True), Column(advised, right=True)]
    return Table(tuple(columns), tuple(_build_pod_kind_row(kind, profile) for kind in profile.kinds))


def _build_pod_kind_row(kind: SampledKind, profile: SampledProfile) -> tuple[Cell | Stack, ...]:
    """Build the row for one kind of pod: the number of pods and of fitting nodes, the scores, and the losses.

    The losses are those at the current and at the advised percentage. If the kind could not be measured or fits on no
    node, the row shows the reason instead of scores and losses.
    """
    if kind.unmeasured or not kind.fitting:
        reason = Marked(kind.unmeasured or "fits on no node: all are evaluated", Tone.WARNING)
        return (Stack((kind.workload, reason)), f"{kind.pods:,}", "", "", "", "")
    losses = {point.percentage: f"{point.loss:.1f}" for point in kind.curve}
    current_loss = losses[profile.setting.effective]
    advised_loss = losses[profile.advice.percentage]
    scores = f"{kind.worst} to {kind.best}"
    return (kind.workload, f"{kind.pods:,}", f"{kind.fitting:,}", scores, current_loss, advised_loss)


def _build_curve_table(profile: SampledProfile) -> Table:
    """Build the table of costs along the profile's curve. Neighbouring percentages of equal costs share a row."""
    has_several_kinds = sum(bool(kind.curve and kind.fitting) for kind in profile.kinds) > 1
    quantiles = [f"worst {name}" if has_several_kinds else name for name in ("P50", "P90", "max")]
    number_columns = ("%", "evaluated", "scored", "mean", *quantiles, "missed")
    columns = (*(Column(name, right=True) for name in number_columns), Column("note"))
    rows = tuple(_build_percentage_row(points, profile) for points in _group_equal_points(profile))
    note = "missed: starting nodes from which no best node is picked"
    if has_several_kinds:
        note += "; mean: of all kinds; worst: of the kind of pods that loses most"
    return Table(columns, rows, note)


def _group_equal_points(profile: SampledProfile) -> list[list[SamplingPoint]]:
    """Group neighbouring points of the curve that differ only in their percentage. A marked point stays alone."""
    groups: list[list[SamplingPoint]] = []
    for point in profile.curve:
        if groups and _can_share_row(groups[-1][0], point, profile):
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _can_share_row(first: SamplingPoint, second: SamplingPoint, profile: SampledProfile) -> bool:
    """Return whether neither point is marked and both have the same cells apart from the percentage."""
    is_any_marked = any(_list_percentage_marks(point, profile) for point in (first, second))
    return not is_any_marked and _build_percentage_cells(first) == _build_percentage_cells(second)


def _build_percentage_row(points: list[SamplingPoint], profile: SampledProfile) -> tuple[Cell, ...]:
    """Return the row for points with equal costs, which has their range of percentages."""
    first, last = points[0].percentage, points[-1].percentage
    percentages = f"{first}" if first == last else f"{first} to {last}"
    return (percentages, *_build_percentage_cells(points[0]), _format_percentage_marks(points[0], profile))


def _build_percentage_cells(point: SamplingPoint) -> tuple[str, ...]:
    """Return the cells for a percentage, except the first and the last column."""
    losses = (point.loss, point.loss_p50, point.loss_p90, point.loss_max)
    costs = (*(f"{loss:.1f}" for loss in losses), f"{100 * point.missed:.0f}%")
    return (f"{point.examined:,.0f}", f"{point.scored:,}", *costs)


def _list_percentage_marks(point: SamplingPoint, profile: SampledProfile) -> list[str]:
    """Return the marks that apply to a percentage: current, advised, and default of 1.13.

    If the current percentage need not change, the advised one is marked as "enough".
    """
    advice = profile.advice
    must_change = advice.verdict in ("raise", "lower")
    percentage_by_mark = {
        "now": profile.setting.effective,
        "advised" if must_change else "enough": advice.percentage,
        "default of 1.13": DEFAULT_OF_1_13,
    }
    return [mark for mark, percentage in percentage_by_mark.items() if percentage == point.percentage]


def _format_percentage_marks(point: SamplingPoint, profile: SampledProfile) -> Cell:
    """Return the marks of a percentage as a cell."""
    labels = _list_percentage_marks(point, profile)
    return Marked(", ".join(labels), Tone.GOOD if "advised" in labels else Tone.STRONG)


def _plot_losses(profile: SampledProfile) -> Plot:
    """Plot the mean, 90th percentile and maximum score loss against percentageOfNodesToScore."""
    lines = (
        Series("mean", tuple((point.percentage, point.loss) for point in profile.curve)),
        Series("P90", tuple((point.percentage, point.loss_p90) for point in profile.curve)),
        Series("max", tuple((point.percentage, point.loss_max) for point in profile.curve)),
    )
    title = f"What percentageOfNodesToScore costs the pods of {profile.scheduler_name}"
    return Plot(title, Axis("percentageOfNodesToScore"), Axis("points below the best node"), lines)
