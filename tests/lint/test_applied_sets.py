"""Check that rules about several objects compare only manifests that are applied together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kschedctl.cli.main import main

Found = Callable[..., list[tuple[str, str]]]
Files = dict[str, str]

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
"""
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %s, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
"""


def make_application(path: str, **source: Any) -> str:
    """Return an Argo CD Application for a path."""
    spec = {"source": {"path": path, **source}, "destination": {"name": "prod"}}
    return json.dumps({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {}, "spec": spec})


def make_application_set(path: str, generator: dict[str, Any]) -> str:
    """Return an Argo CD ApplicationSet for a path."""
    spec = {"generators": [generator], "template": {"spec": {"source": {"path": path}}}}
    return json.dumps({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {}, "spec": spec})


def make_flux_kustomization(path: str) -> str:
    """Return a Flux Kustomization for a path."""
    api = "kustomize.toolkit.fluxcd.io/v1"
    return json.dumps({"apiVersion": api, "kind": "Kustomization", "metadata": {"name": "a"}, "spec": {"path": path}})


def make_git_repository(*paths: str) -> str:
    """Return a Flux GitRepository."""
    api = "fleet.cattle.io/v1alpha1"
    return json.dumps({"apiVersion": api, "kind": "GitRepo", "metadata": {"name": "a"}, "spec": {"paths": paths}})


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that lints a repository with some files and returns the report."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def lint(files: Files, rules: str = "pdb-overlap") -> Any:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        main(["lint", ".", "-R", "--select", rules, "-o", "json"])
        return json.loads(capsys.readouterr().out)

    return lint


@pytest.fixture
def find_rules(lint: Callable[..., Any]) -> Found:
    """Return the file and rule of each finding."""
    return lambda *asked: sorted((f["file"], f["rule"]) for f in lint(*asked)["findings"])


TWO: Files = {"one/web.yaml": WEB, "one/budget.yaml": BUDGET % "one", "two/budget.yaml": BUDGET % "two"}
"""Two of the budgets would select the pods of one Deployment."""
OVERLAP = [("one/web.yaml", "pdb-overlap")]

APART: dict[str, Files] = {
    "kustomizations": {f"{name}/kustomization.yaml": "resources: [budget.yaml]\n" for name in ("one", "two")}
    | {"one/kustomization.yaml": "resources: [budget.yaml, web.yaml]\n"},
    "Applications": {"apps/one.json": make_application("one"), "apps/two.json": make_application("two")},
    "an ApplicationSet of folders": {
        "all.json": make_application_set("{{path}}", {"git": {"directories": [{"path": "*"}]}})
    },
    "a matrix of generators": {
        "all.json": make_application_set(
            "{{ .path.path }}", {"matrix": {"generators": [{"git": {"directories": [{"path": "o*"}, {"path": "t*"}]}}]}}
        )
    },
    "Flux": {
        "clusters/prod/one.json": make_flux_kustomization("./one"),
        "clusters/prod/two.json": make_flux_kustomization("./two"),
    },
    "a GitRepo of Fleet": {"repo.json": make_git_repository("one", "/two")},
    "bundles of Fleet": {"one/fleet.yaml": "namespace: a\n", "two/fleet.yaml": "namespace: b\n"},
}


@pytest.mark.parametrize("name", APART)
def test_manifests_applied_separately_are_not_compared(name: str, find_rules: Found) -> None:
    assert find_rules(TWO) == OVERLAP
    assert find_rules(APART[name]) == []


TOGETHER: dict[str, Files] = {
    "a kustomization": {"kustomization.yaml": "resources: [one/web.yaml, one/budget.yaml, two/budget.yaml]\n"},
    "kustomizations of one": {
        "one/kustomization.yaml": "resources: [web.yaml, budget.yaml]\n",
        "two/kustomization.yaml": "resources: [budget.yaml, ../one]\n",
    },
    "an Application of two sources": {
        "all.json": json.dumps(
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}
            | {"spec": {"sources": [{"path": "one"}, {"path": "two"}]}}
        )
    },
    "an Application of folders in a folder": {"all.json": make_application("infra", directory={"recurse": True})}
    | {f"infra/{name}": text for name, text in TWO.items()},
    "Flux": {
        "clusters/prod.json": make_flux_kustomization("./infra"),
        **{f"infra/{name}": text for name, text in TWO.items()},
    },
    "a helmfile": {"helmfile.yaml": "releases:\n- name: a\n  chart: ./one\n- chart: './two' # {{ x }}\n  name: b\n"},
}


@pytest.mark.parametrize("name", TOGETHER)
def test_manifests_applied_together_are_compared(name: str, find_rules: Found) -> None:
    infra = {"infra/one/web.yaml": "infra"}
    files = TOGETHER[name] if infra.keys() & TOGETHER[name].keys() else TWO | TOGETHER[name]
    apart = {"three/budget.yaml": BUDGET % "three", "three/kustomization.yaml": "resources: [budget.yaml]\n"}
    (overlap,) = find_rules(files | apart)
    assert overlap[1] == "pdb-overlap"


def test_plain_folders_without_a_namespace_are_not_compared(find_rules: Found) -> None:
    """Each folder may be applied to another namespace. Files in folders above and below belong to it."""
    files = {name: text.replace(", namespace: shop", "") for name, text in TWO.items()}
    assert find_rules(files) == []
    assert find_rules({"one/more/budget.yaml": files["two/budget.yaml"]}) == OVERLAP


def test_application_covers_only_its_folder(find_rules: Found) -> None:
    files = {f"infra/{name}": text for name, text in TWO.items()} | {
        "infra/web.yaml": WEB.replace("name: web}", "name: w}")
    }
    files["infra/budget.yaml"] = BUDGET % "top"
    assert [file for file, _ in find_rules(files)] == ["infra/one/web.yaml", "infra/web.yaml"]
    assert [file for file, _ in find_rules({"all.json": make_application("infra")})] == ["infra/one/web.yaml"]


def test_overlays_of_one_base_are_not_compared(find_rules: Found) -> None:
    """No object occurs twice in them, so only the kustomizations show that they are alternatives."""
    overlay = "resources: [../base, budget.yaml]\n"
    files = {"base/web.yaml": WEB, "base/kustomization.yaml": "resources: [web.yaml]\n"}
    for name in ("dev", "prod"):
        files |= {f"{name}/kustomization.yaml": overlay, f"{name}/budget.yaml": BUDGET % name}
    assert find_rules(files) == []
    more = {
        "prod/more.yaml": BUDGET % "more",
        "prod/kustomization.yaml": overlay.replace("budget", "more.yaml, budget"),
    }
    assert find_rules(more) == [("base/web.yaml", "pdb-overlap")]


def test_overlays_of_a_bundle(find_rules: Found) -> None:
    files = {"b/fleet.yaml": "namespace: a\n", "b/web.yaml": WEB}
    files |= {f"b/overlays/{name}/budget.yaml": BUDGET % name for name in ("dev", "prod")}
    assert find_rules(files) == []
    assert find_rules({"b/budget.yaml": BUDGET % "both"}) == [("b/web.yaml", "pdb-overlap")]


@pytest.mark.parametrize(
    "folder", ["test", "tests", "e2e", "fixtures", "examples", "hack", "testdata", ".chainsaw-test"]
)
def test_each_folder_of_tests_and_examples_is_separate(folder: str, find_rules: Found) -> None:
    files = {f"{folder}/{name}": text for name, text in TWO.items()}
    assert find_rules(files) == []
    assert find_rules({f"{folder}/one/more.yaml": BUDGET % "more"}) == [(f"{folder}/one/web.yaml", "pdb-overlap")]


def test_folders_above_the_repository_are_ignored(
    find_rules: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "test" / "repository"
    (inner / ".git").mkdir(parents=True)
    files = {f"test/repository/{name}": text for name, text in TWO.items()}
    assert find_rules(files) == [("test/repository/one/web.yaml", "pdb-overlap")]


def test_steps_of_a_test_are_separate(find_rules: Found) -> None:
    """Each file is applied and deleted separately."""
    files = {f"policies/{name.replace('/', '-')}": text for name, text in TWO.items()}
    assert find_rules(files) == [("policies/one-web.yaml", "pdb-overlap")]
    script = "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: a}\nspec: {steps: []}\n"
    assert find_rules({"policies/chainsaw-test.yaml": script}) == []


EXPECTING = """\
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: a}
spec: {steps: [{try: [{apply: {file: pod.yaml}}, {assert: {file: after*.yaml}}, {error: {file: "../gone.yaml"}}]}]}
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: ''}]}\n"


