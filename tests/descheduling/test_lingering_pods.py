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


def node(name: str, zone: str = "a") -> Json:
    offers = {"cpu": "4", "memory": "64Gi", "pods": "30"}
    labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": offers}}


def pod(name: str, on: str, cpu: str, kind: str = "ReplicaSet", created: str = OLD, **spec: Any) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    meta = {"name": name, "namespace": "d", "uid": f"pod-{name}", "labels": {"app": name}, "ownerReferences": [owner]}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {**meta, "creationTimestamp": created},
        "spec": {"nodeName": on, "containers": [container], **spec},
        "status": READY,
    }


def rebalanced(*objects: Json, min_replicas: int = 0) -> Rebalancing:
    configs = [
        {"name": "DefaultEvictor", "args": {"minReplicas": min_replicas}},
        {"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 3600}},
    ]
    profile = {"name": "p", "pluginConfig": configs, "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}}}
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
    return kschedctl.rebalance(kschedctl.Cluster.from_objects(objects), policy, now=NOW)


def target(report: Rebalancing) -> str:
    (step,) = report.steps
    assert step.pod == "d/a"
    return step.target


def other(cpu: str = "1") -> Json:
    return pod("b", "n2", cpu, created=YOUNG)


def test_a_pod_that_terminates_keeps_its_place() -> None:
    assert target(rebalanced(node("n1"), node("n2"), pod("a", "n1", "3"), other())) == "n2"


@pytest.mark.parametrize(
    "leaving",
    [pod("a", "n1", "3", terminationGracePeriodSeconds=0), pod("a", "n1", "3", "StatefulSet")],
    ids=["no grace period", "StatefulSet"],
)
def test_whoever_comes_after_it_is_gone_finds_it_empty(leaving: Json) -> None:
    assert target(rebalanced(node("n1"), node("n2"), leaving, other())) == "n1"


@pytest.mark.parametrize(("policy", "node_name"), [("Failed", "n1"), ("TerminatingOrFailed", "n2")])
def test_jobs_say_when_they_replace_a_pod(policy: str, node_name: str) -> None:
    job = {"kind": "Job", "metadata": {"name": "a", "namespace": "d"}, "spec": {"podReplacementPolicy": policy}}
    assert target(rebalanced(node("n1"), node("n2"), pod("a", "n1", "3", "Job"), other(), job)) == node_name


def test_whoever_fits_nowhere_else_waits_until_it_is_gone() -> None:
    report = rebalanced(node("n1"), node("n2"), pod("a", "n1", "3"), other("2"))
    assert (target(report), report.steps[0].stays, report.unsafe) == ("n1", True, 0)


def test_spread_constraints_do_not_count_it() -> None:
    """Zone a has n1 alone, zone b n2 with one that counts. The one that terminates in a leaves a with none: a it is."""
    rule = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
    }
    a = pod("a", "n1", "1", topologySpreadConstraints=[rule])
    assert target(rebalanced(node("n1"), node("n2", "b"), a, other())) == "n1"


def test_those_that_stand_for_them_are_no_replicas() -> None:
    """Of its owner there is one, of which minReplicas keeps it."""
    report = rebalanced(node("n1"), node("n2"), pod("a", "n1", "3"), other(), min_replicas=2)
    assert report.steps == ()
    assert [(held.why, held.pods) for held in report.kept] == [("fewer replicas than minReplicas", 2)]


def test_a_new_budget_does_not_count_them() -> None:
    """One of one pod may be away, as long as there is not one more that is not healthy."""
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "a", "namespace": "d"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    assert target(rebalanced(node("n1"), node("n2"), pod("a", "n1", "3"), other(), budget)) == "n2"
