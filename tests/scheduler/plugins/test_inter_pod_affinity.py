"""InterPodAffinity against upstream's own tables (plugins/interpodaffinity; v1.36)."""

from __future__ import annotations

from plugin_cases import answer, cases, change, pod_info, pre_filter, scores, snapshot, typed_args, unbound

from kschedctl.cluster import convert
from kschedctl.scheduler.plugin_args import InterPodAffinityArgs
from kschedctl.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from kschedctl.snapshot.pod_info import PodInfo


def plugin(case):
    return InterPodAffinity(typed_args(case, InterPodAffinityArgs))


def counts(found, view):
    """Matches in the form of the tables: how many for which value of which topology key."""
    return sorted(
        (key, value, int(count))
        for key, by_domain in found.counts.items()
        for value, count in zip(view.nodes.label(key).values, by_domain, strict=True)
        if count
    )


def wanted_counts(want):
    return sorted((entry["topologyKey"], entry["topologyValue"], entry["count"]) for entry in want)


@cases("interpodaffinity", "filter")
def test_filter(case):
    view = snapshot(case)
    assert answer(plugin(case), pod_info(case, view), view) == case["want"]


@cases("interpodaffinity", "incoming-counts")
def test_counts(case):
    view, want = snapshot(case), case["want"]
    status, state = pre_filter(plugin(case), pod_info(case, view), view)
    assert status == want["prefilter"]
    assert (state is None) == status["skip"]
    if state is not None:
        assert counts(state.affinity, view) == wanted_counts(want["affinityCounts"])
        assert counts(state.anti_affinity, view) == wanted_counts(want["antiAffinityCounts"])


@cases("interpodaffinity", "prefilter-addpod")
def test_added_pod(case):
    """As a hypothesis about its node, and as a pod that is really there."""
    want, added = case["want"], case["addedPod"]
    node = added["spec"]["nodeName"]
    before = snapshot(case, more=[unbound(added)])
    delta = change(before, node, added, 1)
    assert answer(plugin(case), pod_info(case, before), before, delta)["filter"][node] == want["filter"][node]
    after = snapshot(case, more=[added])
    assert answer(plugin(case), pod_info(case, after), after)["filter"] == want["filter"]
    _, state = pre_filter(plugin(case), pod_info(case, after), after)
    assert counts(state.affinity, after) == wanted_counts(want["affinityCounts"])
    assert counts(state.anti_affinity, after) == wanted_counts(want["antiAffinityCounts"])


@cases("interpodaffinity", "score")
def test_score(case):
    view, want = snapshot(case), case["want"]
    found = scores(plugin(case), pod_info(case, view), view)
    assert found == {part: want[part] for part in want if part != "stage"}


@cases("interpodaffinity", "affinityterm-namespaces")
def test_namespaces_of_a_term(case):
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [case["term"]]}}
    pod = {"kind": "Pod", "metadata": {"namespace": case["podNamespace"]}, "spec": {"affinity": affinity}}
    (term,) = PodInfo(convert(pod), snapshot({}).settings.requests).required_affinity
    assert sorted(term.namespaces) == case["want"]["namespaces"]
