"""Check the placement of pods while their predecessors still terminate; expected values by hand.

a (3 cpus) is too old. It is on n1, of 4; n2 has a pod of 1. As LeastAllocated has it the emptier n1 is better once a is
gone, but while it terminates there is room on n2 alone.
"""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.commands.rebalance.report import Rebalancing

Json = dict[str, Any]
NOW, OLD, YOUNG = "2026-06-01T12:00:00Z", "2026-05-01T00:00:00Z", "2026-06-01T11:59:00Z"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def build_node(name: str, zone: str = "a") -> Json:
    offers = {"cpu": "4", "memory": "64Gi", "pods": "30"}
    labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": offers}}


def build_pod(name: str, on: str, cpu: str, kind: str = "ReplicaSet", created: str = OLD, **spec: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    meta = {"name": name, "namespace": "d", "uid": f"pod-{name}", "labels": {"app": name}, "ownerReferences": [owner]}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {**meta, "creationTimestamp": created},
        "spec": {"nodeName": on, "containers": [container], **spec},
        "status": READY,
    }


def rebalance_cluster(*objects: Json, min_replicas: int = 0) -> Rebalancing:
    configs = [
        {"name": "DefaultEvictor", "args": {"minReplicas": min_replicas}},
        {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 3600}},
    ]
    profile = {"name": "p", "pluginConfig": configs, "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}}}
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
    return kschedctl.rebalance(kschedctl.Cluster.from_objects(objects), policy, now=NOW)


def get_target(report: Rebalancing) -> str:
    (step,) = report.steps
    assert step.pod == "d/a"
    return step.target


def build_other_pod(cpu: str = "1") -> Json:
    return build_pod("b", "n2", cpu, created=YOUNG)


def test_terminating_pod_keeps_its_resources() -> None:
    assert (
        get_target(rebalance_cluster(build_node("n1"), build_node("n2"), build_pod("a", "n1", "3"), build_other_pod()))
        == "n2"
    )


@pytest.mark.parametrize(
    "leaving",
    [build_pod("a", "n1", "3", terminationGracePeriodSeconds=0), build_pod("a", "n1", "3", "StatefulSet")],
    ids=["no grace period", "StatefulSet"],
)
def test_replacement_of_a_deleted_pod_may_use_its_node(leaving: Json) -> None:
    assert get_target(rebalance_cluster(build_node("n1"), build_node("n2"), leaving, build_other_pod())) == "n1"


@pytest.mark.parametrize(("policy", "node_name"), [("Failed", "n1"), ("TerminatingOrFailed", "n2")])
def test_replacement_policy_of_jobs_applies(policy: str, node_name: str) -> None:
    job = {"kind": "Job", "metadata": {"name": "a", "namespace": "d"}, "spec": {"podReplacementPolicy": policy}}
    assert (
        get_target(
            rebalance_cluster(
                build_node("n1"), build_node("n2"), build_pod("a", "n1", "3", "Job"), build_other_pod(), job
            )
        )
        == node_name
    )


def test_replacement_waits_if_it_fits_nowhere_else() -> None:
    report = rebalance_cluster(build_node("n1"), build_node("n2"), build_pod("a", "n1", "3"), build_other_pod("2"))
    assert (get_target(report), report.steps[0].stays, report.unsafe) == ("n1", True, 0)


def test_spread_constraints_ignore_terminating_pods() -> None:
    """Zone a has only n1, and zone b has n2 with one matching pod.

    Without the terminating pod zone a has none, so it is chosen.
    """
    rule = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
    }
    a = build_pod("a", "n1", "1", topologySpreadConstraints=[rule])
    assert get_target(rebalance_cluster(build_node("n1"), build_node("n2", "b"), a, build_other_pod())) == "n1"


def test_terminating_pods_are_not_counted_as_replicas() -> None:
    """The owner has one pod, fewer than minReplicas, so that the pod is kept."""
    report = rebalance_cluster(
        build_node("n1"), build_node("n2"), build_pod("a", "n1", "3"), build_other_pod(), min_replicas=2
    )
    assert report.steps == ()
    assert [(held.why, held.pods) for held in report.kept] == [("fewer replicas than minReplicas", 2)]


def test_terminating_pods_are_not_counted_by_a_new_pdb() -> None:
    """One of one pod may be disrupted, provided that no second unhealthy pod is counted."""
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "a", "namespace": "d"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    assert (
        get_target(
            rebalance_cluster(build_node("n1"), build_node("n2"), build_pod("a", "n1", "3"), build_other_pod(), budget)
        )
        == "n2"
    )
