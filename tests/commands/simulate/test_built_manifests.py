"""Check that commands that apply manifests replay what ``--kustomize`` and ``--helm`` build."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from pathlib import Path

import pytest
from command_line import Run, Write, build_node

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web, resources: {requests: {cpu: "1"}}}]}
"""
OVERLAY = "resources: [../base]\nnamePrefix: prod-\nreplicas: [{name: web, count: 6}]\n"
RENDERED = "---\n# Source: shop/templates/web.yaml\n" + WEB
WITH_KUSTOMIZE = pytest.mark.skipif(
    not (shutil.which("kustomize") or shutil.which("kubectl")), reason="no kustomize, no kubectl"
)


@pytest.fixture(autouse=True)
def _overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "base/web.yaml": WEB,
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "prod/kustomization.yaml": OVERLAY,
        "chart/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
        "chart/templates/web.yaml": "kind: {{ .Values.kind }}\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


@WITH_KUSTOMIZE
@pytest.mark.parametrize("folder", ["prod", "prod/kustomization.yaml"])
def test_overlay_is_simulated_as_built(folder: str, run: Run, write: Write) -> None:
    """Six pods of one CPU each meet a node of 4 CPUs.

    The finding is located in the file that defines the Deployment.
    """
    outcome = run("simulate", "-f", write(build_node("n1")), "-f", folder, "--kustomize", "-o", "json")
    report = json.loads(outcome.out)
    assert (outcome.code, report["unplaced"]) == (1, 2)
    assert {name.rpartition("/")[2].startswith("prod-web") for name in report["placements"]} == {True}
    told = run("simulate", "-f", write(build_node("n1")), "-f", folder, "--kustomize", "-o", "github").out
    assert "file=base/web.yaml,line=1," in told


@WITH_KUSTOMIZE
def test_base_is_not_applied_twice(run: Run) -> None:
    """Of all folders, only the built one counts."""
    shutil.rmtree("chart")
    report = json.loads(run("simulate", "--demo", "-f", ".", "-R", "--kustomize", "-o", "json").out)
    assert len(report["placements"]) + report["unplaced"] == 6
    assert run("capacity", "--demo", "-f", "prod", "--kustomize").out.startswith("Deployment default/prod-web: ")
    explained = run("explain", "--demo", "-f", "prod", "--kustomize").out
    assert explained.startswith("Only 3 of the 6 pods of Deployment default/prod-web get a node")


def test_chart_is_simulated_as_rendered_by_helm(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "helm"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nprint({RENDERED!r})\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent))
    outcome = run("simulate", "--demo", "-f", "chart", "--helm")
    assert outcome.code == 0
    assert outcome.out.startswith(
        "All scheduled: 1 of 1 pod gets a node. 10 pending pods were left out of the simulation, but 1 of them"
    )


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["prod"], "error: prod: contains no Kubernetes objects (build it with --kustomize)"),
        (["chart"], "error: chart: contains no Kubernetes objects (build it with --helm)"),
        (
            ["base"],
            "base/kustomization.yaml: not built, so its files are read as they are; --kustomize",
        ),
    ],
)
def test_skipped_files_are_named(files: list[str], told: str, run: Run) -> None:
    assert told in run("simulate", "--demo", *(part for name in files for part in ("-f", name))).err


@WITH_KUSTOMIZE
def test_error_of_kustomize_is_shown(run: Run) -> None:
    Path("prod/kustomization.yaml").write_text("resources: [nowhere.yaml]\n")
    outcome = run("simulate", "--demo", "-f", "prod", "--kustomize")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "nowhere.yaml" in outcome.err
