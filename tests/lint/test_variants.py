"""Check that rules about several objects compare objects within one variant of a repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kschedctl.cli.main import main

Found = Callable[..., list[tuple[str, str]]]

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
"""
BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %s, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
"""
DEFAULT = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: %s}
value: %d
globalDefault: true
"""


@pytest.fixture
def find_rules(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Found:
    """Return a function that lints a folder with some files and returns file and rule of each finding."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def find_rules(files: dict[str, str], rules: str, *options: str) -> list[tuple[str, str]]:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        main(["lint", ".", "-R", "--select", rules, "-o", "json", *options])
        return sorted((f["file"], f["rule"]) for f in json.loads(capsys.readouterr().out)["findings"])

    return find_rules


OVERLAYS = {
    "base/web.yaml": DEPLOYMENT % "web",
    "overlays/dev/budget.yaml": BUDGET % "web",
    "overlays/prod/budget.yaml": BUDGET % "web",
}


def test_budgets_of_two_overlays_do_not_overlap(find_rules: Found) -> None:
    assert find_rules(OVERLAYS, "pdb-overlap,pdb-missing,pdb-selects-nothing") == []


def test_budgets_of_one_overlay_overlap(find_rules: Found) -> None:
    files = OVERLAYS | {"overlays/prod/second.yaml": BUDGET % "second"}
    assert find_rules(files, "pdb-overlap") == [("base/web.yaml", "pdb-overlap")]


def test_file_beside_two_variants_belongs_to_both(find_rules: Found) -> None:
    """Each of two renders in a folder has its own budget. The third file also selects the pods of both."""
    files = {
        "default.yaml": f"{DEPLOYMENT % 'web'}---\n{BUDGET % 'web'}",
        "ha.yaml": f"{DEPLOYMENT % 'web'}---\n{BUDGET % 'web'}",
    }
    assert find_rules(files, "pdb-overlap") == []
    assert find_rules({"more.yaml": BUDGET % "more"}, "pdb-overlap") == [
        ("default.yaml", "pdb-overlap"),
        ("ha.yaml", "pdb-overlap"),
    ]


def test_whole_folders_are_alternatives(find_rules: Found) -> None:
    """One object in both folders makes all objects in dev and all objects in prod alternatives."""
    files = {
        "dev/a/web.yaml": DEPLOYMENT % "web",
        "dev/b/class.yaml": DEFAULT % ("low", 1),
        "prod/a/web.yaml": DEPLOYMENT % "web",
        "prod/c/class.yaml": DEFAULT % ("high", 9),
    }
    assert find_rules(files, "pc-multiple-global-default") == []
    assert find_rules({"prod/class.yaml": DEFAULT % ("higher", 99)}, "pc-multiple-global-default") == [
        ("prod/c/class.yaml", "pc-multiple-global-default"),
        ("prod/class.yaml", "pc-multiple-global-default"),
    ]


def test_consecutive_renders_in_a_file(find_rules: Found) -> None:
    """Helm writes budgets before Deployments.

    The second budget belongs to the second render, whose Deployment repeats.
    """
    render = "---\n# Source: web/templates/budget.yaml\n%s---\n# Source: web/templates/web.yaml\n%s"
    text = "".join(render % (BUDGET % name, DEPLOYMENT % "web") for name in ("one", "two"))
    assert find_rules({"all.yaml": text}, "pdb-overlap") == []
    assert find_rules({"all.yaml": text.replace("# Source", "# From")}, "pdb-overlap") == [("all.yaml", "pdb-overlap")]


def test_repeated_namespaces_do_not_make_variants(find_rules: Found) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n"
    files = {"a/web.yaml": namespace + DEPLOYMENT % "web", "b/one.yaml": namespace + BUDGET % "one"}
    assert find_rules(files | {"b/two.yaml": BUDGET % "two"}, "pdb-overlap") == [("a/web.yaml", "pdb-overlap")]


def test_settings_define_variants(find_rules: Found) -> None:
    """No object occurs twice, but dev and prod are two clusters."""
    files = {
        "web.yaml": DEPLOYMENT % "web",
        "dev/budget.yaml": BUDGET % "of-dev",
        "prod/budget.yaml": BUDGET % "of-prod",
    }
    assert find_rules(files, "pdb-overlap") == [("web.yaml", "pdb-overlap")]
    settings = "lint: {together: [[web.yaml, dev], [web.yaml, prod]]}\n"
    assert find_rules({".kschedctl.yaml": settings}, "pdb-overlap") == []


def test_autoscaler_of_another_variant_scales_nothing(find_rules: Found) -> None:
    scaler = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {minReplicas: 2, maxReplicas: 9, scaleTargetRef: {kind: Deployment, name: web}}
"""
    budget = BUDGET.replace("maxUnavailable: 1", "minAvailable: 2") % "web"
    whole = {f"{name}/web.yaml": f"{DEPLOYMENT % 'web'}---\n{budget}" for name in ("dev", "prod")}
    assert find_rules(whole | {"dev/scaler.yaml": scaler}, "pdb-over-hpa-min") == [("dev/web.yaml", "pdb-over-hpa-min")]
