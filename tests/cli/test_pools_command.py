"""``pools``: what labels and NodePools tell, by hand."""

from __future__ import annotations

import json

from conftest import Run, Write, node, pod


def test_pools_by_hand(run: Run, write: Write) -> None:
    """Two nodes of 4 cpus in one pool, one of them half full; a NodePool without nodes."""
    nodes = [node(name, "4") for name in ("n1", "n2")]
    for each, zone in zip(nodes, "ab", strict=True):
        each["metadata"]["labels"] = {"karpenter.sh/nodepool": "blue", "topology.kubernetes.io/zone": zone}
        each["spec"] = {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}
    placed, waiting = pod("old", "2"), pod("new", "1")
    placed["spec"]["nodeName"] = "n1"
    meta = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}
    budgets = {"consolidateAfter": "30s", "budgets": [{"nodes": "50%"}]}
    blue = {**meta, "metadata": {"name": "blue"}, "spec": {"limits": {"cpu": "10"}, "disruption": budgets}}
    green = {**meta, "metadata": {"name": "green"}, "spec": {"weight": 7}}
    file = write(*nodes, placed, waiting, blue, green)
    answer = json.loads(run("pools", "-f", file, "-o", "json").out)
    first, second = answer["pools"]
    assert (first["pool"], first["nodes"], first["zones"]) == ("blue", 2, ["a", "b"])
    assert (first["freeCpu"], first["mostFreeCpu"]) == (6000, 4000)
    assert first["taints"] == ["team=x:NoSchedule"]
    assert first["limits"] == {"cpu": "0 of 10"}  # nodes without a provider's id are not Karpenter's yet
    assert first["disruption"] == "WhenEmptyOrUnderutilized after 30s, 0 may go now"
    assert (second["pool"], second["nodes"], second["weight"]) == ("green", 0, 7)
    assert second["disruption"] == "WhenEmptyOrUnderutilized after 0s, 0 may go now"  # 10 % of none
    assert answer["pending"] == 1
    out = run("pools", "-f", file).out
    assert out.startswith("2 pools, 2 nodes 1 pending pod")
    assert "team=x:NoSchedule" in out


def test_the_demo(run: Run) -> None:
    done = run("pools", "--demo")
    assert done.code == 0
    assert "general" in done.out
