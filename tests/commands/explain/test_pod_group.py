"""Check the explanation of a pod of a group: quorum, missing and blocking pods, and the attempts for the group."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kschedctl
from kschedctl.cli.main import main
from kschedctl.commands.explain import one_pod as of_one_pod

Json = dict[str, Any]
GATES = {"GenericWorkload": True, "GangScheduling": True}
TOPOLOGY_AWARE = {**GATES, "TopologyAwareWorkloadScheduling": True}
ZONE = "topology.kubernetes.io/zone"


def build_node(name: str, cpu: int, zone: str) -> Json:
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name, "labels": {ZONE: zone}}, "status": {"allocatable": allocatable}}


def build_member(i: int, **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    spec = {"schedulingGroup": {"podGroupName": "train"}, "containers": [container], **spec}
    return {"kind": "Pod", "metadata": {"name": f"train-{i}", "namespace": "ml", "uid": f"uid-{i}"}, "spec": spec}


def build_group(count: int, topology: str = "") -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": count}}}
    spec |= {"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}
    metadata = {"name": "train", "namespace": "ml"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def explain(objects: list[Json], gates: dict[str, bool] = GATES, pod: str | Json = "ml/train-1") -> Json:
    return of_one_pod.explain(kschedctl.Cluster.from_objects(objects, feature_gates=gates), pod).to_dict()


NODES = [build_node("n1", 4, "za"), build_node("n2", 3, "zb")]
"""Two pods of 2 cpu fit on the first, one on the second."""


def test_pod_that_fits_alone_waits_for_its_gang() -> None:
    report = explain([*NODES, build_group(4), *map(build_member, range(4))])
    found = report["podGroup"]
    assert (report["verdict"], report["feasible"]) == ("Unschedulable", ["n1", "n2"])
    assert report["headline"] == "its gang train needs nodes for 4 pods at once, but only 3 fit"
    assert report["message"].startswith("pod group is unschedulable, waiting for minCount pods from a gang")
    verdicts = {each["pod"]: (each["verdict"], each["node"]) for each in found["members"]}
    assert [verdict for verdict, _ in verdicts.values()] == ["Placed"] * 3 + ["Unschedulable"]
    assert (found["verdict"], found["pods"], found["scheduled"], found["missing"]) == ("Unschedulable", 4, 0, 0)
    assert found["message"] == "pod group is unschedulable"


def test_gang_that_fits_with_its_running_pods() -> None:
    report = explain([*NODES, build_group(3), build_member(0, nodeName="n2"), build_member(1), build_member(2)])
    found = report["podGroup"]
    assert (report["verdict"], report["message"], found["verdict"]) == ("Schedulable", None, "Placed")
    assert {each["node"] for each in found["members"]} == {"n1"}
    assert found["scheduled"] == 1
    assert report["headline"] == "would be scheduled with its gang train, for example on node n1"


def test_missing_pods_of_a_gang() -> None:
    gated = build_member(2, schedulingGates=[{"name": "wait"}])
    report = explain([*NODES, build_group(5), build_member(0), build_member(1), gated])
    assert report["verdict"] == "Gated"
    assert report["headline"] == "its gang train has 3 of the 5 pods that it needs; until they exist, no pod is tried"
    assert (report["podGroup"]["verdict"], report["podGroup"]["missing"]) == ("Incomplete", 2)
    reasons = {each["pod"]: each["message"] for each in report["podGroup"]["members"]}
    assert reasons["ml/train-2"] == "waiting for scheduling gates: [wait]"


def test_manifest_counts_as_a_member() -> None:
    objects = [*NODES, build_group(2), build_member(0)]
    assert explain(objects, pod="ml/train-0")["verdict"] == "Gated"
    asked = explain(objects, pod=build_member(1))
    assert (asked["verdict"], asked["podGroup"]["pods"]) == ("Schedulable", 2)


@pytest.mark.parametrize(
    ("topology", "gates", "headline"),
    [
        ("rack", TOPOLOGY_AWARE, "its pod group train has to be in one rack, but no node has that label"),
        ("rack", GATES, "its gang train needs nodes for 4 pods at once, but only 3 fit"),
    ],
    ids=["no node has it", "the gate is off"],
)
def test_topology_key_that_no_node_has(topology: str, gates: dict[str, bool], headline: str) -> None:
    report = explain([*NODES, build_group(4, topology), *map(build_member, range(4))], gates)
    assert (report["verdict"], report["headline"]) == ("Unschedulable", headline)
    assert bool(report["podGroup"]["topology"]) == (gates is TOPOLOGY_AWARE)


@pytest.mark.parametrize("topology", ["", ZONE])
def test_pods_of_a_group_without_a_gang_policy_are_judged_separately(topology: str) -> None:
    found = build_group(1, topology)
    found["spec"]["schedulingPolicy"] = {"basic": {}}
    large = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "9"}}}]}
    report = explain([*NODES, found, build_member(1, **large)], TOPOLOGY_AWARE)
    alone = "needs 9 CPUs, but the largest node has only 4 (rules out both nodes)"
    assert report["headline"] == (f"no pod of its group train fits in any {ZONE}" if topology else alone)


@pytest.mark.parametrize(("count", "verdict"), [(3, "Schedulable"), (4, "Unschedulable")])
def test_unread_pod_groups_make_the_answer_uncertain(count: int, verdict: str) -> None:
    """Three pods fit. The scheduler would fail without the group's object, but the object may exist."""
    lists = [{"kind": "List", "items": NODES}, {"kind": "List", "items": [*map(build_member, range(count))]}]
    gates = {**TOPOLOGY_AWARE, "WorkloadAwarePreemption": True}
    cluster = kschedctl.Cluster.from_objects(lists, feature_gates=gates, assume_complete=False)
    report = of_one_pod.explain(cluster, f"ml/train-{count - 1}").to_dict()
    assert (report["verdict"], report["podGroup"]["verdict"]) == (verdict, "Placed")
    assert report["undecided"] == (verdict == "Schedulable")
    assert "PodGroup" in {each["kind"] for each in report["unknown"]}


