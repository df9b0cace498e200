"""Check PodTopologySpread against upstream's own tables (plugins/podtopologyspread; v1.36)."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from plugin_cases import (
    answer,
    build_delta,
    build_plugin_args,
    build_snapshot,
    compute_scores,
    drop_node_name,
    find_pod_info,
    is_gate_enabled,
    parametrize_cases,
    run_pre_filter,
)
from small_clusters import (
    HOSTNAME,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    build_selector,
    check_filter,
    check_scores,
    draw_clusters,
    draw_many,
    draw_some,
    draw_topology_key,
    get_labels,
    get_name,
    is_node_wanted,
    is_selected,
    is_tolerated,
)

from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread, PodTopologySpreadArgs


def build_plugin(case):
    return PodTopologySpread(
        build_plugin_args(case, PodTopologySpreadArgs),
        match_label_keys=is_gate_enabled(case, "MatchLabelKeysInPodTopologySpread"),
        inclusion_policies=is_gate_enabled(case, "NodeInclusionPolicyInPodTopologySpread"),
        comparison_operators=True,
    )


def list_constraints(spreads, nodes):
    """Return PreFilter's state in the form of the tables."""
    return [
        {
            "topologyKey": spread.constraint.topology_key,
            "maxSkew": spread.constraint.max_skew,
            "minDomains": spread.constraint.min_domains,
            "selector": str(spread.constraint.selector),
            "nodeAffinityPolicy": "Honor" if spread.constraint.honor_affinity else "Ignore",
            "nodeTaintsPolicy": "Honor" if spread.constraint.honor_taints else "Ignore",
            "matchNum": {v: int(spread.counts[i]) for i, v in enumerate(spread.column.values) if spread.exists[i]},
            "minMatchNum": int(spread.compute_counts_and_minimum(np.zeros(nodes, np.int64))[1].min()),
        }
        for spread in spreads
    ]


@parametrize_cases("podtopologyspread", "filter")
def test_filter(case):
    view = build_snapshot(case)
    found = answer(build_plugin(case), find_pod_info(case, view), view)
    assert {part: found[part] for part in case["want"]} == case["want"]


@parametrize_cases("podtopologyspread", "prefilter")
def test_pre_filter(case):
    view, want = build_snapshot(case), case["want"]
    status, state = run_pre_filter(build_plugin(case), find_pod_info(case, view), view)
    assert status == want["prefilter"]
    if "constraints" in want and len(view.nodes):
        assert list_constraints(state, len(view.nodes)) == want["constraints"]
    if "filter" in want:
        assert answer(build_plugin(case), find_pod_info(case, view), view)["filter"] == want["filter"]


@parametrize_cases("podtopologyspread", "prefilter-addedpod")
def test_added_pod(case):
    """The pod is added by a delta for its node, and to the cluster itself."""
    want, added, node = case["want"], case["addedPod"], case["onNode"]
    before = build_snapshot(case, more=[drop_node_name(added)])
    found = answer(build_plugin(case), find_pod_info(case, before), before, build_delta(before, node, added, 1))
    assert found["filter"][node] == want["filter"][node]
    after = build_snapshot(case, more=[added])
    _, state = run_pre_filter(build_plugin(case), find_pod_info(case, after), after)
    assert list_constraints(state, len(after.nodes)) == want["constraints"]
    assert answer(build_plugin(case), find_pod_info(case, after), after)["filter"] == want["filter"]


@parametrize_cases("podtopologyspread", "prefilter-removedpod")
def test_removed_pod(case):
    """The pod is removed by a delta for its node, and from the cluster itself."""
    want, removed, node = case["want"], case["removedPod"], case["onNode"]
    before = build_snapshot(case)
    if removed["metadata"]["name"] not in {pod["metadata"]["name"] for pod in case["pods"]}:
        before = build_snapshot(case, more=[drop_node_name(removed)])
    found = answer(build_plugin(case), find_pod_info(case, before), before, build_delta(before, node, removed, -1))
    assert found["filter"][node] == want["filter"][node]
    if removed["spec"]["nodeName"] != node:
        return  # a removal that only a test can make
    left = [pod for pod in case["pods"] if pod["metadata"]["name"] != removed["metadata"]["name"]]
    after = build_snapshot({**case, "pods": left})
    _, state = run_pre_filter(build_plugin(case), find_pod_info(case, after), after)
    assert list_constraints(state, len(after.nodes)) == want["constraints"]
    assert answer(build_plugin(case), find_pod_info(case, after), after)["filter"] == want["filter"]


@parametrize_cases("podtopologyspread", "score", "prescore")
def test_score(case):
    view, want = build_snapshot(case), case["want"]
    found = compute_scores(build_plugin(case), find_pod_info(case, view), view, case.get("feasibleNodes"))
    compared = want.keys() & {"prescore", "rawScores", "scores"}
    assert {part: found.get(part) for part in compared} == {part: want[part] for part in compared}


# -- random clusters ----------------------------------------------------------------------------------------------

UNEVEN = "node(s) didn't match pod topology spread constraints"
EVEN = PodTopologySpread(
    PodTopologySpreadArgs(), match_label_keys=True, inclusion_policies=True, comparison_operators=False
)
TAINT = {"key": "k", "effect": "NoSchedule"}
POLICIES = ["Honor", "Ignore"]


