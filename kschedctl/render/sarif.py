"""Findings as SARIF 2.1.0 (OASIS), within what GitHub code scanning supports."""

from __future__ import annotations

import json
from urllib.parse import quote

from kschedctl.api.json_values import Json
from kschedctl.reports.findings import Finding, Findings, FoundRule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
NO_FILE = "cluster"
"""The path of findings without a file, since code scanning needs one."""


def to_sarif(report: Findings) -> str:
    """Render one run with the rules that have findings; ignored findings are suppressed results."""
    index = {rule.id: i for i, rule in enumerate(report.rules)}
    results = [_build_result(finding, index) for finding in report.findings]
    for suppressed in report.suppressed:
        kind = "external" if suppressed.in_settings else "inSource"
        silenced = {"suppressions": [{"kind": kind, "justification": suppressed.reason}]}
        results.append(_build_result(suppressed.finding, index) | silenced)
    driver = {
        "name": "kschedctl",
        "version": report.tool_version,
        "rules": [_build_rule(rule) for rule in report.rules],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _build_rule(rule: FoundRule) -> dict[str, Json]:
    """Build the descriptor of a rule."""
    described: dict[str, Json] = {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\nFix: {rule.fix}" + f"\n\nSource: {rule.source}" * bool(rule.source)},
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": ["kubernetes", "scheduling"]},
    }
    return described | ({"helpUri": rule.source.split(";")[0]} if rule.source.startswith("https://") else {})


def _build_result(finding: Finding, index: dict[str, int]) -> dict[str, Json]:
    """Build the result of a finding."""
    place: dict[str, Json] = {"artifactLocation": {"uri": quote(finding.file or NO_FILE)}}
    place["region"] = {"startLine": max(finding.line, 1), "startColumn": max(finding.column, 1)}
    location = {
        "physicalLocation": place,
        "logicalLocations": [{"fullyQualifiedName": f"{finding.object} {finding.path}".strip(), "kind": "object"}],
    }
    result = {
        "ruleId": finding.rule,
        "level": finding.severity,
        "message": {"text": f"{finding.object}: {finding.message}. {finding.fix}."},
        "locations": [location],
        "partialFingerprints": {"kschedctl/v2": finding.fingerprint},
    }
    return result | ({"ruleIndex": index[finding.rule]} if finding.rule in index else {})
