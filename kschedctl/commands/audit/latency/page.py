"""The evidence of section "latency": verdicts, where the time goes, and in wide output all figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kschedctl.commands.audit.latency.report import LatencySection, Number, Timing
from kschedctl.commands.audit.latency.verdicts import format_count, format_seconds
from kschedctl.render.page import Block, Marked, Page, Style, paragraph, section
from kschedctl.render.plots.plot import Axis, Plot, Series
from kschedctl.render.tables import Row, build_struct_table, build_table, keep_row, number_columns
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import format_significant

MAX_PLUGINS = 5

QUANTILES = ("p50", "p90", "p99")


def build_latency_evidence(report: LatencySection, style: Style) -> Page:
    """Build the verdicts, followed by tables and a plot of the figures."""
    return (
        _build_source_line(report),
        *build_struct_table(report.verdicts, style, limit=None),
        *_build_timings_table("Where attempts spend their time", report.extension_points, style),
        *_build_timings_table("Plugins by total time", report.plugins, style, MAX_PLUGINS),
        *_plot_attempts(report),
        *(_build_wide_only_tables(report, style) if style.wide else ()),
    )


def _plot_attempts(report: LatencySection) -> Page:
    """Plot the share of attempts that are done within a time, with a curve for each result and profile.

    The names of the curves leave out a label in which all curves agree. If they agree in all labels, the name is the
    result. Return () if there are no curves.
    """
    curves = report.attempt_curves
    if not curves:
        return ()
    differing_labels = [label for label in curves[0].labels if len({curve.labels[label] for curve in curves}) > 1]
    labels = differing_labels or ["result"]
    series: list[Series] = []
    for curve in curves:
        name = " ".join(curve.labels[label] for label in labels)
        percentages = tuple((seconds, round(100 * share, 3)) for seconds, share in curve.within)
        series.append(Series(name, percentages))
    plot = Plot("Attempts by duration", Axis("seconds", decades=True), Axis("% of attempts"), tuple(series))
    return section("How long attempts take", plot)


def _build_source_line(report: LatencySection) -> Block:
    """Build the line about the scheduler's version, the source of the metrics, the period and a restart."""
    version = f"kube-scheduler {report.scheduler_version}, " if report.scheduler_version else ""
    duration = f" ({_format_optional_seconds(report.seconds)})" if report.seconds is not None else ""
    restarted = ", counted since its restart" if report.restarted else ""
    return paragraph(Marked(f"{version}{report.source}: {report.period}{duration}{restarted}", Tone.FAINT))


def _build_timings_table(title: str, timings: tuple[Timing, ...], style: Style, limit: int = 20) -> Page:
    """Build a table of timings with counts, shares, means and quantiles. The table has at most `limit` rows."""
    labels = _choose_labels(timings, style) if timings else ()
    columns = [*(Column(label.replace("_", " "), keep=True) for label in labels)]
    columns += number_columns("count", "share", "mean", *QUANTILES)
    return build_table(
        timings, columns, partial(_build_timing_row, labels=labels), style, title=title, limit=limit, full=False
    )


def _choose_labels(timings: tuple[Timing, ...], style: Style) -> tuple[str, ...]:
    """Return the names of the labels to show. Wide output shows all labels.

    Otherwise these are the labels in which the timings differ, or just the first label if they differ in none.
    """
    names = tuple(timings[0].labels)
    if style.wide:
        return names
    differing = tuple(name for name in names if len({timing.labels[name] for timing in timings}) > 1)
    return differing or names[:1]


def _build_timing_row(timing: Timing, labels: tuple[str, ...]) -> Row:
    """Build the row of a timing: the values of the labels, the count, the share, the mean and the quantiles."""
    share = f"{timing.share:.0%}" if timing.share is not None else ""
    quantiles = (_format_quantile(timing, name) for name in QUANTILES)
    values = (timing.labels[label] for label in labels)
    return (*values, format_count(timing.count), share, _format_optional_seconds(timing.mean), *quantiles)


def _format_quantile(timing: Timing, name: str) -> str:
    """Format a quantile, with a sign if only a bound of it is known.

    In the first bucket, only the bucket's upper bound is known, which is shown after <. In the last bucket, the true
    value may be larger, so the estimate is shown after ≥. An estimate below the mean would mislead, so the text then is
    "not known".
    """
    if name in timing.at_most:
        return f"< {_format_optional_seconds(timing.at_most[name])}"
    value = getattr(timing, name)
    if name not in timing.at_least:
        return _format_optional_seconds(value)
    is_below_mean = timing.mean is not None and value is not None and timing.mean > value
    if is_below_mean:
        return f"not known: above the last bucket, {_format_optional_seconds(value)}"
    return f"≥ {_format_optional_seconds(value)}"


def _build_wide_only_tables(report: LatencySection, style: Style) -> Page:
    """Build the tables that only wide output has: further timings and counts, and missing metrics with the reasons."""
    timings = {
        "Attempts": report.attempts,
        "Algorithm": report.algorithm,
        "Waits on permit": report.permit_waits,
        "API calls of the dispatcher": report.api_calls,
        "Requests delayed by the client's rate limit": report.client_waits,
        "Requests": report.client_requests,
        "Pods from queue to bound": report.pod_scheduling_sli,
        "Queueing hints": report.hints,
    }
    blocks = [block for title, timing in timings.items() for block in _build_timings_table(title, timing, style)]
    numbers = {
        "Results": report.results,
        "Queues": report.queues,
        "Cache": report.cache,
        "Events in flight": report.in_flight_events,
    }
    blocks += [block for title, counts in numbers.items() for block in _build_counts_table(title, counts)]
    missing_columns = (Column("metric", keep=True), Column("reason"))
    missing = list(report.missing.items())
    return (*blocks, *build_table(missing, missing_columns, keep_row, limit=None, title="Missing metrics"))


def _build_counts_table(title: str, counts: Sequence[Number]) -> Page:
    """Build a table of counts with their labels, or return () if there are none."""
    if not counts:
        return ()
    columns = [*map(Column, counts[0].labels), *number_columns("count", "per second")]
    return build_table(counts, columns, _build_number_row, limit=None, title=title, full=False)


def _build_number_row(number: Number) -> Row:
    """Return the cells for a count."""
    return (*number.labels.values(), format_count(number.count), _format_rate(number.per_second))


def _format_rate(value: float | None) -> str:
    """Return a rate with three digits, empty if unknown."""
    return "" if value is None else format_significant(value, 3)


def _format_optional_seconds(value: float | None) -> str:
    """Return seconds with three digits in a suitable unit, empty if unknown."""
    if value is None:
        return ""
    return format_seconds(value)
