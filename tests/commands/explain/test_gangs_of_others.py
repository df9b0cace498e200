"""Check gangs of scheduler-plugins, Volcano and Kueue: quorum, missing pods, and whether all fit at once, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

import kschedctl
from kschedctl.cli.main import main
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.pending import build_pending_section
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.schema import build_schema
from kschedctl.commands.simulate import simulate
from kschedctl.scheduler.scheduler import Scheduler

Json = dict[str, Any]
VOLCANO, COSCHEDULING = "scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"
SCHEMA = build_schema(Explanation)
GATE = [{"name": "kueue.x-k8s.io/admission"}]
POINTS = ("queueSort", "preFilter", "postFilter", "permit", "reserve")
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                point: {
                    "enabled": [{"name": "Coscheduling"}],
                    "disabled": [{"name": "*"}] if point == "queueSort" else [],
                }
                for point in POINTS
            }
        }
    ],
}


def build_node(name: str, cpu: int) -> Json:
    allocatable = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


NODES = [build_node("n1", 4), build_node("n2", 3)]
"""Two pods of 2 cpu fit on the first, one on the second."""


def build_pod(
    name: str, labels: Json | None = None, annotations: Json | None = None, phase: str = "", **spec: Any
) -> Json:
    meta = {"name": name, "namespace": "ml", "uid": name, "labels": labels or {}, "annotations": annotations or {}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    status = {"status": {"phase": phase}} if phase else {}
    return {"kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}, **status}


def build_volcano_pod(name: str, task: str = "", **fields: Any) -> Json:
    annotations = {"scheduling.k8s.io/group-name": "train"} | ({"volcano.sh/task-spec": task} if task else {})
    return build_pod(name, annotations=annotations, **{"schedulerName": "volcano", **fields})


def build_kueue_pod(name: str, count: str = "4", **fields: Any) -> Json:
    annotations = {"kueue.x-k8s.io/pod-group-total-count": count} if count else {}
    return build_pod(
        name, {"kueue.x-k8s.io/pod-group-name": "train"}, annotations, **{"schedulingGates": GATE, **fields}
    )


def build_coscheduling_pod(name: str, group: str = "train", **fields: Any) -> Json:
    return build_pod(name, {"scheduling.x-k8s.io/pod-group": group}, **fields)


def build_group(version: str, least: int, name: str = "train", **spec: Any) -> Json:
    meta = {"name": name, "namespace": "ml"}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": least, **spec}}


def set_deletion_time(document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def explain(*objects: Json, pod: str = "ml/a", config: Json | None = None) -> Json:
    cluster = kschedctl.Cluster.from_objects([*NODES, *objects], config=config, other_builds=True)
    report = kschedctl.explain(cluster, pod).to_dict()
    validate(json.loads(json.dumps(report)), SCHEMA)
    return report


def get_verdicts(report: Json) -> dict[str, str]:
    return {each["pod"].removeprefix("ml/"): each["verdict"] for each in report["podGroup"]["members"]}


# -- Volcano ----------------------------------------------------------------------------------------------------------


def test_volcano_gang_that_fits() -> None:
    report = explain(*map(build_volcano_pod, "abc"), build_group(VOLCANO, 3, queue="research"))
    found = report["podGroup"]
    assert (report["verdict"], found["verdict"], found["decidedBy"]) == ("NotResponsible", "Placed", "Volcano")
    assert (found["minCount"], found["pods"], found["fitting"], found["queue"]) == (3, 3, 3, "research")
    assert report["headline"] == (
        "according to kube-scheduler's filters, all 3 pods of its gang train fit at once; Volcano decides"
    )
    assert len(report["notReplayed"]) == 1
    assert report["notReplayed"][0].startswith("Volcano's own rules about gangs")


def test_number_of_fitting_pods_of_a_gang() -> None:
    report = explain(*map(build_volcano_pod, "abcd"), build_group(VOLCANO, 4))
    found = report["podGroup"]
    assert (found["verdict"], found["fitting"], found["missing"]) == ("Unschedulable", 3, 0)
    assert report["headline"] == (
        "according to kube-scheduler's filters, 3 of 4 pods of its gang train fit at once; Volcano decides"
    )
    assert sorted(get_verdicts(report).values()) == ["Placed"] * 3 + ["Unschedulable"]


def test_missing_pods_of_a_volcano_gang() -> None:
    """Of six pods, one is terminating, one has failed and one is gated.

    One has succeeded and counts as if it had a node.
    """
    pods = [
        build_volcano_pod("a"),
        build_volcano_pod("b", nodeName="n1"),
        set_deletion_time(build_volcano_pod("c")),
        build_volcano_pod("d", phase="Failed"),
        build_volcano_pod("e", phase="Succeeded", nodeName="n1"),
        build_volcano_pod("f", schedulingGates=[{"name": "wait"}]),
    ]
    report = explain(*pods, build_group(VOLCANO, 6))
    found = report["podGroup"]
    assert (found["pods"], found["scheduled"], found["missing"], found["ended"]) == (4, 2, 2, 1)
    assert (found["verdict"], found["fitting"]) == ("Incomplete", 3)
    assert get_verdicts(report) == {"a": "Placed", "c": "Terminating", "d": "Failed", "f": "Gated"}
    assert report["headline"] == "its gang train has 4 of the 6 pods that Volcano waits for"


def test_each_task_needs_its_minimum_of_pods() -> None:
    """Three pods fit. The master is tried last and finds no room."""
    workers = [build_volcano_pod(name, "worker") for name in "abc"]
    tasks = {"master": 1, "worker": 2}
    report = explain(*workers, build_volcano_pod("z", "master"), build_group(VOLCANO, 3, minTaskMember=tasks))
    found = report["podGroup"]
    told = {task["name"]: (task["least"], task["pods"], task["fitting"]) for task in found["tasks"]}
    assert told == {"master": (1, 1, 0), "worker": (2, 3, 3)}
    assert (found["verdict"], found["fitting"]) == ("Unschedulable", 3)
    ignored = explain(*workers, build_volcano_pod("z", "master"), build_group(VOLCANO, 2, minTaskMember=tasks))[
        "podGroup"
    ]
    assert (ignored["verdict"], ignored["tasks"]) == ("Placed", [])  # they want more than minMember together


def test_volcano_pod_with_the_default_scheduler() -> None:
    pods = [build_volcano_pod(name, schedulerName="default-scheduler") for name in "abcd"]
    report = explain(*pods, build_group(VOLCANO, 4))
    assert (report["verdict"], report["podGroup"]["policy"], report["notReplayed"]) == ("Schedulable", "basic", [])


def test_missing_volcano_group() -> None:
    report = explain(build_volcano_pod("a"))
    assert report["headline"] == "Volcano decides about its gang train: its PodGroup does not exist"
    cluster = kschedctl.Cluster.from_objects([*NODES, build_volcano_pod("a")], assume_complete=False)
    unread = kschedctl.explain(cluster, "ml/a").to_dict()["podGroup"]
    assert unread["problem"] == "PodGroups were not among the objects"


@pytest.mark.parametrize("least", [0, -7])
def test_volcano_group_without_a_positive_minimum(least: int) -> None:
    found = explain(build_volcano_pod("a"), build_group(VOLCANO, least))["podGroup"]
    assert (found["verdict"], found["missing"]) == ("Placed", 0)


def test_volcano_group_with_the_largest_minimum() -> None:
    found = explain(build_volcano_pod("a"), build_group(VOLCANO, 2**31 - 1))["podGroup"]
    assert (found["verdict"], found["missing"]) == ("Incomplete", 2**31 - 2)


# -- Kueue ------------------------------------------------------------------------------------------------------------


def test_kueue_gang_that_is_not_admitted() -> None:
    report = explain(*(build_kueue_pod(name) for name in "abcd"))
    found = report["podGroup"]
    assert (report["verdict"], found["verdict"], found["decidedBy"]) == ("Gated", "Unschedulable", "Kueue")
    assert (found["minCount"], found["fitting"], found["heldBack"]) == (4, 3, 4)
    assert report["headline"] == (
        "according to kube-scheduler's filters, 3 of 4 pods of its gang train fit at once; Kueue decides"
    )
    three = explain(*(build_kueue_pod(name, "3") for name in "abc"))
    assert three["headline"] == (
        "according to kube-scheduler's filters, all 3 pods of its gang train fit at once; Kueue decides"
    )


def test_missing_pods_of_a_kueue_gang() -> None:
    other_gate = build_kueue_pod("c", schedulingGates=[*GATE, {"name": "wait"}])
    report = explain(build_kueue_pod("a"), build_kueue_pod("b", phase="Failed"), other_gate)
    assert report["headline"] == "its gang train has 2 of the 4 pods that Kueue waits for"
    assert get_verdicts(report) == {"a": "Placed", "b": "Failed", "c": "Gated"}


def test_kueue_does_not_wait_for_all_pods_of_a_fast_admission() -> None:
    pods = [build_kueue_pod(name) for name in "ab"]
    for each in pods:
        each["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-fast-admission"] = "true"
    report = explain(*pods)
    assert (report["podGroup"]["missing"], report["podGroup"]["verdict"]) == (0, "Placed")


def test_admitted_kueue_gang_is_placed_pod_by_pod() -> None:
    topology = [{"name": "kueue.x-k8s.io/topology"}]
    admitted = [build_kueue_pod(name, schedulingGates=[]) for name in "abc"]
    report = explain(*admitted, build_kueue_pod("d", schedulingGates=topology))
    assert (report["verdict"], report["podGroup"]["policy"]) == ("Schedulable", "basic")
    assert report["podGroup"]["heldBack"] == 1


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (["x", "x"], 'have "x" in'),
        (["", ""], "lack"),
        (["0", "0"], 'have "0" in'),
        (["2", "3"], "have both 2 and 3 in"),
        (["-1", "2"], 'have "-1" in'),
    ],
)
def test_invalid_total_count_annotations_of_kueue(counts: list[str], said: str) -> None:
    report = explain(*(build_kueue_pod(name, count) for name, count in zip("ab", counts, strict=True)))
    problem = f"its pods {said} annotation kueue.x-k8s.io/pod-group-total-count"
    assert (report["podGroup"]["problem"], report["podGroup"]["minCount"]) == (problem, 0)
    assert report["headline"] == f"Kueue decides about its gang train: {problem}"


# -- scheduler-plugins ------------------------------------------------------------------------------------------------


def test_coscheduling_gang_that_does_not_fit() -> None:
    report = explain(*map(build_coscheduling_pod, "abcd"), build_group(COSCHEDULING, 4), config=CONFIG)
    assert (report["verdict"], report["feasible"], report["notReplayed"]) == ("Unschedulable", ["n1", "n2"], [])
    assert report["headline"] == "its gang train needs nodes for 4 pods at once, but only 3 fit"
    assert report["message"] == "0/1 nodes are available: 1 optimistic rejection in PostFilter."
    assert (report["podGroup"]["policy"], report["podGroup"]["fitting"]) == ("gang", 3)


def test_coscheduling_gang_that_fits() -> None:
    report = explain(*map(build_coscheduling_pod, "abc"), build_group(COSCHEDULING, 3), config=CONFIG)
    assert (report["verdict"], report["message"], report["permit"]) == ("Schedulable", None, {})
    assert report["podGroup"]["verdict"] == "Placed"


def test_incomplete_coscheduling_gang() -> None:
    report = explain(*map(build_coscheduling_pod, "ab"), build_group(COSCHEDULING, 4), config=CONFIG)
    assert report["headline"] == "its gang train has 2 of the 4 pods that it needs; until they exist, no pod is tried"
    assert "cannot find enough sibling pods, current pods number: 2, minMember of group: 4" in report["message"]


def test_terminating_members_count_but_are_not_tried() -> None:
    pods = [
        build_coscheduling_pod("a"),
        set_deletion_time(build_coscheduling_pod("b")),
        build_coscheduling_pod("c", schedulerName="other"),
    ]
    report = explain(*pods, build_group(COSCHEDULING, 3), config=CONFIG)
    assert get_verdicts(report) == {"a": "Placed", "b": "Terminating", "c": "NotTried"}
    assert report["headline"] == "its gang train needs nodes for 3 pods at once, but only 1 fits"
    late = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Coscheduling."
    assert report["message"] == late


def test_without_the_plugin_pods_are_placed_one_by_one() -> None:
    report = explain(*map(build_coscheduling_pod, "abcd"), build_group(COSCHEDULING, 4))
    assert (report["verdict"], report["podGroup"]["policy"]) == ("Schedulable", "basic")


def test_pod_of_a_missing_coscheduling_group() -> None:
    report = explain(build_coscheduling_pod("a"), config=CONFIG)
    assert (report["verdict"], report["message"]) == (
        "Unschedulable",
        "0/1 nodes are available: 1 PodGroup not found.",
    )
    assert report["podGroup"]["problem"] == "its PodGroup does not exist"


def test_unread_group_makes_the_answer_uncertain() -> None:
    objects = [*NODES, build_coscheduling_pod("a")]
    cluster = kschedctl.Cluster.from_objects(objects, config=CONFIG, other_builds=True, assume_complete=False)
    report = kschedctl.explain(cluster, "ml/a")
    assert report.undecided
    assert "CoschedulingPodGroup" in {each.kind for each in report.unknown}


def test_group_without_pods_changes_nothing() -> None:
    assert (
        explain(build_pod("a"), build_group(VOLCANO, 3), build_group(COSCHEDULING, 3), config=CONFIG)["podGroup"]
        is None
    )


def test_manifest_counts_as_a_member() -> None:
    objects = [*NODES, *map(build_coscheduling_pod, "bc"), build_group(COSCHEDULING, 3)]
    cluster = kschedctl.Cluster.from_objects(objects, config=CONFIG, other_builds=True)
    asked = kschedctl.explain(cluster, build_coscheduling_pod("a")).to_dict()
    assert (asked["verdict"], asked["podGroup"]["pods"]) == ("Schedulable", 3)


# -- deadlocks --------------------------------------------------------------------------------------------------------


def test_two_half_placed_gangs_of_different_projects() -> None:
    """n1 has room for two pods, and n2 for one. Each gang has one pod on n1 and needs a second node."""
    ours = [build_coscheduling_pod("a"), build_coscheduling_pod("b", nodeName="n1"), build_group(COSCHEDULING, 2)]
    theirs = [build_volcano_pod("v"), build_volcano_pod("w", nodeName="n1"), build_group(VOLCANO, 2)]
    taken = build_pod("taken", nodeName="n2")
    report = explain(*ours, *theirs, taken, config=CONFIG)
    assert report["podGroup"]["deadlockedWith"] == ["ml/train"]
    assert report["headline"].startswith("deadlock: 1 of the 2 pods of its gang train holds a node")
    other = explain(*ours, *theirs, taken, pod="ml/v", config=CONFIG)
    assert other["podGroup"]["deadlockedWith"] == ["ml/train"]
    assert other["headline"].startswith("deadlock: 1 of the 2 pods of its gang train holds a node")
    free = explain(*ours, *theirs, config=CONFIG)
    assert (free["verdict"], free["podGroup"]["deadlockedWith"]) == ("Schedulable", [])


def test_gang_whose_other_pods_have_ended_is_no_deadlock() -> None:
    ours = [build_coscheduling_pod("a"), build_coscheduling_pod("b", nodeName="n1"), build_group(COSCHEDULING, 2)]
    done = [build_volcano_pod("v", phase="Succeeded"), build_volcano_pod("w", nodeName="n1"), build_group(VOLCANO, 2)]
    report = explain(*ours, *done, build_pod("taken", nodeName="n2"), config=CONFIG)
    assert report["podGroup"]["deadlockedWith"] == []
    assert report["headline"] == "its gang train needs nodes for 2 pods at once, but only 1 fits"


def test_admitted_kueue_gangs_may_block_each_other() -> None:
    """Their pods are placed one by one, so that each gang got half of the room."""
    gangs = []
    for name in ("one", "two"):
        for number, on in enumerate(("n1", "")):
            made = build_kueue_pod(f"{name}-{number}", "2", schedulingGates=[], **({"nodeName": on} if on else {}))
            made["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": name}
            gangs.append(made)
    report = explain(*gangs, build_pod("taken", nodeName="n2"), pod="ml/one-1")
    assert report["podGroup"]["deadlockedWith"] == ["ml/two"]
    assert report["headline"].startswith("deadlock: 1 of the 2 pods of its gang one holds a node")


# -- simulations, commands --------------------------------------------------------------------------------------------


def drop_generated_name(document: Json) -> Json:
    """Return the document as a user writes it."""
    return {**document, "metadata": {key: value for key, value in document["metadata"].items() if key != "uid"}}


@pytest.mark.parametrize("own", [True, False])
def test_simulation_of_a_gang_that_does_not_fit_ends(own: bool) -> None:
    """Placements that are tried and taken back must not wake pods, neither for PodGroups of Kubernetes nor of
    Coscheduling."""
    if own:
        pods = [build_pod(name, schedulingGroup={"podGroupName": "train"}) for name in "abcd"]
        spec = {"schedulingPolicy": {"gang": {"minCount": 4}}}
        described = {**build_group("scheduling.k8s.io/v1alpha2", 4), "spec": spec}
        settings: Json = {"feature_gates": {"GenericWorkload": True, "GangScheduling": True}}
    else:
        pods, described = [build_coscheduling_pod(name) for name in "abcd"], build_group(COSCHEDULING, 4)
        settings = {"config": CONFIG, "other_builds": True}
    cluster = kschedctl.Cluster.from_objects(NODES, **settings)
    report = simulate(cluster, [described, *map(drop_generated_name, pods)])
    assert (report.unplaced, report.placed) == (4, 0)


def test_page_about_a_gang(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    objects = [
        *NODES,
        *(build_volcano_pod(name, "worker") for name in "abcd"),
        set_deletion_time(build_volcano_pod("e")),
    ]
    objects.append(build_group(VOLCANO, 5, minTaskMember={"worker": 4}, queue="research"))
    items = [{"apiVersion": "v1", **each} for each in objects]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["explain", "ml/a", "-f", str(file)]) == 5  # who decides is not replayed
    page = capsys.readouterr().out
    first = "ml/a Handled by another scheduler: its gang train has 4 of the 5 pods that Volcano waits for"
    assert " ".join(page.split()).startswith(first)
    words = " ".join(page.split())
    assert "gang of Volcano of 5 pods at once: 4 exist, 0 of them with a node, 1 is missing" in words
    fitting = (
        "3 of its pods fit at once according to kube-scheduler's filters; 3 of task worker, which needs at least 4"
    )
    told = f"{fitting}; queue research"
    assert told in words
    assert "Terminating" in page
    assert "Remedies" not in page
    assert main(["explain", "-A", "-f", str(file)]) == 5
    assert "its gang train has 4 of the 5 pods that Volcano waits for" in " ".join(capsys.readouterr().out.split())


def test_decisions_of_other_schedulers_are_unknown() -> None:
    """The filters of kube-scheduler do not matter. Volcano has its own scheduler, and Kueue admits by quota."""
    undecided = {
        "Volcano, fits": explain(*map(build_volcano_pod, "abc"), build_group(VOLCANO, 3)),
        "Volcano, does not": explain(*map(build_volcano_pod, "abcd"), build_group(VOLCANO, 4)),
        "Kueue, fits": explain(*(build_kueue_pod(name, "3") for name in "abc")),
        "Kueue, does not": explain(*(build_kueue_pod(name) for name in "abcd")),
    }
    assert {name: report["undecided"] for name, report in undecided.items()} == dict.fromkeys(undecided, True)
    by_us = [build_volcano_pod(name, schedulerName="default-scheduler") for name in "abcd"]
    assert not explain(*by_us, build_group(VOLCANO, 4))["undecided"]
    assert not explain(*(build_kueue_pod(name, schedulingGates=[]) for name in "abc"))["undecided"]


def test_advice_on_gangs_of_other_schedulers() -> None:
    told = [each["text"] for each in explain(build_volcano_pod("a"), build_group(VOLCANO, 3))["advice"]]
    assert told == [
        "Volcano waits for 2 more pods of train to be created",
        "Ask Volcano: kubectl describe podgroups.scheduling.volcano.sh train -n ml",
    ]
    told = [each["text"] for each in explain(build_kueue_pod("a", "1"))["advice"]]
    assert told == ["Ask Kueue: kubectl get workloads.kueue.x-k8s.io -n ml"]


# -- audit ------------------------------------------------------------------------------------------------------------


def audit_gangs(*objects: Json) -> dict[tuple[str, ...], tuple[str, list[str]]]:
    """Return the cause and severity of the findings by their pods."""
    cluster = kschedctl.Cluster.from_objects([*NODES, *objects], config=CONFIG, other_builds=True)
    section = build_pending_section(AuditedCluster(Scheduler(cluster)))
    graveness = [each.severity for each in section.findings]
    return {each.pods: (each.cause, graveness) for each in section.waiting}


def test_audit_attributes_volcano_gangs_to_another_scheduler() -> None:
    """Volcano is known by its PodGroup, which need not have any pods on nodes.

    Without it, the scheduler is unknown.
    """
    pods = [build_volcano_pod(name) for name in "abcd"]
    everyone = tuple(f"ml/{name}" for name in "abcd")
    assert audit_gangs(*pods, build_group(VOLCANO, 4)) == {everyone: ("elsewhere", [])}
    assert audit_gangs(*pods) == {everyone: ("unserved", ["warning"])}
    assert audit_gangs(*pods, build_group(VOLCANO, 5)) == {everyone: ("gang", ["note"])}


def test_audit_says_that_kueue_holds_gangs_back() -> None:
    everyone = tuple(f"ml/{name}" for name in "abcd")
    assert audit_gangs(*(build_kueue_pod(name) for name in "abcd")) == {everyone: ("gated", ["note"])}
    assert audit_gangs(*(build_kueue_pod(name, "5") for name in "abcd")) == {everyone: ("gang", ["note"])}


def build_half_placed_gang(project: str, name: str) -> list[Json]:
    """Build two pods, one of which has a node."""
    made = []
    for number, on in enumerate(("n1", "")):
        spec: Json = {"nodeName": on} if on else {}
        each = build_pod(f"{name}-{number}", **spec)
        match project:
            case "Volcano":
                each["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
                each["spec"]["schedulerName"] = "volcano"
            case "Kueue":
                each["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": name}
                each["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
            case _:
                each["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": name}
        made.append(each)
    if project == "Kueue":
        return made
    described = build_group(VOLCANO if project == "Volcano" else COSCHEDULING, 2)
    return [*made, {**described, "metadata": {**described["metadata"], "name": name}}]


@pytest.mark.parametrize("project", ["scheduler-plugins", "Volcano", "Kueue"])
def test_deadlock_is_named_in_all_answers(project: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """n1 is full with one pod of each of two gangs, and n2 with another pod. Each gang needs a second node."""
    objects = [
        *build_half_placed_gang(project, "one"),
        *build_half_placed_gang(project, "two"),
        build_pod("taken", nodeName="n2"),
    ]
    assert audit_gangs(*objects) == {
        ("ml/one-1",): ("gang", ["warning", "warning"]),
        ("ml/two-1",): ("gang", ["warning", "warning"]),
    }
    file, config = tmp_path / "all.json", tmp_path / "config.json"
    items = [{"apiVersion": "v1", **each} for each in (*NODES, *objects)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    config.write_text(json.dumps(CONFIG))
    options = ["-f", str(file), "--config", str(config)]
    for command in (["explain", "ml/one-1"], ["explain", "-A"], ["audit", "--section", "pending"]):
        main([*command, *options])
        page = " ".join(capsys.readouterr().out.split())
        holds = "deadlock: 1 of the 2 pods of its gang one holds a node"
        held = f"{holds}, and its other pods need the nodes that gang ml/two holds"
        assert held in page, command
        told = "Suspend or delete ml/two: in a replay, ml/one then fits in its place, or vice versa"
        assert (told in page) == (command[-1] != "-A"), command
