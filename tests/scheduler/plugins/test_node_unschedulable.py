"""Check NodeUnschedulable against upstream's own table (plugins/nodeunschedulable; v1.36)."""

from __future__ import annotations

from hypothesis import given
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases, run_filter
from small_clusters import UNRESOLVABLE, check_filter, draw_clusters, draw_many, draw_some, is_tolerated

from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable


@parametrize_cases("nodeunschedulable", "filter")
def test_filter(case):
    view = build_snapshot(case)
    plugin = NodeUnschedulable(comparison_operators=False)
    assert run_filter(plugin, find_pod_info(case, view), view) == case["want"]["filter"]


TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def draw_toleration(random):
    return {
        "operator": random.choice(["Exists", "Equal"]),
        **draw_some(
            random, key=random.choice([TAINT["key"], "other"]), effect=random.choice(["NoSchedule", "NoExecute"])
        ),
    }


def draw_pending_pod(random):
    return {"tolerations": draw_many(random, 2, draw_toleration)}


def draw_cordoned_node(random):
    return {"spec": {"unschedulable": random.random() < 0.5}}


@given(draw_clusters(pending=draw_pending_pod, node=draw_cordoned_node))
def test_naive_filter(cluster):
    check_filter(NodeUnschedulable(comparison_operators=False), cluster, filter_naively)


def filter_naively(cluster, node, pods):
    if not node["spec"]["unschedulable"] or is_tolerated(cluster.pending["spec"]["tolerations"], TAINT):
        return None
    return UNRESOLVABLE, ["node(s) were unschedulable"]
