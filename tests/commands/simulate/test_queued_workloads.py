"""Check that `simulate` starts the pods of the jobs and Workloads that Kueue admits."""

from __future__ import annotations

from typing import Any

from kueue_objects import NODES, QUEUES, build_admitted_workload, build_manifest, build_workload

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.reports.waiting_elsewhere import WaitingState


def _simulate(*objects: JsonObject, manifests: tuple[JsonObject, ...] = (), pending: bool = True) -> SimulationReport:
    """Simulate with 2 nodes of 4 GPUs each, and a quota of 8."""
    return simulate(Cluster.from_objects([*QUEUES, *NODES, *objects]), manifests, pending=pending)


def test_waiting_workloads_take_part() -> None:
    report = _simulate(build_workload("high", gpus=2, pods=2))
    assert (report.placed, report.unplaced, report.admitted) == (2, 0, {"Workload ai/high": "flavor gpu"})
    (entry,) = report.waiting_elsewhere
    assert entry.state is WaitingState.ADMISSIBLE
    assert report.good


def test_workload_without_quota_does_not_take_part() -> None:
    report = _simulate(build_workload("high", gpus=3, pods=3))
    assert (report.placed, report.unplaced) == (0, 0)
    assert not report.good


def test_quota_without_nodes_leaves_pods_unplaced() -> None:
    report = _simulate(build_workload("high", gpus=8))
    assert (report.placed, report.unplaced) == (0, 1)


def test_waiting_workloads_stay_out_without_pending() -> None:
    report = _simulate(build_workload("high", gpus=2), manifests=(build_manifest(1, 1),), pending=False)
    assert report.placed == 1
    assert [entry.resource for entry in report.waiting_elsewhere] == ["Job ai/train"]


def test_pods_of_a_new_training_job_are_placed() -> None:
    template = build_manifest(gpus=2, pods=1)["spec"]["template"]
    training = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "ai", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": template}}},
    }
    report = _simulate(training, pending=False)
    assert (report.placed, report.unplaced) == (3, 0)
    assert report.admitted == {"PyTorchJob ai/train": "flavor gpu"}


def _build_gated_pod(name: str, **spec: Any) -> JsonObject:
    """Build a pod with 4 GPUs that waits behind Kueue's gate."""
    container = {"name": "c", "image": "train", "resources": {"requests": {"nvidia.com/gpu": "4"}}}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    metadata = {"name": name, "namespace": "ai", "uid": name, "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "schedulingGates": gates, **spec},
    }


def test_gated_pods_of_an_admitted_workload_are_started() -> None:
    workload = build_workload("pod-serve", gpus=4)
    workload["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "serve", "uid": "serve"}]
    report = _simulate(workload, _build_gated_pod("serve"))
    assert report.placements.keys() == {"ai/serve"}


def test_pods_of_preempted_workloads_make_room() -> None:
    running = build_admitted_workload("low", gpus=8)
    running["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "low", "uid": "low"}]
    running["spec"]["priority"] = -1
    low = _build_gated_pod("low", nodeName="a")
    del low["spec"]["schedulingGates"]
    queue = {**QUEUES[1], "spec": {**QUEUES[1]["spec"], "preemption": {"withinClusterQueue": "LowerPriority"}}}
    report = _simulate(running, low, queue, build_workload("high", gpus=4, pods=2))
    assert (report.placed, report.unplaced) == (2, 0)
