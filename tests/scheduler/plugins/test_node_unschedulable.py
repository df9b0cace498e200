"""Check NodeUnschedulable against upstream's own table (plugins/nodeunschedulable; v1.36)."""

from __future__ import annotations

from hypothesis import given
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases, run_filter
from small_clusters import UNRESOLVABLE, check_filter, clusters, many, some_of, tolerates

from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable


@parametrize_cases("nodeunschedulable", "filter")
def test_filter(case):
    view = build_snapshot(case)
    plugin = NodeUnschedulable(comparison_operators=False)
    assert run_filter(plugin, find_pod_info(case, view), view) == case["want"]["filter"]


TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def toleration(random):
    return {
        "operator": random.choice(["Exists", "Equal"]),
        **some_of(
            random, key=random.choice([TAINT["key"], "other"]), effect=random.choice(["NoSchedule", "NoExecute"])
        ),
    }


def pending(random):
    return {"tolerations": many(random, 2, toleration)}


def cordoned(random):
    return {"spec": {"unschedulable": random.random() < 0.5}}


@given(clusters(pending=pending, node=cordoned))
def test_naive_filter(cluster):
    check_filter(NodeUnschedulable(comparison_operators=False), cluster, naive_filter)


def naive_filter(cluster, node, pods):
    if not node["spec"]["unschedulable"] or tolerates(cluster.pending["spec"]["tolerations"], TAINT):
        return None
    return UNRESOLVABLE, ["node(s) were unschedulable"]
