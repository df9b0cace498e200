"""The page of Consolidation: which nodes could go in which order, and what keeps the others."""

from __future__ import annotations

from kschedctl.render.page import Bullets, Command, Marked, Page, Style, first_rows, paragraph, section
from kschedctl.render.pages.sections import caveats, interruption
from kschedctl.render.plots.plot import bars
from kschedctl.render.tables import Cells, listed
from kschedctl.reports.columns import Tone
from kschedctl.reports.consolidation import NodeConsolidation, RemovableNode
from kschedctl.text.counts import counted

_STEPS: Cells[RemovableNode] = {"node": lambda step: Marked(f"✓ {step.node}", Tone.GOOD)}
"""Each was replayed."""


def consolidation_page(report: NodeConsolidation, style: Style) -> Page:
    """All sections that have something to say."""
    first, *autoscaler = report.first_line()
    tone = Tone.WARNING if report.undecided or report.interrupted else Tone.GOOD if report.removable else Tone.PLAIN
    left_out = tuple(f"{counted(number, 'node')} {why}" for why, number in report.left_out.items())
    shown, note = first_rows(report.commands, style, 25)
    commands = (*map(Command, shown), *([paragraph(note)] if note else ()))
    return (
        *interruption(report.interrupted, "the nodes so far"),
        paragraph(Marked(first, tone)),
        *(paragraph(Marked(line, Tone.STRONG)) for line in autoscaler),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *listed(report.removable, style, _STEPS, numbered="step", title="Could go, in this order", full=False),
        *listed(report.staying, style, title="Have to stay", full=False),
        *(section("Not tried", Bullets(left_out)) if left_out else ()),
        *listed(report.requested, style, title="Requested of the workers"),
        *_pools(report, style),
        *listed(report.zones, style, title="Loss of a zone"),
        *(section("Commands", *commands) if report.commands else ()),
    )


def _pools(report: NodeConsolidation, style: Style) -> Page:
    """Before and after."""
    table = listed(report.pools, style, title="Pools before and after") if report.removable else ()
    counts = {pool.pool or "(none)": {"before": pool.before, "after": pool.after} for pool in report.pools}
    nodes = bars("Nodes by pool, before and after", ("pool", "nodes"), counts, len(counts))
    shares = {pool.pool or "(none)": {"before": pool.cpu_before, "after": pool.cpu_after} for pool in report.pools}
    requested = bars("Requested cpu by pool, before and after", ("pool", "percent"), shares, len(shares))
    return (*table, *nodes, *requested) if table else ()
