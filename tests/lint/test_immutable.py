"""Check immutable fields against the cluster's objects, its pods, and the files that describe it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kschedctl.api import objects as api
from kschedctl.api.labels import selector_from_api
from kschedctl.api.validation import updates
from kschedctl.cli.main import main

Json = dict[str, Any]
Told = Callable[[Json, list[Json]], list[str]]
NODE: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "9"}}}
POD: Json = {"containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}
TEMPLATE: Json = {"metadata": {"labels": {"app": "web"}}, "spec": POD}


def make_workload(kind: str, uid: str = "", *, labels: Json | None = None, **spec: Any) -> Json:
    """Return the manifest of a workload."""
    meta = {"name": "web", "namespace": "shop", **({"uid": uid} if uid else {})}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    given: Json = {"template": TEMPLATE, **spec}
    if kind != "Job":
        given["selector"] = {"matchLabels": labels or {"app": "web"}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": given}


@pytest.fixture
def list_errors(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Told:
    """Return a function that lints a manifest against a cluster of files and returns ``field: message`` texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def list_errors(manifest: Json, cluster: list[Json]) -> list[str]:
        (tmp_path / "m.yaml").write_text(yaml.safe_dump(manifest))
        (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster}))
        main(("lint", "m.yaml", "--with-cluster", "cluster.json", "--select", "api-immutable", "-o", "json"))
        findings = json.loads(capsys.readouterr().out)["findings"]
        return [f"{finding['path']}: {finding['message']}" for finding in findings]

    return list_errors


def make_pod_of(kind: str, labels: Json) -> Json:
    """Return a pod that a workload of a kind owns."""
    owners = [{"kind": kind, "name": "web", "controller": True, "apiVersion": "apps/v1"}]
    meta = {"name": "web-0", "namespace": "shop", "labels": labels, "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**POD, "nodeName": "n1"}}


SELECTOR = 'spec.selector: Invalid value: {"matchLabels":{"app":"web","tier":"front"}}: field is immutable'


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet", "ReplicaSet"])
@pytest.mark.parametrize("uid", ["", "1"], ids=["written", "printed"])
def test_selector_compared_with_the_files_of_the_cluster(list_errors: Told, kind: str, uid: str) -> None:
    new = make_workload(kind, labels={"app": "web", "tier": "front"})
    assert list_errors(new, [NODE, make_workload(kind, uid)]) == [f"spec.selector: {SELECTOR}"]
    assert list_errors(make_workload(kind, replicas=7), [NODE, make_workload(kind, uid)]) == []


def test_selector_that_existing_pods_do_not_match(list_errors: Told) -> None:
    """The pods were created by the existing workload, whatever its selector is.

    A workload of another namespace is different.
    """
    new = make_workload("DaemonSet", labels={"app": "web", "tier": "front"})
    assert list_errors(new, [NODE, make_pod_of("DaemonSet", {"app": "web"})]) == [f"spec.selector: {SELECTOR}"]
    assert list_errors(new, [NODE, make_pod_of("DaemonSet", {"app": "web", "tier": "front"})]) == []
    new["metadata"]["namespace"] = "lab"
    assert list_errors(new, [NODE, make_pod_of("DaemonSet", {"app": "web"})]) == []


STATEFUL_SET = {
    "serviceName": "db",
    "podManagementPolicy": "OrderedReady",
    "volumeClaimTemplates": [
        {
            "metadata": {"name": "data"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
        }
    ],
}
CLAIMS = [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}]
SAME = [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}]
FORBIDDEN = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', "


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"serviceName": "other"}, "spec.serviceName"),
        ({"podManagementPolicy": "Parallel"}, "spec.podManagementPolicy"),
        ({"volumeClaimTemplates": CLAIMS}, "spec.volumeClaimTemplates[0].spec.resources.requests.storage"),
        ({"volumeClaimTemplates": [*SAME, {"metadata": {"name": "wal"}}]}, "spec.volumeClaimTemplates[1]"),
        ({"volumeClaimTemplates": []}, "spec.volumeClaimTemplates"),
        ({"volumeClaimTemplates": SAME, "replicas": 9, "minReadySeconds": 3}, ""),
        ({"volumeClaimTemplates": SAME, "serviceName": "db"}, ""),
    ],
)
def test_stateful_set(list_errors: Told, change: Json, path: str) -> None:
    new = make_workload("StatefulSet", **{"volumeClaimTemplates": SAME, **change})
    found = list_errors(new, [NODE, make_workload("StatefulSet", "1", **STATEFUL_SET)])
    assert [each.partition("Forbidden")[0] for each in found] == ([f"{path}: spec: "] if path else [])
    assert all(FORBIDDEN in each for each in found)


