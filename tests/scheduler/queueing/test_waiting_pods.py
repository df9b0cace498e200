"""Check pods that wait at Permit: they hold nodes until allowed, rejected, preempted or timed out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]
PLUGINS = """
from kschedctl import plugins as k

class Approval(k.DeclaredPlugin):
    permit_timeout = 60
    def permit(self, info, view, row):
        match info.pod.metadata.labels.get("approved"):
            case "yes": return k.SUCCESS
            case "no": return k.Status(k.Code.UNSCHEDULABLE, ("nobody pays for it",))
        return k.Status(k.Code.WAIT, ("waiting for an approval",))

class Pairs(k.DeclaredPlugin):
    def permit(self, info, view, row):
        others = sum(view.node[i] >= 0 and pod.key != info.pod.key for i, pod in enumerate(view.pods.objects))
        return k.SUCCESS if others else k.Status(k.Code.WAIT, ("one is none",))
"""
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "permitting.py").write_text(PLUGINS)
    info = tmp_path / "permitting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: permitting\nVersion: 1.0\n")
    points = "[kschedctl.plugins]\nApproval = permitting:Approval\nPairs = permitting:Pairs\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "permitting", raising=False)


def build_node(cpu: int = 2) -> Json:
    return {"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": str(cpu), "pods": "9"}}}


def build_pod(name: str, approved: str = "", cpu: int = 1, priority: int = 0) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    labels = {"approved": approved} if approved else {}
    metadata = {"name": name, "namespace": "d", "uid": name, "labels": labels}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], "priority": priority}}


def run(*objects: Json, plugin: str = "Approval", closed: bool = False) -> Json:
    profile = {"plugins": {"permit": {"enabled": [{"name": plugin}]}}}
    cluster = kschedctl.Cluster.from_objects(objects, config={**CONFIG, "profiles": [profile]})
    return kschedctl.run_queue(cluster, closed_loop=closed).to_dict()


def test_waiting_pod_holds_its_node() -> None:
    found = run(build_node(1), build_pod("a"), build_pod("b", "yes"))
    first, second = found["cycles"]
    assert (first["waiting"], "bound" in first) == ({"d/a": "n"}, False)
    assert second["failed"]["d/b"]["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert (found["waitingOnPermit"], found["queueAfter"]) == ({"d/a": "n"}, {"d/b": "unschedulable"})


def test_rejected_pod_leaves_its_node() -> None:
    found = run(build_node(1), build_pod("a", "no"), build_pod("b", "yes"))
    first, second = found["cycles"]
    failure = {"code": "Unschedulable", "message": "0/1 nodes are available: 1 nobody pays for it.", "nominated": ""}
    assert first["failed"]["d/a"] == {**failure, "rejectors": ["Approval"]}
    assert second["bound"] == {"d/b": "n"}
    assert found["queueAfter"] == {"d/a": "unschedulable"}


def test_pods_that_wait_for_each_other_are_bound_together() -> None:
    first, second = run(build_node(), build_pod("a"), build_pod("b"), plugin="Pairs")["cycles"]
    assert (first["waiting"], second["bound"]) == ({"d/a": "n"}, {"d/a": "n", "d/b": "n"})


def test_timed_out_pod_makes_room_for_others() -> None:
    """Each pod is tried, and waits until it times out, which wakes the others.

    The replay ends with a pod that timed out once and holds the node again, because it would go on forever.
    """
    found = run(build_node(1), build_pod("a"), build_pod("b"), closed=True)
    told = [(cycle["popped"], *cycle.get("waiting", ()), *cycle.get("failed", ())) for cycle in found["cycles"]]
    assert told[:3] == [("d/a", "d/a"), ("d/b", "d/b"), ("d/a", "d/a")]
    reason = "rejected due to timeout after waiting 1m0s at plugin Approval"
    assert found["cycles"][2]["failed"]["d/a"]["message"] == f"0/1 nodes are available: 1 {reason}."
    assert found["cycles"][2]["failed"]["d/a"]["rejectors"] == ["Approval"]
    assert found["cycles"][3]["waiting"] == {"d/b": "n"}
    assert list(found["waitingOnPermit"].values()) == ["n"]


def test_waiting_pod_is_preempted_without_being_deleted() -> None:
    """d/a needs d/b on its node, so d/c is tried before d/a is retried, and takes the remaining CPU."""
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": "kubernetes.io/hostname"}
    needy = build_pod("a", "yes", priority=9)
    needy["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    friend = build_pod("b", "yes", priority=9)
    friend["metadata"]["labels"]["app"] = "friend"
    host = build_node()
    host["metadata"]["labels"] = {"kubernetes.io/hostname": "n"}
    found = run(host, needy, friend, build_pod("c"), closed=True)
    assert [cycle["popped"] for cycle in found["cycles"][:4]] == ["d/a", "d/b", "d/c", "d/a"]
    preempting = found["cycles"][3]
    assert (preempting["victims"], preempting["failed"]["d/a"]["nominated"]) == (["d/c"], "n")
    failure = {"code": "Error", "message": "waiting on permit for pod: preempted", "nominated": "", "rejectors": []}
    assert preempting["failed"]["d/c"] == failure
    assert {"d/a": "n"} in [cycle.get("bound") for cycle in found["cycles"]]
    assert found["queueAfter"] == {"d/c": "backoff"}  # which after an error nothing cuts short
