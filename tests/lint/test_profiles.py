"""Check which rules each profile has, and which findings are reported once per namespace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main

Lint = Callable[..., list[dict[str, Any]]]
STRICT = {
    "pc-pdb-not-guarantee",
    "pdb-unhealthy-policy",
    "rq-ephemeral-missing",
    "ts-zone-soft-only",
}
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: NAME, namespace: NAMESPACE}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: NAME}}}
---
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: NAMESPACE, labels: {app: NAME}}
spec:
  priorityClassName: system-cluster-critical
  containers: [{name: c, image: c, resources: {requests: {cpu: 1, memory: 1Gi}}}]
---
"""


def rename_object(text: str, name: str, namespace: str) -> str:
    """Return a manifest with another name and namespace."""
    return text.replace("NAMESPACE", namespace).replace("NAME", name)


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lint:
    """Return a function that lints two pods with budgets in shop and one in lab, and returns the findings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    where = [("a", "shop"), ("b", "shop"), ("c", "lab")]
    (tmp_path / "m.yaml").write_text("".join(rename_object(POD + BUDGET, *each) for each in where))

    def run(*arguments: str) -> list[dict[str, Any]]:
        assert main(("lint", "m.yaml", "-o", "json", *arguments)) in (0, 1)
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
        return found

    return run


def list_messages(rule: str, found: list[dict[str, Any]]) -> dict[str, str]:
    """Return the messages of a rule by object."""
    return {finding["object"]: finding["message"] for finding in found if finding["rule"] == rule}


def test_strict_rules_apply_on_request(lint: Lint, tmp_path: Path) -> None:
    assert list_messages("pdb-unhealthy-policy", lint()) == {}
    assert len(list_messages("pdb-unhealthy-policy", lint("--profile", "strict"))) == 2
    assert len(list_messages("pdb-unhealthy-policy", lint("--profile", "all"))) == 3
    (tmp_path / ".kschedctl.yaml").write_text("lint: {profile: strict}")
    assert len(list_messages("pdb-unhealthy-policy", lint())) == 2
    assert list_messages("pdb-unhealthy-policy", lint("--profile", "default")) == {}


def test_findings_about_most_objects_are_reported_once_per_namespace(lint: Lint) -> None:
    said = "with system-cluster-critical in namespace {}, its pods can preempt all others"
    few = list_messages("pc-system-critical-in-user-ns", lint())
    assert few == {
        "Pod shop/a": said.format("shop") + " (and 1 similar finding in namespace shop)",
        "Pod lab/c": said.format("lab"),
    }
    every = list_messages("pc-system-critical-in-user-ns", lint("--profile", "all"))
    shop = said.format("shop")
    assert every == {"Pod shop/a": shop, "Pod shop/b": shop, "Pod lab/c": said.format("lab")}


def test_selected_rules_report_every_object(lint: Lint, tmp_path: Path) -> None:
    assert len(lint("--select", "pdb-unhealthy-policy")) == 3
    (tmp_path / ".kschedctl.yaml").write_text("lint: {select: [pdb-unhealthy-policy]}")
    assert {finding["rule"] for finding in lint()} == {"pdb-unhealthy-policy"}
    assert {finding["rule"] for finding in lint("--profile", "default")} >= {"pc-system-critical-in-user-ns"}
    (tmp_path / ".kschedctl.yaml").write_text("lint: {severity: {pdb-unhealthy-policy: warning}}")
    assert len(list_messages("pdb-unhealthy-policy", lint())) == 2
    (tmp_path / ".kschedctl.yaml").write_text("lint: {ignore: [pdb-unhealthy-policy]}")
    assert list_messages("pdb-unhealthy-policy", lint("--profile", "all")) == {}


def test_baseline_has_findings_reported_once_per_namespace(lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("lint", "m.yaml", "--write-baseline", "known.json")) == 0
    capsys.readouterr()
    assert list_messages("pc-system-critical-in-user-ns", lint("--baseline", "known.json")) == {}
    with Path("m.yaml").open("a") as file:
        file.write(rename_object(POD, "a0", "shop"))
    assert set(list_messages("pc-system-critical-in-user-ns", lint("--baseline", "known.json"))) == {"Pod shop/a0"}


def test_list_of_rules_marks_strict_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("lint", "rules", "-o", "json")) == 0
    rules = [rule for family in json.loads(capsys.readouterr().out)["families"] for rule in family["rules"]]
    besides = {"pc-duplicate-value", "pc-no-description", "pc-no-quota", "rq-missing-in-jobs"}
    assert {rule["id"] for rule in rules if rule["profile"] == "strict"} == STRICT | besides
    assert {rule["id"] for rule in rules if rule["once"]} == STRICT | {
        "pc-not-set",
        "pc-system-critical-in-user-ns",
        "pdb-missing",
        "rq-missing-in-jobs",
        "ts-missing",
    }
    assert {rule["severity"] for rule in rules if rule["once"]} == {"note"}
    assert main(("lint", "explain", "pdb-unhealthy-policy")) == 0
    assert "Runs only with --profile strict or --select" in capsys.readouterr().out


def test_unknown_profile_is_an_error(lint: Lint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".kschedctl.yaml").write_text("lint: {profile: loud}")
    assert main(("lint", "m.yaml")) == 2
    assert "lint.profile" in capsys.readouterr().err
