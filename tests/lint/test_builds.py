"""Check that Kustomizations and charts are linted as built, and that findings name the source file."""

from __future__ import annotations

import json
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main

Lint = Callable[..., tuple[int, dict[str, Any], str]]

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: web}
"""
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}
"""
OVERLAY = """\
namePrefix: %s-
resources: [../../base, budget.yaml]
patches:
- {target: {kind: Deployment}, patch: '[{"op": "replace", "path": "/spec/replicas", "value": %d}]'}
"""
REPOSITORY = {
    "base/web.yaml": WEB,
    "base/kustomization.yaml": "resources: [web.yaml]\n",
    "overlays/prod/kustomization.yaml": OVERLAY % ("prod", 5),
    "overlays/prod/budget.yaml": BUDGET,
    "overlays/test/kustomization.yaml": OVERLAY % ("test", 3),
    "overlays/test/budget.yaml": BUDGET,
    "alone.yaml": WEB.replace(": web}", ": alone}"),
}
CHART = {
    "web/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
    "web/values.yaml": "replicas: 2\n",
    "web/templates/web.yaml": "{{- if true }}\nkind: Deployment\nspec:\n  replicas: {{ .Values.replicas }}\n"
    "  template:\n    spec:\n      containers:\n{{ end }}\n",
    "web/charts/part/Chart.yaml": "name: part\n",
    "web/ci/pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: ci}\nspec: {containers: [{name: c, image: c}]}\n",
}
RENDERED = "---\n# Source: shop/templates/web.yaml\n" + WEB
FAKE = f"""\
#!{sys.executable}
import json, os, sys
with open(os.environ["ASKED"], "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + chr(10))
"""


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lint:
    """Return a function that lints a folder with some files and returns exit code, report and stderr."""
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path / "repository")

    def lint(files: dict[str, str], *options: str) -> tuple[int, dict[str, Any], str]:
        for name, text in files.items():
            path = tmp_path / "repository" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        code = main(["lint", ".", "-R", "-o", "json", "--select", "rq-missing*,pdb-zero-*", *options])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else {}, err

    return lint


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], Callable[[], list[list[str]]]]:
    """Return a function that puts a program on an otherwise empty PATH and returns the file with its calls."""
    bin_, asked = tmp_path / "bin", tmp_path / "asked"
    bin_.mkdir()
    monkeypatch.setenv("PATH", str(bin_))
    monkeypatch.setenv("ASKED", str(asked))

    def install(name: str, code: str) -> Callable[[], list[list[str]]]:
        program = bin_ / name
        program.write_text(FAKE + code)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return lambda: [json.loads(line) for line in asked.read_text().splitlines()]

    return install


def list_findings(report: dict[str, Any]) -> set[tuple[str, str, int, str]]:
    """Return rule, file, line and object of each finding."""
    return {(f["rule"], f["file"], f["line"], f["object"]) for f in report["findings"]}


@pytest.mark.skipif(not (shutil.which("kustomize") or shutil.which("kubectl")), reason="no kustomize, no kubectl")
def test_overlays_are_linted_as_built_by_kustomize(lint: Lint) -> None:
    """minAvailable 3 is fine for 5 replicas but not for 3. The base is part of two builds, and is reported once."""
    _, report, _ = lint(REPOSITORY, "--kustomize")
    assert list_findings(report) == {
        ("rq-missing", "base/web.yaml", 11, "Deployment prod-web"),
        ("rq-missing", "alone.yaml", 11, "Deployment alone"),
        ("pdb-zero-disruptions", "overlays/test/budget.yaml", 4, "PodDisruptionBudget test-web"),
    }
    of_base = next(f for f in report["findings"] if f["file"] == "base/web.yaml")
    assert of_base["builds"] == ["overlays/prod", "overlays/test"]
    assert of_base["message"].endswith("(also in 1 other build)")


PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      nodeSelector:
        beta.kubernetes.io/os: linux
      containers:
      - {name: proxy, image: proxy}
      - {name: web, image: web:2}
"""
INLINE = """\
patches:
- target: {kind: Deployment, name: web}
  patch: |-
    - op: add
      path: /spec/template/spec/nodeSelector/beta.kubernetes.io~1arch
      value: amd64
    - op: add
      path: /spec/template/spec/tolerations
      value: [{key: a, operator: Exist}]
