"""The page of a comparison of expiries, and the evidence of section "races"."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from kschedctl.api.times import format_duration
from kschedctl.commands.audit.races.compare import ROUNDED_TO_ZERO
from kschedctl.commands.audit.races.question import CLUSTER_FIELDS
from kschedctl.commands.audit.races.report import RaceAssumptions, RaceResult, Races, RacesSection
from kschedctl.render.page import Cell, Marked, Page, Style, Table, count, paragraph, section
from kschedctl.render.plots.plot import Axis, Plot, Series
from kschedctl.render.sections import build_interruption_line
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Column, Tone
from kschedctl.text.counts import counted

WARNING_SHARE = 0.01
"""The share of double-booked pods up to which a result is a warning."""

RACES_LEGEND = (
    "double-booked: pods bound to a node that is already full, so that its kubelet rejects them; "
    "adaptive: 30s for up to 1,000 nodes, and more for larger clusters"
)
"""The legend of the table with a row for each expiry."""

EXPIRY_LEGEND = (
    "cells: the share of double-booked pods, which a full node rejects; columns: the time after binding at which "
    "assumed pods expire"
)
"""The legend of the table with a column for each expiry."""


def build_races_page(report: Races, style: Style) -> Page:
    """Build the page: the recommendation, the share of double-booked pods, and the assumptions."""
    has_double_booked = any(result.double_booked for result in report.results)
    return (
        *build_interruption_line(report.interrupted, "the simulations so far"),
        paragraph(Marked(report.headline, Tone.BAD if has_double_booked else Tone.GOOD)),
        paragraph(report.recommendation),
        *section(
            "Double-booked pods by expiry (the time after which the scheduler forgets assumed pods)",
            *build_race_comparison(report.results, style),
        ),
        *section("Simulation settings", *build_assumption_lines(report.assumptions, report.results)),
    )


def build_races_evidence(audit_section: RacesSection, style: Style) -> Page:
    """Build the results and assumptions of the audit's simulation. Return () if nothing was simulated."""
    report = audit_section.races
    if report is None:
        return ()
    return (*build_race_comparison(report.results, style), *build_assumption_lines(report.assumptions, report.results))


def build_race_comparison(results: Sequence[RaceResult], style: Style) -> Page:
    """Build a table of the results and a plot over cluster sizes.

    In wide output, or if there is a single size and rate, each expiry has rows of its own. Otherwise the expiries are
    columns.
    """
    is_single_setting = len({(result.nodes, result.pods_per_second) for result in results}) == 1
    if not (style.wide or is_single_setting):
        return (_build_expiry_table(results), *_plot_double_booking_by_size(results))
    return (
        *build_struct_table(
            results, style, {"expiry": _format_expiry, "share": _format_share}, limit=None, note=RACES_LEGEND
        ),
        *_plot_double_booking_by_size(results),
    )


def _format_expiry(result: RaceResult) -> str:
    """Return the expiry, with its duration if its name does not give it."""
    if result.expiry != "adaptive" or result.ttl_seconds is None:
        return result.expiry
    return f"{result.expiry} ({format_duration(result.ttl_seconds)})"


def _build_expiry_table(results: Sequence[RaceResult]) -> Table:
    """Build a table of the shares of double-booked pods.

    It has a row for each pair of a node count and a pod rate, and a column for each expiry.
    """
    expiries = tuple(dict.fromkeys(result.expiry for result in results))
    columns = (
        Column("nodes", right=True),
        Column("pods per s", right=True),
        *(Column(expiry, right=True) for expiry in expiries),
    )
    # The results of one node count and pod rate are adjacent, and each group has all expiries in the same order
    rows: list[tuple[Cell, ...]] = []
    for (nodes, rate), row_results in groupby(results, key=lambda result: (result.nodes, result.pods_per_second)):
        rows.append((f"{nodes:,}", f"{rate:.3g}", *map(_format_share, row_results)))
    return Table(columns, tuple(rows), EXPIRY_LEGEND)


def _format_share(result: RaceResult) -> Marked:
    """Format the share of double-booked pods in color, such as `1.2% (0.9–1.5%)`.

    The range follows only if the share differs between runs.
    """
    if not result.share:
        tone = Tone.GOOD
    elif result.share <= WARNING_SHARE:
        tone = Tone.WARNING
    else:
        tone = Tone.BAD
    text = format_short_percent(result.share)
    if result.most_share > result.least_share:
        text += f" ({result.least_share * 100:.1f}–{result.most_share * 100:.1f}%)"
    return Marked(text, tone)


