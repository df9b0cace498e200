"""Findings as GitHub Actions workflow commands, which annotate lines of a pull request."""

from __future__ import annotations

from kschedctl.reports.findings import Finding, Findings
from kschedctl.text.printable import printable

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
"""Severity -> workflow command."""


def to_github(report: Findings) -> str:
    """Render a workflow command per finding."""
    return "".join(f"{_build_command(finding)}\n" for finding in report.findings)


def _build_command(finding: Finding) -> str:
    """Build the workflow command of a finding."""
    properties = {"title": finding.rule}
    if finding.file:
        properties = {"file": finding.file, "line": str(finding.line), "col": str(finding.column)} | properties
    said = ",".join(f"{name}={_escape(value, is_property=True)}" for name, value in properties.items())
    return f"::{COMMANDS[finding.severity]} {said}::{_escape(f'{finding.object}: {finding.message}. {finding.fix}.')}"


def _escape(text: str, is_property: bool = False) -> str:
    r"""Escape text as the runner decodes it, with control characters as escapes.

    >>> _escape("50%\nof a:b", is_property=True)
    '50%25%0Aof a%3Ab'
    """
    text = "%0A".join(map(printable, text.replace("%", "%25").splitlines()))
    return text.replace(":", "%3A").replace(",", "%2C") if is_property else text
