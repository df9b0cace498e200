"""Check that a workload without pods is judged by all its replicas, not by the first alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Json, Run, Write, build_node, build_pod


def build_deployment(replicas: int, cpu: str) -> Json:
    """Build a Deployment whose pods request an amount of CPU."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": build_pod("web", cpu)["spec"]}
    spec: dict[str, Any] = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def build_job(parallelism: int, cpu: str) -> Json:
    """Build a Job whose pods request an amount of CPU."""
    template = {"spec": {**build_pod("web", cpu)["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": parallelism, "completions": parallelism, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec}


@pytest.mark.parametrize("command", ["explain", "remedies"])
@pytest.mark.parametrize(("replicas", "placed"), [(1, 1), (2, 2), (3, 2), (5, 2)])
def test_first_pod_fits_but_not_all_replicas(run: Run, write: Write, command: str, replicas: int, placed: int) -> None:
    """A node of 4 CPUs takes two pods of 2 CPUs."""
    path = write(build_node("n1", cpu="4"), build_deployment(replicas, "2"))
    outcome = run(command, "deploy/web", "-f", path, "--assume-complete", "-o", "json")
    document = json.loads(outcome.out)
    if placed == replicas:
        assert (outcome.code, document["replicas"]) == (0, None)
        return
    assert outcome.code == 1
    counts = {"workload": "Deployment default/web", "placed": placed, "total": replicas}
    assert document["replicas"].items() >= counts.items()
    warning = f"nly 2 of the {replicas} pods of Deployment default/web get a node"
    for form in ((), ("--brief",), ("-o", "markdown")):
        assert warning in " ".join(run(command, "deploy/web", "-f", path, "--assume-complete", *form).out.split())


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_the_first_pod_without_a_node_is_explained(run: Run, write: Write, command: str) -> None:
    """Two pods of 2 CPUs fill the node, so that the third one needs another node."""
    path = write(build_node("n1", cpu="4"), build_deployment(3, "2"))
    document = json.loads(run(command, "deploy/web", "-f", path, "--assume-complete", "-o", "json").out)
    assert (document["pod"], document["verdict"]) == ("default/web-new-2", "Unschedulable")
    assert document["headline"].startswith("needs 2 CPUs, but the only node, n1, has 0 of 4 free")
    (fix,) = document["remedies"]
    assert (fix["summary"], fix["holds"]) == ("Add a node like n1", True)


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_later_replicas_are_no_rivals_of_the_first(run: Run, write: Write, command: str) -> None:
    """Once the node is uncordoned, it takes two of the three pods: the first one and one more."""
    node = build_node("n1", cpu="4")
    node["spec"]["unschedulable"] = True
    path = write(node, build_deployment(3, "2"))
    document = json.loads(run(command, "deploy/web", "-f", path, "--assume-complete", "-o", "json").out)
    assert document["pod"] == "default/web-new-0"
    fix = next(fix for fix in document["remedies"] if fix["kinds"] == ["Uncordon"])
    assert (fix["holds"], fix["rivals"], fix["alsoPlaces"]) == (True, [], ["default/web-new-1"])
    assert "1 other pod of Deployment default/web stays Pending" in [cost["text"] for cost in fix["costs"]]


def test_pods_evicted_for_the_replicas_that_fit_are_named(run: Run, write: Write) -> None:
    """One pod of 3 CPUs fits once the running one is evicted; the second one does not fit at all."""
    workload = build_deployment(2, "3")
    workload["spec"]["template"]["spec"]["priorityClassName"] = "high"
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}
    path = write(build_node("n1", cpu="4"), build_pod("old", "3", nodeName="n1", uid="1"), high, workload)
    for form in ((), ("--brief",)):
        printed = run("explain", "deploy/web", "-f", path, "--assume-complete", *form).out
        assert "nly 1 of the 2 pods of Deployment default/web gets a node, and this evicts default/old" in (
            " ".join(printed.split())
        )


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}


def build_important_deployment(replicas: int, cpu: str) -> Json:
    """Build a Deployment whose pods have a higher priority than others."""
    workload = build_deployment(replicas, cpu)
    workload["spec"]["template"]["spec"]["priorityClassName"] = "high"
    return workload