def test_expected_objects_of_tests_are_not_linted(lint: Callable[..., Any]) -> None:
    names = (
        "c/pod.yaml",
        "c/after-1.yaml",
        "gone.yaml",
        "c/x-assert.yaml",
        "tests/k/00-assert.yaml",
        "tests/k/00-a.yaml",
    )
    report = lint({"c/chainsaw-test.yaml": EXPECTING, "x-assert.yaml": POD, **dict.fromkeys(names, POD)}, "api-refused")
    assert {f["file"] for f in report["findings"]} == {"c/pod.yaml", "x-assert.yaml", "tests/k/00-a.yaml"}
    (passed_over,) = report["passedOver"]
    assert set(passed_over["where"]) == {"c/after-1.yaml", "gone.yaml", "c/x-assert.yaml", "tests/k/00-assert.yaml"}


def test_partial_objects_in_tests_are_not_linted(lint: Callable[..., Any]) -> None:
    part = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {a: b}}\nspec: {hostNetwork: true}\n"
    report = lint({"tests/part.yaml": part, "part.yaml": part}, "api-refused")
    assert {f["file"] for f in report["findings"]} == {"part.yaml"}
    assert [(each["what"], each["where"]) for each in report["passedOver"]] == [
        ("expected results and partial objects in tests", ["tests/part.yaml"])
    ]