def test_expanded_claims_are_claims_of_the_template(list_errors: Told) -> None:
    """A claim that is older than the StatefulSet proves nothing. A larger claim may have been expanded."""
    made = {"name": "web", "namespace": "shop", "uid": "1", "creationTimestamp": "2026-01-02T00:00:00Z"}
    stored = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": made}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    pod = make_pod_of("StatefulSet", {"app": "web"})
    pod["spec"] = {**pod["spec"], "volumes": [volume]}
    claim: Json = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim["metadata"] = {"name": "data-web-0", "namespace": "shop", "creationTimestamp": "2026-01-02T00:00:03Z"}
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}

    def asking(storage: str) -> Json:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
        return make_workload("StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}])

    assert list_errors(asking("5Gi"), [NODE, stored, pod, claim]) == []
    assert list_errors(asking("1Gi"), [NODE, stored, pod, claim]) == []
    (found,) = list_errors(asking("6Gi"), [NODE, stored, pod, claim])
    assert found.startswith("spec.volumeClaimTemplates[0]: " + FORBIDDEN)
    claim["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert list_errors(asking("6Gi"), [NODE, stored, pod, claim]) == []


def make_job(**change: Any) -> Json:
    """Return the manifest of a Job."""
    return make_workload("Job", **change)


IMAGE = {**TEMPLATE, "spec": {"containers": [{**POD["containers"][0], "image": "web:2"}], "restartPolicy": "Never"}}
DEFAULTED = {
    "metadata": {"labels": {"app": "web", "job-name": "web"}},
    "spec": {**POD, "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"},
}


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (make_job(), []),
        (make_job(parallelism=5), []),
        (
            make_job(template=IMAGE),
            ['spec.template.spec.containers[0].image: spec.template: Invalid value: "…": field is immutable'],
        ),
        (make_job(completions=3), ["spec.completions: spec.completions: Invalid value: 3: field is immutable"]),
        (
            make_job(completionMode="Indexed"),
            ['spec.completionMode: spec.completionMode: Invalid value: "Indexed": field is immutable'],
        ),
    ],
)
def test_job(list_errors: Told, new: Json, said: list[str]) -> None:
    stored = make_workload("Job", "1", template=DEFAULTED, completions=1, completionMode="NonIndexed")
    assert list_errors(new, [NODE, stored]) == said


def test_hooks_are_deleted_before_they_are_recreated(list_errors: Told) -> None:
    new = make_job(template=IMAGE)
    new["metadata"]["annotations"] = {"helm.sh/hook": "pre-upgrade"}
    assert list_errors(new, [NODE, make_workload("Job", "1", template=DEFAULTED)]) == []


def test_manifests_with_nodes_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Variants in two files beside a node are no changes of each other."""
    one: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "a"}, "value": 1}
    classes = [one, {**one, "value": 2}]
    for i, found in enumerate(([NODE, classes[0]], [classes[1]])):
        (tmp_path / f"{i}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
    main(("lint", str(tmp_path), "--select", "api-immutable", "-o", "json"))
    assert json.loads(capsys.readouterr().out)["findings"] == []


def list_texts(found: Any) -> list[str]:
    """Return the errors as texts."""
    return [f"{fault} @ {'.'.join(map(str, fault.field))}" for fault in found]


def test_classes() -> None:
    """Omitted fields have their defaults."""
    old = api.PriorityClass(value=1, preemption_policy="PreemptLowerPriority")
    assert list_texts(updates.validate_priority_class_update(api.PriorityClass(value=1), old)) == []
    assert list_texts(
        updates.validate_priority_class_update(api.PriorityClass(value=2, preemption_policy="Never"), old)
    ) == [
        "value: Forbidden: may not be changed in an update. @ value",
        'preemptionPolicy: Invalid value: "Never": field is immutable @ preemptionPolicy',
    ]
    late = api.StorageClass(provisioner="a", volume_binding_mode="WaitForFirstConsumer")
    assert list_texts(updates.validate_storage_class_update(late, late)) == []
    assert list_texts(updates.validate_storage_class_update(api.StorageClass(provisioner="b"), late)) == [
        'provisioner: Invalid value: "b": field is immutable @ provisioner',
        'volumeBindingMode: Invalid value: "Immediate": field is immutable @ volumeBindingMode',
    ]


def test_claim_may_omit_fields_set_by_the_cluster() -> None:
    spec = api.PersistentVolumeClaimSpec
    old = spec(("ReadWriteOnce",), storage_class_name="fast", volume_name="pv-1", volume_mode="Filesystem")
    assert list_texts(updates.validate_claim_update(spec(("ReadWriteOnce",)), old)) == []
    fields = [
        text.partition(" @ ")[2]
        for text in list_texts(updates.validate_claim_update(spec(("ReadWriteMany",), volume_name="x"), old))
    ]
    assert fields == ["spec.accessModes", "spec.volumeName"]


def test_order_of_a_selector_is_no_change() -> None:
    expressions = [api.SelectorRequirement(key, "Exists") for key in "ab"]
    old = selector_from_api(api.LabelSelector(match_expressions=tuple(expressions)))
    assert (
        list_texts(updates.validate_selector_update(api.LabelSelector(match_expressions=tuple(expressions[::-1])), old))
        == []
    )
    assert (
        list_texts(updates.validate_selector_update(api.LabelSelector(match_expressions=tuple(expressions[:1])), old))
        != []
    )
