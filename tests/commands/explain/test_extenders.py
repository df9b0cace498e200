"""Check answers with extenders, and the notes if extenders were not called."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_extender import ScriptedExtenders

import kschedctl
from kschedctl.commands.simulate import simulate
from kschedctl.replay.shared_cluster import EXTENDER_CLUSTER_NOTE
from kschedctl.reports.unknown import UnknownKind

Json = dict[str, Any]
URL = "http://x.example"
NODES = [
    {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}
    for name in ("n1", "n2", "n3")
]
FILTER, PREEMPT = {"filterVerb": "filter"}, {"preemptVerb": "preempt"}
SCORE = {"prioritizeVerb": "prioritize", "weight": 2}
UNASKED = "were not called"


def build_pod(name: str = "web", cpu: str = "1", **spec: Any) -> Json:
    containers = [{"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"containers": containers, **spec},
    }


def build_cluster(*objects: Json, **settings: Any) -> kschedctl.Cluster:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": URL, **settings}],
    }
    return kschedctl.Cluster.from_objects([*NODES, *objects], config=configuration)


def explain(found: kschedctl.Cluster, script: Json | None = None) -> Json:
    asked = None if script is None else ScriptedExtenders({URL: script})
    return kschedctl.explain(found, "shop/web", call_extender=asked).to_dict()


@pytest.mark.parametrize(
    ("cpu", "settings", "unknown", "undecided"),
    [
        ("1", FILTER, [UnknownKind("Extender", UNASKED, "verdict")], True),
        ("1", SCORE, [UnknownKind("Extender", UNASKED, "scores")], False),
        ("1", PREEMPT, [], False),
        ("9", {**FILTER, **SCORE, **PREEMPT}, [], False),
        ("1", {"bindVerb": "bind"}, [], False),
        ("1", {**FILTER, "managedResources": [{"name": "x.example/gpu"}]}, [], False),
    ],
    ids=["filter", "score", "preempt", "it fits nowhere", "bind", "not interested"],
)
def test_uncalled_extenders_make_the_answer_uncertain(
    cpu: str, settings: Json, unknown: list[UnknownKind], undecided: bool
) -> None:
    found = kschedctl.explain(build_cluster(build_pod(cpu=cpu), **settings), "shop/web")
    assert list(found.unknown) == unknown
    assert found.undecided == undecided
    assert found.not_replayed == (f"extender {URL}",)
    assert found.calls == ()


def test_victims_are_uncertain_if_an_extender_chooses_them() -> None:
    small = build_pod("small", "3", priority=1, nodeName="n1")
    others = [build_pod(f"large-{node}", "4", priority=9, nodeName=node) for node in ("n2", "n3")]
    asked = build_cluster(small, *others, build_pod(cpu="2", priority=5), **PREEMPT)
    found = kschedctl.explain(asked, "shop/web")
    assert [(each.kind, each.affects) for each in found.unknown] == [("Extender", "victims")]
    removed = explain(asked, {"preempt": {"remove": ["n1"]}})
    assert removed["preemption"]["chosen"] == "n1"
    assert removed["postFilter"]["nominated"] == ""
    assert removed["message"].endswith("preemption: no candidate node for preemption")


def test_rejections_by_extenders_are_the_cause() -> None:
    refuse = {"n1": "GPU memory is full", "n2": "GPU memory is full", "n3": ""}
    found = explain(build_cluster(build_pod(), **FILTER), {"filter": {"refuse": refuse}})
    assert found["verdict"] == "Unschedulable"
    assert found["message"].startswith("0/3 nodes are available: 1 , 2 GPU memory is full.")
    assert [(cause["plugin"], cause["reason"]) for cause in found["causes"]] == [
        ("Extender", "GPU memory is full"),
        ("Extender", "no reason given"),
    ]
    assert found["nodes"][0]["refusals"][0]["fact"] == f"rejected by {URL}"
    assert found["unschedulablePlugins"] == ["Extender"]


def test_silently_dropped_nodes_are_reported() -> None:
    found = explain(build_cluster(build_pod(), **FILTER), {"filter": {"drop": ["n1", "n2", "n3"]}})
    preemption = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    assert found["message"] == f"0/3 nodes are available: no new claims to deallocate, {preemption}"
    assert found["causes"][0]["reason"] == "left out by an extender without a reason"
    assert found["diagnosis"] == {}


def test_nodes_returned_by_an_extender_are_scored_as_returned() -> None:
    """Returned nodes have no pods, so the busy node scores as high as the empty ones, and so does an unknown node."""
    busy = build_pod("busy", "2", nodeName="n1")
    whole = {"filter": {"ghost": ["ghost"]}}
    by_name = explain(build_cluster(busy, build_pod(), **FILTER, nodeCacheCapable=True), {"filter": {}})
    believed = explain(build_cluster(busy, build_pod(), **FILTER), whole)
    assert by_name["total"]["n1"] < by_name["total"]["n2"]
    assert believed["total"]["n1"] == believed["total"]["n2"]
    assert believed["feasible"] == ["n1", "n2", "n3", "ghost"]
    assert "ghost" in believed["total"]


def test_before_1_33_the_schedulers_own_nodes_are_scored() -> None:
    busy = build_pod("busy", "2", nodeName="n1")
    old = build_cluster(busy, build_pod(), **FILTER)
    documents = [*NODES, busy, build_pod()]
    old = kschedctl.Cluster.from_objects(documents, config=old.configuration, kube_version="1.32")
    assert explain(old, {"filter": {}})["total"]["n1"] < explain(old, {"filter": {}})["total"]["n2"]
    made_up = explain(old, {"filter": {"ghost": ["ghost"]}})
    assert made_up["verdict"] == "Error"
    assert 'nodeinfo not found for node name "ghost"' in made_up["message"]


def test_remedies_are_uncertain_if_extenders_are_not_called() -> None:
    large = build_cluster(build_pod(cpu="9"), **FILTER)
    (unasked,) = kschedctl.remedies(large, "shop/web").unknown
    assert (unasked.kind, unasked.affects) == ("Extender", "remedies")
    report = kschedctl.remedies(kschedctl.Cluster.from_objects([*NODES, build_pod(cpu="9")]), "shop/web")
    assert report.remedies
    assert report.unknown == ()


def test_binder_is_named() -> None:
    assert explain(build_cluster(build_pod(), bindVerb="bind"), {})["binder"] == URL
    other = build_cluster(build_pod(), bindVerb="bind", managedResources=[{"name": "x.example/gpu"}])
    assert explain(other, {})["binder"] == ""


def test_answers_have_no_secrets_of_the_address() -> None:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "https://me:hunter2@x.example", **FILTER, **SCORE}],
    }
    found = kschedctl.Cluster.from_objects([*NODES, build_pod()], config=configuration)
    for answer in ((503, None), (200, {"NodeNames": ["n1"], "FailedNodes": {"n2": "no"}})):
        report = kschedctl.explain(found, "shop/web", call_extender=lambda *_, given=answer: given)
        assert "hunter2" not in str(report.to_dict())


def build_deployment(replicas: int, cpu: str = "1") -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": build_pod(cpu=cpu)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}


def simulate_with_extenders(
    found: kschedctl.Cluster, script: Json, replicas: int, **settings: Any
) -> tuple[Json, ScriptedExtenders]:
    """Simulate with scripted extenders, and return the report with them."""
    extenders = ScriptedExtenders({URL: script})
    report = simulate(found, [build_deployment(replicas)], call_extender=extenders, **settings)
    return report.to_dict(), extenders


def test_extender_is_called_for_each_placed_pod() -> None:
    """The extender rejects n1 and prefers n3 by far, so n3 gets four pods, and the fifth gets the remaining node."""
    script = {"filter": {"refuse": {"n1": "no"}}, "prioritize": {"scores": {"n3": 100}}}
    report, extenders = simulate_with_extenders(build_cluster(**FILTER, **SCORE, nodeCacheCapable=True), script, 5)
    assert sorted(report["placements"].values()) == ["n2", "n3", "n3", "n3", "n3"]
    offered = [call["nodes"] for call in extenders.calls if call["verb"] == "filter"]
    assert offered == [["n1", "n2", "n3"]] * 4 + [["n1", "n2"]]
    assert report["extended"][0] == EXTENDER_CLUSTER_NOTE
    assert not report["undecided"]


def test_pod_rejected_by_an_extender_has_its_message() -> None:
    script = {"filter": {"refuse": dict.fromkeys(("n1", "n2", "n3"), "no licence")}}
    report, _ = simulate_with_extenders(build_cluster(**FILTER), script, 2)
    assert (report["placed"], report["unplaced"]) == (0, 2)
    assert {group["message"].partition(". ")[0] for group in report["pending"]} == {
        "0/3 nodes are available: 3 no licence"
    }


def test_failure_of_an_extender_is_the_outcome_of_the_pod() -> None:
    report, _ = simulate_with_extenders(build_cluster(**FILTER), {"filter": {"error": "no licence server"}}, 1)
    assert [(group["verdict"], group["message"]) for group in report["pending"]] == [("Error", "no licence server")]


def test_pods_are_not_placed_on_nodes_that_an_extender_invents() -> None:
    script = {"filter": {"drop": ["n1", "n2", "n3"], "ghost": ["ghost"]}}
    report, _ = simulate_with_extenders(build_cluster(**FILTER), script, 1)
    assert [group["verdict"] for group in report["pending"]] == ["Error"]
    assert "does not exist: an extender returned it" in report["pending"][0]["message"]


def test_extenders_decide_which_pods_preemption_evicts() -> None:
    running = [build_pod(f"small-{node}", "4", priority=1, nodeName=node) for node in ("n1", "n2", "n3")]
    found = build_cluster(*running, {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}, **PREEMPT)
    important = build_deployment(1)
    important["spec"]["template"]["spec"]["priorityClassName"] = "high"
    extenders = ScriptedExtenders({URL: {"preempt": {"remove": ["n1", "n2"]}}})
    report = simulate(found, [important], call_extender=extenders).to_dict()
    assert list(report["placements"].values()) == ["n3"]
    assert [each["pod"] for each in report["evicted"]] == ["shop/small-n3"]


def test_simulations_are_uncertain_if_extenders_are_not_called() -> None:
    report = simulate(build_cluster(**FILTER), [build_deployment(1)])
    assert report.undecided
    assert [(each.kind, each.why) for each in report.unknown] == [("Extender", UNASKED)]
