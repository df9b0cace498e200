"""The section about what a supposition changes."""

from __future__ import annotations

from kschedctl.render.page import Page, Table, names, paragraph, section
from kschedctl.reports.browsing.changed_answer import ChangedAnswer
from kschedctl.reports.columns import Column

SAME = "Nothing is another: as many nodes fit, and the others are refused for the same reasons"


def changed_answer_section(report: ChangedAnswer) -> Page:
    """How many nodes fit and how many are refused for what, before and after; then which."""
    rows = [(reason.plugin, reason.reason, reason.before, reason.after) for reason in report.reasons]
    if report.fit[0] != report.fit[1]:
        rows.insert(0, ("", "nodes that fit", *report.fit))
    told = (("newly fit:", report.gained), ("fit no more:", report.lost))
    lines = [paragraph(label, names(found, 5)) for label, found in told if found]
    if report.best[0] and report.best[1] and report.best[0] != report.best[1]:
        lines.append(paragraph("best before:", f"{names(report.best[0])}; now: {names(report.best[1])}"))
    if not rows and not lines:
        return section("What changes", paragraph(SAME))
    columns = (Column("before", right=True), Column("now", right=True), Column("nodes"))
    cells = tuple((f"{b:,}", f"{a:,}", f"{plugin}: {why}" if plugin else why) for plugin, why, b, a in rows)
    return section("What changes", *([Table(columns, cells)] if cells else []), *lines)
