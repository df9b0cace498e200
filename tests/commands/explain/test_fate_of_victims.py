"""Check that a single pod that preempts says whether its victims get other nodes."""

from __future__ import annotations

import json

import pytest
from command_line import Run, Write
from small import HOSTNAME, Json, build_budget, build_node, build_pod, build_pod_spec, build_replica, build_workload

CLUSTER = [{"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": "high"}, "value": 10}]
ON_N1 = {"nodeSelector": {HOSTNAME: "n1"}, "priorityClassName": "high", "priority": 10}


def add_api_version(document: Json) -> Json:
    group = {"Pod": "v1", "Node": "v1"}.get(document["kind"], "apps/v1")
    return {"apiVersion": group, **document}


@pytest.mark.parametrize(
    ("cpus", "fate"), [("4", "which gets another node"), ("2", "which gets no other node")], ids=["room", "no room"]
)
@pytest.mark.parametrize("kind", ["Pod", "Deployment", "DaemonSet", "waiting"])
def test_explanation_says_if_the_victim_gets_another_node(
    run: Run, write: Write, kind: str, cpus: str, fate: str
) -> None:
    """The preemptor selects n1. Its victim, of 3 CPUs, fits on n2 only if n2 has 4 CPUs."""
    objects = [build_node("n1"), build_node("n2", cpu=cpus), build_replica("victim", "n1", "3")]
    new = build_pod("new", cpu="3", schedulerName="default-scheduler", **ON_N1)
    if kind == "waiting":
        objects.append(new)
        question = ["explain", "new", "-n", "d"]
    else:
        made = {**build_workload(kind, "new", {}, build_pod_spec("3", **ON_N1))}
        if kind == "Pod":
            del new["metadata"]["uid"]
            made = new
        question = ["explain", "-f", write(add_api_version(made), name="new.json", whole=False)]
    question += ["-f", write(*CLUSTER, *map(add_api_version, objects)), "--assume-complete"]

    preemption = json.loads(run(*question, "-o", "json").out)["preemption"]
    assert preemption["victimsWithoutNode"] == ([] if cpus == "4" else ["d/victim"])
    assert f"would preempt 1 pod on n1, {fate}" in " ".join(run(*question).out.split())
    assert f"evicts d/victim, {fate}" in run(*question, "--brief").out


def test_victims_of_victims_are_named(run: Run, write: Write) -> None:
    """The victim moves to n2 and preempts a pod of lower priority there, which gets no node."""
    lowest = build_replica("lowest", "n2", "3", priority=-5)
    objects = [build_node("n1"), build_node("n2"), build_replica("victim", "n1", "3"), lowest]
    waiting = build_pod("new", cpu="3", schedulerName="default-scheduler", **ON_N1)
    file = write(*CLUSTER, *map(add_api_version, [*objects, waiting]))
    brief = run("explain", "new", "-n", "d", "-f", file, "--assume-complete", "--brief").out
    assert "evicts d/victim, which gets another node" in brief
    assert "d/lowest is evicted in turn and gets no other node" in brief


def test_full_form_names_later_victims_and_violated_budgets(run: Run, write: Write) -> None:
    """The victim preempts a pod in turn whose budget allows no disruption."""
    lowest = build_replica("lowest", "n2", "3", priority=-5)
    victim = build_replica("victim", "n1", "3")
    victim["metadata"]["labels"] = {"app": "other"}
    budget = {"apiVersion": "policy/v1", **build_budget(0)}
    waiting = build_pod("new", cpu="3", schedulerName="default-scheduler", **ON_N1)
    objects = [*map(add_api_version, [build_node("n1"), build_node("n2"), victim, lowest, waiting]), budget]
    question = ["explain", "new", "-n", "d", "-f", write(*CLUSTER, *objects), "--assume-complete"]
    full, brief = (" ".join(run(*question, *form).out.split()) for form in ([], ["--brief"]))
    for warning in ("d/lowest is evicted in turn and gets no other node", "iolates PodDisruptionBudget d/b"):
        assert warning in full
        assert warning in brief
