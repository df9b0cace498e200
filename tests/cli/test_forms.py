"""Check which forms `-o` offers for each command, and that templates work wherever JSON does."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.render.renderers import RENDERERS

CHART = "tests/lint/charts/postgresql.yaml"
QUESTIONS = {
    "pod": ["explain", "big"],
    "pods": ["explain", "big", "small"],
    "all": ["explain", "-A"],
    "drain": ["drain", "n1"],
    "failures": ["failures", "--nodes"],
}


def test_every_offered_form_has_a_renderer(run: Run) -> None:
    for command in COMMANDS:
        metavar = re.search(r"--output (\S+)", re.sub(r"\|\n +", "|", run(command[0], "--help").out))
        assert metavar
        assert {form.removesuffix("=…") for form in metavar[1].split("|")} <= set(RENDERERS)


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_csv(run: Run, write: Write, question: list[str]) -> None:
    file = write(
        build_node("n1"),
        build_node("n2", "1"),
        build_pod("big", "9"),
        build_pod("small"),
        build_pod("runs", "1", nodeName="n1"),
    )
    out = run(*question, "-f", file, "-o", "csv").out
    header, *rows = csv.reader(io.StringIO(out))
    assert len({len(row) for row in (header, *rows)}) == 1
    assert rows


def test_csv_of_a_pod_has_a_row_for_each_node_and_reason(run: Run, write: Write) -> None:
    tainted = build_node("n1", "1", taints=[{"key": "k", "effect": "NoSchedule"}])
    rows = csv.DictReader(
        io.StringIO(
            run("explain", "web", "-f", write(tainted, build_node("n2"), build_pod("web", "2")), "-o", "csv").out
        )
    )
    found = sorted((row["node"], row["plugin"], row["fact"], bool(row["score"])) for row in rows)
    assert found == [
        ("n1", "NodeResourcesFit", "the pod needs 2 CPUs, but the node has 1 of 1 free", False),
        ("n1", "TaintToleration", "taint k:NoSchedule is not tolerated", False),
        ("n2", "", "", True),
    ]


@pytest.mark.parametrize("form", ["csv", "name", "xml", "jsonpath", "csv=x", "go-template={{.}}"])
@pytest.mark.parametrize("command", [["snapshot", "show", "x"], ["snapshot", "diff", "x", "y"], ["lint", CHART]])
def test_unsupported_form_is_a_usage_error(run: Run, command: list[str], form: str) -> None:
    code, out, err = run(*command, "-o", form)
    assert (code, out) == (2, "")
    assert f"'{form}' is not one of 'table', 'wide', 'json', 'yaml'" in err
    assert "'jsonpath=…', 'custom-columns=…'" in err


@pytest.mark.parametrize("form", ["sarif", "junit", "github"])
@pytest.mark.parametrize("command", [["config", "view"], ["lint", "rules"], ["lint", "explain", "pdb-missing"]])
def test_forms_of_findings_show_findings(run: Run, command: list[str], form: str) -> None:
    code, out, err = run(*command, "-o", form)
    assert (code, out) == (2, "")
    assert f"-o {form} works only for findings" in err


COMMANDS = [
    ["explain", "-A", "--demo"],
    ["failures", "--demo"],
    ["drain", "general-a1", "--demo"],
    ["capacity", "-f", "tests/lint/charts/web-app.yaml", "--demo", "--max", "1"],
    ["simulate", "-f", "tests/lint/charts/web-app.yaml", "--demo"],
    ["lint", CHART],
    ["config", "view"],
    ["versions", "1.33", "1.36"],
    ["demo"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_document_can_be_rendered_by_a_template(run: Run, command: list[str]) -> None:
    pytest.importorskip("jsonpath")
    kind = json.loads(run(*command, "-o", "json").out)["kind"]
    assert run(*command, "-o", "jsonpath={.kind}").out == kind
    assert run(*command, "-o=custom-columns=KIND:$.kind").out.split()[:2] == ["KIND", kind]