def format_short_percent(share: float) -> str:
    """Return a share as a percentage with one decimal, marking a positive share below 0.1 %.

    >>> format_short_percent(0.0123), format_short_percent(0.0002), format_short_percent(0.0)
    ('1.2%', '< 0.1%', '0%')
    """
    if not share:
        return "0%"
    return "< 0.1%" if share < ROUNDED_TO_ZERO else f"{share * 100:.1f}%"


def _plot_double_booking_by_size(results: Sequence[RaceResult]) -> Page:
    """Plot the share of double-booked pods over cluster sizes, at the highest rate.

    Return () if there is only one size or if no pod is double-booked.
    """
    rate = max(result.pods_per_second for result in results)
    results_at_rate = [result for result in results if result.pods_per_second == rate]
    if len({result.nodes for result in results_at_rate}) < 2 or not any(
        result.double_booked for result in results_at_rate
    ):
        return ()
    by_expiry: dict[str, list[tuple[float, float]]] = {}
    for result in sorted(results_at_rate, key=lambda result: result.nodes):
        by_expiry.setdefault(result.expiry, []).append((float(result.nodes), result.share * 100))
    series = tuple(Series(expiry, tuple(points)) for expiry, points in by_expiry.items())
    title = f"Double-booked pods by expiry, at {rate:.3g} pods/s"
    return (Plot(title, Axis("nodes"), Axis("% of pods"), series),)


def _describe_latency(latency: str) -> str:
    """Put a latency in words.

    >>> _describe_latency("exponential:10s"), _describe_latency("lognormal:1s,5s"), _describe_latency("measured")
    ('exponential, mean 10s', 'lognormal, median 1s, 99th percentile 5s', 'measured')
    """
    distribution, _, times = latency.partition(":")
    match distribution:
        case "exponential":
            return f"exponential, mean {times}"
        case "lognormal":
            median, _, p99 = times.partition(",")
            return f"lognormal, median {median}, 99th percentile {p99}"
        case "constant":
            return f"always {times}"
    return latency


def build_assumption_lines(assumptions: RaceAssumptions, results: Sequence[RaceResult]) -> Page:
    """Build lines about the assumptions, about values taken from the cluster, and about measured latencies."""
    nodes = " or ".join(dict.fromkeys(count(result.nodes, "node") for result in results))
    rates = " or ".join(dict.fromkeys(f"{result.pods_per_second:.3g}" for result in results))
    text_by_field = {
        CLUSTER_FIELDS["nodes"]: nodes,
        CLUSTER_FIELDS["rates"]: f"{rates} pods per second in the busiest minute",
        CLUSTER_FIELDS["room"]: f"{counted(assumptions.pods_per_node, 'pod fits', 'pods fit')} on a node",
        CLUSTER_FIELDS["load"]: f"nodes are {assumptions.load * 100:.3g}% full",
    }
    from_cluster = [text for field, text in text_by_field.items() if field in assumptions.from_cluster]

    # The table has a column for the nodes and one for the rates, so they are named only if they are from the cluster.
    columns_of_table = {CLUSTER_FIELDS["nodes"], CLUSTER_FIELDS["rates"]}
    fields_left_out = {*assumptions.from_cluster, *columns_of_table}
    specified = [
        count(assumptions.instances, "scheduler instance"),
        f"pods arrive for {format_duration(assumptions.seconds)}",
        *(text for field, text in text_by_field.items() if field not in fields_left_out),
        f"binding latency {_describe_latency(assumptions.binding_latency)}",
        f"informer lag {_describe_latency(assumptions.informer_lag)}",
        f"seed {assumptions.seed}, {assumptions.runs:,} runs" if assumptions.runs > 1 else f"seed {assumptions.seed}",
    ]
    lines = [paragraph("From the cluster:", "; ".join(from_cluster))] if from_cluster else []
    lines.append(paragraph("Other settings:" if from_cluster else "Settings:", "; ".join(specified)))
    if lags := assumptions.measured:
        seconds = f"{lags.median:g}s at the median, {lags.p99:g}s at the 99th percentile, {lags.longest:g}s at most"
        lines.append(
            paragraph(f"Measured on {count(lags.pods, 'pod')}, from binding to the kubelet's start: {seconds}")
        )
    return tuple(lines)
