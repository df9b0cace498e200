"""Check that lint's output follows the schemas of its readers and survives hostile names."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema

from kschedctl.commands.schema import build_schema
from kschedctl.render.ci_formats import to_github, to_junit, to_sarif
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.findings import Finding, Findings, FoundRule, Suppressed

GOLDEN = Path(__file__).parent.parent / "golden"


def make_finding(**fields: object) -> Finding:
    """Return a finding."""
    plain = {
        "rule": "ts-missing",
        "severity": "note",
        "object": "Deployment shop/web",
        "path": "spec.template.spec",
        "message": "3 replicas, and nothing spreads them",
        "fix": "Add topologySpreadConstraints",
        "fingerprint": "0123456789abcdef",
        "file": "manifests/web app.yaml",
        "line": 7,
        "column": 3,
    }
    return Finding(**{**plain, **fields})  # type: ignore[arg-type]


RULE = FoundRule(
    "ts-missing", "note", "Several replicas", "One node takes all down.", "Spread", "https://example.com; x"
)
HOSTILE = "a\x1b[2J\u202e]]><x>&\n::error::b%0A|`*"
REPORTS = {
    "nothing": Findings(checked=2, rules_run=90),
    "one of each": Findings(
        checked=3,
        rules_run=90,
        findings=(make_finding(), make_finding(severity="error", rule="doc-invalid"), make_finding(severity="warning")),
        rules=(RULE,),
        suppressed=(Suppressed(make_finding(), "one is enough"),),
        known=1,
        tool_version="1.0",
    ),
    "silenced by settings": Findings(
        checked=1, rules_run=90, suppressed=(Suppressed(make_finding(), "settings: legacy/*", in_settings=True),)
    ),
    "in a cluster": Findings(checked=3, rules_run=90, findings=(make_finding(file="", line=0, column=0),)),
    "hostile": Findings(
        checked=1,
        rules_run=90,
        findings=(make_finding(object=HOSTILE, message=HOSTILE, path=HOSTILE, file=HOSTILE, severity="error"),),
    ),
}
reports = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@reports
def test_sarif_follows_the_schema(report: Findings) -> None:
    schema = json.loads((GOLDEN / "sarif-2.1.0.schema.json").read_text())
    document = json.loads(to_sarif(report))
    jsonschema.Draft4Validator(schema).validate(document)
    (run,) = document["runs"]
    for result in run["results"]:
        place = result["locations"][0]["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        if "ruleIndex" in result:
            assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


def test_sarif_has_location_and_message() -> None:
    (first, *_, last) = json.loads(to_sarif(REPORTS["one of each"]))["runs"][0]["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "manifests/web%20app.yaml"
    assert place["region"] == {"startLine": 7, "startColumn": 3}
    assert last["suppressions"] == [{"kind": "inSource", "justification": "one is enough"}]


@reports
def test_junit_follows_the_schema(report: Findings) -> None:
    xmlschema.XMLSchema(str(GOLDEN / "junit-10.xsd")).validate(to_junit(report))


def test_findings_suppressed_by_settings_are_marked_as_external() -> None:
    (result,) = json.loads(to_sarif(REPORTS["silenced by settings"]))["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "settings: legacy/*"}]


def test_junit_counts() -> None:
    suites = ElementTree.fromstring(to_junit(REPORTS["one of each"]))
    assert [suites.get(name) for name in ("tests", "failures", "errors")] == ["3", "2", "0"]


def test_junit_of_a_clean_run_has_a_passing_test() -> None:
    root = ElementTree.fromstring(to_junit(REPORTS["nothing"]))
    assert len(root.findall("testsuite/testcase")) == 1
    for counting in (root, *root):
        assert (counting.get("tests"), counting.get("failures")) == ("1", "0")


@reports
def test_github_has_one_command_per_line(report: Findings) -> None:
    lines = to_github(report).splitlines()
    assert len(lines) == len(report.findings)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)


def test_github_command() -> None:
    report = Findings(checked=1, rules_run=1, findings=(make_finding(severity="error", message="100%"),))
    said = "Deployment shop/web: 100%25. Add topologySpreadConstraints."
    assert to_github(report) == f"::error file=manifests/web app.yaml,line=7,col=3,title=ts-missing::{said}\n"


@reports
def test_json_follows_the_schema(report: Findings) -> None:
    jsonschema.validate(json.loads(RENDERERS["json"](report, Style())), build_schema(Findings))


@reports
@pytest.mark.parametrize("form", ["table", "wide", "markdown"])
def test_pages_show_all_text_without_control_characters(report: Findings, form: str) -> None:
    text = RENDERERS[form](report, Style(wide=form == "wide"))
    assert not {"\x1b", "\u202e", "\r"} & set(text)
    assert text.endswith("\n")
