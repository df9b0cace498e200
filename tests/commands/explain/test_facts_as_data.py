"""Check that the numbers and names behind a rejection are in the document beside the sentence."""

from __future__ import annotations

from typing import get_args

import pytest
from small import Json, build_node, build_pod

import kschedctl
from kschedctl.scheduler.framework import Code, Rejection
from kschedctl.scheduler.framework.facts import Fact
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.in_tree_plugins import AnyFact


def explain_pod(*objects: Json) -> Json:
    """Explain the pod d/p and return the document."""
    return kschedctl.explain(kschedctl.Cluster.from_objects(list(objects)), "d/p").to_dict()


def get_rejection_data(document: Json, plugin: str, name: str = "n1") -> Json:
    """Return the data of the first rejection of the node by the plugin."""
    (found,) = (n for n in document["nodes"] if n["name"] == name)
    refusal = next(r for r in found["refusals"] if r["plugin"] == plugin)
    return refusal["factData"]


def test_resources_are_in_base_units_in_all_documents() -> None:
    """n1 has 4 cores, of which 3 are used. The larger n2 has 6 cores, of which 5 are used. The pod requests 2."""
    others = [build_pod("a", "n1", "3"), build_pod("b", "n2", "5")]
    document = explain_pod(build_node("n1"), build_node("n2", cpu="6"), *others, build_pod("p", cpu="2"))
    common = {"type": "Insufficient", "resource": "cpu", "requested": 2000, "free": 1000, "largest": 6000}
    assert get_rejection_data(document, "NodeResourcesFit") == {**common, "offered": 4000}
    assert get_rejection_data(document, "NodeResourcesFit", "n2") == {**common, "offered": 6000}
    (cause,) = document["causes"]
    assert cause["factData"] == get_rejection_data(document, "NodeResourcesFit", cause["nearest"])
    (elimination,) = document["eliminations"]
    assert elimination["nearest"]["factData"] == get_rejection_data(
        document, "NodeResourcesFit", elimination["nearest"]["node"]
    )
    (group,) = document["groups"]
    assert group["refusals"][0]["factData"] == get_rejection_data(document, "NodeResourcesFit", group["suchAs"][0])


def test_memory_is_in_bytes() -> None:
    asking = build_pod("p")
    asking["spec"]["containers"][0]["resources"]["requests"] = {"memory": "16Gi"}
    found = get_rejection_data(explain_pod(build_node("n1"), asking), "NodeResourcesFit")
    assert (found["requested"], found["offered"]) == (16 * 2**30, 8 * 2**30)


def test_room_of_a_nominated_pod_is_not_free() -> None:
    """3 of the 4 cores of n1 are reserved for the nominated pod."""
    nominated = build_pod("first", cpu="3")
    nominated["status"] = {"nominatedNodeName": "n1"}
    found = get_rejection_data(explain_pod(build_node("n1"), nominated, build_pod("p", cpu="2")), "NodeResourcesFit")
    assert (found["free"], found["nominated"]) == (1000, True)


def test_each_kind_of_fact_describes_itself() -> None:
    facts = get_args(AnyFact)
    assert {each for each in Fact.__subclasses__() if each.__module__.startswith("kschedctl.")} == set(facts)
    assert [fact for fact in facts if fact.describe is Fact.describe] == []


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
    holder = build_pod("holder", "n1", containers=[{"name": "c", "ports": [PORT]}])
    assert get_rejection_data(explain_pod(build_node("n1", **spec), holder, build_pod("p", **asked)), plugin) == fact


ZONED = "topology.kubernetes.io/zone"
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONED}


