"""Check that the commands of ``kschedctl remedies`` let recorded workloads create their denied pods."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from command_line import Json, Run, Write
from control_plane import kubectl
from control_plane.store import Store
from failed_creations import build_objects, get_case

import kschedctl
from kschedctl.commands.simulate import simulate

LIVE = {
    "quota of 5, 6 wanted": (1, 6, 5, [["FewerReplicas"], ["RaiseResourceQuota"]]),
    "quota of 0, 10 wanted": (1, 10, 0, [["RaiseResourceQuota"]]),
    "LimitRange": (4, 3, 0, [["OtherResources"]]),
    "restricted Pod Security": (14, 2, 0, [["SetSecurityContext"], ["EnforceLess"]]),
    "missing ServiceAccount": (12, 1, 0, [["CreateServiceAccount"]]),
}
"""The recording, the desired and the existing number of pods, and the fix, by the reason for the denial."""


def build_reported_cluster(number: int, wanted: int, there: int) -> list[Json]:
    """Build the cluster of the report: quotas with status, and the namespace with its labels and account."""
    told = get_case(number)
    found = deepcopy(build_objects(told, replicas=wanted, there=there))
    for each in found:
        if each["kind"] == "Namespace":
            each["metadata"] |= {"uid": "n", "labels": told["labels"]}
        if each["kind"] == "ResourceQuota":
            most = {"pods": str(there)}
            each |= {"spec": {"hard": most}, "status": {"hard": most, "used": most}}
    metadata = {"name": "default", "namespace": told["namespace"]}
    return [*found, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}]


def list_pods_created_after(documents: list[Json], commands: list[str]) -> Any:
    """Return the pods that the Deployment creates once its commands were run and the quota controller has seen them."""
    store = Store([each for each in documents if each["kind"] != "Event"])
    for command in commands:
        kubectl.run(store, command)
    for each in store.of_kind("ResourceQuota"):
        each["status"]["hard"] = each["spec"]["hard"]
    (deployment,) = store.of_kind("Deployment")
    metadata = {name: value for name, value in deployment["metadata"].items() if name != "uid"}
    manifest = {name: value for name, value in deployment.items() if name != "status"} | {"metadata": metadata}
    around = [each for each in store.documents() if each["kind"] not in ("Deployment", "ReplicaSet", "Pod")]
    for each in around:
        if each["kind"] == "ResourceQuota":
            each["status"]["used"] = {"pods": "0"}  # all its pods are made again below
    return simulate(kschedctl.Cluster.from_objects(around), [manifest])


@pytest.mark.parametrize("name", LIVE)
def test_commands_let_all_pods_be_created(run: Run, write: Write, name: str) -> None:
    number, wanted, there, kinds = LIVE[name]
    documents = build_reported_cluster(number, wanted, there)
    path = write(*documents)
    found = run("remedies", "deploy/web", "-n", get_case(number)["namespace"], "-f", path, "-o", "json")
    assert found.code == 1
    report = json.loads(found.out)
    assert report["verdict"] == "NotCreated"
    assert [each["kinds"] for each in report["remedies"]] == kinds
    assert not list_pods_created_after(documents, []).good
    for remedy in report["remedies"]:
        report = list_pods_created_after(documents, remedy["commands"])
        assert report.good, remedy["summary"]
        assert report.placed == (there if remedy["kinds"] == ["FewerReplicas"] else wanted)
    told = run("explain", "deploy/web", "-n", get_case(number)["namespace"], "-f", path, "-o", "json")
    assert [fix["kinds"] for fix in json.loads(told.out)["notCreated"]["fixes"]] == kinds


SELECTED = {"selector": {"matchLabels": {"app": "db"}}}
MAKERS: dict[str, Json] = {
    "sts": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"serviceName": "db", "replicas": 3, **SELECTED}},
    "job": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 3, "completions": 3}},
    "rs": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 3, **SELECTED}},
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "manifest"])
def test_quota_is_raised_for_each_kind_of_workload(run: Run, write: Write, kind: str, is_stored: bool) -> None:
    """Three pods are desired and the quota allows two, one of which another workload uses.

    It must be raised to four.
    """
    container = {"name": "c", "image": "c"}
    maker: Json = deepcopy(MAKERS[kind])
    spec = {"containers": [container], **({"restartPolicy": "Never"} if kind == "job" else {})}
    maker["spec"]["template"] = {"metadata": {"labels": {"app": "db"}}, "spec": spec}
    maker["metadata"] = {"name": "db", "namespace": "shop", **({"uid": "u"} if is_stored else {})}
    allocatable = {"cpu": "4", "memory": "4Gi", "pods": "9"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}}
    quota: Json = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"}}
    quota |= {"spec": {"hard": {"pods": "2"}}, "status": {"hard": {"pods": "2"}, "used": {"pods": "1"}}}
    found = run("remedies", f"{kind}/db", "-n", "shop", "-f", write(node, quota, maker), "-o", "json")
    assert found.code == 1, found.err
    report = json.loads(found.out)
    fewer = ["Set replicas to 1 instead of 3"] if kind != "job" else []
    assert [remedy["summary"] for remedy in report["remedies"]] == [*fewer, "Raise ResourceQuota q to pods=4"]
