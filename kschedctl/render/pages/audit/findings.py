"""How a finding of an audit is shown in a table: its severity, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.render.page import Cell, Marked, Style
from kschedctl.reports.columns import Tone
from kschedctl.reports.findings import Finding

SEVERITIES = {"error": Tone.BAD, "warning": Tone.WARNING, "note": Tone.FAINT}


def severity_of(finding: Finding) -> Marked:
    return Marked(finding.severity, SEVERITIES[finding.severity])


def what_to_do(finding: Finding, above: Sequence[Finding], style: Style) -> Iterator[Cell]:
    """What likely helps, seen to be that without colours too, unless the row above says it; in wide tables the rule."""
    if finding.fix and finding.fix not in (each.fix for each in above):
        yield f"→ {finding.fix}"
    if style.wide:
        yield Marked(finding.rule, Tone.FAINT)
