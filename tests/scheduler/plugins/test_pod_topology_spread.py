"""PodTopologySpread against upstream's own tables (plugins/podtopologyspread; v1.36)."""

from __future__ import annotations

import numpy as np
from plugin_cases import answer, cases, change, gate, pod_info, pre_filter, scores, snapshot, typed_args, unbound

from kschedctl.scheduler.plugin_args import PodTopologySpreadArgs
from kschedctl.scheduler.plugins.pod_topology_spread import PodTopologySpread


def plugin(case):
    return PodTopologySpread(
        typed_args(case, PodTopologySpreadArgs),
        match_label_keys=gate(case, "MatchLabelKeysInPodTopologySpread"),
        inclusion_policies=gate(case, "NodeInclusionPolicyInPodTopologySpread"),
        comparison_operators=True,
    )


def constraints(spreads, nodes):
    """PreFilter's state in the form of the tables."""
    return [
        {
            "topologyKey": spread.constraint.topology_key,
            "maxSkew": spread.constraint.max_skew,
            "minDomains": spread.constraint.min_domains,
            "selector": str(spread.constraint.selector),
            "nodeAffinityPolicy": "Honor" if spread.constraint.honor_affinity else "Ignore",
            "nodeTaintsPolicy": "Honor" if spread.constraint.honor_taints else "Ignore",
            "matchNum": {v: int(spread.counts[i]) for i, v in enumerate(spread.column.values) if spread.exists[i]},
            "minMatchNum": int(spread.matched(np.zeros(nodes, np.int64))[1].min()),
        }
        for spread in spreads
    ]


@cases("podtopologyspread", "filter")
def test_filter(case):
    view = snapshot(case)
    found = answer(plugin(case), pod_info(case, view), view)
    assert {part: found[part] for part in case["want"]} == case["want"]


@cases("podtopologyspread", "prefilter")
def test_pre_filter(case):
    view, want = snapshot(case), case["want"]
    status, state = pre_filter(plugin(case), pod_info(case, view), view)
    assert status == want["prefilter"]
    if "constraints" in want and len(view.nodes):
        assert constraints(state, len(view.nodes)) == want["constraints"]
    if "filter" in want:
        assert answer(plugin(case), pod_info(case, view), view)["filter"] == want["filter"]


@cases("podtopologyspread", "prefilter-addedpod")
def test_added_pod(case):
    """As a hypothesis about its node, and as a pod that is really there."""
    want, added, node = case["want"], case["addedPod"], case["onNode"]
    before = snapshot(case, more=[unbound(added)])
    found = answer(plugin(case), pod_info(case, before), before, change(before, node, added, 1))
    assert found["filter"][node] == want["filter"][node]
    after = snapshot(case, more=[added])
    _, state = pre_filter(plugin(case), pod_info(case, after), after)
    assert constraints(state, len(after.nodes)) == want["constraints"]
    assert answer(plugin(case), pod_info(case, after), after)["filter"] == want["filter"]


@cases("podtopologyspread", "prefilter-removedpod")
def test_removed_pod(case):
    """As a hypothesis about its node, and as a pod that is really gone."""
    want, removed, node = case["want"], case["removedPod"], case["onNode"]
    before = snapshot(case)
    if removed["metadata"]["name"] not in {pod["metadata"]["name"] for pod in case["pods"]}:
        before = snapshot(case, more=[unbound(removed)])
    found = answer(plugin(case), pod_info(case, before), before, change(before, node, removed, -1))
    assert found["filter"][node] == want["filter"][node]
    if removed["spec"]["nodeName"] != node:
        return  # a removal that only a test can make
    left = [pod for pod in case["pods"] if pod["metadata"]["name"] != removed["metadata"]["name"]]
    after = snapshot({**case, "pods": left})
    _, state = pre_filter(plugin(case), pod_info(case, after), after)
    assert constraints(state, len(after.nodes)) == want["constraints"]
    assert answer(plugin(case), pod_info(case, after), after)["filter"] == want["filter"]


@cases("podtopologyspread", "score", "prescore")
def test_score(case):
    view, want = snapshot(case), case["want"]
    found = scores(plugin(case), pod_info(case, view), view, case.get("feasibleNodes"))
    compared = want.keys() & {"prescore", "rawScores", "scores"}
    assert {part: found.get(part) for part in compared} == {part: want[part] for part in compared}
