"""Place the replicas of examples to prove that rules that claim Pending pods are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.new_pods import create_target_pod
from kschedctl.commands.explain.one_pod import explain_target
from kschedctl.lint.catalogue import read_example
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import choose_rules, lint
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.documents.positions import load_objects

Json = dict[str, Any]

SURPLUS = (
    "ts-min-domains-unsatisfiable",
    "ts-tainted-domains",
    "ts-affinity-policy",
    "ts-conflicting",
    "af-anti-replicas-over-domains",
    "hp-hostport-over-nodes",
)
NEVER = (
    "na-no-node-matches",
    "tt-all-eligible-cordoned",
    "ts-key-on-no-node",
    "rq-larger-than-any-node",
    "af-target-absent",
)
NOW = ("rq-fragmented", "pc-cross-node-preemption", "rq-no-room-now")


def explain_new(objects, pod):
    """Explain a pod that the objects of the cluster do not contain, without validating its manifest."""
    return explain_target(create_target_pod(Scheduler(kschedctl.Cluster.from_objects(objects)), pod))


def read_workloads(rule: str, part: str) -> list[Json]:
    """Return the workloads in a part of a rule's example."""
    return [d for d in yaml.safe_load_all(read_example(rule)[part]) if d["kind"] in ("Deployment", "Pod")]


def build_cluster(rule: str) -> list[Json]:
    """Return the cluster of a rule's example, without movable pods for rules about what never fits."""
    found = [document for document in yaml.safe_load_all(read_example(rule)["cluster"]) if document]
    return [o for o in found if o["kind"] != "Pod" or rule not in NEVER or o["metadata"].get("ownerReferences")]


def make_pod(workload: Json, number: int) -> Json:
    """Return a pod as a workload's controller would create it."""
    template = workload if workload["kind"] == "Pod" else workload["spec"]["template"]
    metadata = {**template.get("metadata", {}), "name": f"lint-{workload['metadata']['name']}-{number}"}
    return {"kind": "Pod", "metadata": {**metadata, "namespace": "default"}, "spec": template["spec"]}


def count_placed(objects: list[Json], workload: Json) -> int:
    """Return how many of the replicas find a node, one after the other."""
    objects = list(objects)
    count = workload["spec"].get("replicas", 1)
    for number in range(count):
        pod = make_pod(workload, number)
        report = explain_new(objects, pod)
        if report.verdict != "Schedulable":
            return number
        objects.append({**pod, "spec": {**pod["spec"], "nodeName": report.best[0]}})
    return int(count)


@pytest.mark.parametrize("rule", [*SURPLUS, *NEVER, *NOW])
def test_reported_workload_is_not_placed_completely(rule: str) -> None:
    for workload in read_workloads(rule, "bad"):
        assert count_placed(build_cluster(rule), workload) < workload["spec"].get("replicas", 1)


@pytest.mark.parametrize("rule", [*SURPLUS, *NEVER, *NOW])
def test_unreported_workload_is_placed_completely(rule: str) -> None:
    for workload in read_workloads(rule, "good"):
        together = [w for w in read_workloads(rule, "good") if w is not workload and rule == "af-target-absent"]
        there = [{**make_pod(w, 0), "spec": {**make_pod(w, 0)["spec"], "nodeName": "a1"}} for w in together]
        assert count_placed([*build_cluster(rule), *there], workload) == workload["spec"].get("replicas", 1)


def test_reported_rollout_cannot_start_a_new_pod() -> None:
    (workload,) = read_workloads("af-rollout-deadlock", "bad")
    assert count_placed(build_cluster("af-rollout-deadlock"), workload) == 2
    workload["spec"]["replicas"] = 3
    assert count_placed(build_cluster("af-rollout-deadlock"), workload) == 2


def test_evicted_pod_finds_no_other_node() -> None:
    objects = build_cluster("drain-no-headroom")
    left = [o for o in objects if o["metadata"]["name"] != "db-0"]
    cordoned = [{**o, "spec": {"unschedulable": True}} if o["metadata"]["name"] == "a1" else o for o in left]
    evicted = next(o for o in objects if o["metadata"]["name"] == "db-0")
    pod = {**evicted, "spec": {"containers": evicted["spec"]["containers"]}}
    assert explain_new(cordoned, pod).verdict == "Unschedulable"
    assert explain_new(left, pod).feasible == ("a1",)


COUNTED = ("af-anti-replicas-over-domains", "hp-hostport-over-nodes")


@pytest.mark.parametrize("rule", COUNTED)
def test_reported_number_of_replicas_equals_the_replay(rule: str, tmp_path: Path) -> None:
    """Only the reported number of replicas is placed, and the others stay Pending."""
    (workload,) = read_workloads(rule, "bad")
    replicas = workload["spec"]["replicas"]
    fits = count_placed(build_cluster(rule), workload)
    text = read_example(rule)
    (tmp_path / "m.yaml").write_text(text["bad"])
    manifests = list(load_objects(str(tmp_path / "m.yaml")))
    cluster = Cluster.from_objects(list(yaml.safe_load_all(text["cluster"])))
    report = lint(LintContext.from_manifests(((m.value, m) for m in manifests), cluster), choose_rules([rule], ()))
    (found,) = report.findings
    assert re.fullmatch(
        rf"{replicas} replicas, but only {fits} usable (node|host)s?.*: at least {replicas - fits} stays? Pending",
        found.message,
    )
