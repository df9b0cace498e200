"""NodeAffinity against upstream's own tables (plugins/nodeaffinity; v1.36)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import cases, filtered, pod_info, pre_filter, scores, snapshot, typed_args
from small_clusters import (
    UNRESOLVABLE,
    check_filter,
    check_scores,
    clusters,
    name_of,
    requirements,
    term_matches,
    wants_node,
)

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


EXPRESSIONS = st.lists(requirements(["zone", "rack", "cores"], ["x", "y", "1", "2"]), max_size=2) | st.lists(
    requirements(["rack"], ["1", "2"], more=["Gt", "Lt"]), max_size=2
)
NAMES = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.just("In"),
        "values": st.sampled_from(["n0", "n1", "n2"]).map(lambda name: [name]),
    }
)
TERMS = st.fixed_dictionaries(
    {}, optional={"matchExpressions": EXPRESSIONS, "matchFields": st.lists(NAMES, max_size=1)}
)
REQUIRED = st.fixed_dictionaries({"nodeSelectorTerms": st.lists(TERMS, min_size=1, max_size=2)})
PREFERRED = st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": TERMS})
CHOOSY = clusters(
    pending=st.fixed_dictionaries(
        {
            "nodeSelector": st.dictionaries(st.just("zone"), st.sampled_from("xy")),
            "affinity": st.fixed_dictionaries(
                {
                    "nodeAffinity": st.fixed_dictionaries(
                        {"preferredDuringSchedulingIgnoredDuringExecution": st.lists(PREFERRED, max_size=3)},
                        optional={"requiredDuringSchedulingIgnoredDuringExecution": REQUIRED},
                    )
                }
            ),
        }
    )
)


@given(CHOOSY)
def test_naive_filter(cluster):
    check_filter(NodeAffinity(None), cluster, naive_filter)


def naive_filter(cluster, node, pods):
    if wants_node(cluster.pending["spec"], node):
        return None
    return UNRESOLVABLE, ["node(s) didn't match Pod's node affinity/selector"]


@given(CHOOSY)
def test_naive_scores(cluster):
    check_scores(NodeAffinity(None), cluster, naive_scores)


def naive_scores(cluster):
    """The sum of the weights of the preferred terms that a node matches."""
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