def make_spreading_pod_drawer(action, selectors=build_selector):
    """Draw pods with constraints of this action, and with zones and tolerations that matter to the policies."""

    def constraint(random):
        optional = draw_some(
            random, nodeAffinityPolicy=random.choice(POLICIES), nodeTaintsPolicy=random.choice(POLICIES)
        )
        if action == "DoNotSchedule":
            optional |= draw_some(random, minDomains=random.randint(1, 3))
        return {
            "maxSkew": random.randint(1, 2),
            "topologyKey": draw_topology_key(random),
            "whenUnsatisfiable": action,
            "labelSelector": selectors(random),
            **optional,
        }

    def pending(random):
        return {
            "topologySpreadConstraints": draw_many(random, 2, constraint, least=1),
            "tolerations": draw_many(random, 1, lambda r: {"operator": "Exists"}),
            **({"nodeSelector": {"zone": "x"}} if random.random() < 0.2 else {}),
        }

    return pending


def draw_tainted_node(random):
    return {"spec": {"taints": [TAINT] if random.random() < 0.3 else []}}


def draw_selector(random):
    found = build_selector(random)
    return found if any(found.values()) else {"matchLabels": {"app": "x"}}


@given(draw_clusters(pending=make_spreading_pod_drawer("DoNotSchedule"), node=draw_tainted_node, terminating=True))
def test_naive_filter(cluster):
    check_filter(EVEN, cluster, filter_naively)


@given(
    draw_clusters(
        pending=make_spreading_pod_drawer("DoNotSchedule", draw_selector), node=draw_tainted_node, changing=True
    )
)
def test_naive_filter_under_changes(cluster):
    """In a delta, upstream counts terminating pods and empty selectors like others, so these are not drawn."""
    check_filter(EVEN, cluster, filter_naively)


def filter_naively(cluster, node, pods):
    every = cluster.pending["spec"]["topologySpreadConstraints"]
    for constraint in every:
        key = constraint["topologyKey"]
        if key not in get_labels(node):
            return UNRESOLVABLE, [f"{UNEVEN} (missing required label)"]
        counts = {}
        for other in cluster.nodes:
            if has_all(other, every) and is_included(constraint, cluster.pending, other):
                domain = get_labels(other)[key]
                counts[domain] = counts.get(domain, 0) + count_matching(
                    constraint, cluster.pending, list_pods_on(other, pods)
                )
        fewest = min(counts.values(), default=0) if len(counts) >= constraint.get("minDomains", 1) else 0
        own = is_selected(constraint.get("labelSelector"), get_labels(cluster.pending))
        if counts.get(get_labels(node)[key], 0) + own - fewest > constraint["maxSkew"]:
            return UNSCHEDULABLE, [UNEVEN]
    return None


def list_pods_on(node, pods):
    return [pod for pod in pods if pod["spec"]["nodeName"] == get_name(node)]


def has_all(node, constraints):
    return all(constraint["topologyKey"] in get_labels(node) for constraint in constraints)


def is_included(constraint, pod, node):
    """Return whether the pods of a node count by the constraint's policies."""
    wanted = constraint.get("nodeAffinityPolicy") == "Ignore" or is_node_wanted(pod["spec"], node)
    tolerable = all(is_tolerated(pod["spec"]["tolerations"], taint) for taint in node["spec"]["taints"])
    return wanted and (constraint.get("nodeTaintsPolicy") != "Honor" or tolerable)


def count_matching(constraint, pending, pods):
    """Count the matching pods that are not terminating. An empty selector counts none."""
    selector = constraint.get("labelSelector")
    if not selector or not any(selector.values()):
        return 0
    return sum(
        is_selected(selector, get_labels(pod))
        for pod in pods
        if pod["metadata"]["namespace"] == pending["metadata"]["namespace"]
        and "deletionTimestamp" not in pod["metadata"]
    )


@given(draw_clusters(pending=make_spreading_pod_drawer("ScheduleAnyway"), node=draw_tainted_node, terminating=True))
def test_naive_scores(cluster):
    check_scores(EVEN, cluster, score_naively)


def score_naively(cluster):
    """Score nodes lower for more matching pods in their domains, weighted by the number of domains."""
    constraints = cluster.pending["spec"]["topologySpreadConstraints"]
    feasible = [node for node in cluster.nodes if get_name(node) in cluster.feasible]
    complete = [node for node in feasible if has_all(node, constraints)]
    raw = dict.fromkeys(cluster.feasible, 0)
    for node in complete:
        raw[get_name(node)] = math.floor(sum(score_node_naively(c, node, complete, cluster) for c in constraints) + 0.5)
    found = [raw[get_name(node)] for node in complete]
    low, high = (min(found), max(found)) if found else (0, 0)
    worst = {get_name(node): 100 * (high + low - raw[get_name(node)]) // high if high else 100 for node in complete}
    return raw, {name: worst.get(name, 0) for name in raw}


def score_node_naively(constraint, node, complete, cluster):
    key, every = constraint["topologyKey"], cluster.pending["spec"]["topologySpreadConstraints"]
    if key == HOSTNAME:
        domains, here = len(complete), [node]
    else:
        domains = len({get_labels(other)[key] for other in complete})
        here = [
            other
            for other in cluster.nodes
            if has_all(other, every)
            and get_labels(other)[key] == get_labels(node)[key]
            and is_included(constraint, cluster.pending, other)
        ]
    count = sum(count_matching(constraint, cluster.pending, list_pods_on(other, cluster.pods)) for other in here)
    return count * math.log(domains + 2) + (constraint["maxSkew"] - 1)
