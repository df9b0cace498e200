"""Check what ``pools`` derives from labels and NodePools, by hand."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import Json, Run, Write, build_node, build_pod


def test_pools_by_hand(run: Run, write: Write) -> None:
    """One pool has two nodes of 4 CPUs, one of them half full. A NodePool has no nodes."""
    nodes = [build_node(name, "4") for name in ("n1", "n2")]
    for each, zone in zip(nodes, "ab", strict=True):
        each["metadata"]["labels"] = {"karpenter.sh/nodepool": "blue", "topology.kubernetes.io/zone": zone}
        each["spec"] = {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}
    placed, waiting = build_pod("old", "2"), build_pod("new", "1")
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
    assert first["disruption"] == "WhenEmptyOrUnderutilized after 30s, 0 nodes may be disrupted now"
    assert (second["pool"], second["nodes"], second["weight"]) == ("green", 0, 7)
    assert second["disruption"] == "WhenEmptyOrUnderutilized after 0s, 0 nodes may be disrupted now"  # 10 % of none
    assert answer["pending"] == 1
    out = run("pools", "-f", file).out
    assert out.startswith("2 pools, 2 nodes, 1 pending pod")
    assert "team=x:NoSchedule" in out


def test_free_amounts_leave_out_cordoned_nodes(run: Run, write: Write) -> None:
    """No pod can be placed on n2, so only the 1 CPU on n1 is free."""
    busy, cordoned = build_node("n1", "4"), build_node("n2", "4")
    cordoned["spec"] = {"unschedulable": True}
    placed = build_pod("old", "3")
    placed["spec"]["nodeName"] = "n1"
    file = write(busy, cordoned, placed)
    (pool,) = json.loads(run("pools", "-f", file, "-o", "json").out)["pools"]
    assert (pool["nodes"], pool["cordoned"], pool["freeCpu"], pool["mostFreeCpu"]) == (2, 1, 1000, 1000)
    assert "CORDONED" in run("pools", "-f", file).out


def test_free_amounts_leave_out_nodes_that_are_not_ready(run: Run, write: Write) -> None:
    """One of two nodes of 4 CPUs is unreachable."""
    unreachable = build_node("n2", "4")
    unreachable["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]}
    file = write(build_node("n1", "4"), unreachable)
    (pool,) = json.loads(run("pools", "-f", file, "-o", "json").out)["pools"]
    assert (pool["nodes"], pool["unready"], pool["freeCpu"], pool["mostFreeCpu"]) == (2, 1, 4000, 4000)
    assert "(2 nodes, 1 not ready): 4 CPUs free" in run("pools", "-f", file, "--brief").out


def test_largest_free_amount_is_on_a_node_with_a_pod_slot(run: Run, write: Write) -> None:
    """n1 has 3 CPUs free but no pod slot, so 2 CPUs on n2 are the most for a new pod."""
    full, busy = build_node("n1", "4"), build_node("n2", "4")
    full["status"]["allocatable"]["pods"] = "1"
    file = write(full, busy, build_pod("one", "1", nodeName="n1"), build_pod("two", "2", nodeName="n2"))
    (pool,) = json.loads(run("pools", "-f", file, "-o", "json").out)["pools"]
    assert (pool["freeCpu"], pool["mostFreeCpu"]) == (5000, 2000)


def test_shapes_and_short_answers_name_what_they_count(run: Run, write: Write) -> None:
    """Two sizes in one pool are two lines, not "and 1 more", which reads like memory. One node is cordoned."""
    small, large = build_node("n1", "2"), build_node("n2", "4")
    small["spec"] = {"unschedulable": True}
    out = run("pools", "-f", write(small, large)).out
    assert "more" not in out
    assert [f"{cpus} CPUs" in out for cpus in (2, 4)] == [True, True]
    assert "NODES  USABLE  CORDONED" in out
    brief = " ".join(run("pools", "-f", write(small, large), "--brief").out.split())
    assert "(2 nodes, 1 cordoned): 4 CPUs free, at most 4 CPUs on a node" in brief


def build_unschedulable_pod(name: str, cpu: str) -> Json:
    """Build a pod that was rejected."""
    found = build_pod(name, cpu, uid=name)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return found | {"status": {"phase": "Pending", "conditions": [condition]}}


def build_template(cpu: str) -> Json:
    return build_node("template", cpu)


def test_node_groups_by_hand(run: Run, write: Write, tmp_path: Path) -> None:
    """Three pods of 3 CPUs wait.

    A node of "big", which is at its maximum, would take each, one of "small" none, and "elsewhere" is unknown. One pod
    fits on n1 and is not waiting for a node.
    """
    placed = build_pod("old", "2")
    placed["spec"]["nodeName"] = "n1"
    waiting = [build_unschedulable_pod(name, "3") for name in "abc"]
    groups = {
        "nodeGroups": [
            {"id": "big", "min": 1, "max": 1, "target": 1, "nodes": ["n1"]},
            {"id": "small", "min": 0, "max": 5, "target": 0, "nodes": [], "template": build_template("2")},
            {"id": "elsewhere", "min": 0, "max": 2, "target": 0, "nodes": []},
        ]
    }
    file = write(build_node("n1", "4"), placed, *waiting, build_unschedulable_pod("fits", "1"))
    given = str(tmp_path / "groups.json")
    Path(given).write_text(json.dumps(groups))
    shown = run("pools", "-f", file, "--assume-complete", "--node-groups", given, "-o", "json")
    by_name = {found["pool"]: found for found in json.loads(shown.out)["pools"]}
    told = {
        name: [found.get(key) for key in ("nodes", "min", "target", "max", "waiting")]
        for name, found in by_name.items()
    }
    assert told == {"big": [1, 1, 1, 1, 3], "small": [0, 0, 0, 5, 0], "elsewhere": [0, 0, 0, 2, None]}
    out = run("pools", "-f", file, "--assume-complete", "--node-groups", given).out
    assert "WAITING" in out
    assert f"node groups from {given}" in out


def test_pools_named_by_a_label(run: Run, write: Write) -> None:
    """Labels show no limits."""
    labelled = build_node("n1", "4")
    labelled["metadata"]["labels"] = {"example.com/of": "mine"}
    file = write(labelled, build_unschedulable_pod("a", "3"), build_unschedulable_pod("b", "3"))
    shown = run("pools", "-f", file, "--assume-complete", "--pool-label", "example.com/of", "-o", "json")
    (only,) = json.loads(shown.out)["pools"]
    assert [only.get(key) for key in ("pool", "nodes", "min", "max", "waiting")] == ["mine", 1, None, None, 1]


def test_node_in_two_groups_is_reported(run: Run, write: Write, tmp_path: Path) -> None:
    groups = {"nodeGroups": [{"id": name, "min": 0, "max": 1, "nodes": ["n1"]} for name in ("a", "b")]}
    given = str(tmp_path / "groups.json")
    Path(given).write_text(json.dumps(groups))
    shown = run("pools", "-f", write(build_node("n1", "4")), "--assume-complete", "--node-groups", given)
    assert shown.code == 5
    assert 'node "n1" is in two groups: "a" and "b"' in " ".join(shown.out.split())


def test_demo(run: Run) -> None:
    done = run("pools", "--demo")
    assert done.code == 0
    assert "general" in done.out
