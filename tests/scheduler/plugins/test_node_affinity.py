"""Check NodeAffinity against upstream's own tables (plugins/nodeaffinity; v1.36)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from plugin_cases import (
    build_plugin_args,
    build_snapshot,
    compute_scores,
    find_pod_info,
    parametrize_cases,
    run_filter,
    run_pre_filter,
)
from small_clusters import (
    UNRESOLVABLE,
    check_filter,
    check_scores,
    draw_clusters,
    draw_many,
    draw_requirement,
    draw_some,
    get_name,
    is_node_wanted,
    is_term_matching,
)

from kschedctl.scheduler.plugins.node_affinity import NodeAffinity, NodeAffinityArgs


def build_plugin(case):
    return NodeAffinity(build_plugin_args(case, NodeAffinityArgs).added_affinity)


@parametrize_cases("nodeaffinity", "filter")
def test_filter(case):
    """The table runs Filter regardless of the PreFilter status, and in some cases without PreFilter."""
    view, want, state = build_snapshot(case), case["want"], None
    info = find_pod_info(case, view)
    if want["preFilterRun"]:
        status, state = run_pre_filter(build_plugin(case), info, view)
        assert status == want["prefilter"]
    if "filter" in want:
        assert run_filter(build_plugin(case), info, view, state) == want["filter"]


@parametrize_cases("nodeaffinity", "score")
def test_score(case):
    view, want = build_snapshot(case), case["want"]
    if "prescore" in want:
        found = compute_scores(build_plugin(case), find_pod_info(case, view), view)
        assert found == {part: want[part] for part in want if part != "stage"}
        return
    info, rows = find_pod_info(case, view), np.arange(len(view.nodes))
    raw = build_plugin(case).score(info, view, None, rows)  # here the table does without PreScore
    assert dict(zip(view.nodes.names, raw.tolist(), strict=True)) == want["rawScores"]
    assert dict(zip(view.nodes.names, build_plugin(case).normalize(None, raw).tolist(), strict=True)) == want["scores"]


def draw_term(random):
    keys, values = random.choice([(["zone"], ["x", "y"]), (["rack", "cores"], ["1", "2"])])
    return draw_some(
        random,
        matchExpressions=draw_many(
            random, 2, lambda r: draw_requirement(r, keys, values, numbers=values == ["1", "2"])
        ),
        matchFields=[{"key": "metadata.name", "operator": "In", "values": [random.choice(["n0", "n1", "n2"])]}],
    )


def draw_weighted_term(random):
    return {"weight": random.randint(1, 100), "preference": draw_term(random)}


def draw_choosy_pod(random):
    required = {"nodeSelectorTerms": draw_many(random, 2, draw_term, least=1)}
    affinity = {
        "preferredDuringSchedulingIgnoredDuringExecution": draw_many(random, 3, draw_weighted_term),
        **draw_some(random, requiredDuringSchedulingIgnoredDuringExecution=required),
    }
    node_selector = draw_some(random, zone=random.choice("xy"))
    return {"nodeSelector": node_selector, "affinity": {"nodeAffinity": affinity}}


@given(draw_clusters(pending=draw_choosy_pod))
def test_naive_filter(cluster):
    check_filter(NodeAffinity(None), cluster, filter_naively)


def filter_naively(cluster, node, pods):
    if is_node_wanted(cluster.pending["spec"], node):
        return None
    return UNRESOLVABLE, ["node(s) didn't match Pod's node affinity/selector"]


@given(draw_clusters(pending=draw_choosy_pod))
def test_naive_scores(cluster):
    check_scores(NodeAffinity(None), cluster, score_naively)


def score_naively(cluster):
    """Sum the weights of the preferred terms that a node matches."""
    terms = cluster.pending["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    if not terms:
        return None
    raw = {
        get_name(node): sum(term["weight"] for term in terms if is_term_matching(term["preference"], node))
        for node in cluster.nodes
        if get_name(node) in cluster.feasible
    }
    most = max(raw.values())
    return raw, {name: 100 * score // most if most else 0 for name, score in raw.items()}
