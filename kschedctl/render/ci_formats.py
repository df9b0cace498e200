"""Findings in the formats of CI systems: GitHub Actions workflow commands, JUnit XML and SARIF 2.1.0 (OASIS)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote
from xml.etree import ElementTree

from kschedctl.api.json_values import Json
from kschedctl.reports.findings import Finding, Findings, FoundRule, join_message_and_fix
from kschedctl.text.printable import printable

COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
"""Severity -> workflow command."""


def to_github(report: Findings) -> str:
    """Render findings as GitHub workflow commands, one per line."""
    return "".join(f"{_build_workflow_command(finding)}\n" for finding in report.findings)


def _build_workflow_command(finding: Finding) -> str:
    """Build the GitHub workflow command that annotates a finding."""
    properties = {"title": finding.rule}
    if finding.file:
        properties = {"file": finding.file, "line": str(finding.line), "col": str(finding.column)} | properties
    settings = ",".join(f"{name}={_escape_for_github(value, is_property=True)}" for name, value in properties.items())
    message = _escape_for_github(f"{finding.object}: {join_message_and_fix(finding)}")
    return f"::{COMMANDS[finding.severity]} {settings}::{message}"


def _escape_for_github(text: str, is_property: bool = False) -> str:
    r"""Escape text as GitHub's runner decodes it, with control characters shown as escapes.

    >>> _escape_for_github("50%\nof a:b", is_property=True)
    '50%25%0Aof a%3Ab'
    """
    text = "%0A".join(map(printable, text.replace("%", "%25").splitlines()))
    return text.replace(":", "%3A").replace(",", "%2C") if is_property else text


def to_junit(report: Findings) -> str:
    """Render findings as JUnit XML, with one suite for each file.

    Notes become passed tests with output. If there are no findings, the only suite has a single passed test.
    """
    root_attributes = _build_suite_attributes(f"kschedctl {report.command}", report.findings)
    root = ElementTree.Element("testsuites", root_attributes)
    for file in dict.fromkeys(finding.file for finding in report.findings):
        findings = [finding for finding in report.findings if finding.file == file]
        suite_attributes = _build_suite_attributes(printable(file) or "cluster", findings)
        suite = ElementTree.SubElement(root, "testsuite", suite_attributes)
        for finding in findings:
            _add_test_case(suite, finding)
    if not report.findings:
        suite = ElementTree.SubElement(root, "testsuite", root_attributes)
        passed = {"classname": f"kschedctl.{report.command}", "name": "nothing found", "time": "0"}
        ElementTree.SubElement(suite, "testcase", passed)
    ElementTree.indent(root, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _add_test_case(suite: ElementTree.Element, finding: Finding) -> None:
    """Add the test case of a finding to a test suite. It fails, unless the finding is only a note."""
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


def _build_suite_attributes(name: str, findings: Sequence[Finding]) -> dict[str, str]:
    """Return the attributes of the test suite of some findings: the counts of its tests, and its name.

    A finding that is not a note is a failed test. A suite without findings has a single passed test.
    """
    test_count = len(findings) or 1
    failure_count = sum(finding.severity != "note" for finding in findings)
    return {"tests": str(test_count), "failures": str(failure_count), "errors": "0", "name": name}


def _make_lines_printable(text: str) -> str:
    """Make each line of a text printable."""
    return "\n".join(map(printable, text.split("\n")))


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
NO_FILE = "cluster"
"""The path of findings without a file, since code scanning needs one."""


def to_sarif(report: Findings) -> str:
    """Render findings as one SARIF run that describes their rules. Ignored findings become suppressed results."""
    index = {rule.id: i for i, rule in enumerate(report.rules)}
    results = [_build_sarif_result(finding, index) for finding in report.findings]
    for suppressed in report.suppressed:
        kind = "external" if suppressed.in_settings else "inSource"
        silenced = {"suppressions": [{"kind": kind, "justification": suppressed.reason}]}
        results.append(_build_sarif_result(suppressed.finding, index) | silenced)
    driver = {
        "name": "kschedctl",
        "version": report.tool_version,
        "rules": [_build_sarif_rule(rule) for rule in report.rules],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _build_sarif_rule(rule: FoundRule) -> dict[str, Json]:
    """Build the SARIF descriptor of a rule."""
    help_text = f"{rule.why}\n\nFix: {rule.fix}"
    if rule.source:
        help_text += f"\n\nSource: {rule.source}"
    descriptor: dict[str, Json] = {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": help_text},
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": ["kubernetes", "scheduling"]},
    }
    if rule.source.startswith("https://"):
        url, _, _ = rule.source.partition(";")
        descriptor["helpUri"] = url
    return descriptor


def _build_sarif_result(finding: Finding, rule_index: dict[str, int]) -> dict[str, Json]:
    """Build the SARIF result for a finding. ``rule_index`` maps each rule to its position in the rule list."""
    location = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(finding.file or NO_FILE)},
            "region": {"startLine": max(finding.line, 1), "startColumn": max(finding.column, 1)},
        },
        "logicalLocations": [{"fullyQualifiedName": f"{finding.object} {finding.path}".strip(), "kind": "object"}],
    }
    result: dict[str, Json] = {
        "ruleId": finding.rule,
        "level": finding.severity,
        "message": {"text": f"{finding.object}: {join_message_and_fix(finding)}"},
        "locations": [location],
        "partialFingerprints": {"kschedctl/v2": finding.fingerprint},
    }
    if finding.rule in rule_index:
        result["ruleIndex"] = rule_index[finding.rule]
    return result
