"""NodeUnschedulable against upstream's own table (plugins/nodeunschedulable; v1.36)."""

from __future__ import annotations

from plugin_cases import cases, filtered, pod_info, snapshot

from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable


@cases("nodeunschedulable", "filter")
def test_filter(case):
    view = snapshot(case)
    plugin = NodeUnschedulable(comparison_operators=False)
    assert filtered(plugin, pod_info(case, view), view) == case["want"]["filter"]
