"""Check which findings lint reports, by severity, namespace, labels and path, the most severe first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kschedctl.cli.main import main
from kschedctl.lint.suppression import matches_path

Run = Callable[..., tuple[int, str, str]]

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, labels: {team: TEAM}NAMESPACE}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {beta.kubernetes.io/os: linux}
      containers: [{name: c, image: web, resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""
CLASS = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: system-web}
value: 5
description: x
"""


def make_web(name: str, team: str, namespace: str = "") -> str:
    """Return the manifest of a Deployment."""
    within = f", namespace: {namespace}" if namespace else ""
    return WEB.replace("NAMESPACE", within).replace("NAME", name).replace("TEAM", team)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs a command in a folder with some files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for file, text in {
        "a.yaml": make_web("web", "blue", "shop"),
        "legacy/b.yaml": make_web("old", "red", "attic"),
        "legacy/vendor/c.yaml": make_web("lib", "red"),
        "z.yaml": CLASS,
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / file).write_text(text)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(("lint", *arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def parse_objects(run: Run, *options: str) -> set[str]:
    """Return the objects in the JSON output."""
    out = run(".", "-R", "-o", "json", *options)[1]
    return {finding["object"] for finding in json.loads(out)["findings"]}


WEB_, OLD, LIB, CLASS_ = "Deployment shop/web", "Deployment attic/old", "Deployment lib", "PriorityClass system-web"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), [WEB_, OLD, LIB, CLASS_]),
        (("-n", "shop"), [WEB_, "Deployment shop/lib"]),
        (("-l", "team=red"), [OLD, LIB]),
        (("-l", "app in (web)"), [WEB_]),
        (("-l", "team", "-n", "attic"), [OLD, "Deployment attic/lib"]),
        (("--exclude", "vendor"), [WEB_, OLD, CLASS_]),
        (("--exclude", "legacy/*.yaml", "--exclude", "z.*"), [WEB_]),
        (("--exclude", "./legacy/"), [WEB_, CLASS_]),
        (("--severity", "error"), [CLASS_]),
    ],
)
def test_selected_objects(run: Run, options: tuple[str, ...], told: list[str]) -> None:
    assert parse_objects(run, *options) == set(told)


def test_less_severe_findings_are_counted_and_do_not_fail(run: Run) -> None:
    code, out, _ = run("a.yaml", "--severity", "error", "--fail-on", "note", "-o", "json")
    report = json.loads(out)
    assert (code, report["findings"], report["below"]) == (0, [], 3)
    assert "3 less severe" in run("a.yaml", "--severity", "error")[1]


def test_labels_of_pods_in_a_cluster(run: Run) -> None:
    out = run("--demo", "-l", "app=payments", "-o", "json")[1]
    assert {f["object"] for f in json.loads(out)["findings"]} == {"Deployment shop/payments"}


@pytest.mark.parametrize("folder", [".", "legacy"])
def test_settings_begin_at_their_folder(run: Run, tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".kschedctl.yaml").write_text(
        'lint: {exclude: [legacy/vendor], per-path-ignores: {"legacy/*": ["pdb-*", ts-missing]}}'
    )
    monkeypatch.chdir(tmp_path / folder)
    report = json.loads(run(str(tmp_path / "legacy"), "-R", "-o", "json")[1])
    assert [(f["object"], f["rule"]) for f in report["findings"]] == [(OLD, "lb-deprecated")]
    silenced = [(s["finding"]["rule"], s["reason"], s["inSettings"]) for s in report["suppressed"]]
    assert sorted(silenced) == [(rule, "settings: legacy/*", True) for rule in ("pdb-missing", "ts-missing")]


def test_unknown_rules_in_ignore_are_errors(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".kschedctl.yaml").write_text("lint: {per-path-ignores: {legacy: [nope]}}")
    code, _, err = run("a.yaml")
    assert (code, err.count("\n")) == (2, 1)
    assert 'no rule is named "nope"' in err


def test_most_severe_finding_comes_first(run: Run) -> None:
    report = json.loads(run(".", "-o", "json")[1])
    found = [f["severity"] for f in report["findings"]]
    assert found == sorted(found, key=["error", "warning", "note"].index)
    headings = [line for line in run(".")[1].splitlines() if line.endswith(".yaml")]
    assert headings == ["z.yaml", "a.yaml"]


def test_counts_by_rule_end_the_page(run: Run) -> None:
    page = run(".", "-R")[1]
    lines = [line.split() for line in page[page.index("By rule") :].splitlines()[2:-1]]
    counted = [words[:3] for words in lines if words[0].isdigit()]
    assert counted == [
        ["1", "error", "pc-system-prefix"],
        ["3", "warning", "lb-deprecated"],
        ["3", "note", "pdb-missing"],
        ["3", "note", "ts-missing"],
    ]
    assert "By rule" not in run("a.yaml")[1]


def test_fixes_are_shown_on_request(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "FIX" not in run("z.yaml")[1]
    assert "FIX" in run("z.yaml", "--show-fixes")[1]
    monkeypatch.setenv("COLUMNS", "45")  # the fix stands beneath the problem
    assert "→ " in run("z.yaml", "--show-fixes")[1]


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("/r/x.yaml", "*.yaml", True),
        ("/r/a/b/x.yaml", "x.yaml", True),
        ("/r/a/b/x.yaml", "b", True),
        ("/r/a/b/x.yaml", "a/*.yaml", True),
        ("/r/a/b/x.yaml", "b/x.yaml", False),
        ("/r/a/b/x.yaml", "**/b/x.yaml", True),
        ("/r/b/x.yaml", "**/b/x.yaml", True),
        ("/r/ab/x.yaml", "b", False),
        ("/other/b/x.yaml", "b/", True),
    ],
)
def test_patterns_of_paths(path: str, pattern: str, matches: bool) -> None:
    assert matches_path(path, pattern, "/r") is matches