@pytest.mark.parametrize(
    ("largest_free", "code", "fate"),
    [("1", 1, "which gets no other node"), ("2", 0, "which gets another node")],
    ids=["without another node", "with another node"],
)
def test_all_replicas_fit_but_evict_a_running_pod(
    run: Run, write: Write, largest_free: str, code: int, fate: str
) -> None:
    """One pod of 3 CPUs fits on n1. The other one needs the place of web-1 on n2, for which n3 may have room."""
    running, replica_set = build_running_web("2")
    running["spec"]["nodeName"] = "n2"
    running["metadata"]["name"] = "old-1"
    workload = build_important_deployment(2, "3")
    workload["metadata"]["name"] = "new"
    nodes = [build_node("n1", cpu="3"), build_node("n2", cpu="3"), build_node("n3", cpu=largest_free)]
    path = write(*nodes, running, replica_set, HIGH, workload)
    command = ("explain", "deploy/new", "-f", path, "--assume-complete")

    outcome = run(*command, "-o", "json")
    document = json.loads(outcome.out)
    assert (outcome.code, document["verdict"]) == (code, "Schedulable")
    assert document["replicas"] == {
        "workload": "Deployment default/new",
        "placed": 2,
        "total": 2,
        "victims": ["default/old-1"],
        "victimsWithoutNode": ["default/old-1"] if code else [],
        "failedJobs": [],
        "rollout": "",
    }
    said = f"ll 2 pods of Deployment default/new get a node, but this evicts default/old-1, {fate}"
    for form in ((), ("--brief",), ("-o", "markdown")):
        first_lines = " ".join(run(*command, *form).out.split())
        assert first_lines.removeprefix("**").startswith(f"A{said}"), form
    summary = json.loads(run(*command, "-o", "json", "--summary").out)
    assert summary["headline"].startswith(f"a{said}: ")
    assert summary["figures"].items() >= {"placed": 2, "unplaced": 0, "evicted": 1, "unplacedEvicted": code}.items()
    assert "title=evicted::Deployment default/new: all 2 pods" in run(*command, "-o", "github").out
    assert run("remedies", *command[1:]).code == code


def test_evictions_are_counted_for_several_workloads(run: Run, write: Write) -> None:
    """The first pod of web fits on n1. The second one evicts default/old, which no controller recreates."""
    old = build_pod("old", "3", nodeName="n2", uid="1")
    small = build_deployment(1, "0.1")
    small["metadata"]["name"] = "small"
    path = write(
        build_node("n1", cpu="3"), build_node("n2", cpu="3.5"), old, HIGH, build_important_deployment(2, "3"), small
    )
    outcome = run("explain", "-f", path, "--assume-complete")
    assert outcome.code == 1
    text = " ".join(outcome.out.split())
    assert "; 1 running pod is evicted, which gets no other node" in text
    assert "but this evicts default/old, which gets no other node" in text


def test_evicted_pods_without_another_node_are_named(run: Run, write: Write) -> None:
    """One of the two running pods finds room on n3, the other one is not recreated."""
    running, replica_set = build_running_web("2")
    running["spec"]["nodeName"] = "n2"
    running["metadata"]["name"] = "old-1"
    alone = build_pod("alone", "1", nodeName="n2", uid="9")
    workload = build_important_deployment(2, "3")
    workload["metadata"]["name"] = "new"
    nodes = [build_node("n1", cpu="3"), build_node("n2", cpu="3"), build_node("n3", cpu="2")]
    path = write(*nodes, running, replica_set, alone, HIGH, workload)
    outcome = run("explain", "deploy/new", "-f", path, "--assume-complete")
    assert outcome.code == 1
    text = " ".join(outcome.out.split())
    assert "this evicts 2 running pods (default/" in text
    assert "1 of which gets no other node (default/alone)" in text


def test_a_rollout_evicts_a_pod_of_another_workload(run: Run, write: Write) -> None:
    """The second pod of web needs the place of default/old on n2."""
    running = build_running_web("2")
    old = build_pod("old", "3", nodeName="n2", uid="9")
    workload = build_important_deployment(2, "2")
    workload["spec"]["strategy"] = {"type": "Recreate"}
    path = write(build_node("n1", cpu="2"), build_node("n2", cpu="3"), old, *running, HIGH, workload)
    outcome = run("explain", "deploy/web", "-f", path, "--assume-complete", "-o", "json")
    counts = json.loads(outcome.out)["replicas"]
    assert (counts["placed"], counts["total"], counts["victims"]) == (2, 2, ["default/old"])
    assert counts["victimsWithoutNode"] == ["default/old"]
    assert outcome.code == 1


def test_ci_report_names_the_workload(run: Run, write: Write) -> None:
    path = write(build_node("n1", cpu="4"), build_deployment(3, "2"))
    outcome = run("explain", "deploy/web", "-f", path, "--assume-complete", "-o", "github")
    assert "Deployment default/web: only 2 of the 3 pods" in outcome.out


