"""NodeName against upstream's own table (plugins/nodename; v1.36)."""

from __future__ import annotations

from plugin_cases import cases, filtered, pod_info, snapshot

from kschedctl.scheduler.plugins.node_name import NodeName


@cases("nodename", "filter")
def test_filter(case):
    view = snapshot(case)
    assert filtered(NodeName(), pod_info(case, view), view) == case["want"]["filter"]
