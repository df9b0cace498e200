"""Check that ``lint --fix`` corrects one field at a time and keeps comments, layout and everything else."""

from __future__ import annotations

import gzip
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from kschedctl.cli.main import main

Run = Callable[..., tuple[int, str, str]]

BEFORE = """\
# the shop's front end
apiVersion: apps/v1
kind: Deployment
metadata:   {name: web,  labels: {app: web}}   # three blanks
spec:
  replicas: "3"  # a number in quotes
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector:

        # old nodes too
        'beta.kubernetes.io/os': linux
      containers:
      - {name: web, image: web, resources: {requests: {cpu: 1, memory: 1Gi}}}
---

# none of our business: {{ }}
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: "2"
  selector:
    matchLabels: {app: web}
"""
AFTER = (
    BEFORE.replace('"3"', "3")
    .replace("policy/v1beta1", "policy/v1")
    .replace('"2"', "2")
    .replace("'beta.kubernetes.io/os'", "'kubernetes.io/os'")
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(("lint", *arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def apply_fixes(run: Run, text: str, *options: str) -> str:
    """Return what a file contains after ``--fix``."""
    Path("m.yaml").write_bytes(text.encode())
    run("m.yaml", "--fix", *options)
    return Path("m.yaml").read_bytes().decode()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_the_fields_change(run: Run, end: str) -> None:
    """A field hidden by a value of the wrong type is corrected in the same run."""
    assert apply_fixes(run, BEFORE.replace("\n", end)) == AFTER.replace("\n", end)
    assert apply_fixes(run, AFTER) == AFTER


def test_byte_order_mark_stays(run: Run) -> None:
    assert apply_fixes(run, "\ufeff" + BEFORE) == "\ufeff" + AFTER


def test_remaining_findings_are_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(BEFORE.replace("matchLabels: {app: web}\n", "matchLabels: {app: other}\n"))
    code, out, _ = run("m.yaml", "--fix", "-o", "json")
    report = json.loads(out)
    assert {(f["rule"], f["line"]) for f in report["fixed"]} == {
        ("doc-invalid", 6),
        ("lb-deprecated", 14),
        ("api-version-removed", 20),
        ("api-refused", 24),
    }
    assert "lb-deprecated" not in {f["rule"] for f in report["findings"]}
    assert {"pdb-selects-nothing"} <= {f["rule"] for f in report["findings"]}
    assert code == 1


def test_diff_can_be_applied_and_changes_no_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(BEFORE)
    code, diff, _ = run("m.yaml", "--diff")
    assert (code, (tmp_path / "m.yaml").read_text()) == (1, BEFORE)
    subprocess.run(["git", "apply", "-"], input=diff, text=True, check=True)
    assert (tmp_path / "m.yaml").read_text() == AFTER
    (tmp_path / "m.yaml").write_text(BEFORE)
    (file,) = json.loads(run("m.yaml", "--diff", "-o", "json")[1])["files"]
    assert (file["file"], file["diff"], len(file["findings"])) == ("m.yaml", diff, 4)


def test_no_diff_without_corrections(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(AFTER)
    assert run("m.yaml", "--diff")[:2] == (0, "")


@pytest.mark.parametrize(
    "arguments", [("--demo", "--fix"), ("m.yaml", "--fix", "--diff"), ("m.yaml", "--diff", "-o", "sarif")], ids=" ".join
)
def test_contradictory_options_are_errors(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "m.yaml").write_text(BEFORE)
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (tmp_path / "m.yaml").read_text() == BEFORE


POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web}}}}
spec:
  containers: [{{name: c, image: c, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]
{}
"""
SPREAD = "  topologySpreadConstraints:\n"
SELECTOR = "labelSelector: {matchLabels: {app: web}}"
EDITS = {
    "topologyKey": (
        f'{SPREAD}  - maxSkew: 1\n    topologyKey: "topology.kubernetes.io/hostname" # a node\n'
        f"    whenUnsatisfiable: DoNotSchedule\n    {SELECTOR}",
        '"topology.kubernetes.io/hostname"',
        '"kubernetes.io/hostname"',
    ),
    "wrong case": (
        f"{SPREAD}  - maxSkew: 1\n    topologyKey: topology.kubernetes.io/zone\n"
        f"    whenUnsatisfiable: doNotSchedule\n    {SELECTOR}",
        "doNotSchedule",
        "DoNotSchedule",
    ),
    "flow": ("  nodeSelector: {a: b, beta.kubernetes.io/os: linux}", "beta.kubernetes.io/os", "kubernetes.io/os"),
    "minDomains on its line": (
        f"{SPREAD}  - maxSkew: 1\n    minDomains: 3\n    topologyKey: topology.kubernetes.io/zone\n"
        f"    whenUnsatisfiable: ScheduleAnyway\n    {SELECTOR}",
        "    minDomains: 3\n",
        "",
    ),
    "minDomains with a comment": (
        f"{SPREAD}  - maxSkew: 1\n    minDomains: 3  # see the wiki\n    topologyKey: topology.kubernetes.io/zone\n"
        f"    whenUnsatisfiable: ScheduleAnyway\n    {SELECTOR}",
        "    minDomains: 3  # see the wiki\n",
        "    # see the wiki\n",
    ),
    "minDomains behind the dash": (
        f"{SPREAD}  - minDomains: 3\n    maxSkew: 1\n    topologyKey: topology.kubernetes.io/zone\n"
        f"    whenUnsatisfiable: ScheduleAnyway\n    {SELECTOR}",
        "minDomains: 3\n    maxSkew",
        "maxSkew",
    ),
    "minDomains last in a flow": (
        f"{SPREAD}  - {{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, "
        f"{SELECTOR}, minDomains: 3}}",
        ", minDomains: 3}",
        "}",
    ),
    "misspelled": ("  nodeselector: {a: b}", "nodeselector", "nodeSelector"),
}


@pytest.mark.parametrize("name", EDITS)
def test_each_kind_of_edit(run: Run, name: str) -> None:
    fields, before, after = EDITS[name]
    text = POD.format(fields)
    assert text.count(before) == 1
    assert apply_fixes(run, text) == text.replace(before, after)


UNTOUCHED = {
    "shared by an anchor": "  nodeSelector: &n {beta.kubernetes.io/os: linux}\n  overhead: *n",
    "merged": "  x: &x {beta.kubernetes.io/os: linux}\n  nodeSelector: {<<: *x}",
    "there already": "  nodeSelector: {beta.kubernetes.io/os: linux, kubernetes.io/os: linux}",
    "tagged": f"{SPREAD}  - {{maxSkew: 1, topologyKey: !!str kubernetes.io/host, whenUnsatisfiable: DoNotSchedule, "
    f"{SELECTOR}}}",
    "two may be meant": f"{SPREAD}  - {{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, minDomains: 0, "
    f"whenUnsatisfiable: DoNotSchedule, {SELECTOR}}}",
    "what to tolerate is for people to decide": "  tolerations: [{operator: Exists}]",
}


@pytest.mark.parametrize("name", UNTOUCHED)
def test_findings_without_an_automatic_fix(run: Run, name: str) -> None:
    text = POD.format(UNTOUCHED[name])
    assert apply_fixes(run, text) == text
    assert run("m.yaml")[0] == 1


def test_empty_selector_has_another_meaning_in_the_next_version(run: Run) -> None:
    text = BEFORE.split("---\n")[1].replace('"2"', "2").replace("    matchLabels: {app: web}", "    {}")
    assert apply_fixes(run, text) == text


def test_ignored_finding_is_not_fixed(run: Run) -> None:
    text = POD.format("  nodeSelector: {beta.kubernetes.io/os: linux}")
    ignored = text.replace("labels:", 'annotations: {kschedctl/ignore: "lb-* old nodes"}, labels:')
    assert apply_fixes(run, ignored) == ignored
    assert apply_fixes(run, text, "--ignore", "lb-*") == text


def test_harmful_fix_is_not_made(run: Run, tmp_path: Path) -> None:
    """The nodes of this cluster have only the old label."""
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"beta.kubernetes.io/os": "linux"}}}
    node["status"] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [node]}
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    text = POD.format("  nodeSelector: {beta.kubernetes.io/os: linux}")
    assert apply_fixes(run, text, "--with-cluster", "nodes.json", "--assume-complete") == text
    assert apply_fixes(run, text) != text


def test_json_and_lists_keep_their_layout(run: Run, tmp_path: Path) -> None:
    pod = yaml.safe_load(POD.format("  nodeSelector: {beta.kubernetes.io/os: linux}"))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, pod]}, indent=3)
    (tmp_path / "m.json").write_text(text)
    run("m.json", "--fix")
    assert (tmp_path / "m.json").read_text() == text.replace('"beta.kubernetes.io/os"', '"kubernetes.io/os"')


def test_piped_and_compressed_input_is_not_written(run: Run, tmp_path: Path) -> None:
    packed = gzip.compress(POD.format("  nodeSelector: {beta.kubernetes.io/os: linux}").encode(), mtime=0)
    (tmp_path / "m.yaml.gz").write_bytes(packed)
    assert run("m.yaml.gz", "--fix")[0] == 1
    assert (tmp_path / "m.yaml.gz").read_bytes() == packed
