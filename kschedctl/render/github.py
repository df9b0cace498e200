"""Findings as workflow commands of GitHub Actions: annotations at the lines of a pull request."""

from __future__ import annotations

from kschedctl.reports.findings import Finding, Findings
from kschedctl.text.printable import printable

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def to_github(report: Findings) -> str:
    """One command a finding."""
    return "".join(f"{_command(finding)}\n" for finding in report.findings)


def _command(finding: Finding) -> str:
    properties = {"title": finding.rule}
    if finding.file:
        properties = {"file": finding.file, "line": str(finding.line), "col": str(finding.column)} | properties
    said = ",".join(f"{name}={_escaped(value, property_=True)}" for name, value in properties.items())
    return f"::{COMMANDS[finding.severity]} {said}::{_escaped(f'{finding.object}: {finding.message}. {finding.fix}.')}"


def _escaped(text: str, property_: bool = False) -> str:
    """Text as the runner decodes it, control characters written as escapes.

    >>> _escaped("50%\\nof a:b", property_=True)
    '50%25%0Aof a%3Ab'
    """
    text = "%0A".join(map(printable, text.replace("%", "%25").splitlines()))
    return text.replace(":", "%3A").replace(",", "%2C") if property_ else text
