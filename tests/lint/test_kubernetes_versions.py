"""Check findings about API fields and versions that the linted version of Kubernetes does not have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kschedctl.api.kinds import KINDS, LIFECYCLES
from kschedctl.api.validation.unknown_fields import get_fields_by_type
from kschedctl.cli.main import main
from kschedctl.cluster import Cluster
from kschedctl.lint.catalogue import RULES, read_example
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.scheduler.configuration.version_fields import FIELDS
from kschedctl.scheduler.framework.feature_gates import ALL_GATE_STAGES, FeatureGates

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  resources: {requests: {cpu: 1}}
  containers: [{name: c, image: c}]
"""
SELECTED = ("--select", "api-needs-version", "-o", "json")
Run = Callable[..., list[dict[str, Any]]]


class Nowhere:
    """A location for manifests that were not read from a file."""

    file = ""
    source = build = ""

    def find_file(self, path: tuple[str | int, ...]) -> str:
        return ""

    def locate(self, path: tuple[str | int, ...]) -> tuple[int, int]:
        return 0, 0


def find_messages(
    version: str, document: Mapping[str, Any], gates: dict[str, bool] | None = None
) -> dict[str, list[str]]:
    """Return the messages about a document by rule."""
    lint_context = LintContext.from_manifests([(document, Nowhere())], None, FeatureGates(version, gates))
    report = lint(lint_context, [rule for rule in RULES if rule.id.startswith("api-")])
    return {rule.id: [f.message for f in report.findings if f.rule == rule.id] for rule in report.rules}


def make_object(api_version: str, kind: str) -> dict[str, Any]:
    """Return an object of an API version and kind."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("version", "api_version", "kind", "rule", "says"),
    [
        (
            "1.30",
            "policy/v1beta1",
            "PodDisruptionBudget",
            "api-version-removed",
            "was removed in 1.25: write policy/v1",
        ),
        ("1.36", "extensions/v1beta1", "Deployment", "api-version-removed", "was removed in 1.16: write apps/v1"),
        ("1.31", "resource.k8s.io/v1alpha2", "ResourceClaim", "api-version-removed", "was removed in 1.31"),
        ("1.36", "scheduling.k8s.io/v1alpha1", "Workload", "api-version-removed", "was removed in 1.36"),
        ("1.35", "resource.k8s.io/v1beta1", "DeviceClass", "api-version-deprecated", "since 1.35 and removed in 1.38"),
        (
            "1.33",
            "resource.k8s.io/v1",
            "ResourceSlice",
            "api-needs-version",
            "resource.k8s.io/v1 needs Kubernetes 1.34",
        ),
        (
            "1.33",
            "resource.k8s.io/v1beta1",
            "ResourceClaim",
            "api-needs-version",
            "from 1.34 on, ResourceClaim is served as resource.k8s.io/v1",
        ),
        ("1.34", "resource.k8s.io/v1beta2", "ResourceClaim", "api-needs-version", "is off by default in 1.34"),
        (
            "1.35",
            "scheduling.k8s.io/v1alpha2",
            "PodGroup",
            "api-needs-version",
            "needs Kubernetes 1.36, where it is off",
        ),
    ],
)
def test_api_versions(version: str, api_version: str, kind: str, rule: str, says: str) -> None:
    told = {
        name: messages
        for name, messages in find_messages(version, make_object(api_version, kind)).items()
        if name != "api-refused"
    }
    assert list(told) == [rule]
    assert says in told[rule][0]


@pytest.mark.parametrize(
    ("version", "api_version", "kind"),
    [
        ("1.30", "policy/v1", "PodDisruptionBudget"),
        ("1.34", "resource.k8s.io/v1", "ResourceClaim"),
        ("1.36", "scheduling.k8s.io/v1alpha2", "PodGroup"),  # who has such objects has switched them on
        ("1.36", "policy.example.com/v1beta1", "PodDisruptionBudget"),
    ],
)
def test_served_api_versions(version: str, api_version: str, kind: str) -> None:
    assert find_messages(version, make_object(api_version, kind)) == {}


def test_enabled_api_version() -> None:
    claim, gate = make_object("resource.k8s.io/v1beta2", "ResourceClaim"), {"DynamicResourceAllocation": True}
    assert list(find_messages("1.33", claim)) == ["api-needs-version"]
    assert find_messages("1.33", claim, gate) == {}


def test_replacement_api_versions_exist() -> None:
    newest = {version for kind in KINDS.values() for version in kind.versions} | {"autoscaling/v2", "batch/v1"}
    newest |= {version.name for version in LIFECYCLES.values() if version.removed is None or version.removed > 36}
    assert {each.replacement for each in LIFECYCLES.values()} <= newest | {"", "kubescheduler.config.k8s.io/v1"}


@pytest.mark.parametrize(
    ("version", "gates", "spec", "says"),
    [
        ("1.33", {}, {"resources": {"requests": {}}}, ["resources needs Kubernetes 1.34, or the feature gate Pod"]),
        ("1.33", {"PodLevelResources": True}, {"resources": {"requests": {}}}, []),
        ("1.34", {}, {"resources": {"requests": {}}}, []),
        ("1.34", {"PodLevelResources": False}, {"resources": {"requests": {}}}, ["off"]),
        ("1.35", {}, {"schedulingGroup": {"podGroupName": "g"}}, ["needs Kubernetes 1.36 and the feature gate Gen"]),
        ("1.36", {}, {"schedulingGroup": {"podGroupName": "g"}}, []),  # only a gate could tell
        ("1.33", {}, {"resourceClaims": [{"name": "a", "resourceClaimName": "a"}]}, ["Claims needs Kubernetes 1.34"]),
        ("1.34", {}, {"resourceClaims": [{"name": "a", "source": {}}, {"name": "b", "source": {"x": 1}}]}, ["[1]"]),
        ("1.30", {}, {"resources": None, "resourceClaims": [], "hostUsers": None}, []),
        ("1.32", {"NodeInclusionPolicyInPodTopologySpread": False}, {"topologySpreadConstraints": [
            {"maxSkew": 1, "nodeTaintsPolicy": "Honor"}]}, ["nodeTaintsPolicy needs the feature gate Node"]),
    ],
)  # fmt: skip
def test_fields_of_pods(version: str, gates: dict[str, bool], spec: dict[str, Any], says: list[str]) -> None:
    messages = find_messages(version, {**make_object("v1", "Pod"), "spec": spec}, gates).get("api-needs-version", [])
    assert len(messages) == len(says)
    assert all(part in message for part, message in zip(says, messages, strict=True))


def test_fields_of_a_claim_template() -> None:
    devices = {"requests": [{"name": "a", "exactly": {"deviceClassName": "c", "tolerations": [{"key": "k"}]}}]}
    template = {**make_object("resource.k8s.io/v1", "ResourceClaimTemplate"), "spec": {"spec": {"devices": devices}}}
    (message,) = find_messages("1.35", template)["api-needs-version"]
    assert message.endswith("exactly.tolerations needs Kubernetes 1.36, or the feature gate DRADeviceTaints")
    assert find_messages("1.36", template) == {}


def test_field_paths_exist_in_pods() -> None:
    """A misspelled path would never match."""
    gone = {"spec.workloadRef", "spec.resourceClaims[].source"}
    for field in FIELDS["Pod"]:
        kind = "Pod"
        for step in () if field.path in gone else field.path.replace("[]", "").split("."):
            kind = get_fields_by_type()[kind][step]


def test_feature_gates_of_fields_are_known() -> None:
    assert {field.gate for fields in FIELDS.values() for field in fields} <= ALL_GATE_STAGES.keys()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Return a function that runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "pod.yaml").write_text(POD)

    def run(*arguments: str) -> list[dict[str, Any]]:
        main(("lint", "pod.yaml", *SELECTED, *arguments))
        findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
        return findings

    return run


def test_requested_version(run: Run, tmp_path: Path) -> None:
    assert run() == []
    (told,) = run("--kube-version", "1.33")
    assert (told["line"], told["path"], told["file"]) == (5, "spec.resources", "pod.yaml")
    assert "needs Kubernetes 1.34" in told["message"]
    assert run("--kube-version", "1.33", "--feature-gates", "PodLevelResources=true") == []
    (tmp_path / "node.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a1}\n")
    assert len(run("node.yaml", "--kube-version", "1.33")) == 1


def test_version_of_the_settings(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".kschedctl.yaml").write_text('lint: {kube-version: "1.33"}')
    assert len(run()) == 1
    assert len(run("--demo")) == 1
    assert run("--kube-version", "1.36") == []


def test_version_of_the_cluster(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The version of a snapshot takes precedence over the settings."""
    main(("snapshot", "save", "-o", "old.zip", "--demo", "--kube-version", "1.33"))
    capsys.readouterr()
    (tmp_path / ".kschedctl.yaml").write_text('lint: {kube-version: "1.35"}')
    assert len(run("--snapshot", "old.zip")) == 1
    assert run("--snapshot", "old.zip", "--kube-version", "1.34") == []


