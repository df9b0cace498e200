"""The page of Races: what to do, how many pods are double-booked by size, rate and expiry, and what that stands on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from kschedctl.api.times import format_duration
from kschedctl.commands.audit.races.report import RaceAssumptions, RaceResult, Races, RacesSection
from kschedctl.render.page import Cell, Marked, Page, Style, Table, count, paragraph, section
from kschedctl.render.plots.plot import Axis, Plot, Series
from kschedctl.render.tables import build_struct_table
from kschedctl.reports.columns import Column, Tone

FEW = 0.01
"""Up to this share of double-booked pods it is a warning."""


def races_page(report: Races, style: Style) -> Page:
    """One size and rate, or ``-o wide``: a row an expiry; else a row a size and rate, with a column an expiry."""
    bad = any(result.double_booked for result in report.results)
    return (
        paragraph(Marked(report.headline, Tone.BAD if bad else Tone.GOOD)),
        paragraph(report.recommendation),
        *section("Double-booked pods", *race_tables(report.results, style)),
        *section("Simulated", *assumption_lines(report.assumptions)),
    )


def races_blocks(races: RacesSection, style: Style) -> Page:
    """What was simulated for an audit."""
    if races.races is None:
        return ()
    return (*race_tables(races.races.results, style), *assumption_lines(races.races.assumptions))


def race_tables(results: Sequence[RaceResult], style: Style) -> Page:
    """The results as a table, and as a plot over sizes."""
    one = len({(result.nodes, result.pods_per_second) for result in results}) == 1
    if not (style.wide or one):
        return (_by_expiry(results), *_plot(results))
    return (*build_struct_table(results, style, {"expiry": _expiry, "share": _share}, limit=None), *_plot(results))


def _expiry(result: RaceResult) -> str:
    """With the time, where the name does not tell it."""
    if result.expiry != "adaptive" or result.ttl_seconds is None:
        return result.expiry
    return f"{result.expiry} ({format_duration(result.ttl_seconds)})"


def _by_expiry(results: Sequence[RaceResult]) -> Table:
    expiries = tuple(dict.fromkeys(result.expiry for result in results))
    columns = (Column("nodes", right=True), Column("pods/s", right=True), *(Column(e, right=True) for e in expiries))
    rows: list[tuple[Cell, ...]] = []
    for (nodes, rate), race_results in groupby(results, key=lambda result: (result.nodes, result.pods_per_second)):
        rows.append((f"{nodes:,}", f"{rate:.3g}", *map(_share, race_results)))
    return Table(columns, tuple(rows), "by how long after its binding was answered an assumed pod expires")


def _share(result: RaceResult) -> Marked:
    tone = Tone.GOOD if not result.share else Tone.WARNING if result.share <= FEW else Tone.BAD
    spread = result.most_share - result.least_share
    bounds = f" ({result.least_share * 100:.1f}–{result.most_share * 100:.1f})" if spread else ""
    return Marked(f"{share_text(result.share)}{bounds}", tone)


def share_text(share: float) -> str:
    """To a tenth of a percent; what is less, but not nothing, is seen to be so.

    >>> share_text(0.0123), share_text(0.0002), share_text(0.0)
    ('1.2 %', '< 0.1 %', '0 %')
    """
    if not share:
        return "0 %"
    return "< 0.1 %" if share < 0.0005 else f"{share * 100:.1f} %"


def _plot(results: Sequence[RaceResult]) -> Page:
    """Over sizes, at the highest rate; nothing where nothing is double-booked."""
    rate = max(result.pods_per_second for result in results)
    shown = [result for result in results if result.pods_per_second == rate]
    if len({result.nodes for result in shown}) < 2 or not any(result.double_booked for result in shown):
        return ()
    by_expiry: dict[str, list[tuple[float, float]]] = {}
    for result in sorted(shown, key=lambda result: result.nodes):
        by_expiry.setdefault(result.expiry, []).append((float(result.nodes), result.share * 100))
    series = tuple(Series(expiry, tuple(points)) for expiry, points in by_expiry.items())
    title = f"Double-booked pods by expiry, at {rate:.3g} pods/s"
    return (Plot(title, Axis("nodes"), Axis("% of pods"), series),)


def assumption_lines(assumptions: RaceAssumptions) -> Page:
    """What is simulated, what the cluster told, and what its kubelets needed."""
    parts = [
        count(assumptions.instances, "scheduler instance"),
        f"pods that come for {format_duration(assumptions.seconds)}",
        f"nodes with room for {count(assumptions.pods_per_node, 'pod')}, {assumptions.load * 100:.3g} % in use",
        f"binding latency {assumptions.binding_latency}",
        f"informer lag {assumptions.informer_lag}",
        f"seed {assumptions.seed}" + (f", {assumptions.runs:,} runs" if assumptions.runs > 1 else ""),
    ]
    lines = [paragraph("; ".join(parts))]
    if assumptions.from_cluster:
        lines.append(paragraph("from the cluster:", ", ".join(assumptions.from_cluster)))
    if lags := assumptions.measured:
        seconds = f"{lags.median:g}s at the median, {lags.p99:g}s at the 99th percentile, {lags.longest:g}s at most"
        lines.append(
            paragraph(f"measured on {count(lags.pods, 'pod')}, from binding to the kubelet's start: {seconds}")
        )
    return tuple(lines)
