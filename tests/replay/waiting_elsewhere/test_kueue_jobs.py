"""A Job with a queue label and without a Workload is reported with what Kueue would do with it."""

from __future__ import annotations

from kueue_objects import NODES, NOW, QUEUES, build_manifest, build_workload

from kschedctl.api.json_values import JsonObject
from kschedctl.api.workloads import decode_workload
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere import find_waiting_elsewhere
from kschedctl.replay.waiting_elsewhere.kueue_jobs import JobOutlook, foresee_manifests
from kschedctl.reports.waiting_elsewhere import WaitingState, has_unadmitted, has_unchecked


def _foresee(manifest: JsonObject, *objects: JsonObject) -> JobOutlook:
    """Return what Kueue would do with a manifest."""
    cluster = Cluster.from_objects([*QUEUES, *NODES, *objects])
    (outlook,) = foresee_manifests(cluster, [decode_workload(manifest)], NOW)
    return outlook


def test_a_job_with_enough_quota_is_admitted_and_placed() -> None:
    outlook = _foresee(build_manifest(2, 4))
    assert outlook.flavors == "flavor gpu"
    assert outlook.report.state is WaitingState.ADMISSIBLE
    assert outlook.report.headline == "is next in ClusterQueue cq: there is enough quota for it"
    assert outlook.report.details[-1] == "kube-scheduler would then place 4 pods"
    assert not has_unadmitted([outlook.report])
    assert not has_unchecked([outlook.report])


def test_a_job_without_quota_certainly_waits() -> None:
    outlook = _foresee(build_manifest(2, 8))
    assert not outlook.admitted
    assert outlook.report.headline == (
        "waits for quota in ClusterQueue cq: pod set main needs 16 nvidia.com/gpu, flavor gpu has 8 of 8 free"
    )
    assert has_unadmitted([outlook.report])


def test_a_job_waits_behind_the_workloads_of_the_queue() -> None:
    outlook = _foresee(build_manifest(2, 4), build_workload("old", 8))
    assert not outlook.admitted
    assert "Number 2 of 2 in ClusterQueue cq" in outlook.report.details


def test_a_job_of_an_absent_queue_says_so() -> None:
    assert _foresee(build_manifest(1, 1, queue="gone")).report.headline == "waits: LocalQueue ai/gone does not exist"


def test_some_pods_of_a_deployment_are_admitted() -> None:
    outlook = _foresee(build_manifest(4, 3, "Deployment"))
    assert (len(outlook.admitted), outlook.workload_count) == (2, 3)
    assert outlook.report.state is WaitingState.NOT_ADMITTED
    assert outlook.report.headline.startswith(
        "Kueue admits 2 of its 3 pods, each a Workload of its own; the next waits"
    )


def test_a_cluster_without_queues_ignores_the_label() -> None:
    cluster = Cluster.from_objects(NODES)
    assert not foresee_manifests(cluster, [decode_workload(build_manifest(2, 4))], NOW)


def test_a_suspended_job_of_the_cluster_without_a_workload_is_reported_once() -> None:
    job = build_manifest(2, 4)
    job["metadata"] |= {"uid": "j"}
    job["spec"] |= {"suspend": True}
    entries = find_waiting_elsewhere(Cluster.from_objects([*QUEUES, *NODES, job]), None, NOW)
    assert [(entry.resource, entry.state) for entry in entries] == [("Job ai/train", WaitingState.ADMISSIBLE)]


def test_an_integration_that_is_not_replayed_is_named() -> None:
    replicated = {"name": "w", "replicas": 2, "template": {"spec": {"template": {"spec": {"containers": []}}}}}
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ai", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {"suspend": True, "replicatedJobs": [replicated]},
    }
    (entry,) = find_waiting_elsewhere(Cluster.from_objects([*QUEUES, job_set]), None, NOW)
    assert entry.headline == ("waits for Kueue, in LocalQueue lq: Kueue's integration for JobSet is not replayed")
    assert entry.state is WaitingState.NOT_CHECKED
