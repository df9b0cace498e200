"""The page of NodeSizing: the best set of nodes, the others, and who fits nowhere."""

from __future__ import annotations

from kschedctl.render.page import Marked, Page, Style, paragraph
from kschedctl.render.pages.sections import caveats, interruption
from kschedctl.render.tables import listed
from kschedctl.reports.columns import Tone
from kschedctl.reports.sizing import NodeSizing


def sizing_page(report: NodeSizing, style: Style) -> Page:
    """All sections that have something to say."""
    first, *notes = report.first_line()
    tone = Tone.WARNING if report.never or report.undecided else Tone.GOOD
    partly = f"{report.tried:,} of {report.candidates:,} shapes were tried: there may be a better set"
    return (
        *interruption(report.interrupted, "the shapes so far"),
        paragraph(Marked(first, tone), *notes),
        *(() if report.complete else (paragraph(Marked("Not complete:", Tone.WARNING), partly),)),
        *(paragraph(Marked("Not certain:", Tone.WARNING), doubt) for doubt in report.doubts),
        *caveats(report.not_replayed, report.ignored, report.extended, report.unknown),
        *listed(report.shapes, style, title="Nodes"),
        *(listed(report.alternatives[1:], style, title="Other sets") if len(report.alternatives) > 1 else ()),
        *listed(report.never, style, title="Fit on no shape"),
    )
