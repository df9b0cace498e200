"""Check what waits before kube-scheduler sees its pods, with values computed from the objects."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.api.operator_resources import count_requested_pods, may_create_pods
from kschedctl.cluster import Cluster, Gap
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere, find_unread_waiting_kinds

Json = dict[str, Any]
KAFKA: Json = {
    "apiVersion": "kafka.strimzi.io/v1beta2",
    "kind": "Kafka",
    "metadata": {"name": "x", "namespace": "shop", "uid": "k1"},
    "spec": {"kafka": {"replicas": 3}},
}


def list_entries(*objects: Json) -> list[tuple[str, str, str]]:
    """Return the resource, state and headline of each entry."""
    entries = find_objects_waiting_elsewhere(Cluster.from_objects(objects))
    return [(entry.resource, entry.state.value, entry.headline) for entry in entries]


def build_broker(name: str) -> Json:
    metadata = {"name": name, "namespace": "shop", "uid": name, "labels": {"strimzi.io/cluster": "x"}}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_custom_resource_shows_the_expected_number_of_pods() -> None:
    assert list_entries(KAFKA) == [
        ("Kafka shop/x", "NotChecked", "3 pods expected by Kafka/x; kschedctl does not know what they request")
    ]


def test_existing_pods_are_not_expected() -> None:
    assert list_entries(KAFKA, build_broker("x-0"), build_broker("x-1"))[0][2].startswith(
        "1 pod expected by Kafka/x (2 exist)"
    )
    assert list_entries(KAFKA, build_broker("x-0"), build_broker("x-1"), build_broker("x-2")) == []


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        ({"instances": 3}, 3),  # CloudNativePG
        ({"numberOfInstances": 2}, 2),  # Zalando
        ({"instances": [{"replicas": 2}, {}]}, 3),  # Crunchy
        ({"driver": {"cores": 1}, "executor": {"instances": 4}}, 5),  # Spark
        ({"headGroupSpec": {}, "workerGroupSpecs": [{"replicas": 2}]}, 3),  # Ray
        ({"nodeSets": [{"count": 3}, {"count": 2}]}, 5),  # Elasticsearch
        ({"replicas": 2, "leaderWorkerTemplate": {"size": 4}}, 8),  # LeaderWorkerSet
        ({"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}}, 4),
        ({"forProvider": {"size": 100}}, None),  # a disk
    ],
)
def test_pods_are_counted_by_the_operators_naming(spec: Json, pods: int | None) -> None:
    assert count_requested_pods(spec) == pods


def test_further_kinds_are_found_in_files() -> None:
    database = {"apiVersion": "db.example.com/v1", "kind": "Database", "metadata": {"name": "d", "namespace": "shop"}}
    assert list_entries({**database, "spec": {"replicas": 2}})[0][0] == "Database shop/d"
    assert list_entries({**database, "spec": {"user": "x"}}) == []
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "spec": {"replicas": 2}}
    assert not may_create_pods(monitor)


def test_suspended_jobs_are_reported_without_changing_the_verdict() -> None:
    job: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "later", "namespace": "shop", "uid": "j1"},
        "spec": {"suspend": True, "parallelism": 2, "completions": 1},
    }
    (entry,) = find_objects_waiting_elsewhere(Cluster.from_objects([job]))
    assert (entry.resource, entry.state, entry.pods) == ("Job shop/later", "Suspended", 1)
    report = kschedctl.pending(Cluster.from_objects([job]))
    assert str(report) == "1 Job suspended: no pod is pending in any namespace"
    assert not report.undecided


def test_custom_resource_makes_the_verdict_uncertain() -> None:
    report: PendingPods = kschedctl.pending(Cluster.from_objects([KAFKA]))
    assert report.undecided
    assert str(report) == "1 custom resource not checked: no pod is pending in any namespace"


def test_absent_kinds_do_not_make_the_answer_conditional() -> None:
    assert not kschedctl.pending(Cluster.from_objects([])).undecided
    assert find_unread_waiting_kinds(Cluster.from_objects([], assume_complete=False)) == ()


def test_unreadable_queues_make_the_answer_conditional() -> None:
    cluster = Cluster(gaps={"KueueWorkload": Gap("could not be read: forbidden")})
    report = kschedctl.pending(cluster)
    assert report.undecided
    assert [unknown.kind for unknown in report.unknown] == ["KueueWorkload"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_inactive_workload_and_workload_that_waits_for_checks(version: str) -> None:
    workload: Json = {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ai", "uid": "w"},
    }
    assert list_entries({**workload, "spec": {"active": False}})[0][2] == "is deactivated: spec.active is false"
    reserved = {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admissionChecks": [{"name": "prov", "state": "Pending", "message": "no capacity"}],
    }
    headline = list_entries({**workload, "status": reserved})[0][2]
    assert headline == "has quota and waits for admission checks: prov is Pending: no capacity"


def test_gang_without_enough_pods_is_reported() -> None:
    group: Json = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ai", "uid": "g"},
        "spec": {"minMember": 3},
    }
    assert list_entries(group) == [("PodGroup ai/g", "NotAdmitted", "waits for its pods: 0 of minMember 3 exist")]


def test_simulate_counts_new_custom_resources() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    node["status"] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    new = {**KAFKA, "metadata": {"name": "x", "namespace": "shop"}}
    spec = {"containers": [{"name": "c", "image": "x"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    report = kschedctl.simulate(Cluster.from_objects([node, new]), [pod])
    assert str(report) == "Scheduled: 1 of 1 pod gets a node; 1 custom resource not checked"
    assert report.undecided