def build_job(parallelism: int) -> Json:
    spec: Json = {"restartPolicy": "Never", **build_member(0)["spec"]}
    meta = {"name": "train", "namespace": "ml"}
    spec = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("count", "there", "verdict", "headline"),
    [
        (3, 0, "Schedulable", "would be scheduled with its gang train, for example on node n"),
        (4, 0, "Unschedulable", "its gang train needs nodes for 4 pods at once, but only 3 fit"),
        (4, 1, "Unschedulable", "its gang train needs nodes for 4 pods at once, but only 3 fit"),
        (5, 0, "Gated", "its gang train has 4 of the 5 pods that it needs; until they exist, no pod is tried"),
    ],
    ids=["all fit", "all but one", "one is there, and counts once", "too few are made"],
)
def test_all_pods_of_a_workloads_group_are_created(count: int, there: int, verdict: str, headline: str) -> None:
    objects = [*NODES, build_group(count), *(build_member(9 + i) for i in range(there))]
    report = explain(objects, pod=build_job(4 - there))
    assert (report["verdict"], report["headline"][: len(headline)]) == (verdict, headline)
    assert (report["podGroup"]["pods"], report["podGroup"]["name"]) == (4, "ml/train")


def test_gang_of_a_stateful_set_waits_for_ever() -> None:
    """Except with policy Parallel, the second pod is created once the first is ready, which its gang prevents."""
    for policy, verdict in (("OrderedReady", "Gated"), ("Parallel", "Schedulable")):
        workload = {**build_job(2), "apiVersion": "apps/v1", "kind": "StatefulSet"}
        template = {"spec": build_member(0)["spec"], "metadata": {"labels": {"a": "b"}}}
        workload["spec"] = {
            "replicas": 2,
            "podManagementPolicy": policy,
            "template": template,
            "selector": {"matchLabels": {"a": "b"}},
        }
        report = explain([*NODES, build_group(2)], pod=workload)
        assert (report["verdict"], report["podGroup"]["missing"]) == (verdict, int(policy != "Parallel")), policy


def test_reason_for_each_rejected_placement() -> None:
    report = explain([*NODES, build_group(3, ZONE), *map(build_member, range(3))], TOPOLOGY_AWARE)
    found = report["podGroup"]
    assert report["headline"] == f"its gang train needs nodes for 3 pods at once in one {ZONE}, but only 2 fit"
    placements = {each["name"]: (each["nodes"], each["pods"], each["fits"]) for each in found["placements"]}
    assert placements == {"za": (1, 2, False), "zb": (1, 1, False)}
    # train-2, with which the gang was complete, comes first
    assert [each["blocking"] for each in found["placements"]] == ["ml/train-1", "ml/train-0"]
    assert all("Insufficient cpu" in each["message"] for each in found["placements"])
    assert found["message"].startswith("0/2 placements are available")


def test_best_placement_is_chosen() -> None:
    """Both zones have room for two pods. On the smaller node, the pods use a larger share."""
    nodes = [build_node("n1", 8, "za"), build_node("n2", 5, "zb")]
    found = explain([*nodes, build_group(2, ZONE), *map(build_member, range(3))], TOPOLOGY_AWARE)["podGroup"]
    scores = {each["name"]: each["score"] for each in found["placements"]}
    assert {each["node"] for each in found["members"]} == {"n1"}
    assert scores["za"] > scores["zb"]
    two = explain([*nodes, build_group(2, ZONE), *map(build_member, range(2))], TOPOLOGY_AWARE)
    assert {each["node"] for each in two["podGroup"]["members"]} == {"n2"}
    assert two["best"] == ["n1"], "by itself it goes to the emptier node"
    assert two["headline"] == f"would be scheduled with its gang train in one {ZONE}, for example on node n2"


