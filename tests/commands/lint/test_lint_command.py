"""Check exit codes, suppression, settings and output forms of ``kschedctl lint``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kschedctl.cli.main import main
from kschedctl.lint.catalogue import INVALID

Run = Callable[..., tuple[int, str, str]]

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector:
        beta.kubernetes.io/os: linux
      containers: [{name: web, image: web, resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""
NODE = """\
kind: Node
metadata: {name: a1, labels: {kubernetes.io/os: linux}}
status: {allocatable: {cpu: 4, memory: 16Gi, pods: 110}}
"""
FOUND = ["ts-missing", "lb-deprecated", "pdb-missing"]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs a command in a folder with ``web.yaml``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "web.yaml").write_text(MANIFEST)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def parse_rules(out: str) -> list[str]:
    """Return the rules in the JSON output."""
    return sorted(finding["rule"] for finding in json.loads(out)["findings"])


@pytest.mark.parametrize("how", [("web.yaml",), ("-f", "web.yaml"), ("-f", "."), (".",)], ids=" ".join)
def test_manifests_are_found(run: Run, how: tuple[str, ...]) -> None:
    code, out, _ = run("lint", *how, "-o", "json")
    assert (code, parse_rules(out)) == (1, sorted(FOUND))
    assert {finding["file"] for finding in json.loads(out)["findings"]} == {"web.yaml"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--fail-on", "error"), 0),
        (("--fail-on", "note"), 1),
        (("--ignore", "lb-*"), 0),
        (("--ignore", "lb-*", "--fail-on", "note"), 1),
        (("--select", "rq-*", "--fail-on", "note"), 0),
    ],
)
def test_exit_codes(run: Run, options: tuple[str, ...], code: int) -> None:
    assert run("lint", "web.yaml", *options)[0] == code


def test_select_and_ignore(run: Run) -> None:
    assert parse_rules(run("lint", "web.yaml", "--select", "ts-*,lb-deprecated", "-o", "json")[1]) == [
        "lb-deprecated",
        "ts-missing",
    ]
    both = ("--select", "ts-*,lb-*", "--ignore", "ts-missing")
    assert parse_rules(run("lint", "web.yaml", *both, "-o", "json")[1]) == ["lb-deprecated"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("lint",), "nothing to lint"),
        (("lint", "none.yaml"), "none.yaml"),
        (("lint", "web.yaml", "--select", "nope"), 'no rule is named "nope"'),
        (("lint", "explain"), "needs exactly one rule"),
        (("lint", "explain", "nope"), 'no rule is named "nope"'),
        (("lint", "web.yaml", "--baseline", "web.yaml"), "web.yaml"),
        (("config", "check", "web.yaml"), "must contain exactly one KubeSchedulerConfiguration"),
        (("config", "chek", "web.yaml"), "config check FILE"),
    ],
)
def test_wrong_usage_is_one_line(run: Run, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_broken_yaml_names_file_and_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: Pod\nmetadata: {{ .Values.x }}: y\n")
    code, _, err = run("lint", "broken.yaml")
    assert code == 2
    assert "broken.yaml: document 1, line 2: " in err


def test_annotation_with_a_reason_suppresses_findings(run: Run, tmp_path: Path) -> None:
    ignoring = "  annotations: {kschedctl/ignore: 'ts-*,pdb-missing one is enough'}\n"
    (tmp_path / "web.yaml").write_text(MANIFEST.replace("  name: web\n", "  name: web\n" + ignoring, 1))
    out = run("lint", "web.yaml", "-o", "json")[1]
    assert parse_rules(out) == ["lb-deprecated"]
    assert {s["reason"] for s in json.loads(out)["suppressed"]} == {"one is enough"}


def test_annotation_without_a_reason_does_not(run: Run, tmp_path: Path) -> None:
    ignoring = "  annotations: {kschedctl/ignore: ts-missing}\n"
    (tmp_path / "web.yaml").write_text(MANIFEST.replace("  name: web\n", "  name: web\n" + ignoring, 1))
    assert parse_rules(run("lint", "web.yaml", "-o", "json")[1]) == sorted([*FOUND, "ignore-faulty"])


def test_baseline_covers_existing_findings(run: Run, tmp_path: Path) -> None:
    code, out, err = run("lint", "web.yaml", "--write-baseline", "known.json")
    assert (code, out) == (0, "")
    assert "3 findings" in err
    (tmp_path / "web.yaml").write_text("# a line more\n" + MANIFEST.replace("requests: {cpu: 1, memory: 1Gi}", ""))
    code, out, _ = run("lint", "web.yaml", "--baseline", "known.json", "-o", "json")
    assert (code, parse_rules(out), json.loads(out)["known"]) == (1, ["rq-missing"], 3)


@pytest.mark.parametrize("file", ["pyproject.toml", ".kschedctl.yaml"])
def test_settings_of_the_project(run: Run, tmp_path: Path, file: str) -> None:
    settings = {"lint": {"ignore": ["pdb-*"], "fail-on": "error", "severity": {"ts-missing": "error"}}}
    toml = '[tool.kschedctl.lint]\nignore = ["pdb-*"]\nfail-on = "error"\nseverity = {ts-missing = "error"}\n'
    (tmp_path / file).write_text(toml if file.endswith("toml") else yaml.safe_dump(settings))
    (tmp_path / "sub").mkdir()
    code, out, _ = run("lint", "web.yaml", "-o", "json")
    assert (code, parse_rules(out)) == (1, ["lb-deprecated", "ts-missing"])
    severities = {finding["rule"]: finding["severity"] for finding in json.loads(out)["findings"]}
    assert severities == {"ts-missing": "error", "lb-deprecated": "warning"}


@pytest.mark.parametrize("wrong", ["lint: {selekt: []}", "lint: {fail-on: never}", "lint: {ignore: nope}", "links: {}"])
def test_wrong_settings_name_the_field(run: Run, tmp_path: Path, wrong: str) -> None:
    (tmp_path / ".kschedctl.yaml").write_text(wrong)
    code, _, err = run("lint", "web.yaml")
    assert (code, err.count("\n")) == (2, 1)
    assert ".kschedctl.yaml" in err


def test_with_cluster(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "nodes.yaml").write_text(NODE)
    arguments = ("lint", "web.yaml", "--with-cluster", "cluster", "--select", "na-*", "-o", "json")
    code, out, _ = run(*arguments, "--assume-complete")
    assert (code, parse_rules(out)) == (1, ["na-no-node-matches"])
    code, out, _ = run(*arguments)  # a node is no list of all nodes
    assert (code, parse_rules(out)) == (0, [])
    assert [unknown["kind"] for unknown in json.loads(out)["unknown"]] == ["Node"]


def test_objects_outside_the_files_of_the_cluster_are_not_called_missing(run: Run, tmp_path: Path) -> None:
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [yaml.safe_load(NODE)]}
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    (tmp_path / "budgets.json").write_text(
        '{"apiVersion": "policy/v1", "kind": "PodDisruptionBudgetList", "items": []}'
    )
    arguments = ("lint", "web.yaml", "--select", "pdb-missing", "-o", "json", "--with-cluster", "nodes.json")
    code, out, _ = run(*arguments)
    assert (code, parse_rules(out)) == (0, [])
    assert [unknown["kind"] for unknown in json.loads(out)["unknown"]] == ["PodDisruptionBudget"]
    assert "pdb-missing" in parse_rules(run(*arguments, "--with-cluster", "budgets.json")[1])


def test_cluster_without_manifests(run: Run) -> None:
    code, out, _ = run("lint", "--demo", "-o", "json")
    assert code == 1
    assert "na-no-node-matches" in parse_rules(out)
    assert all(finding["file"] == "" for finding in json.loads(out)["findings"])


def test_lists_and_their_positions(run: Run, tmp_path: Path) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(MANIFEST)]}
    (tmp_path / "list.json").write_text(json.dumps(items, indent=1))
    (found,) = json.loads(run("lint", "list.json", "--select", "lb-deprecated", "-o", "json")[1])["findings"]
    assert "beta.kubernetes.io/os" in (tmp_path / "list.json").read_text().splitlines()[found["line"] - 1]


def test_pods_of_controllers_are_not_linted_beside_their_templates(run: Run, tmp_path: Path) -> None:
    owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "web-1", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c"}]},
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    assert run("lint", "pod.yaml", "--fail-on", "note")[0] == 0


@pytest.mark.parametrize(
    ("change", "line", "path"),
    [
        (("replicas: 2", 'replicas: "2"'), 6, "spec.replicas"),
        (("cpu: 1,", "cpu: one,"), 13, "spec.template.spec.containers[0].resources.requests.cpu"),
        (("{name: web, i", "{name: 7, i"), 13, "spec.template.spec.containers[0].name"),
    ],
)
def test_wrong_types_are_findings(run: Run, tmp_path: Path, change: tuple[str, str], line: int, path: str) -> None:
    (tmp_path / "web.yaml").write_text(MANIFEST.replace(*change))
    code, out, _ = run("lint", "web.yaml", "-o", "json")
    (found,) = json.loads(out)["findings"]
    assert (code, found["rule"], found["line"], found["path"]) == (1, "doc-invalid", line, path)


def test_custom_resources_of_the_same_kind_are_no_deployments(run: Run, tmp_path: Path) -> None:
    """Their pod template is linted, but their replicas are unknown."""
    (tmp_path / "web.yaml").write_text(MANIFEST.replace("apps/v1", "example.com/v1"))
    assert parse_rules(run("lint", "web.yaml", "-o", "json")[1]) == ["lb-deprecated"]


def test_rules_are_listed_and_explained(run: Run) -> None:
    code, out, _ = run("lint", "rules")
    assert code == 0
    assert "ts-tainted-domains" in out
    code, out, _ = run("lint", "explain", "ts-tainted-domains")
    assert code == 0
    assert "nodeTaintsPolicy: Honor" in out


ILL_TYPED = {
    "emptyDir": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c}]\n  volumes:\n"
        "  - name: v\n    emptyDir: 5\n",
        8,
        "spec.volumes[0].emptyDir",
    ),
    "autoscaler": (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: x\n",
        4,
        "spec",
    ),
    "target": (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec:\n"
        "  maxReplicas: 3\n  scaleTargetRef: [web]\n",
        6,
        "spec.scaleTargetRef",
    ),
    "quota": (
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: a}\nspec:\n  scopeSelector: {matchExpressions: [7]}\n",
        5,
        "spec.scopeSelector.matchExpressions[0]",
    ),
    "strategy": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  strategy: Recreate\n",
        5,
        "spec.strategy",
    ),
    "node pool": (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n"
        "  template: {spec: {taints: {a: b}}}\n",
        5,
        "spec.template.spec.taints",
    ),
}


@pytest.mark.parametrize("name", ILL_TYPED)
def test_field_of_the_wrong_type_is_a_finding(run: Run, tmp_path: Path, name: str) -> None:
    text, line, field = ILL_TYPED[name]
    (tmp_path / "m.yaml").write_text(text)
    code, out, err = run("lint", "m.yaml", "-o", "json")
    found = [(f["line"], f["path"]) for f in json.loads(out)["findings"] if f["rule"] == INVALID.id]
    assert (code, err, found) == (1, "", [(line, field)])


def test_kinds_of_other_projects_are_ignored(run: Run, tmp_path: Path) -> None:
    """HyperShift also has NodePools."""
    (tmp_path / "m.yaml").write_text(
        "apiVersion: hypershift.openshift.io/v1beta1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: x}\n"
    )
    assert run("lint", "m.yaml")[0] == 0


SETTINGS = {
    "no table": (".kschedctl.yaml", "just text", 2),
    "wrong type": (".kschedctl.yaml", "lint: {severity: {ts-missing: 5}}", 2),
    "aliases": (".kschedctl.yaml", "a: &a [*a]", 2),
    "deep": (".kschedctl.yaml", "lint: " + "[" * 500 + "]" * 500, 2),
    "not UTF-8": (".kschedctl.yaml", b"lint: {select: [\xe9]}", 2),
    "two documents": (".kschedctl.yaml", "lint: {}\n---\nlint: {}", 2),
    "not ours": ("pyproject.toml", b"[tool.other\n\xff", 0),
    "ours, broken": ("pyproject.toml", b"[tool.kschedctl.lint\n", 2),
    "ours, not UTF-8": ("pyproject.toml", b"[tool.kschedctl.lint]\nselect = ['\xff']", 2),
    "ours, deep": ("pyproject.toml", "[tool.kschedctl.lint]\nselect = " + "[" * 5000 + "]" * 5000, 2),
    "ours, no table": ("pyproject.toml", "tool = '[tool.kschedctl'", 0),
    "long integer": ("pyproject.toml", f"[tool.kschedctl.lint]\nselect = {'9' * 5000}", 2),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_invalid_settings_are_errors(run: Run, tmp_path: Path, name: str) -> None:
    file, content, expected = SETTINGS[name]
    (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "m.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    code, _, err = run("lint", "m.yaml")
    assert (code, err.count("\n")) == (expected, int(expected > 0))
    assert file in err or not expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "not a LintBaseline"),
        ("5", "not a LintBaseline"),
        ("", "not a LintBaseline"),
        ('{"kind": "LintBaseline", "findings": 5}', "findings: expected array, got int"),
        ('{"kind": "LintBaseline", "findings": [5]}', "findings[0]: expected object, got int"),
        ('{"kind": "LintBaseline", "findings": [{}]}', "findings[0]: object missing required field fingerprint"),
        ("{" * 5000, "b.json"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_invalid_baselines_are_errors(run: Run, tmp_path: Path, content: str | bytes, said: str) -> None:
    (tmp_path / "b.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, _, err = run("lint", "--demo", "--baseline", "b.json")
    assert (code, err.count("\n")) == (2, 1)
    assert said in err


@pytest.mark.parametrize("form", ["table", "json", "yaml", "sarif", "junit", "github", "markdown"])
def test_file_name_that_is_not_utf_8_is_escaped(run: Run, tmp_path: Path, form: str) -> None:
    (tmp_path / "x\udcff.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priority: x}\n")
    for arguments in (["."], ["x\udcff.yaml"]):
        code, out, err = run("lint", *arguments, "-o", form)
        assert (code, err) == (1, "")
        assert "xff.yaml" in out
