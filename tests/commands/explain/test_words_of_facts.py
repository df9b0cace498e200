"""Check that facts about a node are exact, use one unit, and name what the pod requests."""

from __future__ import annotations

import pytest
from small import Json, build_node, build_pod, build_replica, build_spread

import kschedctl
from kschedctl.commands.explain.report import Explanation


def explain_pod(*objects: Json) -> Explanation:
    """Explain the pod d/p."""
    return kschedctl.explain(kschedctl.Cluster.from_objects(list(objects)), "d/p")


def find_fact(report: Explanation, plugin: str) -> str:
    return next(r.fact for n in report.nodes for r in n.refusals if r.plugin == plugin)


def explain_memory(request: str, limit: str = "31Gi", used: str = "") -> Explanation:
    offering = build_node("n1")
    offering["status"]["allocatable"]["memory"] = limit
    others = []
    if used:
        others = [build_pod("other", "n1")]
        others[0]["spec"]["containers"][0]["resources"]["requests"] = {"memory": used}
    asking = build_pod("p")
    asking["spec"]["containers"][0]["resources"]["requests"] = {"memory": request}
    return explain_pod(offering, asking, *others)


@pytest.mark.parametrize(
    ("request_", "used", "said"),
    [
        (
            "200Gi",
            "5760Mi",
            "the pod needs 200 GiB of memory, but the node has only 31 GiB",
        ),
        ("31Gi", "1Ki", "the pod needs 31 GiB of memory, but the node has 30.999999 of 31 GiB free"),
        ("512Mi", "30.9Gi", "the pod needs 512 MiB of memory, but the node has 102 of 31,744 MiB free"),
        ("2Gi", "31Gi", "the pod needs 2 GiB of memory, but the node has 0 of 31 GiB free"),
    ],
)
def test_amounts_in_a_line_have_one_unit_and_stay_distinct(request_: str, used: str, said: str) -> None:
    assert find_fact(explain_memory(request_, used=used), "NodeResourcesFit") == said


def test_millicores_and_cores_are_not_mixed() -> None:
    report = explain_pod(build_node("n1", cpu="7910m"), build_pod("p", cpu="6"), build_pod("other", "n1", cpu="5650m"))
    assert find_fact(report, "NodeResourcesFit") == "the pod needs 6 CPUs, but the node has 2.26 of 7.91 free"