def test_victims_of_the_group() -> None:
    running = {"kind": "Pod", "metadata": {"name": "low", "namespace": "ml", "uid": "low"}}
    running["spec"] = {**build_member(0)["spec"], "nodeName": "n1", "priority": -1, "schedulingGroup": None}
    for gates in (GATES, {**GATES, "WorkloadAwarePreemption": True}):
        report = explain([*NODES, build_group(3), running, *map(build_member, range(3))], gates)
        assert report["podGroup"]["verdict"] == "WaitsForPreemption"
        assert report["podGroup"]["victims"] == ["ml/low"]
        assert report["headline"] == "its pod group train fits once 1 pod has made room for it"


def test_two_half_placed_gangs_that_wait_for_each_other() -> None:
    """Each gang has one of its two pods on a node with room for two pods only."""
    other = json.loads(
        json.dumps([build_group(2), build_member(0, nodeName="n1"), build_member(1)]).replace("train", "other")
    )
    for each in other[1:]:
        each["metadata"]["uid"] += "-other"
    objects = [NODES[0], build_group(2), build_member(0, nodeName="n1"), build_member(1), *other]
    report = explain(objects)
    assert report["podGroup"]["deadlockedWith"] == ["ml/other"]
    holds = "deadlock: 1 of the 2 pods of its gang train holds a node"
    held = f"{holds}, and its other pods need the nodes that gang ml/other holds"
    assert report["headline"].startswith(held)
    told = "Suspend or delete ml/other: in a replay, ml/train then fits in its place, or vice versa"
    assert [(each["kind"], each["text"]) for each in report["advice"]] == [("EndDeadlock", told)]
    assert explain(objects[:-1])["podGroup"]["deadlockedWith"] == ["ml/other"]
    assert explain([*objects, build_node("n3", 2, "zc")])["podGroup"]["deadlockedWith"] == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"schedulingGroup": {}}, "Gated"),
        ({"schedulingGroup": {"podGroupName": "gone"}}, "Gated"),
        ({"schedulingGroup": None}, "Schedulable"),
    ],
)
def test_references_to_missing_groups(spec: Json, wanted: str) -> None:
    assert explain([*NODES, build_group(1), build_member(1, **spec)])["verdict"] == wanted


@pytest.mark.parametrize("policy", [{}, {"gang": {}}, {"gang": {"minCount": 0}}, {"gang": {"minCount": -1}}])
def test_groups_with_an_invalid_minimum_hold_no_pod_back(policy: Json) -> None:
    """The API server would reject such a group."""
    asking = build_group(1)
    asking["spec"] = {"schedulingPolicy": policy, "schedulingConstraints": {"topology": []}}
    assert explain([*NODES, asking, build_member(1)], TOPOLOGY_AWARE)["verdict"] == "Schedulable"


def test_invalid_minimum_is_reported_in_one_line() -> None:
    asking = build_group(1)
    asking["spec"]["schedulingPolicy"]["gang"]["minCount"] = "two"
    with pytest.raises(kschedctl.KschedctlError, match=r"PodGroup ml/train: .*minCount"):
        explain([*NODES, asking, build_member(1)])


def test_groups_are_ignored_without_the_feature_gates() -> None:
    report = explain([*NODES, build_group(4), *map(build_member, range(4))], {})
    assert (report["verdict"], report["podGroup"]) == ("Schedulable", None)
    assert "schedulingGroup" in " ".join(report["ignored"])


def test_groups_are_not_replayed_in_1_35() -> None:
    """1.35 has no PodGroups yet. Gangs are defined in another way."""
    objects = [*NODES, build_group(4), *map(build_member, range(4))]
    cluster = kschedctl.Cluster.from_objects(objects, feature_gates=GATES, kube_version="1.35")
    report = of_one_pod.explain(cluster, "ml/train-1").to_dict()
    assert (report["verdict"], report["podGroup"]) == ("Schedulable", None)
    assert report["notReplayed"] == ["plugin GangScheduling"]


def test_unread_group_makes_the_answer_uncertain() -> None:
    objects = [*NODES, *map(build_member, range(3))]
    cluster = kschedctl.Cluster.from_objects(objects, feature_gates=GATES, assume_complete=False)
    report = of_one_pod.explain(cluster, "ml/train-1").to_dict()
    assert report["undecided"]
    assert "PodGroup" in {unknown["kind"] for unknown in report["unknown"]}


def test_page_about_a_group(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    file = tmp_path / "all.json"
    objects = [{"apiVersion": "v1", **each} for each in [*NODES, build_group(3, ZONE), *map(build_member, range(3))]]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    gates = ",".join(f"{name}=true" for name in TOPOLOGY_AWARE)
    assert main(["explain", "ml/train-1", "-f", str(file), "--feature-gates", gates]) == 1
    page = capsys.readouterr().out
    assert "gang of 3 pods at once: 3 exist, 0 of them with a node" in page
    assert "ml/train-2" in page
    assert "Remedies" not in page
