"""Check whether a higher priority would help a pod, and whom it would preempt."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.commands.explain import one_pod as of_one_pod
from kschedctl.commands.explain.report import Explanation, PreemptionReport
from kschedctl.errors import UsageError

Json = dict[str, Any]
WEB = "shop/web"


def build_node(name: str) -> Json:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}


def build_pod(
    name: str, cpu: int, priority: int | None = None, node_name: str = "", nominated: str = "", **spec: Any
) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    spec |= {"containers": [container], "priority": priority, "nodeName": node_name}
    metadata = {"namespace": "shop", "name": name, "labels": {"app": name}}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"nominatedNodeName": nominated}}


def build_priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Json:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, "preemptionPolicy": policy}


def build_cluster(*more: Json) -> Cluster:
    """Build two full nodes, and a pod `web` that requests two of the four cores of one of them."""
    return Cluster.from_objects(
        [
            build_node("a"),
            build_node("b"),
            build_pod("a-low", 2, 0, "a"),
            build_pod("a-high", 2, 100, "a"),
            build_pod("b-low", 3, 50, "b"),
            build_pod("b-high", 1, 500, "b"),
            build_priority_class("gold", 200),
            build_priority_class("quiet", 1000, "Never"),
            *(more or [build_pod("web", 2)]),
        ]
    )


def get_preemption(report: Explanation) -> PreemptionReport:
    assert report.verdict == "Unschedulable"
    assert report.preemption is not None
    return report.preemption


def list_evicted_pods(report: Explanation) -> dict[str, list[str]]:
    """Return the names of the pods that would be evicted on each node."""
    found = get_preemption(report).candidates
    return {name: [key.removeprefix("shop/") for key in candidate.victims] for name, candidate in found.items()}


@pytest.mark.parametrize(
    ("asked", "victims", "chosen"),
    [
        ({}, {}, None),
        ({"as_if_priority": 0}, {}, None),
        ({"as_if_priority": 1}, {"a": ["a-low"]}, "a"),
        ({"as_if_priority": 50}, {"a": ["a-low"]}, "a"),
        ({"as_if_priority": 51}, {"a": ["a-low"], "b": ["b-low"]}, "a"),
        ({"as_if_priority_class": "gold"}, {"a": ["a-low"], "b": ["b-low"]}, "a"),
        ({"as_if_priority_class": "system-node-critical"}, {"a": ["a-low"], "b": ["b-low"]}, "a"),
        ({"as_if_priority_class": "gold", "as_if_priority": 1}, {"a": ["a-low"]}, "a"),
    ],
    ids=str,
)
def test_victims_with_a_higher_priority(asked: Json, victims: dict[str, list[str]], chosen: str | None) -> None:
    report = of_one_pod.explain(build_cluster(), WEB, **asked)
    assert list_evicted_pods(report) == victims
    assert get_preemption(report).chosen == chosen


def test_pod_that_needs_a_whole_node() -> None:
    """The pod needs 4 cores, so node a must be emptied. On node b, b-high has a higher priority than class gold."""
    report = of_one_pod.explain(build_cluster(build_pod("web", 4)), WEB, as_if_priority_class="gold")
    assert list_evicted_pods(report) == {"a": ["a-high", "a-low"]}
    assert get_preemption(report).decided_by == "the only candidate"


def test_node_without_budget_violations_is_preferred() -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": "keep"},
        "spec": {"selector": {"matchLabels": {"app": "a-low"}}},
        "status": {"disruptionsAllowed": 0},
    }
    found = get_preemption(of_one_pod.explain(build_cluster(build_pod("web", 2), budget), WEB, as_if_priority=60))
    assert found.chosen == "b"
    assert found.decided_by == "fewest PodDisruptionBudget violations"
    assert found.candidates["a"].pdb_violations == 1
    assert found.candidates["a"].details[0].budgets == ("shop/keep",)


def test_class_that_never_preempts() -> None:
    found = get_preemption(of_one_pod.explain(build_cluster(), WEB, as_if_priority_class="quiet"))
    assert (found.eligible, found.why) == (False, "not eligible due to preemptionPolicy=Never.")


def test_class_replaces_the_preemption_policy_of_the_pod() -> None:
    patient = build_cluster(build_pod("web", 2, preemptionPolicy="Never"))
    assert not get_preemption(of_one_pod.explain(patient, WEB, as_if_priority=200)).eligible
    assert list_evicted_pods(of_one_pod.explain(patient, WEB, as_if_priority_class="gold")) == {
        "a": ["a-low"],
        "b": ["b-low"],
    }


def test_nominated_pods_of_lower_priority_are_ignored() -> None:
    waiting = [build_pod("web", 2), build_node("c"), build_pod("promised", 4, 100, nominated="c")]
    assert of_one_pod.explain(build_cluster(*waiting), WEB, as_if_priority=100).verdict == "Unschedulable"
    assert of_one_pod.explain(build_cluster(*waiting), WEB, as_if_priority=101).feasible == ("c",)


def test_unknown_class_is_an_error() -> None:
    with pytest.raises(UsageError, match=r'no PriorityClass "platinum" \(available: gold, quiet\)'):
        of_one_pod.explain(build_cluster(), WEB, as_if_priority_class="platinum")


def test_manifest_passes_admission_first() -> None:
    gold = build_pod("web", 2, priorityClassName="gold")
    gold["spec"]["containers"][0]["image"] = "web"
    assert list_evicted_pods(of_one_pod.explain(build_cluster(build_node("c"), build_pod("c", 4, 900, "c")), gold)) == {
        "a": ["a-low"],
        "b": ["b-low"],
    }
    missing = build_pod("web", 2, priorityClassName="platinum")
    missing["spec"]["containers"][0]["image"] = "web"
    not_created = kschedctl.explain(build_cluster(), missing).not_created
    assert not_created is not None
    assert "no PriorityClass with name platinum was found" in not_created.headline
    assert list_evicted_pods(of_one_pod.explain(build_cluster(missing), WEB)) == {}


def test_manifest_of_an_existing_pod_skips_admission() -> None:
    existing = build_pod("web", 2, 60, priorityClassName="since-deleted")
    existing["metadata"]["uid"] = "5f1c"
    assert list_evicted_pods(of_one_pod.explain(build_cluster(), existing)) == {"a": ["a-low"], "b": ["b-low"]}


def test_sum_of_priorities_counts_before_the_number_of_victims() -> None:
    """Upstream adds 2**31 to each priority.

    Victims at -5, -2**31 and -2**31 therefore cost less than victims at -5 and -6.
    """
    least = -(2**31)
    of_a = [build_pod("a-high", 2, -5, "a"), build_pod("a-low", 1, least, "a"), build_pod("a-least", 1, least, "a")]
    of_b = [build_pod("b-high", 2, -5, "b"), build_pod("b-low", 2, -6, "b")]
    found = Cluster.from_objects([build_node("a"), build_node("b"), *of_a, *of_b, build_pod("web", 4, 0)])
    report = of_one_pod.explain(found, "shop/web")
    assert {name: len(victims) for name, victims in list_evicted_pods(report).items()} == {"a": 3, "b": 2}
    assert get_preemption(report).chosen == "a"
