"""Every node waits for a cloud controller manager that does not run (rancher/rke2#7822).

The kubelets run with an external cloud provider, so each node has a taint that only the cloud controller manager
removes. That an etcd node has two more taints is not the cause.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import kschedctl
from kschedctl.api.json_values import JsonObject

SITUATION = Path(__file__).parent / "29-uninitialized-taint" / "in.yaml"
POD = "kube-system/metrics-1-a"
TAINT = "taint node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule"


def test_headline_names_the_missing_cloud_controller_manager() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION]), POD)
    assert f"{TAINT} is on every node: the cloud controller manager is not running or is failing" in report.headline
    assert "etcd" not in report.headline
    fact = report.to_dict()["causes"][0]["factData"]
    assert (fact["uninitializedNodes"], fact["nodes"]) == (2, 2)
    assert "StartCloudController" in [advice.kind for advice in report.advice]
    assert "Tolerate" not in [advice.kind for advice in report.advice]


def test_node_with_the_fewest_taints_is_closest() -> None:
    """Node w1 has one taint that the pod does not tolerate, and m1 has three."""
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION]), POD)
    assert [cause.nearest for cause in report.causes] == ["w1"]


@pytest.mark.parametrize("initialized", ["w1", "m1"])
def test_one_uninitialized_node_is_not_the_cause(initialized: str) -> None:
    objects: list[JsonObject] = yaml.safe_load(SITUATION.read_text())["items"]
    for document in objects:
        if document["kind"] == "Node" and document["metadata"]["name"] == initialized:
            document["spec"]["taints"].pop()
    report = kschedctl.explain(kschedctl.Cluster.from_objects(objects), POD)
    assert "is on every node" not in str(report.to_dict())