"""


@pytest.mark.skipif(not (shutil.which("kustomize") or shutil.which("kubectl")), reason="no kustomize, no kubectl")
def test_patched_fields_are_located_in_the_overlay(lint: Lint) -> None:
    """Each field is located in the file that set it: a patch, a patch in a kustomization, or the base."""
    base = WEB.replace("    spec:\n", "    spec:\n      schedulerName: defualt-scheduler\n")
    files = {
        "base/web.yaml": base,
        "base/kustomization.yaml": "resources: [web.yaml]\n",
        "mid/kustomization.yaml": "resources: [../base]\npatches: [{path: os.yaml}]\n",
        "mid/os.yaml": PATCH,
        "prod/kustomization.yaml": f"resources: [../mid]\nnamespace: shop\n{INLINE}",
    }
    _, report, _ = lint(files, "--kustomize", "--select", "lb-deprecated,sc-misspelt,rq-missing,api-refused")
    found = {(f["rule"], f["path"].rpartition(".")[2]): (f["file"], f["line"]) for f in report["findings"]}
    assert found == {
        ("lb-deprecated", "io/os]"): ("mid/os.yaml", 8),
        ("lb-deprecated", "io/arch]"): ("prod/kustomization.yaml", 7),
        ("api-refused", "operator"): ("prod/kustomization.yaml", 11),
        ("sc-misspelt", "schedulerName"): ("base/web.yaml", 10),
        ("rq-missing", "containers[0]"): ("mid/os.yaml", 9),
        ("rq-missing", "containers[1]"): ("base/web.yaml", 12),
    }


@pytest.mark.skipif(not (shutil.which("kustomize") or shutil.which("kubectl")), reason="no kustomize, no kubectl")
def test_kustomization_that_cannot_be_built_affects_no_other(lint: Lint) -> None:
    files = REPOSITORY | {"overlays/test/kustomization.yaml": "resources: [../../base, absent.yaml]\n"}
    code, report, _ = lint(files, "--kustomize")
    broken = next(f for f in report["findings"] if f["rule"] == "doc-unreadable")
    assert (code, broken["file"]) == (1, "overlays/test/kustomization.yaml")
    assert "absent.yaml" in broken["message"]
    assert ("rq-missing", "base/web.yaml", 11, "Deployment prod-web") in list_findings(report)


def test_generated_objects_are_located_at_the_kustomization(lint: Lint, install: Callable[..., Any]) -> None:
    """An older kustomize, or a generator, does not name the source file."""
    asked = install("kustomize", f"print({WEB!r})")
    _, report, _ = lint({"a/kustomization.yaml": "namePrefix: x-\n"}, "--kustomize")
    assert list_findings(report) == {("rq-missing", "a/kustomization.yaml", 1, "Deployment web")}
    assert [words[0] for words in asked()] == ["build"]


def test_components_and_bases_are_not_built_separately(lint: Lint, install: Callable[..., Any]) -> None:
    asked = install("kustomize", "print('{}')")
    files = REPOSITORY | {"parts/kustomization.yaml": "kind: Component\nresources: [part.yaml]\n"}
    lint(files, "--kustomize")
    assert len(asked()) == 2


def test_charts_are_linted_as_rendered_by_helm(lint: Lint, install: Callable[..., Any]) -> None:
    """A finding has the line of a field name that occurs once in the template."""
    asked = install("helm", f"print({RENDERED!r})")
    _, report, _ = lint(CHART, "--helm", "--kube-version", "1.34")
    assert list_findings(report) == {
        ("rq-missing", "web/templates/web.yaml", 7, "Deployment web"),
        ("rq-missing-in-jobs", "web/ci/pod.yaml", 4, "Pod ci"),
    }
    assert report["passedOver"] == []
    folder = str(Path.cwd() / "web")
    assert asked() == [["template", "--kube-version", "1.34", "web", folder, "--skip-tests"]]


def test_values_are_passed_to_helm(lint: Lint, install: Callable[..., Any]) -> None:
    asked = install("helm", f"print({RENDERED!r})")
    assert lint(CHART, "--helm", "--values", "web/values.yaml")[0] == 1
    assert asked()[0][1:3] == ["--values", "web/values.yaml"]
    code, _, said = lint(CHART, "--values", "web/values.yaml")
    assert (code, said) == (2, "error: --values needs --helm\n")


def test_chart_that_cannot_be_rendered_is_a_finding(lint: Lint, install: Callable[..., Any]) -> None:
    install("helm", "print('Error: values: host is required', file=sys.stderr); sys.exit(1)")
    _, report, _ = lint(CHART | {"web.yaml": WEB}, "--helm")
    broken = next(f for f in report["findings"] if f["rule"] == "doc-unreadable")
    assert (broken["file"], broken["message"]) == ("web/Chart.yaml", "helm template: values: host is required")
    assert ("rq-missing", "web.yaml", 11, "Deployment web") in list_findings(report)


@pytest.mark.parametrize(("option", "names"), [("--kustomize", "kustomize or kubectl"), ("--helm", "helm")])
def test_missing_program_is_an_error(lint: Lint, option: str, names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    code, _, said = lint(CHART, option)
    assert (code, said) == (2, f"error: {option} needs {names}, which is not on the PATH (install {names})\n")


def test_two_renders_are_not_compared(lint: Lint, install: Callable[..., Any]) -> None:
    """The budget of one build covers 1 replica of its own Deployment, not the replicas of both."""
    code = "print(open(os.path.join(sys.argv[2], 'rendered')).read())"
    install("helm", code.replace("sys.argv[2]", "next(a for a in sys.argv if os.path.isdir(a))"))
    chart = {"Chart.yaml": "name: shop\n", "rendered": f"{WEB}---\n{BUDGET}"}
    files = {f"{folder}/{name}": text for folder in ("a", "b") for name, text in chart.items()}
    _, report, _ = lint(files, "--helm", "--select", "pdb-overlap,pdb-zero-disruptions")
    assert {(rule, file) for rule, file, _, _ in list_findings(report) if rule != "rq-missing"} == {
        ("pdb-zero-disruptions", "a/Chart.yaml"),
        ("pdb-zero-disruptions", "b/Chart.yaml"),
    }