def test_invalid_version_of_the_settings(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / ".kschedctl.yaml").write_text('lint: {kube-version: "1.99"}')
    assert main(("lint", "pod.yaml")) == 2
    assert ".kschedctl.yaml, lint.kube-version" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rule", "version", "off", "says"),
    [
        (
            "af-rollout-deadlock",
            "1.30",
            None,
            "(matchLabelKeys needs Kubernetes 1.31, or the feature gate MatchLabelKeysInPodAf",
        ),
        ("af-rollout-deadlock", "1.31", None, ""),
        ("ts-mlk-missing", "1.30", None, ""),
        ("ts-mlk-missing", "1.36", "MatchLabelKeysInPodTopologySpread", "(matchLabelKeys needs the feature gate"),
        ("ts-tainted-domains", "1.32", "NodeInclusionPolicyInPodTopologySpread", "(nodeTaintsPolicy needs the feature"),
    ],
)
def test_advice_names_the_required_version(rule: str, version: str, off: str | None, says: str) -> None:
    (advising,) = (each for each in RULES if each.id == rule)
    gates = {off: False, "MatchLabelKeysInPodTopologySpreadSelectorMerge": False} if off and version == "1.36" else {}
    gates |= {off: False} if off else {}
    bad, nodes = ([o for o in yaml.safe_load_all(read_example(rule)[part]) if o] for part in ("bad", "cluster"))
    cluster = Cluster.from_objects([*bad, *nodes], feature_gates=gates, kube_version=version)
    (told, *_) = lint(LintContext.from_manifests([(bad[0], Nowhere())], cluster), [advising]).findings
    assert told.fix.startswith(advising.fix)
    assert told.fix.removeprefix(advising.fix).strip().startswith(says)
    assert bool(says) == (told.fix != advising.fix)


def test_removed_api_version_beside_nodes_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Manifests with nodes count as a cluster, which cannot contain an object of such a version."""
    file = tmp_path / "all.yaml"
    node = {**make_object("v1", "Node"), "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
    file.write_text(yaml.safe_dump_all([node, make_object("policy/v1beta1", "PodDisruptionBudget")]))
    assert main(["lint", str(file), "--select", "api-version-removed", "-o", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["rule"], finding["line"]) == ("api-version-removed", 10)  # after 8 of the node and ---
