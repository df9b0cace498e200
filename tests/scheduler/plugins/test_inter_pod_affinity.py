"""Check InterPodAffinity against upstream's own tables (plugins/interpodaffinity; v1.36)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import (
    answer,
    build_delta,
    build_plugin_args,
    build_snapshot,
    compute_scores,
    drop_node_name,
    find_pod_info,
    parametrize_cases,
    run_pre_filter,
)
from small_clusters import (
    NAMESPACES,
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
    is_selected,
)

from kschedctl.cluster import convert_document
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from kschedctl.snapshot.pod_info import PodInfo


def build_plugin(case):
    return InterPodAffinity(build_plugin_args(case, InterPodAffinityArgs))


def list_counts(found, view):
    """Return the number of matches per value of each topology key, in the form of the tables."""
    return sorted(
        (key, value, int(count))
        for key, by_domain in found.counts.items()
        for value, count in zip(view.nodes.label(key).values, by_domain[:-1], strict=True)
        if count
    )


def list_wanted_counts(want):
    return sorted((entry["topologyKey"], entry["topologyValue"], entry["count"]) for entry in want)


@parametrize_cases("interpodaffinity", "filter")
def test_filter(case):
    view = build_snapshot(case)
    assert answer(build_plugin(case), find_pod_info(case, view), view) == case["want"]


@parametrize_cases("interpodaffinity", "incoming-counts")
def test_counts(case):
    view, want = build_snapshot(case), case["want"]
    status, state = run_pre_filter(build_plugin(case), find_pod_info(case, view), view)
    assert status == want["prefilter"]
    assert (state is None) == status["skip"]
    if state is not None:
        assert list_counts(state.affinity, view) == list_wanted_counts(want["affinityCounts"])
        assert list_counts(state.anti_affinity, view) == list_wanted_counts(want["antiAffinityCounts"])


@parametrize_cases("interpodaffinity", "prefilter-addpod")
def test_added_pod(case):
    """The pod is added by a delta for its node, and to the cluster itself."""
    want, added = case["want"], case["addedPod"]
    node = added["spec"]["nodeName"]
    before = build_snapshot(case, more=[drop_node_name(added)])
    delta = build_delta(before, node, added, 1)
    assert (
        answer(build_plugin(case), find_pod_info(case, before), before, delta)["filter"][node] == want["filter"][node]
    )
    after = build_snapshot(case, more=[added])
    assert answer(build_plugin(case), find_pod_info(case, after), after)["filter"] == want["filter"]
    _, state = run_pre_filter(build_plugin(case), find_pod_info(case, after), after)
    assert list_counts(state.affinity, after) == list_wanted_counts(want["affinityCounts"])
    assert list_counts(state.anti_affinity, after) == list_wanted_counts(want["antiAffinityCounts"])


@parametrize_cases("interpodaffinity", "score")
def test_score(case):
    view, want = build_snapshot(case), case["want"]
    found = compute_scores(build_plugin(case), find_pod_info(case, view), view)
    assert found == {part: want[part] for part in want if part != "stage"}


@parametrize_cases("interpodaffinity", "affinityterm-namespaces")
def test_namespaces_of_a_term(case):
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [case["term"]]}}
    pod = {"kind": "Pod", "metadata": {"namespace": case["podNamespace"]}, "spec": {"affinity": affinity}}
    (term,) = PodInfo(convert_document(pod), build_snapshot({}).settings.requests).required_affinity
    assert sorted(term.namespaces) == case["want"]["namespaces"]


# -- random clusters ----------------------------------------------------------------------------------------------


def draw_term(random):
    namespaces = random.sample(NAMESPACES, random.randint(0, 2))
    optional = draw_some(random, namespaces=namespaces, namespaceSelector=build_selector(random))
    if random.random() < 0.9:
        optional["labelSelector"] = build_selector(random)
    return {"topologyKey": draw_topology_key(random), **optional}


def draw_weighted_term(random):
    return {"weight": random.randint(1, 100), "podAffinityTerm": draw_term(random)}


def make_social_pod_drawer(required, preferred):
    """Draw pods with up to this many terms of each kind."""

    def affinity(random):
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": draw_many(random, required, draw_term),
            "preferredDuringSchedulingIgnoredDuringExecution": draw_many(random, preferred, draw_weighted_term),
        }

    return lambda random: {"affinity": {"podAffinity": affinity(random), "podAntiAffinity": affinity(random)}}


@given(draw_clusters(pending=make_social_pod_drawer(2, 0), running=make_social_pod_drawer(1, 0)))
def test_naive_filter(cluster):
    check_filter(InterPodAffinity(InterPodAffinityArgs()), cluster, filter_naively)


@given(draw_clusters(pending=make_social_pod_drawer(2, 0), running=make_social_pod_drawer(1, 0), changing=True))
def test_naive_filter_under_changes(cluster):
    check_filter(InterPodAffinity(InterPodAffinityArgs()), cluster, filter_naively)


def get_required_terms(pod, sort):
    return pod["spec"]["affinity"][sort]["requiredDuringSchedulingIgnoredDuringExecution"]


def get_preferred_terms(pod, sort):
    return pod["spec"]["affinity"][sort]["preferredDuringSchedulingIgnoredDuringExecution"]


def is_about(term, owner, pod, cluster):
    """Return whether the owner's term matches the pod by namespace and labels."""
    namespace = pod["metadata"]["namespace"]
    if "namespaceSelector" in term:
        labels = {get_name(n): get_labels(n) for n in cluster.namespaces}.get(namespace, {})
        exists = namespace in map(get_name, cluster.namespaces)
        everywhere = not any(term["namespaceSelector"].values())
        own = owner is cluster.pending  # its selector is looked up among the namespaces that exist, and kept
        scope = everywhere or (is_selected(term["namespaceSelector"], labels) and (exists or not own))
        scope = scope or (own and is_selected(term["namespaceSelector"], {}))
        scope = scope or namespace in term.get("namespaces", [])
    else:
        scope = namespace in (term.get("namespaces") or [owner["metadata"]["namespace"]])
    return scope and is_selected(term.get("labelSelector"), get_labels(pod))


