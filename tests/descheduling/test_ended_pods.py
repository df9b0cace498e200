"""Check that terminated pods are deleted within the limits, without successors; values by hand."""

from __future__ import annotations

from typing import Any

import pytest
from test_lingering_pods import NOW, OLD, YOUNG, build_node, build_pod

import kschedctl
from kschedctl.commands.rebalance.report import Rebalancing
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

Json = dict[str, Any]
FAILED = {"name": "RemoveFailedPods", "args": {"reasons": ["OOMKilled", "Evicted"], "excludeOwnerKinds": ["Job"]}}
LIFE = {"name": "PodLifeTime", "args": {"states": ["Failed", "Succeeded", "Running"], "maxPodLifeTimeSeconds": 3600}}


def build_terminated_pod(
    name: str, phase: str = "Failed", reason: str = "", kind: str = "ReplicaSet", **status: Any
) -> Json:
    made = build_pod(name, "n1", "3", kind)
    made["status"] = {"phase": phase, "reason": reason, **status}
    return made


def build_killed_pod(name: str, kind: str = "ReplicaSet") -> Json:
    state = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    return build_terminated_pod(name, kind=kind, containerStatuses=[{"name": "c", "state": state}])


def rebalance_cluster(config: Json, *objects: Json, **more: Any) -> Rebalancing:
    plugins = {"deschedule": {"enabled": [config["name"]]}}
    profile = {"name": "p", "pluginConfig": [config], "plugins": plugins}
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile], **more}
    return kschedctl.rebalance(
        kschedctl.Cluster.from_objects([build_node("n1"), build_node("n2"), *objects]), policy, now=NOW
    )


def test_pods_that_failed_with_given_reasons_are_deleted() -> None:
    pods = (
        build_killed_pod("a"),
        build_terminated_pod("b", reason="Evicted"),
        build_terminated_pod("c", reason="Shutdown"),
        build_killed_pod("d", "Job"),
    )
    report = rebalance_cluster(FAILED, *pods, build_pod("e", "n1", "1"))
    assert [(removed.pod, removed.node, removed.phase) for removed in report.removed] == [
        ("d/a", "n1", "Failed"),
        ("d/b", "n1", "Failed"),
    ]
    assert (report.steps, report.quiet, report.loops) == ((), True, False)
    assert [entry.evicted for entry in report.rounds] == [2, 0]
    assert len(report.commands) == 2
    assert str(report) == "The descheduler evicts nothing; 2 terminated pods are deleted"
    assert "Terminated pods to delete" in RENDERERS["table"](report, Style())


def test_oldest_pods_are_evicted_first_in_any_phase() -> None:
    """The limit is one eviction in total, and the running pod is the older of the two."""
    done = build_terminated_pod("done", "Succeeded")
    done["metadata"]["creationTimestamp"] = "2026-05-02T00:00:00Z"
    report = rebalance_cluster(LIFE, done, build_pod("old", "n1", "1", created=OLD), maxNoOfPodsToEvictTotal=1)
    assert [step.pod for step in report.steps] == ["d/old"]
    assert report.removed[0].round == 2


def test_terminated_pods_occupy_no_resources() -> None:
    """The terminated pod requested 3 of 4 CPUs of n1, but leaves room there for the pod of 3 CPUs from n2."""
    moving = build_pod("old", "n2", "3", created=OLD)
    report = rebalance_cluster(
        LIFE, build_terminated_pod("done", "Succeeded"), build_pod("young", "n2", "1", created=YOUNG), moving
    )
    assert [(step.pod, step.target) for step in report.steps] == [("d/old", "n1")]
    assert [removed.pod for removed in report.removed] == ["d/done"]


@pytest.mark.parametrize(("least", "deleted"), [(2, 0), (1, 1)])
def test_terminated_replicas_are_counted(least: int, deleted: int) -> None:
    """Upstream indexes all pods by their owner, including terminated ones.

    With a running sibling the owner has two.
    """
    alone = rebalance_with_min_replicas(least, build_killed_pod("a"))
    assert len(alone.removed) == deleted
    sibling = build_pod("b", "n1", "1", created=YOUNG)
    sibling["metadata"]["ownerReferences"] = build_killed_pod("a")["metadata"]["ownerReferences"]
    assert len(rebalance_with_min_replicas(least, build_killed_pod("a"), sibling).removed) == 1


def rebalance_with_min_replicas(least: int, *objects: Json) -> Rebalancing:
    configs = [{"name": "DefaultEvictor", "args": {"minReplicas": least}}, FAILED]
    profile = {"name": "p", "pluginConfig": configs, "plugins": {"deschedule": {"enabled": ["RemoveFailedPods"]}}}
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
    return kschedctl.rebalance(
        kschedctl.Cluster.from_objects([build_node("n1"), build_node("n2"), *objects]), policy, now=NOW
    )


def test_limit_defers_deletions() -> None:
    report = rebalance_cluster(
        FAILED, build_killed_pod("a"), build_killed_pod("b"), build_killed_pod("c"), maxNoOfPodsToEvictPerNode=2
    )
    assert [entry.evicted for entry in report.rounds] == [2, 1, 0]
    assert [entry.refused for entry in report.rounds] == [1, 0, 0]
    assert report.held == ()


def test_node_fit_ignores_terminated_pods() -> None:
    """nodeFit: n2 has room for the 3 CPUs of the pod, because the terminated pod there occupies nothing."""
    there = build_terminated_pod("there", "Succeeded")
    there["spec"]["nodeName"] = "n2"
    configs = [{"name": "DefaultEvictor", "args": {"nodeFit": True}}, FAILED]
    profile = {"name": "p", "pluginConfig": configs, "plugins": {"deschedule": {"enabled": ["RemoveFailedPods"]}}}
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
    objects = [build_node("n1"), build_node("n2"), there, build_killed_pod("a")]
    assert len(kschedctl.rebalance(kschedctl.Cluster.from_objects(objects), policy, now=NOW).removed) == 1
    objects.append(build_pod("full", "n2", "2"))
    assert len(kschedctl.rebalance(kschedctl.Cluster.from_objects(objects), policy, now=NOW).removed) == 0
