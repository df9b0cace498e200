"""Check that harmless settings are not reported, and that reported ones can be corrected."""

from __future__ import annotations

from typing import Any

import yaml

from kschedctl.api.objects import PriorityClass
from kschedctl.cluster import Cluster
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.sources.documents.documents import Content
from kschedctl.sources.documents.positions import parse_objects

TEMPLATE = """\
apiVersion: apps/v1
kind: KIND
metadata: {name: agent, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      SPEC
      containers: [{name: agent, image: agent, resources: {requests: {cpu: 1m, memory: 1Mi}}}]
"""
NODE = {"kind": "Node", "metadata": {"name": "n", "labels": {"pool": "web"}}}
TAINTED = {**NODE, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}


def find_advice(kind: str, spec: str, namespace: str = "shop", nodes: tuple[Any, ...] = ()) -> dict[str, str]:
    """Return the advice about a workload by rule."""
    text = TEMPLATE.replace("KIND", kind).replace("SPEC", spec).replace("NAMESPACE", namespace)
    cluster = Cluster.from_objects(nodes) if nodes else None
    manifests = ((m.value, m) for m in parse_objects("m.yaml", Content("m.yaml", text, is_json=False)))
    return {finding.rule: finding.fix for finding in lint(LintContext.from_manifests(manifests, cluster)).findings}


def test_daemon_set_without_nodes_is_not_reported() -> None:
    assert "na-no-node-matches" in find_advice("Deployment", "nodeSelector: {pool: gpu}", nodes=(NODE,))
    assert "na-no-node-matches" not in find_advice("DaemonSet", "nodeSelector: {pool: gpu}", nodes=(NODE,))
    assert "tt-all-eligible-cordoned" in find_advice("Deployment", "nodeSelector: {pool: web}", nodes=(TAINTED,))
    assert "tt-all-eligible-cordoned" not in find_advice("DaemonSet", "nodeSelector: {pool: web}", nodes=(TAINTED,))


def test_system_classes_are_allowed_for_node_agents_and_distributions() -> None:
    spec = "priorityClassName: system-node-critical"
    assert "pc-system-critical-in-user-ns" in find_advice("Deployment", spec)
    assert "pc-system-critical-in-user-ns" not in find_advice("DaemonSet", spec)
    assert "pc-system-critical-in-user-ns" not in find_advice("Deployment", spec, "openshift-ingress")


def test_recommended_toleration_is_valid() -> None:
    spec = "tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists EFFECT}]"
    open_ended = find_advice("Deployment", spec.replace("EFFECT", ""))["tt-noexecute-forever"]
    assert open_ended.startswith("Set effect: NoExecute and tolerationSeconds")
    limited = find_advice("Deployment", spec.replace("EFFECT", ", effect: NoExecute"))["tt-noexecute-forever"]
    assert limited.startswith("Set tolerationSeconds")


def test_numbers_are_read_as_in_json() -> None:
    text = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1e+06, description: b}"
    assert yaml.safe_load(text)["value"] == "1e+06"
    manifests = parse_objects("m.yaml", Content("m.yaml", text, is_json=False))
    lint_context = LintContext.from_manifests(((m.value, m) for m in manifests), None)
    assert [item.value.value for item in lint_context.list_linted_objects(PriorityClass)] == [1_000_000]
    assert lint(lint_context).findings == ()


def find_invalid(text: str) -> list[str]:
    """Return the problems of a manifest that cannot be decoded."""
    manifests = parse_objects("m.yaml", Content("m.yaml", text, is_json=False))
    found = lint(LintContext.from_manifests(((m.value, m) for m in manifests), None)).findings
    return [f"{f.line}: {f.message}" for f in found if f.rule in ("doc-invalid", "api-refused")]


def test_type_error_names_the_field() -> None:
    """The fields are in the pod template, beside it, and in objects that create no pods."""
    named = "metadata: {name: a}"
    web = f"apiVersion: apps/v1\nkind: Deployment\n{named}\n"
    found = find_invalid(f"{web}spec: {{template: {{spec: {{nodeSelector: {{gpu: true}}}}}}}}\n")
    assert "4: spec.template.spec.nodeSelector.gpu: expected a string, got a boolean" in found
    found = find_invalid(f"{web}spec: {{selector: {{matchLabels: {{app: 1}}}}, template: {{}}}}\n")
    assert "4: spec.selector.matchLabels.app: expected a string, got an integer" in found
    assert find_invalid(f"{web}spec: []\n") == ["4: spec: expected a mapping, got a list"]
    assert find_invalid(f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\n{named}\nvalue: 1.5\n") == [
        "4: value: expected an integer, got a float"
    ]
    claim = f"apiVersion: v1\nkind: PersistentVolumeClaim\n{named}\n"
    (said,) = find_invalid(
        f"{claim}spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1 GB}}}}}}\n"
    )
    assert said.startswith("4: spec.resources.requests.storage: 1 GB: quantities must match")
