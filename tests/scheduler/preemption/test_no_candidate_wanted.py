"""Check how many candidates preemption keeps, and errors in its dry run.

Upstream: calculateNumCandidates in plugins/defaultpreemption, newCandidateList in preemption/preemption.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl

Json = dict[str, Any]


def build_node(name: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}}


def build_pod(name: str, priority: int, **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {"containers": [container], "priority": priority, **spec},
    }


def explain_pod(absolute: int, nodes: int) -> Json:
    """Explain the pod d/p and return the document."""
    args = {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": absolute}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}],
    }
    names = [f"n{i}" for i in range(nodes)]
    running = [build_pod(f"on-{name}", 0, nodeName=name) for name in names]
    cluster = kschedctl.Cluster.from_objects([*map(build_node, names), *running, build_pod("p", 10)], config=config)
    return kschedctl.explain(cluster, "d/p").to_dict()


def test_tenth_of_nine_nodes_is_no_candidate() -> None:
    found = explain_pod(absolute=0, nodes=9)
    assert found["message"].endswith("preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.")
    assert sorted(found["preemption"]["candidates"]) == [f"n{i}" for i in range(9)]
    assert found["preemption"]["chosen"] is None
    assert "come to 0 of 9 potential nodes" in found["preemption"]["why"]
    assert found["postFilter"]["status"]["code"] == "Unschedulable"


@pytest.mark.parametrize(("absolute", "nodes"), [(0, 10), (1, 9)])
def test_one_wanted_candidate_is_enough(absolute: int, nodes: int) -> None:
    assert explain_pod(absolute, nodes)["preemption"]["chosen"] == "n0"