def is_in_domain(term, node, pod, cluster):
    """Return whether the pod runs in the topology domain of the node."""
    (other,) = (n for n in cluster.nodes if get_name(n) == pod["spec"]["nodeName"])
    key = term["topologyKey"]
    return key in get_labels(node) and get_labels(node)[key] == get_labels(other).get(key)


def filter_naively(cluster, node, pods):
    pending = cluster.pending
    if not has_affinity(cluster, node, pods):
        return UNRESOLVABLE, ["node(s) didn't match pod affinity rules"]
    for term in get_required_terms(pending, "podAntiAffinity"):
        if any(is_about(term, pending, pod, cluster) and is_in_domain(term, node, pod, cluster) for pod in pods):
            return UNSCHEDULABLE, ["node(s) didn't match pod anti-affinity rules"]
    for pod in pods:
        for term in get_required_terms(pod, "podAntiAffinity"):
            if is_about(term, pod, pending, cluster) and is_in_domain(term, node, pod, cluster):
                return UNSCHEDULABLE, ["node(s) didn't satisfy existing pods anti-affinity rules"]
    return None


def has_affinity(cluster, node, pods):
    """Check each required term. The first of pods that need each other only needs the topology labels."""
    pending, terms = cluster.pending, get_required_terms(cluster.pending, "podAffinity")
    if any(term["topologyKey"] not in get_labels(node) for term in terms):
        return False
    friends = [pod for pod in pods if all(is_about(term, pending, pod, cluster) for term in terms)]
    if all(any(is_in_domain(term, node, pod, cluster) for pod in friends) for term in terms):
        return True
    lonely = not any(
        is_in_domain(term, other, pod, cluster) for term in terms for pod in friends for other in cluster.nodes
    )
    return lonely and all(is_about(term, pending, pending, cluster) for term in terms)


@given(
    draw_clusters(pending=make_social_pod_drawer(1, 2), running=make_social_pod_drawer(1, 1)),
    st.integers(0, 3),
    st.booleans(),
)
def test_naive_scores(cluster, hard, ignoring):
    args = InterPodAffinityArgs(hard_pod_affinity_weight=hard, ignore_preferred_terms_of_existing_pods=ignoring)
    check_scores(InterPodAffinity(args), cluster, lambda cluster: score_naively(cluster, hard, ignoring))


def score_naively(cluster, hard, ignoring):
    """Sum the weights of matching terms of the pod and of running pods in the node's domains."""
    pending = cluster.pending
    if ignoring and not any(get_preferred_terms(pending, sort) for sort in ("podAffinity", "podAntiAffinity")):
        return None
    found = [
        (term, pod, weight)
        for pod in cluster.pods
        for term, owner, other, weight in iter_terms_naively(pending, pod, hard)
        if is_about(term, owner, other, cluster)
        and any(is_in_domain(term, node, pod, cluster) for node in cluster.nodes)
    ]
    if not found:
        return None
    raw = {
        get_name(node): sum(weight for term, pod, weight in found if is_in_domain(term, node, pod, cluster))
        for node in cluster.nodes
        if get_name(node) in cluster.feasible
    }
    low, high = min(raw.values()), max(raw.values())
    return raw, {name: int(100 * ((score - low) / (high - low))) if high > low else 0 for name, score in raw.items()}


def iter_terms_naively(pending, pod, hard):
    """Yield the terms that may count for a running pod, with owner, target and weight."""
    for sort, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for entry in get_preferred_terms(pending, sort):
            yield entry["podAffinityTerm"], pending, pod, sign * entry["weight"]
        for entry in get_preferred_terms(pod, sort):
            yield entry["podAffinityTerm"], pod, pending, sign * entry["weight"]
    for term in get_required_terms(pod, "podAffinity") if hard else ():
        yield term, pod, pending, hard
