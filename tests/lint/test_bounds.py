"""Check that similar findings are merged with a count, except errors and selected ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main

Lint = Callable[..., list[dict[str, Any]]]
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: one, image: a}
      - {name: two, image: b}
"""


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lint:
    """Return a function that lints a folder with some files and returns the findings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def lint(files: dict[str, str], *options: str) -> list[dict[str, Any]]:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        main(["lint", ".", "-o", "json", *options])
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
        return found

    return lint


VARIANTS = {"a.yaml": WEB, "b.yaml": WEB, "c.yaml": WEB}


def test_findings_in_variants_are_reported_once(lint: Lint) -> None:
    (found,) = lint(VARIANTS)
    assert (found["file"], found["line"], found["alsoIn"]) == ("a.yaml", 10, ["b.yaml", "c.yaml"])
    assert found["message"] == (
        "container one requests no cpu and no memory (and 1 more in this object) (also in b.yaml and 1 more)"
    )


@pytest.mark.parametrize("options", [("--profile", "all"), ("--select", "rq-missing")], ids=" ".join)
def test_selected_rules_report_all_findings(lint: Lint, options: tuple[str, ...]) -> None:
    found = lint(VARIANTS, *options)
    assert [(f["file"], f["line"]) for f in found] == [(file, line) for file in VARIANTS for line in (10, 11)]
    assert {len(f["alsoIn"]) for f in found} == {0}


def test_different_findings_are_reported(lint: Lint) -> None:
    other = WEB.replace("{name: one, image: a}", "{name: one, image: a, resources: {requests: {cpu: 1}}}")
    assert [f["file"] for f in lint({"a.yaml": WEB, "b.yaml": other})] == ["a.yaml", "b.yaml"]
    assert [f["file"] for f in lint({"b.yaml": WEB.replace("namespace: shop", "namespace: lab")})] == [
        "a.yaml",
        "b.yaml",
    ]


def test_errors_are_reported_in_each_file(lint: Lint) -> None:
    wrong = WEB.replace("      containers:", "      nodeSelectr: {a: b}\n      containers:")
    found = lint({"a.yaml": wrong, "b.yaml": wrong}, "--severity", "error")
    assert [(f["file"], f["rule"]) for f in found] == [
        ("a.yaml", "api-unknown-field"),
        ("b.yaml", "api-unknown-field"),
    ]
