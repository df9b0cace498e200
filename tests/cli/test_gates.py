"""Check ``-o sarif``, ``junit`` and ``github`` of answers about placement, and the thresholds for a failing CI job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from command_line import Run

SCHEMAS = Path(__file__).parent.parent / "golden"
NODE = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}
SMALL = """\
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: shop}
spec: {containers: [{name: c, image: web, resources: {requests: {cpu: "1"}}}]}
---
"""
LARGE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: large, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec: {containers: [{name: c, image: web, resources: {requests: {cpu: "64"}}}]}
"""
ASKED = (
    ("simulate", "-f", "new.yaml"),
    ("explain", "-f", "new.yaml"),
    ("explain", "-A"),
    ("drain", "general-a1"),
    ("failures", "--nodes"),
    ("whatif", '{"steps": [{"drain": {"nodes": ["general-a1"]}}]}'),
)


@pytest.fixture(autouse=True)
def new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a manifest that fits and one, from line 6 on, that does not."""
    monkeypatch.chdir(tmp_path)
    Path("new.yaml").write_text(SMALL + LARGE)


def list_results(run: Run, *asked: str) -> list[dict[str, Any]]:
    """Return the results in the SARIF output of a command."""
    (result,) = json.loads(run(*asked, "-o", "sarif").out)["runs"]
    results: list[dict[str, Any]] = result["results"]
    return results


@pytest.mark.parametrize("asked", ASKED, ids=" ".join)
def test_forms_follow_their_schemas_and_agree(asked: tuple[str, ...], run: Run) -> None:
    sarif = json.loads(run(*asked, "--demo", "-o", "sarif").out)
    jsonschema.validate(sarif, json.loads((SCHEMAS / "sarif-2.1.0.schema.json").read_text()))
    junit = run(*asked, "--demo", "-o", "junit").out
    xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd")).validate(junit)
    results = sarif["runs"][0]["results"]
    assert results
    assert len(ElementTree.fromstring(junit).findall(".//testcase")) == len(results)
    assert len(run(*asked, "--demo", "-o", "github").out.splitlines()) == len(results)


@pytest.mark.parametrize(("command", "cause"), [("simulate", "Insufficient cpu"), ("explain", "needs 64 CPUs")])
def test_finding_is_located_at_its_manifest(command: str, cause: str, run: Run) -> None:
    outcome = run(command, "-f", "new.yaml", "--demo", "-o", "github")
    assert outcome.code == 1
    (line,) = outcome.out.splitlines()
    assert line.startswith("::error file=new.yaml,line=5,col=1,title=not-scheduled::Deployment shop/large: ")
    assert cause in line


def test_no_findings_if_all_pods_fit(run: Run) -> None:
    Path("new.yaml").write_text(SMALL)
    outcome = run("simulate", "-f", "new.yaml", "--demo", "-o", "github")
    assert (outcome.code, outcome.out) == (0, "")
    (case,) = ElementTree.fromstring(run("simulate", "-f", "new.yaml", "--demo", "-o", "junit").out).iter("testcase")
    assert case.get("name") == "nothing found"


def test_uncertainty_is_reported(run: Run) -> None:
    Path("cluster.json").write_text(json.dumps(NODE))
    outcome = run("simulate", "-f", "cluster.json", "-f", "new.yaml", "-o", "github")
    assert "::warning title=undecided::" in outcome.out


def test_blocked_drain_is_a_finding(run: Run, write: Any) -> None:
    other = {**NODE, "metadata": {"name": "n2"}}
    owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}]
    meta = {"namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owner}
    pod = {"kind": "Pod", "metadata": {"name": "web", **meta}, "spec": {"nodeName": "n1", "containers": []}}
    alone = {**pod, "metadata": {"name": "alone", "namespace": "shop"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }
    pods = [{**each, "status": {"phase": "Running"}} for each in (pod, alone)]
    file = write(NODE, other, *pods, budget)
    rules = {each["ruleId"]: each["message"]["text"] for each in list_results(run, "drain", "n1", "-f", file)}
    assert rules.keys() == {"eviction-blocked", "lost"}
    assert "shop/web" in rules["eviction-blocked"]


@pytest.mark.parametrize(("most", "code"), [("2", 1), ("3", 0)])
def test_threshold_of_pending_pods(most: str, code: int, run: Run) -> None:
    """Three pods fit nowhere."""
    assert run("simulate", "-f", "new.yaml", "--demo", "--max-new-pending", most).code == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--max-new-pending", "1"), 0),
        (("--max-new-pending", "1", "--max-evictions", "1"), 0),
        (("--max-new-pending", "1", "--max-evictions", "0"), 1),
        (("--max-new-pending", "1", "--fail-on", "warning"), 1),
        (("--max-new-pending", "1", "--fail-on", "warning", "--max-evictions", "1"), 0),
        (("--fail-on", "never", "--max-evictions", "0"), 0),
    ],
)
def test_threshold_of_evicted_pods(options: tuple[str, ...], code: int, run: Run, write: Any) -> None:
    """The new pod preempts a pod of lower priority that fills the only node. The victim then has no node."""
    low = {"kind": "Pod", "metadata": {"name": "low", "namespace": "shop"}, "status": {"phase": "Running"}}
    requests = {"resources": {"requests": {"cpu": "2"}}}
    low["spec"] = {"nodeName": "n1", "priority": 0, "containers": [{"name": "c", **requests}]}
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
    file = write(NODE, low, high)
    Path("new.yaml").write_text(SMALL.replace("spec: {", "spec: {priorityClassName: high, "))
    assert run("simulate", "-f", file, "-f", "new.yaml", *options).code == code


def test_answers_without_placements_have_no_findings(run: Run) -> None:
    assert run("capacity", "-f", "new.yaml", "--demo", "-o", "sarif").code == 2
