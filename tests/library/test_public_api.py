"""Check the Python library as the README shows it: Cluster, explain, and the document."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import kschedctl
from kschedctl.sources.archive_file import write_archive

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
}


def build_pod(name, cpu, **spec):
    requests = {"resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [{"name": "main", "image": "web", **requests}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def test_pod_of_the_cluster_is_explained():
    cluster = kschedctl.Cluster.from_objects([NODE, build_pod("web", "3")])
    report = kschedctl.explain(cluster, "shop/web")
    assert report.verdict == "Unschedulable"
    assert report.to_dict()["firstFail"]["n1"]["reasons"] == ["Insufficient cpu"]


def test_manifest_is_explained():
    report = kschedctl.explain(kschedctl.Cluster.from_objects([NODE]), build_pod("new", "1"))
    assert (report.verdict, report.best) == ("Schedulable", ("n1",))


def test_document_is_json_with_version_and_kind():
    document = kschedctl.explain(kschedctl.Cluster.from_objects([NODE]), build_pod("new", "1")).to_dict()
    assert (document["apiVersion"], document["kind"]) == ("kschedctl.dev/v1", "Explanation")
    assert json.loads(json.dumps(document)) == document


def test_lists_are_flattened_and_other_kinds_skipped():
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    both = {"apiVersion": "v1", "kind": "List", "items": [NODE, secret, build_pod("web", "3")]}
    cluster = kschedctl.Cluster.from_objects([both])
    assert ([node.metadata.name for node in cluster.nodes], [p.key for p in cluster.pods]) == (["n1"], ["shop/web"])


TAINTED = NODE | {"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}}


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.34.1", "node(s) had untolerated taint {gpu: yes}"),
        ("v1.34.1-eks-3abc0de", "node(s) had untolerated taint {gpu: yes}"),
        ("1.34.2", "node(s) had untolerated taint(s)"),
        ("1.34", "node(s) had untolerated taint(s)"),
    ],
)
def test_cluster_has_a_release(version, reason, tmp_path):
    objects, file = [TAINTED, build_pod("web", "1")], tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    write_archive(kschedctl.Cluster.from_objects(objects, kube_version=version), str(tmp_path / "saved"))
    write_archive(kschedctl.Cluster.from_objects(objects), str(tmp_path / "other"))
    clusters = [
        kschedctl.Cluster.from_objects(objects, kube_version=version),
        kschedctl.Cluster.from_paths([file], assume_complete=True, kube_version=version),
        kschedctl.Cluster.from_snapshot(tmp_path / "saved"),
        kschedctl.Cluster.from_snapshot(tmp_path / "other", kube_version=version),
    ]
    for cluster in clusters:
        assert kschedctl.explain(cluster, "shop/web").to_dict()["firstFail"]["n1"]["reasons"] == [reason]


def test_configuration():
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine", "plugins": {"filter": {"disabled": [{"name": "NodeResourcesFit"}]}}}],
    }
    cluster = kschedctl.Cluster.from_objects([NODE], config=config)
    assert kschedctl.explain(cluster, build_pod("new", "3", schedulerName="mine")).verdict == "Schedulable"
    assert kschedctl.explain(cluster, build_pod("new", "3")).verdict == "NotResponsible"


@pytest.mark.parametrize(("on", "verdict"), [(True, "Unschedulable"), (False, "Schedulable")])
def test_feature_gates(on, verdict):
    gates = {"PodLevelResources": on, "InPlacePodLevelResourcesVerticalScaling": on}
    cluster = kschedctl.Cluster.from_objects([NODE], feature_gates=gates)
    assert kschedctl.explain(cluster, build_pod("new", "1", resources={"requests": {"cpu": "3"}})).verdict == verdict


def test_admit_merges_label_keys_of_pods_that_are_not_bound():
    """Without admit, matchLabelKeys in an affinity term of an existing pod are ignored."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash"],
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    old, new = build_pod("old", "0", nodeName="n1"), build_pod("new", "0", affinity=affinity)
    old["metadata"]["labels"], new["metadata"]["labels"] = {"app": "web", "hash": "1"}, {"app": "web", "hash": "2"}
    node = {**NODE, "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}}
    verdicts = [
        kschedctl.explain(kschedctl.Cluster.from_objects([node, old, new], admit=admit), "shop/new").verdict
        for admit in (False, True)
    ]
    assert verdicts == ["Unschedulable", "Schedulable"]


def test_cluster_without_nodes():
    report = kschedctl.explain(kschedctl.Cluster.from_objects([]), build_pod("new", "1"))
    assert (report.verdict, report.message) == ("Unschedulable", "no nodes available to schedule pods")


def test_importing_the_package_loads_nothing_heavy():
    """``kschedctl --help`` must feel instant."""
    code = "import sys, kschedctl; print({'numpy', 'msgspec', 'yaml', 'rich'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_manifest_without_a_namespace_belongs_to_default() -> None:
    labels = {"app": "web"}
    selector = {"matchLabels": labels}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    node = {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
        "status": {"allocatable": {"pods": "10"}},
    }
    running = {
        "kind": "Pod",
        "metadata": {"name": "old", "labels": labels},
        "spec": {"nodeName": "n1", "containers": []},
    }
    manifest = {
        "kind": "Pod",
        "metadata": {"name": "new", "labels": labels},
        "spec": {
            "containers": [{"name": "c", "image": "web"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        },
    }
    report = kschedctl.explain(kschedctl.Cluster.from_objects([node, running]), manifest)
    assert report.pod == "default/new"
    assert [e.reason for e in report.eliminations] == ["node(s) didn't match pod anti-affinity rules"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Job"])
def test_workload_is_explained_by_a_pod_of_its_template(kind: str) -> None:
    restart = "Never" if kind == "Job" else "Always"
    template = {"metadata": {"labels": {"app": "web"}}, "spec": build_pod("web", "3", restartPolicy=restart)["spec"]}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "web"}}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    manifest = {"apiVersion": version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}}
    manifest["spec"] = {**selector, "template": template}
    report = kschedctl.explain(kschedctl.Cluster.from_objects([NODE]), manifest)
    assert (report.verdict, report.message[:46]) == ("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu. n")
    assert f"{kind} shop/web" in report.stands_for


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"kind": "Service", "metadata": {"name": "s"}}, "neither a Pod nor a workload that creates pods"),
        ({"kind": "ConfigMap", "metadata": {"name": "c"}}, "neither a Pod nor a workload that creates pods"),
        ({}, "kind: expected str, got null"),
    ],
)
def test_manifest_that_creates_no_pods_is_a_kschedctl_error(manifest: dict[str, object], words: str) -> None:
    with pytest.raises(kschedctl.KschedctlError, match=words):
        kschedctl.explain(kschedctl.Cluster.from_objects([NODE]), manifest)


def test_help_lists_the_public_names() -> None:
    code = "import kschedctl; help(kschedctl)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for words in ("from_objects(", "from_paths(", "from_live(", "from_snapshot(", "explain(cluster", "KschedctlError"):
        assert words in found.stdout, words
    assert "TYPE_CHECKING" not in found.stdout


@pytest.mark.parametrize("objects", [[None], [{"kind": "List", "items": [None]}]])
def test_item_that_is_not_an_object_is_a_kschedctl_error(objects: list[Any]) -> None:
    with pytest.raises(kschedctl.KschedctlError, match=r"items\[0\]: expected an object, got null"):
        kschedctl.Cluster.from_objects(objects)
