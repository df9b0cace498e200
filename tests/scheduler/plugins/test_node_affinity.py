"""NodeAffinity against upstream's own tables (plugins/nodeaffinity; v1.36)."""

from __future__ import annotations

import numpy as np
from plugin_cases import cases, filtered, pod_info, pre_filter, scores, snapshot, typed_args

from kschedctl.scheduler.plugin_args import NodeAffinityArgs
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity


def plugin(case):
    return NodeAffinity(typed_args(case, NodeAffinityArgs).added_affinity)


@cases("nodeaffinity", "filter")
def test_filter(case):
    """The table runs Filter whatever PreFilter says, and in some cases without it."""
    view, want, state = snapshot(case), case["want"], None
    info = pod_info(case, view)
    if want["preFilterRun"]:
        status, state = pre_filter(plugin(case), info, view)
        assert status == want["prefilter"]
    if "filter" in want:
        assert filtered(plugin(case), info, view, state) == want["filter"]


@cases("nodeaffinity", "score")
def test_score(case):
    view, want = snapshot(case), case["want"]
    if "prescore" in want:
        found = scores(plugin(case), pod_info(case, view), view)
        assert found == {part: want[part] for part in want if part != "stage"}
        return
    info, rows = pod_info(case, view), np.arange(len(view.nodes))
    raw = plugin(case).score(info, view, None, rows)  # here the table does without PreScore
    assert dict(zip(view.nodes.names, raw.tolist(), strict=True)) == want["rawScores"]
    assert dict(zip(view.nodes.names, plugin(case).normalize(None, raw).tolist(), strict=True)) == want["scores"]
