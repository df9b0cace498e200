"""Findings as JUnit XML: a test suite per file and a failed test per finding."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from kschedctl.reports.findings import Finding, Findings
from kschedctl.text.printable import printable


def to_junit(report: Findings) -> str:
    """Render JUnit XML. Notes are passed tests with output; without findings a single test passes."""
    tests = report.findings or (None,)
    named = {"name": f"kschedctl {report.command}"}
    root = ElementTree.Element("testsuites", _count_tests(tests) | named)
    for file in dict.fromkeys(finding.file for finding in report.findings):
        findings = [finding for finding in report.findings if finding.file == file]
        suite = ElementTree.SubElement(
            root, "testsuite", _count_tests(findings) | {"name": printable(file) or "cluster"}
        )
        for finding in findings:
            _add_test_case(suite, finding)
    if not report.findings:
        suite = ElementTree.SubElement(root, "testsuite", _count_tests(tests) | named)
        passed = {"classname": f"kschedctl.{report.command}", "name": "nothing found", "time": "0"}
        ElementTree.SubElement(suite, "testcase", passed)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _add_test_case(suite: ElementTree.Element, finding: Finding) -> None:
    """Add the test case of a finding."""
    where = f"{finding.file}:{finding.line}:{finding.column}" if finding.file else ""
    text = "\n".join(filter(None, (where, f"{finding.object} {finding.path}".strip(), finding.message, finding.fix)))
    case = {
        "classname": f"kschedctl.{finding.rule}",
        "name": printable(f"{finding.object} {finding.path}".strip()),
        "time": "0",
    }
    element = ElementTree.SubElement(suite, "testcase", case)
    if finding.severity == "note":
        ElementTree.SubElement(element, "system-out").text = _make_lines_printable(text)
    else:
        failure = {"message": printable(finding.message), "type": finding.severity}
        ElementTree.SubElement(element, "failure", failure).text = _make_lines_printable(text)


def _count_tests(tests: Sequence[Finding | None]) -> dict[str, str]:
    """Return the counts of a test suite; None stands for a test that passes."""
    failed = sum(finding is not None and finding.severity != "note" for finding in tests)
    return {"tests": str(len(tests)), "failures": str(failed), "errors": "0"}


def _make_lines_printable(text: str) -> str:
    """Make each line of a text printable."""
    return "\n".join(map(printable, text.split("\n")))
