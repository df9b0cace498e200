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
    clusters,
    many,
    name_of,
    requirement,
    some_of,
    term_matches,
    wants_node,
)

from kschedctl.scheduler.plugins.node_affinity import NodeAffinity, NodeAffinityArgs


def plugin(case):
    return NodeAffinity(build_plugin_args(case, NodeAffinityArgs).added_affinity)


@parametrize_cases("nodeaffinity", "filter")
def test_filter(case):
    """The table runs Filter regardless of the PreFilter status, and in some cases without PreFilter."""
    view, want, state = build_snapshot(case), case["want"], None
    info = find_pod_info(case, view)
    if want["preFilterRun"]:
        status, state = run_pre_filter(plugin(case), info, view)
        assert status == want["prefilter"]
    if "filter" in want:
        assert run_filter(plugin(case), info, view, state) == want["filter"]


@parametrize_cases("nodeaffinity", "score")
def test_score(case):
    view, want = build_snapshot(case), case["want"]
    if "prescore" in want:
        found = compute_scores(plugin(case), find_pod_info(case, view), view)
        assert found == {part: want[part] for part in want if part != "stage"}
        return
    info, rows = find_pod_info(case, view), np.arange(len(view.nodes))
    raw = plugin(case).score(info, view, None, rows)  # here the table does without PreScore
    assert dict(zip(view.nodes.names, raw.tolist(), strict=True)) == want["rawScores"]
    assert dict(zip(view.nodes.names, plugin(case).normalize(None, raw).tolist(), strict=True)) == want["scores"]


def term(random):
    keys, values = random.choice([(["zone"], ["x", "y"]), (["rack", "cores"], ["1", "2"])])
    return some_of(
        random,
        matchExpressions=many(random, 2, lambda r: requirement(r, keys, values, numbers=values == ["1", "2"])),
        matchFields=[{"key": "metadata.name", "operator": "In", "values": [random.choice(["n0", "n1", "n2"])]}],
    )


def weighted(random):
    return {"weight": random.randint(1, 100), "preference": term(random)}


def choosy(random):
    required = {"nodeSelectorTerms": many(random, 2, term, least=1)}
    affinity = {
        "preferredDuringSchedulingIgnoredDuringExecution": many(random, 3, weighted),
        **some_of(random, requiredDuringSchedulingIgnoredDuringExecution=required),
    }
    node_selector = some_of(random, zone=random.choice("xy"))
    return {"nodeSelector": node_selector, "affinity": {"nodeAffinity": affinity}}


@given(clusters(pending=choosy))
def test_naive_filter(cluster):
    check_filter(NodeAffinity(None), cluster, naive_filter)


def naive_filter(cluster, node, pods):
    if wants_node(cluster.pending["spec"], node):
        return None
    return UNRESOLVABLE, ["node(s) didn't match Pod's node affinity/selector"]


@given(clusters(pending=choosy))
def test_naive_scores(cluster):
    check_scores(NodeAffinity(None), cluster, naive_scores)


def naive_scores(cluster):
    """Sum the weights of the preferred terms that a node matches."""
    terms = cluster.pending["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    if not terms:
        return None
    raw = {
        name_of(node): sum(term["weight"] for term in terms if term_matches(term["preference"], node))
        for node in cluster.nodes
        if name_of(node) in cluster.feasible
    }
    most = max(raw.values())
    return raw, {name: 100 * score // most if most else 0 for name, score in raw.items()}
