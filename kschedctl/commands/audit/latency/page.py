"""What an audit tells of the scheduler's metrics: the verdicts, where the time goes, and with -o wide all figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kschedctl.api.digits import format_significant
from kschedctl.commands.audit.latency.report import LatencySection, Number, Timing
from kschedctl.render.page import Block, Marked, Page, Style, paragraph, section
from kschedctl.render.plots.plot import Axis, Plot, Series
from kschedctl.render.tables import Row, build_struct_table, build_table, number_columns, return_row
from kschedctl.reports.columns import Column, Tone

PLUGINS_SHOWN = 5
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
QUANTILES = ("p50", "p90", "p99")


def latency_blocks(report: LatencySection, style: Style) -> Page:
    """The verdicts first; tables of figures after them."""
    return (
        _about(report),
        *build_struct_table(report.verdicts, style, limit=None),
        *_timings("Where attempts spend their time", report.extension_points, style),
        *_timings("Plugins by total time", report.plugins, style, PLUGINS_SHOWN),
        *_curves(report),
        *(_more(report, style) if style.wide else ()),
    )


def _curves(report: LatencySection) -> Page:
    """How many attempts are done within a time, by their result."""
    curves = report.attempt_curves
    if not curves:
        return ()
    telling = [label for label in curves[0].labels if len({curve.labels[label] for curve in curves}) > 1] or ["result"]
    series = tuple(
        Series(
            " ".join(curve.labels[label] for label in telling),
            tuple((seconds, round(100 * share, 3)) for seconds, share in curve.within),
        )
        for curve in curves
    )
    plot = Plot("Attempts by duration", Axis("seconds", decades=True), Axis("% of attempts"), series)
    return section("How long attempts take", plot)


def _about(report: LatencySection) -> Block:
    version = f"kube-scheduler {report.scheduler_version}, " if report.scheduler_version else ""
    long = f" ({_seconds(report.seconds)})" if report.seconds is not None else ""
    restarted = ", in which it restarted: since then" if report.restarted else ""
    return paragraph(Marked(f"{version}{report.source}: {report.period}{long}{restarted}", Tone.FAINT))


def _timings(title: str, timings: tuple[Timing, ...], style: Style, limit: int = 20) -> Page:
    labels = _telling(timings, style) if timings else ()
    columns = [*(Column(label.replace("_", " "), keep=True) for label in labels)]
    columns += number_columns("count", "share", "mean", *QUANTILES)
    return build_table(timings, columns, partial(_timing, labels=labels), style, title=title, limit=limit, full=False)


def _telling(timings: tuple[Timing, ...], style: Style) -> tuple[str, ...]:
    """The labels that tell them apart; where nothing does the first."""
    names = tuple(timings[0].labels)
    several = tuple(name for name in names if len({timing.labels[name] for timing in timings}) > 1)
    return names if style.wide else several or names[:1]


def _timing(timing: Timing, labels: tuple[str, ...]) -> Row:
    share = f"{timing.share:.0%}" if timing.share is not None else ""
    quantiles = (_quantile(timing, name) for name in QUANTILES)
    values = (timing.labels[label] for label in labels)
    return (*values, _count(timing.count), share, _seconds(timing.mean), *quantiles)


def _quantile(timing: Timing, name: str) -> str:
    """At least the bound of the last bucket, where it lies beyond; beside a mean above that it would mislead."""
    value = getattr(timing, name)
    if name not in timing.at_least:
        return _seconds(value)
    past = timing.mean is not None and value is not None and timing.mean > value
    return f"not known: past the last bucket, {_seconds(value)}" if past else f"≥ {_seconds(value)}"


def _more(report: LatencySection, style: Style) -> Page:
    """All other figures."""
    timings = {
        "Attempts": report.attempts,
        "Algorithm": report.algorithm,
        "Waits on permit": report.permit_waits,
        "API calls of the dispatcher": report.api_calls,
        "Requests held back by the client": report.client_waits,
        "Requests": report.client_requests,
        "Pods from queue to bound": report.pod_scheduling_sli,
        "Queueing hints": report.hints,
    }
    blocks = [block for title, timing in timings.items() for block in _timings(title, timing, style)]
    counted = {
        "Results": report.results,
        "Queues": report.queues,
        "Cache": report.cache,
        "Events in flight": report.in_flight_events,
    }
    blocks += [block for title, counts in counted.items() for block in _counts(title, counts)]
    missing = (Column("metric", keep=True), Column("why"))
    return (*blocks, *build_table([*report.missing.items()], missing, return_row, limit=None, title="Not in it"))


def _counts(title: str, counts: Sequence[Number]) -> Page:
    columns = [*map(Column, counts[0].labels if counts else ()), *number_columns("count", "per second")]
    return build_table(counts, columns, _number, limit=None, title=title, full=False)


def _number(number: Number) -> Row:
    return (*number.labels.values(), _count(number.count), _rate(number.per_second))


def _rate(value: float | None) -> str:
    return "" if value is None else format_significant(value, 3)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else format_significant(value, 2)


def _seconds(value: float | None) -> str:
    """Three digits in a unit that suits; empty where it is not known."""
    if value is None:
        return ""
    unit, name = next((entry for entry in UNITS if abs(value) >= entry[0]), UNITS[-1])
    scaled = value / unit
    return f"{format_significant(scaled, 3)} {name}"