def build_running_web(cpu: str) -> list[Json]:
    """Build a running pod of Deployment web, and its ReplicaSet."""
    template = {
        "metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}},
        "spec": build_pod("web", cpu)["spec"],
    }
    running = build_pod("web-1", cpu, nodeName="n1", schedulerName="default-scheduler", uid="1")
    owner = {"kind": "ReplicaSet", "name": "web-abc", "controller": True, "uid": "2"}
    running["metadata"] |= {"ownerReferences": [owner], "labels": template["metadata"]["labels"]}
    deployment_owner = {"kind": "Deployment", "name": "web", "controller": True, "uid": "3"}
    metadata = {
        "name": "web-abc",
        "uid": "2",
        "ownerReferences": [deployment_owner],
        "labels": {"pod-template-hash": "abc"},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    return [running, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}]


@pytest.mark.parametrize("command", ["explain", "remedies"])
@pytest.mark.parametrize(("replicas", "placed"), [(1, 1), (2, 2), (4, 2)])
def test_workload_with_pods_gets_additional_pods(
    run: Run, write: Write, command: str, replicas: int, placed: int
) -> None:
    """A node of 4 CPUs has room for one more pod of 2 CPUs beside the one that runs."""
    path = write(build_node("n1", cpu="4"), *build_running_web("2"), build_deployment(replicas, "2"))
    document = json.loads(run(command, "deploy/web", "-f", path, "--assume-complete", "-o", "json").out)
    counts = document["replicas"]
    if placed == replicas:
        assert counts is None
    else:
        assert (counts["placed"], counts["total"], counts["rollout"]) == (placed, replicas, "")
        assert document["verdict"] == "Unschedulable"


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_rollout_that_gets_stuck(run: Run, write: Write, command: str) -> None:
    """One new pod fits beside the old one, which has to stay until the other new pod runs, too."""
    workload = build_deployment(2, "3")
    workload["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    path = write(build_node("n1", cpu="5"), *build_running_web("2"), workload)
    outcome = run(command, "deploy/web", "-f", path, "--assume-complete")
    assert outcome.code == 1
    assert "The rollout of Deployment default/web gets stuck: 1 of 2 new pods runs, 1 old pod is left" in " ".join(
        outcome.out.split()
    )


def test_no_replica_makes_room_for_another(run: Run, write: Write) -> None:
    """Only n1 takes new pods. Moving the old one to n2 would make room there, at the cost of a replica that serves."""
    workload = build_deployment(2, "2")
    workload["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    workload["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    with_disk = build_node("n1", cpu="5")
    with_disk["metadata"]["labels"] = {"disk": "ssd"}
    path = write(with_disk, build_node("n2", cpu="3"), *build_running_web("3"), workload)
    document = json.loads(run("remedies", "deploy/web", "-f", path, "--assume-complete", "-o", "json").out)
    assert document["verdict"] == "Unschedulable"
    assert not [fix["summary"] for fix in document["remedies"] if "Move default/web-1" in fix["summary"]]


@pytest.mark.parametrize("workload", [build_deployment(4, "8"), build_job(4, "8")], ids=["Deployment", "Job"])
def test_a_fix_for_one_pod_says_how_many_still_wait(run: Run, write: Write, workload: Json) -> None:
    """With 4 CPUs, one pod of 4 fits, and its three siblings wait."""
    path = write(build_node("n1", cpu="4"), workload)
    name = f"{workload['kind']} default/web"
    command = ("remedies", f"{workload['kind'].lower()}/web", "-f", path, "--assume-complete")
    fixes = json.loads(run(*command, "-o", "json").out)["remedies"]
    (fix,) = (fix for fix in fixes if fix["summary"].startswith("Request 4 CPUs"))
    warning = f"3 other pods of {name} stay Pending"
    assert {"kind": "Partial", "text": warning} == {key: fix["costs"][0][key] for key in ("kind", "text")}
    assert "is deleted and recreated" not in fix["weakens"]  # the workload does not exist yet
    assert "none of which has a node yet" not in fix["weakens"]  # its pods do not exist
    for form in ((), ("--brief",)):
        assert warning in " ".join(run(*command, "--only", fix["kinds"][0], *form).out.split())


def test_enough_nodes_are_added_for_all_replicas(run: Run, write: Write) -> None:
    """Each pod of 8 CPUs needs a node of its own."""
    path = write(build_node("n1", cpu="4"), build_job(4, "8"))
    document = json.loads(run("remedies", "job/web", "-f", path, "--assume-complete", "-o", "json").out)
    (fix,) = (fix for fix in document["remedies"] if fix["kinds"] == ["AddNode"])
    assert fix["summary"].startswith("Add 4 nodes")
    assert fix["holds"]