def test_resource_that_no_node_offers() -> None:
    asking = build_pod("p")
    asking["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
    assert find_fact(explain_pod(build_node("n1"), asking), "NodeResourcesFit") == (
        "the pod needs 1 example.com/fpga, which no node offers"
    )


def test_largest_node_is_one_of_the_candidates() -> None:
    """A tainted node is larger than the candidates, but still too small."""
    taint = {"key": "example.com/team", "value": "ml", "effect": "NoSchedule"}
    nodes = [build_node("n1", cpu="4"), build_node("n2", cpu="6"), build_node("big", cpu="16", taints=[taint])]
    used = build_pod("other", "n2", cpu="5")
    for cpu in ("9", "40"):
        report = explain_pod(*nodes, used, build_pod("p", cpu=cpu))
        expected = f"needs {cpu} CPUs, but the largest candidate node has only 6 (rules out both candidate nodes)"
        assert report.headline == expected
    fits_if_empty = explain_pod(*nodes, used, build_pod("p", cpu="5"))
    assert "but neither candidate node has more than 4 free (n1)" in fits_if_empty.headline


def build_affinity(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def test_unmet_terms_are_printed() -> None:
    """For each term, only the requirements that the node lacks are printed."""
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b", "c"]}
    pool = {"key": "pool", "operator": "Exists"}
    gone = {"key": "retired", "operator": "Exists"}
    name = {"key": "metadata.name", "operator": "In", "values": ["n9"]}
    terms = build_affinity({"matchExpressions": [pool, zone, gone]}, {"matchFields": [name]})
    assert find_fact(explain_pod(build_node("n1"), build_pod("p", **terms)), "NodeAffinity") == (
        "the pod needs either topology.kubernetes.io/zone=b or c and a label retired, or node n9, "
        "but the node has topology.kubernetes.io/zone=a and no label retired"
    )


def test_at_most_three_terms_are_printed() -> None:
    terms = [{"matchExpressions": [{"key": f"k{i}", "operator": "Exists"}]} for i in range(5)]
    found = find_fact(explain_pod(build_node("n1"), build_pod("p", **build_affinity(*terms))), "NodeAffinity")
    assert "a label k2" in found
    assert "k3" not in found
    assert ", or one of 2 more terms, but the node has " in found


def test_one_matching_pod_is_singular() -> None:
    """Zone a has one pod, b has none and is full, and maxSkew is 1.

    A second pod in zone a would lead to a skew of 2.
    """
    objects = [
        build_node("n1", "a"),
        build_node("n2", "b", cpu="100m"),
        build_replica("r", "n1"),
        build_replica("p", **build_spread()),
    ]
    assert find_fact(explain_pod(*objects), "PodTopologySpread") == (
        "skew would be 2, but maxSkew is 1: topology.kubernetes.io/zone=a has 1 matching pod, and the emptiest domain, "
        "b, has 0"
    )


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_is_called_finished(phase: str) -> None:
    ended = build_pod("p", "n1")
    ended["status"] = {"phase": phase}
    report = explain_pod(build_node("n1"), ended)
    assert report.verdict == "Finished"
    assert phase in report.headline


def test_largest_free_amount_ignores_nodes_at_their_pod_limit() -> None:
    full, other = build_node("n1", cpu="4", pods="1"), build_node("n2", cpu="1")
    report = explain_pod(full, other, build_pod("p", cpu="3500m"), build_pod("other", "n1", cpu="1"))
    assert "no node has more than 1 free (n2), apart from n1, which has 3 free but is full of pods" in report.headline


def test_largest_free_amount_counts_full_nodes_if_all_are_full() -> None:
    nodes = [build_node("n1", cpu="4", pods="1"), build_node("n2", cpu="2", pods="1")]
    report = explain_pod(
        *nodes, build_pod("p", cpu="3500m"), build_pod("a", "n1", cpu="1"), build_pod("b", "n2", cpu="1")
    )
    assert "but neither node has more than 3 free (n1)" in report.headline


def test_largest_free_amount_names_its_nodes_if_another_node_has_more() -> None:
    """A port is taken on n3, which has 7 CPUs free. The other nodes have less than the pod needs."""
    busy, small, smaller = build_node("n3", cpu="8"), build_node("n2", cpu="2"), build_node("n1", cpu="1")
    pods = [build_pod("port", "n3"), build_pod("p", cpu="3")]
    for pod in pods:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    several = explain_pod(busy, small, smaller, *pods)
    assert "needs 3 CPUs, but 2 of 3 nodes have at most 2 free (n2)" in several.headline
    single = explain_pod(busy, small, *pods)
    assert "needs 3 CPUs, but n2 has 2 of 2 free (rules out 1 of 2 nodes)" in [cause.plain for cause in single.causes]
    assert not any("more than" in cause.plain for report in (several, single) for cause in report.causes)


def test_missing_nodes_and_labels_are_said_not_to_exist() -> None:
    def named(name: str) -> Json:
        return build_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]})

    nodes = [build_node("n1"), build_node("n2", unschedulable=True)]
    assert explain_pod(*nodes, build_pod("p", **named("n9"))).headline.startswith("needs node n9 (no such node)")
    assert "does not exist" not in explain_pod(*nodes, build_pod("p", **named("n2"))).headline
    spread_over_racks = build_pod("p", **build_spread("rack"))
    assert explain_pod(*nodes, spread_over_racks).headline == "no node has the label rack"
