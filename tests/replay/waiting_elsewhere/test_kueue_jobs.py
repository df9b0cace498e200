"""Check the report on a Job with a queue label but without a Workload."""

from __future__ import annotations

from typing import Any

from kueue_objects import NODES, NOW, QUEUES, build_manifest, build_workload

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Container, Pod, PodAnnotations, PodMeta, PodSpec, ResourceRequirements
from kschedctl.api.workloads import decode_workload
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere
from kschedctl.replay.waiting_elsewhere.kueue_jobs import JobOutlook, predict_manifest_outlooks
from kschedctl.reports.waiting_elsewhere import WaitingState, has_unadmitted, has_unchecked_objects


def _predict_outlook(manifest: JsonObject, *objects: JsonObject) -> JobOutlook:
    """Return what Kueue would do with a manifest."""
    cluster = Cluster.from_objects([*QUEUES, *NODES, *objects])
    (outlook,) = predict_manifest_outlooks(cluster, [decode_workload(manifest)], NOW)
    return outlook


def test_job_with_enough_quota_is_admitted_and_placed() -> None:
    outlook = _predict_outlook(build_manifest(2, 4))
    assert outlook.flavors == "flavor gpu"
    assert outlook.report.state is WaitingState.ADMISSIBLE
    assert outlook.report.headline == "is next in ClusterQueue cq: there is enough quota for it"
    assert outlook.report.details[-1] == "kube-scheduler would then place 4 pods"
    assert not has_unadmitted([outlook.report])
    assert not has_unchecked_objects([outlook.report])


def test_job_without_quota_certainly_waits() -> None:
    outlook = _predict_outlook(build_manifest(2, 8))
    assert not outlook.admitted
    assert outlook.report.headline == (
        "waits for quota in ClusterQueue cq: pod set main needs 16 nvidia.com/gpu, but flavor gpu has 8 of 8 free"
    )
    assert has_unadmitted([outlook.report])


def test_job_waits_behind_the_workloads_of_the_queue() -> None:
    outlook = _predict_outlook(build_manifest(2, 4), build_workload("old", 8))
    assert not outlook.admitted
    assert "This Workload is number 2 of 2 in ClusterQueue cq" in outlook.report.details


def test_job_of_a_missing_queue() -> None:
    assert (
        _predict_outlook(build_manifest(1, 1, queue="gone")).report.headline
        == "waits: LocalQueue ai/gone does not exist"
    )


def test_some_pods_of_a_deployment_are_admitted() -> None:
    outlook = _predict_outlook(build_manifest(4, 3, "Deployment"))
    assert (len(outlook.admitted), outlook.workload_count) == (2, 3)
    assert outlook.report.state is WaitingState.NOT_ADMITTED
    assert outlook.report.headline.startswith(
        "Kueue admits 2 of its 3 pods, each a Workload of its own; the next waits"
    )


def test_cluster_without_queues_ignores_the_label() -> None:
    cluster = Cluster.from_objects(NODES)
    assert not predict_manifest_outlooks(cluster, [decode_workload(build_manifest(2, 4))], NOW)


def test_suspended_job_without_a_workload_is_reported_once() -> None:
    job = build_manifest(2, 4)
    job["metadata"] |= {"uid": "j"}
    job["spec"] |= {"suspend": True}
    entries = find_objects_waiting_elsewhere(Cluster.from_objects([*QUEUES, *NODES, job]), None, NOW)
    assert [(entry.resource, entry.state) for entry in entries] == [("Job ai/train", WaitingState.ADMISSIBLE)]


def _build_custom_resource(api_version: str, kind: str, **spec: Any) -> JsonObject:
    """Build a suspended custom resource in LocalQueue lq."""
    metadata = {"name": "train", "namespace": "ai", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"suspend": True, **spec}}


def test_training_job_is_admitted_and_its_pods_are_placed() -> None:
    worker = {"replicas": 2, "template": build_manifest(gpus=2, pods=1)["spec"]["template"]}
    training = _build_custom_resource("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Worker": worker})
    (entry,) = find_objects_waiting_elsewhere(Cluster.from_objects([*QUEUES, *NODES, training]), None, NOW)
    assert (entry.resource, entry.state, entry.pods) == ("PyTorchJob ai/train", WaitingState.ADMISSIBLE, 2)
    assert "kube-scheduler would then place 2 pods" in entry.details


def test_integration_that_is_not_replayed_is_named() -> None:
    training = _build_custom_resource("trainer.kubeflow.org/v1alpha1", "TrainJob", trainer={"numNodes": 2})
    (entry,) = find_objects_waiting_elsewhere(Cluster.from_objects([*QUEUES, training]), None, NOW)
    assert entry.headline == ("waits for Kueue, in LocalQueue lq: Kueue's integration for TrainJob is not replayed")
    assert entry.state is WaitingState.NOT_CHECKED


def test_pods_of_a_group_are_admitted_together() -> None:
    pods = [_build_group_member(name) for name in ("a", "b")]
    outlooks = predict_manifest_outlooks(Cluster.from_objects([*QUEUES, *NODES]), pods, NOW)
    assert [(o.owner.name, o.report.state, o.report.pods) for o in outlooks] == [
        ("a", WaitingState.ADMISSIBLE, 2),
        ("b", WaitingState.ADMISSIBLE, 2),
    ]
    (alone,) = predict_manifest_outlooks(Cluster.from_objects([*QUEUES, *NODES]), pods[:1], NOW)
    assert alone.report.headline == (
        "gets no Workload of Kueue: group g has 1 of the 2 pods that pod-group-total-count specifies"
    )


def _build_group_member(name: str) -> Pod:
    """Build a pod of a group of 2 pods with 4 GPUs each."""
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/pod-group-name": "g"}
    metadata = PodMeta(name, "ai", labels=labels, annotations=PodAnnotations(pod_group_total_count="2"))
    container = Container("c", resources=ResourceRequirements({"nvidia.com/gpu": "4"}))
    return Pod(metadata, PodSpec((container,)))
