"""TaintToleration against upstream's own tables (plugins/tainttoleration; v1.36)."""

from __future__ import annotations

from plugin_cases import cases, filtered, gate, pod_info, scores, snapshot

from kschedctl.scheduler.plugins.taint_toleration import TaintToleration


def plugin(case):
    return TaintToleration(comparison_operators=gate(case, "TaintTolerationComparisonOperators"))


@cases("tainttoleration", "filter")
def test_filter(case):
    view = snapshot(case)
    assert filtered(plugin(case), pod_info(case, view), view) == case["want"]["filter"]


@cases("tainttoleration", "score")
def test_score(case):
    view = snapshot(case)
    found = scores(plugin(case), pod_info(case, view), view)
    assert found["rawScores"] == case["want"]["rawScores"]
    assert found["scores"] == case["want"]["scores"]
