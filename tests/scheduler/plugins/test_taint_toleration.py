"""Check TaintToleration against upstream's own tables (plugins/tainttoleration; v1.36)."""

from __future__ import annotations

from hypothesis import given
from plugin_cases import build_snapshot, compute_scores, find_pod_info, is_gate_enabled, parametrize_cases, run_filter
from small_clusters import (
    UNRESOLVABLE,
    check_filter,
    check_scores,
    draw_clusters,
    draw_many,
    draw_some,
    get_name,
    is_tolerated,
)

from kschedctl.scheduler.plugins.taint_toleration import TaintToleration


def build_plugin(case):
    return TaintToleration(comparison_operators=is_gate_enabled(case, "TaintTolerationComparisonOperators"))


@parametrize_cases("tainttoleration", "filter")
def test_filter(case):
    view = build_snapshot(case)
    assert run_filter(build_plugin(case), find_pod_info(case, view), view) == case["want"]["filter"]


@parametrize_cases("tainttoleration", "score")
def test_score(case):
    view = build_snapshot(case)
    found = compute_scores(build_plugin(case), find_pod_info(case, view), view)
    assert found["rawScores"] == case["want"]["rawScores"]
    assert found["scores"] == case["want"]["scores"]


EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]


def taint(random):
    return {
        "key": random.choice("kl"),
        "effect": random.choice(EFFECTS),
        **draw_some(random, value=random.choice("vw")),
    }


def draw_toleration(random):
    return {
        "operator": random.choice(["Exists", "Equal"]),
        **draw_some(random, key=random.choice("kl"), effect=random.choice(EFFECTS), value=random.choice("vw")),
    }


TAINTED = draw_clusters(
    pending=lambda random: {"tolerations": draw_many(random, 3, draw_toleration)},
    node=lambda random: {"spec": {"taints": draw_many(random, 3, taint)}},
)


@given(TAINTED)
def test_naive_filter(cluster):
    check_filter(TaintToleration(comparison_operators=False), cluster, filter_naively)


def filter_naively(cluster, node, pods):
    hard = [taint for taint in node["spec"]["taints"] if taint["effect"] != "PreferNoSchedule"]
    if all(is_tolerated(cluster.pending["spec"]["tolerations"], taint) for taint in hard):
        return None
    return UNRESOLVABLE, ["node(s) had untolerated taint(s)"]


@given(TAINTED)
def test_naive_scores(cluster):
    check_scores(TaintToleration(comparison_operators=False), cluster, score_naively)


def score_naively(cluster):
    """Score nodes higher for fewer PreferNoSchedule taints that the pod does not tolerate."""
    tolerations = [t for t in cluster.pending["spec"]["tolerations"] if t.get("effect", "") in ("", "PreferNoSchedule")]
    raw = {
        get_name(node): sum(
            taint["effect"] == "PreferNoSchedule" and not is_tolerated(tolerations, taint)
            for taint in node["spec"]["taints"]
        )
        for node in cluster.nodes
        if get_name(node) in cluster.feasible
    }
    most = max(raw.values())
    return raw, {name: 100 - (100 * count // most if most else 0) for name, count in raw.items()}
