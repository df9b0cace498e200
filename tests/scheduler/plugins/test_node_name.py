"""Check NodeName against upstream's own table (plugins/nodename; v1.36)."""

from __future__ import annotations

from hypothesis import given
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases, run_filter
from small_clusters import UNRESOLVABLE, check_filter, draw_clusters, draw_some, get_name

from kschedctl.scheduler.plugins.node_name import NodeName


@parametrize_cases("nodename", "filter")
def test_filter(case):
    view = build_snapshot(case)
    assert run_filter(NodeName(), find_pod_info(case, view), view) == case["want"]["filter"]


@given(draw_clusters(pending=lambda random: draw_some(random, nodeName=random.choice(["n0", "n1", "gone"]))))
def test_naive_filter(cluster):
    check_filter(NodeName(), cluster, filter_naively)


def filter_naively(cluster, node, pods):
    if cluster.pending["spec"].get("nodeName", get_name(node)) == get_name(node):
        return None
    return UNRESOLVABLE, ["node(s) didn't match the requested node name"]
