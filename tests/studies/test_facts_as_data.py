"""What stands behind a refusal is in the document as numbers and names too, beside the words."""

from __future__ import annotations

import pytest
from small import Json, node, pod

import kschedctl
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.framework import Code, Rejection


def explained(*objects: Json) -> Json:
    """Of the pod d/p."""
    return kschedctl.explain(kschedctl.Cluster.from_objects(list(objects)), "d/p").to_dict()


def data(document: Json, plugin: str, name: str = "n1") -> Json:
    """Of the first refusal of the node by the plugin."""
    (found,) = (n for n in document["nodes"] if n["name"] == name)
    refusal = next(r for r in found["refusals"] if r["plugin"] == plugin)
    return refusal["factData"]


def test_resources_are_in_base_units_wherever_a_fact_is_told() -> None:
    """n1 has 4 cores, 3 of them taken; the larger n2 offers 6 and has 5 taken; the pod asks for 2."""
    others = [pod("a", "n1", "3"), pod("b", "n2", "5")]
    document = explained(node("n1"), node("n2", cpu="6"), *others, pod("p", cpu="2"))
    common = {"type": "Insufficient", "resource": "cpu", "requested": 2000, "free": 1000, "largest": 6000}
    assert data(document, "NodeResourcesFit") == {**common, "offered": 4000}
    assert data(document, "NodeResourcesFit", "n2") == {**common, "offered": 6000}
    (cause,) = document["causes"]
    assert cause["factData"] == data(document, "NodeResourcesFit", cause["nearest"])
    (elimination,) = document["eliminations"]
    assert elimination["nearest"]["factData"] == data(document, "NodeResourcesFit", elimination["nearest"]["node"])
    (group,) = document["groups"]
    assert group["refusals"][0]["factData"] == data(document, "NodeResourcesFit", group["suchAs"][0])


def test_memory_is_in_bytes() -> None:
    asking = pod("p")
    asking["spec"]["containers"][0]["resources"]["requests"] = {"memory": "16Gi"}
    found = data(explained(node("n1"), asking), "NodeResourcesFit")
    assert (found["requested"], found["offered"]) == (16 * 2**30, 8 * 2**30)


PORT = {"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1"}


@pytest.mark.parametrize(
    ("spec", "asked", "plugin", "fact"),
    [
        ({"unschedulable": True}, {}, "NodeUnschedulable", {"type": "Cordoned"}),
        (
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            {},
            "TaintToleration",
            {"type": "UntoleratedTaint", "key": "k", "value": "v", "effect": "NoExecute"},
        ),
        (
            {},
            {"containers": [{"name": "c", "ports": [PORT]}]},
            "NodePorts",
            {"type": "HostPortHeld", "protocol": "TCP", "port": 80, "address": "10.0.0.1", "holder": "d/holder"},
        ),
    ],
)
def test_facts_about_a_node(spec: Json, asked: Json, plugin: str, fact: Json) -> None:
    holder = pod("holder", "n1", containers=[{"name": "c", "ports": [PORT]}])
    assert data(explained(node("n1", **spec), holder, pod("p", **asked)), plugin) == fact


class Quiet:
    """A plugin of another package, which knows words alone."""

    name = "Quiet"

    def __init__(self, args: object, gates: FeatureGates) -> None:
        pass

    def filter(self, info, view, state, delta):
        yield Rejection(~view.nodes.unschedulable, Code.UNSCHEDULABLE, "node(s) are loud", lambda row: "80 dB")


def test_words_of_another_package_are_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kschedctl.scheduler.third_party.entry_points", lambda group: [_Point()])
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Quiet"}]}}}
    meta = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = kschedctl.Cluster.from_objects([node("n1"), pod("p")], config={**meta, "profiles": [profile]})
    (cause,) = kschedctl.explain(cluster, "d/p").to_dict()["causes"]
    assert (cause["fact"], cause["factData"]) == ("80 dB", {"type": "Said", "text": "80 dB"})


class _Point:
    name, dist, module = "Quiet", None, "tests"

    def load(self) -> type[Quiet]:
        return Quiet
