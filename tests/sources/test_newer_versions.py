"""Check that kinds in a newer API version affect at most themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kschedctl
from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.kinds import KINDS
from kschedctl.api.versions_read import is_unknown_newer_version
from kschedctl.cluster import FIELDS, OBSERVED
from kschedctl.sources.read import read_paths

NODE = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1"}}}
OF_1_37 = {
    "DeviceTaintRule v1": (
        "resource.k8s.io/v1",
        {"deviceSelector": {"driver": "d"}, "taint": {"key": "a", "effect": "NoSchedule"}},
    ),
    "PodGroup v1alpha3": (
        "scheduling.k8s.io/v1alpha3",
        {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}},
    ),
    "PodGroup v1beta1": (
        "scheduling.k8s.io/v1beta1",
        {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "parentCompositePodGroupName": "above",
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "disruptionMode": {"all": {}},
            "preemptionPolicy": "Never",
        },
    ),
    "CompositePodGroup v1alpha3": (
        "scheduling.k8s.io/v1alpha3",
        {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "parentCompositePodGroupName": "above",
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
            "disruptionMode": {"all": {}},
            "priorityClassName": "high",
            "priority": 9,
            "preemptionPolicy": "Never",
        },
    ),
}
"""Objects of 1.37 (staging/src/k8s.io/api, v1.37.0-beta.0): kind and version -> apiVersion, spec."""
TO_COME = {
    "DeviceTaintRule": ("resource.k8s.io/v2", {"taint": {"key": "a", "effect": "NoSchedule"}}),
    "PodGroup": ("scheduling.k8s.io/v1alpha4", {"schedulingPolicy": {"gang": {"minCount": 2}}}),
}


def build_newer_object(kind: str, version: str = "", **fields: Any) -> dict[str, Any]:
    """Build an existing object in version v99 of its group."""
    group, slash, _ = KINDS[kind].versions[0].rpartition("/")
    meta = {"name": "x", "namespace": "d", "uid": "1"}
    return {"kind": kind, "apiVersion": version or f"{group}{slash}v99", "metadata": meta, **fields}


def write_files(folder: Path, form: str, *objects: dict[str, Any]) -> list[str]:
    file = folder / f"objects.{form.partition(' ')[0]}"
    listed = {"kind": "List", "apiVersion": "v1", "items": list(objects)}
    texts = {
        "yaml": "\n---\n".join(map(json.dumps, objects)),
        "json list": json.dumps(listed),
        "json documents": "\n".join(map(json.dumps, objects)),
    }
    file.write_text(texts[form])
    return [str(file)]


@pytest.mark.parametrize("form", ["yaml", "json list", "json documents"])
@pytest.mark.parametrize("kind", sorted(each.name for each in KINDS.values() if not is_custom_api(each.versions[0])))
def test_kinds_in_a_future_version(kind: str, form: str, tmp_path: Path) -> None:
    cluster = kschedctl.Cluster.from_paths(
        write_files(tmp_path, form, build_newer_object(kind, madeUp={"by": "v99"}), NODE)
    )
    assert [node.metadata.name for node in cluster.nodes] == ["n1"]
    assert kind in OBSERVED or "madeUp is not known" in cluster.gaps[kind].why


@pytest.mark.parametrize("form", ["yaml", "json list", "json documents"])
@pytest.mark.parametrize("kind", TO_COME)
def test_future_version_with_known_fields_is_read(kind: str, form: str, tmp_path: Path) -> None:
    version, spec = TO_COME[kind]
    paths = write_files(tmp_path, form, build_newer_object(kind, version, spec=spec), NODE)
    cluster, warnings = kschedctl.Cluster.from_paths(paths), read_paths(paths).warnings
    assert [each.metadata.name for each in getattr(cluster, FIELDS[kind])] == ["x"]
    assert any(version in warning for warning in warnings)
    paths = write_files(tmp_path, form, build_newer_object(kind, version, spec={**spec, "shape": "round"}), NODE)
    other = kschedctl.Cluster.from_paths(paths)
    why = f"in apiVersion {version}, which is newer than this kschedctl, were left out (spec.shape is not known)"
    assert (list(getattr(other, FIELDS[kind])), other.gaps[kind].why) == ([], why)
    assert kschedctl.Cluster.from_paths(paths, assume_complete=True).gaps[kind].why == why


@pytest.mark.parametrize("named", OF_1_37)
def test_kinds_of_1_37_are_known(named: str, tmp_path: Path) -> None:
    kind, (version, spec) = named.split(maxsplit=1)[0], OF_1_37[named]
    paths = write_files(tmp_path, "yaml", build_newer_object(kind, version, spec=spec), NODE)
    cluster = kschedctl.Cluster.from_paths(paths, assume_complete=True)
    assert [each.metadata.name for each in getattr(cluster, FIELDS[kind])] == ["x"]
    assert (read_paths(paths).warnings, kind in cluster.gaps) == ((), False)


def test_other_kinds_of_1_37_are_ignored(tmp_path: Path) -> None:
    others = [
        {"kind": kind, "apiVersion": version, "metadata": {"name": "x", "namespace": "d"}, "spec": {}}
        for kind, version in (
            ("Workload", "scheduling.k8s.io/v1beta1"),
            ("Workload", "scheduling.k8s.io/v1alpha3"),
            ("CompositePodGroup", "scheduling.k8s.io/v1alpha3"),
            ("CompositePodGroup", "scheduling.k8s.io/v1alpha99"),
            ("EvictionRequest", "lifecycle.k8s.io/v1alpha1"),
        )
    ]
    cluster = kschedctl.Cluster.from_paths(write_files(tmp_path, "yaml", *others, NODE), assume_complete=True)
    assert (len(cluster.nodes), dict(cluster.gaps)) == (1, {})


@pytest.mark.parametrize(
    ("mode", "together"), [("PodGroup", True), ("Pod", False), ({"all": {}}, True), ({"single": {}}, False)]
)
def test_both_forms_of_the_disruption_mode_are_read(mode: Any, together: bool) -> None:
    group = build_newer_object("PodGroup", "scheduling.k8s.io/v1beta1", spec={"disruptionMode": mode})
    (only,) = kschedctl.Cluster.from_objects([group]).pod_groups
    assert only.spec.is_disrupted_together is together


def test_list_of_one_kind(tmp_path: Path) -> None:
    version, spec = TO_COME["PodGroup"]
    items = [{"metadata": {"name": f"g{i}", "namespace": "d"}, "spec": spec} for i in range(3)]
    items[1] = {**items[1], "spec": {"shape": "round"}}
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"kind": "PodGroupList", "apiVersion": version, "items": items}))
    cluster = kschedctl.Cluster.from_paths([file])
    assert [group.metadata.name for group in cluster.pod_groups] == ["g0", "g2"]
    assert "PodGroup" in cluster.gaps


@pytest.mark.parametrize("kind", TO_COME)
def test_library_documents_are_read_like_files(kind: str) -> None:
    version, spec = TO_COME[kind]
    cluster = kschedctl.Cluster.from_objects([build_newer_object(kind, version, spec=spec), NODE])
    assert [each.metadata.name for each in getattr(cluster, FIELDS[kind])] == ["x"]
    assert any(version in warning for warning in cluster.warnings)
    other = kschedctl.Cluster.from_objects([build_newer_object(kind, version, spec={**spec, "shape": "round"}), NODE])
    assert (len(getattr(other, FIELDS[kind])), len(other.nodes)) == (0, 1)
    assert other.gaps[kind].why.endswith("(spec.shape is not known)")


def test_library_documents_in_an_older_version() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1beta1",
        "metadata": {"name": "b", "namespace": "d"},
    }
    (read,) = kschedctl.Cluster.from_objects([budget]).pod_disruption_budgets
    assert (read.metadata.namespace, read.metadata.name) == ("d", "b")


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [
        ("PodGroup", "scheduling.k8s.io/v1", True),
        ("PodGroup", "scheduling.k8s.io/v1beta2", True),
        ("PodGroup", "scheduling.k8s.io/v1alpha4", True),
        ("PodGroup", "scheduling.k8s.io/v1beta1", False),
        ("PodGroup", "scheduling.k8s.io/v1alpha1", False),
        ("PodGroup", "scheduling.k8s.io/v1alpha2", False),
        ("PodGroup", "example.com/v9", False),
        ("DeviceTaintRule", "resource.k8s.io/v1", False),
        ("DeviceTaintRule", "resource.k8s.io/v1beta1", False),
        ("PodDisruptionBudget", "policy/v1beta1", False),
        ("PodDisruptionBudget", "policy/v2", True),
        ("Pod", "v2", True),
        ("Pod", "apps/v2", False),
    ],
)
def test_comparison_of_versions(kind: str, version: str, expected: bool) -> None:
    assert is_unknown_newer_version(kind, version) is expected


@pytest.mark.parametrize("form", ["yaml", "json list", "json documents", "list of pods"])
def test_unknown_fields_of_stored_pods_are_reported_once(form: str, tmp_path: Path) -> None:
    """Fields of the status are not reported, as those that scheduling reads are known."""
    spec = {"containers": [{"name": "c", "image": "i", "madeUp": 1}], "alsoMadeUp": {"by": "v99"}}
    pods = [build_newer_object("Pod", "v1", spec=spec, status={"madeUp": 1}) for _ in range(3)]
    for number, pod in enumerate(pods):
        pod["metadata"] = {**pod["metadata"], "name": f"x{number}"}
    if form == "list of pods":
        paths = [str(tmp_path / "pods.json")]
        Path(paths[0]).write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods}))
    else:
        paths = write_files(tmp_path, form, *pods)
    told = read_paths(paths).warnings
    assert [warning.partition(' unknown field "')[2].partition('"')[0] for warning in told] == [
        "spec.containers[0].madeUp",
        "spec.alsoMadeUp",
    ]
    assert len(kschedctl.Cluster.from_paths(paths).pods) == 3


@pytest.mark.parametrize("listed", ["PodList", "List"])
@pytest.mark.parametrize("owned", [True, False])
def test_unknown_field_in_one_of_many_pods(listed: str, owned: bool, tmp_path: Path) -> None:
    """The pod is the first of its template, or has none. Later pods of the template are not reported again."""
    pods = []
    for number in range(3000):
        spec = {"containers": [{"name": "c", "image": "i"}]}
        if number in (2345, 2346):
            spec["containers"][0]["ports"] = [{"containerPort": 1, "madeUp": 1}]  # type: ignore[assignment]
        owner = {"kind": "ReplicaSet", "name": f"r{number // 5}", "uid": f"u{number // 5}", "apiVersion": "apps/v1"}
        pod = build_newer_object("Pod", "v1", spec=spec)
        pod["metadata"] = {**pod["metadata"], "name": f"x{number}", "ownerReferences": [owner] if owned else []}
        pods.append(pod)
    file = tmp_path / "pods.json"
    file.write_text(json.dumps({"kind": listed, "apiVersion": "v1", "items": pods}))
    (told,) = read_paths([str(file)]).warnings
    assert 'unknown field "spec.containers[0].ports[0].madeUp"' in told
    assert "2,345" in told or "2345" in told
    assert len(kschedctl.Cluster.from_paths([file]).pods) == 3000