def build_required_affinity(kind: str, *terms: Json) -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def test_skew() -> None:
    """Zone a has two pods. Zone b has none and is full. A third pod in zone a would lead to a skew of 3."""
    constraint = {**WEB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    there = [build_pod("x", "n1", "1"), build_pod("y", "n1", "1")]
    small = build_node("n2", "b", cpu="100m")
    document = explain_pod(build_node("n1"), small, *there, build_pod("p", topologySpreadConstraints=[constraint]))
    assert get_rejection_data(document, "PodTopologySpread") == {
        "type": "TooSkewed",
        "key": ZONED,
        "domain": "a",
        "pods": 2,
        "fewest": 0,
        "skew": 3,
        "maxSkew": 1,
        "domains": 2,
        "emptiest": {"domain": "b"},
    }


def test_fewer_domains_than_min_domains() -> None:
    """Two of the three required zones exist.

    The minimum therefore counts as 0, although each zone has a pod, and a second pod would lead to a skew of 2.
    """
    constraint = {**WEB, "maxSkew": 1, "minDomains": 3, "whenUnsatisfiable": "DoNotSchedule"}
    there = [build_pod("x", "n1", "1"), build_pod("y", "n2", "1")]
    document = explain_pod(
        build_node("n1"), build_node("n2", "b"), *there, build_pod("p", topologySpreadConstraints=[constraint])
    )
    fact = get_rejection_data(document, "PodTopologySpread")
    assert (fact["domains"], fact["minDomains"], fact["fewest"], fact["skew"]) == (2, 3, 0, 2)
    assert "emptiest" not in fact


def test_tainted_zone_counts_as_empty() -> None:
    """Zones b and c have no pod. c is tainted and b is full, so the skew would fall only without both."""
    constraint = {**WEB, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    tainted = build_node("n3", "c", taints=[{"key": "sick", "effect": "NoExecute"}])
    objects = [build_node("n1"), build_pod("x", "n1", "1"), build_pod("p", topologySpreadConstraints=[constraint])]
    emptiest = get_rejection_data(explain_pod(*objects, tainted), "PodTopologySpread")["emptiest"]
    assert emptiest == {"domain": "c", "policy": "nodeTaintsPolicy", "node": "n3", "taint": "sick:NoExecute"}
    full = build_node("n2", "b", cpu="100m")
    emptiest = get_rejection_data(explain_pod(*objects, tainted, full), "PodTopologySpread")["emptiest"]
    assert emptiest == {"domain": "b", "equallyEmpty": 1}


def test_anti_affinity_of_an_existing_pod() -> None:
    """Pod x keeps pods with app=web out of its zone. The incoming pod has this label and no term of its own."""
    document = explain_pod(
        build_node("n1"), build_pod("x", "n1", **build_required_affinity("podAntiAffinity", WEB)), build_pod("p")
    )
    assert get_rejection_data(document, "InterPodAffinity") == {
        "type": "PodInTheWay",
        "pod": "d/x",
        "key": ZONED,
        "domain": "a",
        "selector": "app=web",
        "ofExistingPod": True,
    }
    (cause,) = document["causes"]
    assert cause["fact"] == f"the anti-affinity of d/x in {ZONED}=a keeps out pods matching app=web"


@pytest.mark.parametrize(
    ("spec", "fact"),
    [
        (
            build_required_affinity("podAntiAffinity", WEB),
            {"type": "PodInTheWay", "pod": "d/x", "others": 1, "key": ZONED, "domain": "a", "selector": "app=web"},
        ),
        (
            build_required_affinity("podAffinity", {**WEB, "labelSelector": {"matchLabels": {"app": "db"}}}),
            {"type": "NoPodToJoin", "selector": "app=db", "key": ZONED, "domain": "a", "namespaces": ["d"]},
        ),
        (
            build_required_affinity("podAffinity", {**WEB, "topologyKey": "rack"}),
            {"type": "TopologyLabelMissing", "key": "rack"},
        ),
    ],
    ids=["in the way", "to join", "no label"],
)
def test_facts_about_other_pods(spec: Json, fact: Json) -> None:
    """Two pods with app=web run on n1, in zone a."""
    document = explain_pod(build_node("n1"), build_pod("x", "n1"), build_pod("y", "n1"), build_pod("p", **spec))
    assert get_rejection_data(document, "InterPodAffinity") == fact


def test_node_affinity_fact_has_requirements_and_labels() -> None:
    zone = {"key": ZONED, "operator": "In", "values": ["b", "c"]}
    named = {"key": "metadata.name", "operator": "In", "values": ["n9"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}, {"matchFields": [named]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert get_rejection_data(explain_pod(build_node("n1"), build_pod("p", affinity=affinity)), "NodeAffinity")[
        "terms"
    ] == [
        [{"key": ZONED, "operator": "In", "values": ["b", "c"], "found": "a"}],
        [{"key": "metadata.name", "operator": "In", "values": ["n9"], "found": "n1", "field": True}],
    ]
    selecting = get_rejection_data(
        explain_pod(build_node("n1"), build_pod("p", nodeSelector={"disk": "ssd"})), "NodeAffinity"
    )
    assert selecting["selector"] == [{"key": "disk", "operator": "In", "values": ["ssd"]}]


def build_pod_and_claim(volume: str = "", storage_class: str = "", size: str = "2Gi") -> list[Json]:
    """Build the pod d/p and its claim d/data."""
    spec = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"]}
    spec |= {"storageClassName": storage_class} | ({"volumeName": volume} if volume else {})
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    metadata = {"name": "data", "namespace": "d", "annotations": bound}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return [{"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}, build_pod("p", volumes=volumes)]


def build_storage_class(**more: Json | str) -> Json:
    return {"kind": "StorageClass", "metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer", **more}


def test_claim_without_a_volume() -> None:
    none = build_storage_class(provisioner="kubernetes.io/no-provisioner")
    assert get_rejection_data(
        explain_pod(build_node("n1"), none, *build_pod_and_claim(storage_class="fast")), "VolumeBinding"
    ) == {
        "type": "NoVolume",
        "claim": "d/data",
        "storageClass": "fast",
        "size": "2Gi",
        "requested": 2 * 2**30,
        "provisions": False,
    }


def test_claim_that_is_provisioned_only_on_other_nodes() -> None:
    allowed = [{"matchLabelExpressions": [{"key": ZONED, "values": ["b"]}]}]
    made = build_storage_class(provisioner="csi", allowedTopologies=allowed)
    found = get_rejection_data(
        explain_pod(build_node("n1"), made, *build_pod_and_claim(storage_class="fast")), "VolumeBinding"
    )
    assert found["provisions"] is True
    assert found["topologies"] == [[{"key": ZONED, "operator": "In", "values": ["b"], "found": "a"}]]


def test_volume_that_the_node_cannot_reach() -> None:
    wanted = {"key": ZONED, "operator": "In", "values": ["b"]}
    reach = {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"nodeAffinity": reach}}
    assert get_rejection_data(explain_pod(build_node("n1"), volume, *build_pod_and_claim("pv")), "VolumeBinding") == {
        "type": "VolumeOutOfReach",
        "volume": "pv",
        "claim": "d/data",
        "wanted": [{**wanted, "found": "a"}],
    }


def test_claim_that_must_be_bound_first_is_the_cause() -> None:
    (cause,) = explain_pod(build_node("n1"), *build_pod_and_claim(storage_class="gone"))["causes"]
    assert cause["factData"] == {"type": "ClaimsUnbound", "claims": [{"claim": "d/data", "storageClass": "gone"}]}


def test_devices() -> None:
    """The pod requests two devices. n1 has two, one of which is allocated."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}}
    result = {"driver": "gpus", "pool": "n1", "device": "a", "request": "r"}
    slice_ = {"driver": "gpus", "nodeName": "n1", "devices": [{"name": "a"}, {"name": "b"}]}
    slice_ |= {"pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}
    objects = [
        {"kind": "DeviceClass", "metadata": {"name": "gpu"}},
        {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": slice_},
        build_claim("mine", {"devices": {"requests": [request]}}, {}),
        build_claim("used", {}, {"allocation": {"devices": {"results": [result]}}}),
        build_pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "mine"}]),
    ]
    fault = {"reason": "Allocated", "devices": 1}
    wanted = {"claim": "d/mine", "request": "r", "wanted": 2, "devices": 2, "free": 1, "faults": [fault]}
    assert get_rejection_data(explain_pod(build_node("n1"), *objects), "DynamicResources") == {
        "type": "DevicesUnfit",
        "requests": [wanted],
    }


def build_claim(name: str, spec: Json, status: Json) -> Json:
    return {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": "d"}, "spec": spec, "status": status}


class Quiet:
    """A plugin of another package that gives reasons without facts."""

    name = "Quiet"

    def __init__(self, args: object, gates: FeatureGates) -> None:
        pass

    def filter(self, info, view, state, delta):
        yield Rejection(~view.nodes.unschedulable, Code.UNSCHEDULABLE, "node(s) are loud", lambda row: "80 dB")


def test_reason_of_another_package_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kschedctl.scheduler.third_party_plugins.find_entry_points", lambda paths: (_Point(),))
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Quiet"}]}}}
    meta = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    cluster = kschedctl.Cluster.from_objects([build_node("n1"), build_pod("p")], config={**meta, "profiles": [profile]})
    (cause,) = kschedctl.explain(cluster, "d/p").to_dict()["causes"]
    assert (cause["fact"], cause["factData"]) == ("80 dB", {"type": "Said", "text": "80 dB"})


class _Point:
    name, dist, module = "Quiet", None, "tests"

    def load(self) -> type[Quiet]:
        return Quiet


def test_advice_names_the_claim_of_the_fact() -> None:
    """A missing class leaves the claim without a volume. No claim is named if the fact says nothing about one."""
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "d"}}
    claim["spec"] = {"storageClassName": "none", "volumeName": "", "accessModes": ["ReadWriteOnce"]}
    claiming = build_pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    (advice,) = explain_pod(build_node("n1"), claim, claiming)["advice"]
    assert (advice["kind"], advice["claim"]) == ("LookAtClaim", "data")
    (advice,) = explain_pod(build_node("n1"), claiming)["advice"]
    assert (advice["kind"], advice["text"]) == ("LookAtClaim", "Check that the pod's claims exist and are bound")
