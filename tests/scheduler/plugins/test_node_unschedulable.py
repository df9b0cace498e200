"""NodeUnschedulable against upstream's own table (plugins/nodeunschedulable; v1.36)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import cases, filtered, pod_info, snapshot
from small_clusters import UNRESOLVABLE, check_filter, clusters, tolerates

from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable


@cases("nodeunschedulable", "filter")
def test_filter(case):
    view = snapshot(case)
    plugin = NodeUnschedulable(comparison_operators=False)
    assert filtered(plugin, pod_info(case, view), view) == case["want"]["filter"]


TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TOLERATIONS = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal"])},
    optional={
        "key": st.sampled_from([TAINT["key"], "other"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
        "value": st.sampled_from(["", "v"]),
    },
)


@given(
    clusters(
        pending=st.fixed_dictionaries({"tolerations": st.lists(TOLERATIONS, max_size=2)}),
        node=st.fixed_dictionaries({"spec": st.fixed_dictionaries({"unschedulable": st.booleans()})}),
    )
)
def test_naive_filter(cluster):
    check_filter(NodeUnschedulable(comparison_operators=False), cluster, naive_filter)


def naive_filter(cluster, node, pods):
    if not node["spec"]["unschedulable"] or tolerates(cluster.pending["spec"]["tolerations"], TAINT):
        return None
    return UNRESOLVABLE, ["node(s) were unschedulable"]
