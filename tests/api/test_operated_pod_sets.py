"""Check that the pod sets of custom resources are those of Kueue's integrations."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.api.json_values import JsonObject
from kschedctl.api.operated_pod_sets import NO_POD_SETS, read_pod_sets


def _build_template(cpu: str = "1", **spec: Any) -> JsonObject:
    """Build a pod template with one container."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"creationTimestamp": None}, "spec": {"containers": [container], **spec}}


def _build_roles(**counts: int | None) -> JsonObject:
    """Build the replica specifications of a training job."""
    return {role: {"replicas": count, "template": _build_template()} for role, count in counts.items()}


def _build_job_set() -> JsonObject:
    """Build a JobSet with 2 jobs of 3 parallel pods, and one that completions limit to 1 pod."""
    workers = {"parallelism": 3, "completions": 5, "template": _build_template()}
    leader = {"parallelism": 3, "completions": 1, "template": _build_template()}
    jobs = [
        {"name": "Workers", "replicas": 2, "template": {"spec": workers}},
        {"name": "leader", "template": {"spec": leader}},
    ]
    return {"replicatedJobs": jobs}


def _build_ray_cluster(**fields: Any) -> JsonObject:
    """Build a RayCluster with a head and 4 workers on 2 hosts each."""
    group = {"groupName": "gpu", "replicas": 4, "numOfHosts": 2, "template": _build_template()}
    return {"headGroupSpec": {"template": _build_template()}, "workerGroupSpecs": [group], **fields}


_RAY = [("head", 1), ("gpu", 8)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (_build_job_set(), [("workers", 6), ("leader", 1)]),
        ({"pytorchReplicaSpecs": _build_roles(Worker=4, Master=None)}, [("master", 1), ("worker", 4)]),
        (
            {"tfReplicaSpecs": _build_roles(Worker=2, PS=3, Chief=1, Evaluator=1)},
            [("chief", 1), ("ps", 3), ("worker", 2), ("evaluator", 1)],
        ),
        ({"xgbReplicaSpecs": _build_roles(Master=1)}, [("master", 1)]),
        ({"paddleReplicaSpecs": _build_roles(Master=1, Worker=2)}, [("master", 1), ("worker", 2)]),
        ({"jaxReplicaSpecs": _build_roles(Worker=2)}, [("worker", 2)]),
        ({"mpiReplicaSpecs": _build_roles(Worker=3, Launcher=1)}, [("launcher", 1), ("worker", 3)]),
        (_build_ray_cluster(), _RAY),
        ({"rayClusterConfig": _build_ray_cluster()}, _RAY),
        ({"rayClusterSpec": _build_ray_cluster()}, [*_RAY, ("submitter", 1)]),
        ({"rayClusterSpec": _build_ray_cluster(), "submissionMode": "HTTPMode"}, _RAY),
        ({"leaderWorkerTemplate": {"size": 4, "workerTemplate": _build_template()}}, [("main", 4)]),
        (
            {"leaderWorkerTemplate": {"size": 4, "workerTemplate": {}, "leaderTemplate": _build_template()}},
            [("leader", 1), ("worker", 3)],
        ),
        ({"replicas": 3}, []),
    ],
)
def test_each_integration_has_its_pod_sets(spec: JsonObject, expected: list[tuple[str, int]]) -> None:
    assert [(pod_set.name, pod_set.count) for pod_set in read_pod_sets(spec, {}).pod_sets] == expected


def _list_requests(spec: JsonObject, annotations: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the requests of each container of the first pod set."""
    containers = read_pod_sets(spec, annotations or {}).pod_sets[0].template.spec.containers
    return [dict(container.resources.requests) for container in containers]


def test_ray_head_has_the_containers_of_its_operator() -> None:
    assert _list_requests(_build_ray_cluster(enableInTreeAutoscaling=True)) == [
        {"cpu": "1"},
        {"cpu": "500m", "memory": "512Mi"},
    ]
    options = {"resources": {"requests": {"cpu": "2"}}}
    own = _build_ray_cluster(enableInTreeAutoscaling=True, autoscalerOptions=options)
    assert _list_requests(own) == [{"cpu": "1"}, {"cpu": "2"}]
    sidecar = {"rayClusterSpec": _build_ray_cluster(), "submissionMode": "SidecarMode"}
    assert _list_requests(sidecar) == [{"cpu": "1"}, {"cpu": "500m", "memory": "200Mi"}]


def test_ray_head_has_room_for_the_redis_cleanup() -> None:
    assert _list_requests(_build_ray_cluster(gcsFaultToleranceOptions={"redisAddress": "redis:6379"})) == [
        {"cpu": "1", "memory": "256Mi"}
    ]
    assert _list_requests(_build_ray_cluster(), {"ray.io/ft-enabled": "true"}) == [{"cpu": "1", "memory": "256Mi"}]


def test_ray_job_on_an_existing_cluster_is_ignored() -> None:
    operated = read_pod_sets({"clusterSelector": {"ray.io/cluster": "shared"}}, {})
    assert operated.pod_sets == ()
    assert "clusterSelector" in operated.problem


def test_replicas_of_a_leader_worker_set_are_counted() -> None:
    assert read_pod_sets({"replicas": 3, "leaderWorkerTemplate": {"workerTemplate": {}}}, {}).replicas == 3


def test_scheduling_policy_names_a_priority_class() -> None:
    policy = {"schedulingPolicy": {"priorityClass": "high"}}
    operated = read_pod_sets({"runPolicy": policy, "mpiReplicaSpecs": _build_roles(Worker=1)}, {})
    assert operated.priority_class_name == "high"


def test_malformed_templates_are_named() -> None:
    assert read_pod_sets({"jaxReplicaSpecs": {"Worker": {"replicas": "two"}}}, {}).problem == (
        "its pod templates cannot be read: replicas: 'two' is not a number of pods"
    )
    assert read_pod_sets({"replicas": "three"}, {}) == NO_POD_SETS