def test_objects_of_another_set_are_not_missing(find_rules: Found) -> None:
    """Both sets may be applied to one cluster, so an object of the other set may exist."""
    files = {
        "one/web.yaml": WEB.replace("app: web", "app: other"),
        "one/budget.yaml": BUDGET % "one",
        "two/web.yaml": WEB,
    }
    builds = {
        "one/kustomization.yaml": "resources: [web.yaml, budget.yaml]\n",
        "two/kustomization.yaml": "resources: [web.yaml]\n",
    }
    assert find_rules(files | builds, "pdb-selects-nothing") == []
    assert find_rules({"two/web.yaml": WEB.replace("app: web", "app: third")}, "pdb-selects-nothing") == [
        ("one/budget.yaml", "pdb-selects-nothing")
    ]


CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 9\n"


def test_rules_compare_objects_only_within_a_set(find_rules: Found) -> None:
    """The classes of an example do not restrict what other manifests may name."""
    pod = WEB.replace("{containers", "{priorityClassName: hihg, containers")
    files = {"examples/class.yaml": CLASS, "web.yaml": pod}
    assert find_rules(files, "pc-missing") == []
    assert find_rules({"class.yaml": CLASS}, "pc-missing") == [("web.yaml", "pc-missing")]


def test_autoscaler_of_another_set_scales_nothing(find_rules: Found) -> None:
    scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\n"
    scaler += "spec: {minReplicas: 2, maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: web}}\n"
    files = {"web.yaml": WEB, "budget.yaml": BUDGET.replace("maxUnavailable: 1", "minAvailable: 2") % "one"}
    assert find_rules(files | {"examples/scaler.yaml": scaler}, "pdb-over-hpa-min") == []
    assert find_rules({"scaler.yaml": scaler}, "pdb-over-hpa-min") == [("budget.yaml", "pdb-over-hpa-min")]
