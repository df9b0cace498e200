"""Check which Workloads of Kueue keep their quota after `drain`, and which have to be admitted again."""

from __future__ import annotations

from typing import Any

from kueue_objects import NODES, QUEUES, build_admitted_workload, build_workload

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.drain import drain_nodes
from kschedctl.commands.drain.report import Drain, QuotaOutcome


def _build_pod(name: str, gpus: int, owner: tuple[str, str]) -> JsonObject:
    """Build a pod on node a in LocalQueue lq."""
    kind, owner_name = owner
    container = {"name": "c", "image": "train", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    reference = {"kind": kind, "name": owner_name, "apiVersion": "apps/v1", "uid": owner_name, "controller": True}
    metadata: dict[str, Any] = {"name": name, "namespace": "ai", "uid": name}
    metadata["labels"] = {"kueue.x-k8s.io/queue-name": "lq"}
    metadata["ownerReferences"] = [reference] if owner_name else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "a", "containers": [container]},
        "status": {"phase": "Running"},
    }


def _build_running(name: str, gpus: int, kind: str, owner: str) -> JsonObject:
    """Build a Workload with quota that an object owns."""
    workload = build_admitted_workload(name, gpus=gpus)
    workload["metadata"]["ownerReferences"] = [
        {"kind": kind, "name": owner, "apiVersion": "v1", "uid": owner, "controller": True}
    ]
    return workload


def _drain(*objects: JsonObject) -> Drain:
    """Drain node a."""
    return drain_nodes(Cluster.from_objects([*QUEUES, *NODES, *objects]), ["a"])


def test_job_keeps_its_quota() -> None:
    report = _drain(_build_running("job-train", 4, "Job", "train"), _build_pod("train-x", 4, ("Job", "train")))
    (workload,) = report.displaced_workloads
    assert (workload.job, workload.pods, workload.outcome) == ("Job ai/train", 1, QuotaOutcome.KEPT)
    assert report.safe


def test_pod_of_a_deployment_is_admitted_again() -> None:
    running = _build_running("pod-web", 4, "Pod", "web-1")
    report = _drain(running, _build_pod("web-1", 4, ("ReplicaSet", "web")))
    (workload,) = report.displaced_workloads
    assert (workload.outcome, workload.flavors) == (QuotaOutcome.READMITTED, "flavor gpu")


def test_replacement_waits_behind_queued_workloads() -> None:
    running = _build_running("pod-web", 4, "Pod", "web-1")
    other = _build_running("job-train", 4, "Job", "train")
    report = _drain(running, other, build_workload("first", gpus=4), _build_pod("web-1", 4, ("ReplicaSet", "web")))
    (workload,) = report.displaced_workloads
    assert workload.outcome is QuotaOutcome.WAITS
    assert "quota" in workload.reason
    assert not report.safe
    assert "1 pod waits for quota of Kueue" in report.build_headline_parts()[1]
    assert [problem.rule for problem in report.find_ci_gate_problems()] == ["not-scheduled"]


def test_pod_without_a_controller_returns_its_quota() -> None:
    report = _drain(_build_running("pod-alone", 4, "Pod", "alone"), _build_pod("alone", 4, ("", "")))
    (workload,) = report.displaced_workloads
    assert workload.outcome is QuotaOutcome.RELEASED
