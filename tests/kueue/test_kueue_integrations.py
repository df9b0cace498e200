"""Check that jobs become Workloads as in the tables of Kueue's integrations.

Upstream: TestPodSets of pkg/controller/jobs/job, TestGenerateWorkloadNameWithExtra of pkg/controller/jobframework,
pkg/util/priority/priority_test.go, and the concepts "WorkloadPriorityClass" and "Plain Pods" of kueue.sigs.k8s.io.
"""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import (
    Container,
    Namespace,
    ObjectMeta,
    Pod,
    PodAnnotations,
    PodMeta,
    PodSpec,
    PodTemplateSpec,
    PriorityClass,
    ResourceRequirements,
)
from kschedctl.api.operator_resources import OperatorResource
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import (
    QUEUE_LABEL,
    KueueRelease,
    KueueWorkload,
    LocalQueue,
    SliceConstraint,
    TopologyRequest,
    WorkloadPriorityClass,
)
from kschedctl.api.workloads import Deployment, DeploymentSpec, Job, JobSpec, StatefulSet, StatefulSetSpec, get_identity
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.kueue.feature_gates import build_feature_gates
from kschedctl.kueue.integrations import (
    MIN_PARALLELISM_ANNOTATION,
    PRIORITY_CLASS_LABEL,
    NotIntegratedError,
    PriorityClasses,
    WorkloadBuilder,
    build_workload_name,
)
from kschedctl.kueue.managed_jobs import ManagedJobs
from kschedctl.kueue.pod_groups import build_group_workload, compute_role_hash

_GATES = build_feature_gates(KueueRelease.V0_20, {})
_CREATED = "2026-03-01T00:00:00Z"


def _build_job(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **topology: str) -> Job:
    """Build a Job in LocalQueue q with three parallel pods."""
    metadata = ObjectMeta("job", "ns", labels={QUEUE_LABEL: "q", **(labels or {})}, annotations=annotations or {})
    template = PodTemplateSpec(PodMeta(annotations=PodAnnotations(**topology)))
    return Job(metadata, JobSpec(parallelism=3, template=template))


def _build(job: Any, classes: PriorityClasses | None = None, gates: Any = _GATES) -> tuple[KueueWorkload, ...]:
    """Build the Workloads of a job."""
    return WorkloadBuilder(classes or PriorityClasses(), gates, _CREATED).build_workloads(get_identity(job), job, "q")


@pytest.mark.parametrize(
    ("uid", "name", "expected"),
    [
        ("uid", "name", "job-name-ef3a1"),
        ("uid", "n" * 300, None),
    ],
)
def test_workload_name_has_a_hash_of_its_job(uid: str, name: str, expected: str | None) -> None:
    workload_name = build_workload_name(Owner("Job", "ns", name), uid, "batch")
    assert expected is None or workload_name == expected
    assert len(workload_name) == len(f"job-{name}"[:247]) + 6


@pytest.mark.parametrize(
    ("annotations", "topology", "minimum", "expected"),
    [
        ({}, {}, None, TopologyRequest()),
        ({MIN_PARALLELISM_ANNOTATION: "2"}, {}, 2, TopologyRequest()),
        ({MIN_PARALLELISM_ANNOTATION: "two"}, {}, None, TopologyRequest()),
        ({}, {"required_topology": "cloud.com/block"}, None, TopologyRequest(required="cloud.com/block")),
        ({}, {"preferred_topology": "cloud.com/block"}, None, TopologyRequest(preferred="cloud.com/block")),
        (
            {},
            {"slice_topology": "cloud.com/block", "slice_size": "1"},
            None,
            TopologyRequest(pod_set_slice_required_topology="cloud.com/block", pod_set_slice_size=1),
        ),
        ({}, {"slice_topology": "cloud.com/block"}, None, TopologyRequest()),
        ({}, {"slice_size": "1"}, None, TopologyRequest()),
        ({}, {"unconstrained_topology": "true"}, None, TopologyRequest(unconstrained=True)),
        (
            {},
            {"slice_constraints": '[{"topology": "cloud.com/rack", "size": 2}]'},
            None,
            TopologyRequest(podset_slice_required_topology_constraints=(SliceConstraint("cloud.com/rack", 2),)),
        ),
        ({}, {"podset_group_name": "g"}, None, TopologyRequest()),
    ],
)
def test_pod_set_of_a_job(
    annotations: dict[str, str], topology: dict[str, str], minimum: int | None, expected: TopologyRequest
) -> None:
    (workload,) = _build(_build_job(annotations, **topology))
    (pod_set,) = workload.spec.pod_sets
    assert (pod_set.name, pod_set.count, pod_set.min_count) == ("main", 3, minimum)
    assert pod_set.topology_request == expected
    assert workload.spec.queue_name == "q"


def test_job_without_topology_annotations_requests_no_topology() -> None:
    gates = build_feature_gates(KueueRelease.V0_20, {"TopologyAwareScheduling": False})
    (workload,) = _build(_build_job(required_topology="cloud.com/block"), gates=gates)
    assert workload.spec.pod_sets[0].topology_request is None


def test_completions_limit_the_pods_of_a_job() -> None:
    job = Job(ObjectMeta("job", "ns", labels={QUEUE_LABEL: "q"}), JobSpec(parallelism=3, completions=2))
    assert _build(job)[0].spec.pod_sets[0].count == 2


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ({"unconstrained_topology": "maybe"}, "not a boolean"),
        ({"slice_topology": "rack", "slice_size": "two"}, "not an integer"),
        ({"slice_constraints": "[]"}, "0 entries"),
    ],
)
def test_malformed_topology_creates_no_workload(topology: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _build(_build_job(**topology))


_HIGH, _DEFAULT = WorkloadPriorityClass(ObjectMeta("high"), 1000), WorkloadPriorityClass(ObjectMeta("default"), 5)
_POD_CLASSES = (
    PriorityClass(ObjectMeta("a"), 100, global_default=True),
    PriorityClass(ObjectMeta("b"), 50, global_default=True),
    PriorityClass(ObjectMeta("c"), 7),
)


@pytest.mark.parametrize(
    ("label", "pod_class", "classes", "expected"),
    [
        ("high", "c", PriorityClasses([_HIGH], _POD_CLASSES), 1000),
        ("", "c", PriorityClasses([_HIGH], _POD_CLASSES), 7),
        ("", "", PriorityClasses([_HIGH], _POD_CLASSES), 50),  # the lowest global default
        ("", "", PriorityClasses(), 0),
        ("", "c", PriorityClasses([_DEFAULT], _POD_CLASSES), 5),
        ("", "c", PriorityClasses([_DEFAULT], _POD_CLASSES, uses_default_workload_class=False), 7),
        ("", "system-node-critical", PriorityClasses(), 2_000_001_000),
    ],
)
def test_priority_of_a_workload(label: str, pod_class: str, classes: PriorityClasses, expected: int) -> None:
    labels = {QUEUE_LABEL: "q", **({PRIORITY_CLASS_LABEL: label} if label else {})}
    spec = PodSpec(priority_class_name=pod_class)
    job = Job(ObjectMeta("job", "ns", labels=labels), JobSpec(template=PodTemplateSpec(spec=spec)))
    assert _build(job, classes)[0].spec.priority == expected


@pytest.mark.parametrize("label", ["high", ""])
def test_missing_priority_class_creates_no_workload(label: str) -> None:
    labels = {QUEUE_LABEL: "q", **({PRIORITY_CLASS_LABEL: label} if label else {})}
    spec = PodSpec(priority_class_name="gone")
    job = Job(ObjectMeta("job", "ns", labels=labels), JobSpec(template=PodTemplateSpec(spec=spec)))
    with pytest.raises(InputError, match="does not exist"):
        _build(job)


def test_pod_is_a_workload_of_one_pod() -> None:
    pod = Pod(PodMeta("p", "ns", labels={QUEUE_LABEL: "q"}))
    (workload,) = _build(pod)
    assert workload.metadata.name.startswith("pod-p-")
    assert [(pod_set.name, pod_set.count) for pod_set in workload.spec.pod_sets] == [("main", 1)]


def test_each_pod_of_a_deployment_is_a_workload() -> None:
    classes = PriorityClasses([_HIGH])
    metadata = ObjectMeta("web", "ns", labels={QUEUE_LABEL: "q", PRIORITY_CLASS_LABEL: "high"})
    workloads = _build(Deployment(metadata, DeploymentSpec(replicas=2)), classes)
    assert [w.spec.pod_sets[0].count for w in workloads] == [1, 1]
    assert {(w.spec.queue_name, w.spec.priority) for w in workloads} == {("q", 1000)}


def test_stateful_set_is_one_workload_of_all_its_replicas() -> None:
    metadata = ObjectMeta("db", "ns", labels={QUEUE_LABEL: "q"})
    (workload,) = _build(StatefulSet(metadata, StatefulSetSpec(replicas=3)))
    assert [(pod_set.name, pod_set.count) for pod_set in workload.spec.pod_sets] == [("main", 3)]


@pytest.mark.parametrize(
    ("requests", "name"),
    [({}, "a9f06f3a"), ({"cpu": "1"}, "dc85db45"), ({"memory": "1Gi", "cpu": "1"}, "4ebdd4a6")],
)
def test_role_of_a_pod_is_the_hash_of_kueue(requests: dict[str, str], name: str) -> None:
    assert compute_role_hash(PodSpec((Container(resources=ResourceRequirements(requests)),))) == name


def _build_member(name: str, requests: dict[str, str], total: str = "3", queue: str = "q", fast: str = "") -> Pod:
    """Build a pod of group g."""
    annotations = PodAnnotations(pod_group_total_count=total, pod_group_fast_admission=fast)
    labels = {QUEUE_LABEL: queue, "kueue.x-k8s.io/pod-group-name": "g"}
    container = Container(resources=ResourceRequirements(requests))
    return Pod(PodMeta(name, "ns", labels=labels, annotations=annotations), PodSpec((container,)))


def _build_group(*pods: Pod) -> KueueWorkload:
    """Build the Workload of a group of pods."""
    return build_group_workload(pods, "q", WorkloadBuilder(PriorityClasses(), _GATES, _CREATED))


def test_pods_of_a_group_that_request_the_same_are_one_pod_set() -> None:
    small, large = {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}
    workload = _build_group(_build_member("a", small), _build_member("b", large), _build_member("c", small))
    assert workload.metadata.name == "g"
    assert [(p.name, p.count) for p in workload.spec.pod_sets] == [("4ebdd4a6", 1), ("dc85db45", 2)]
    assert [owner.name for owner in workload.metadata.owner_references] == ["a", "b", "c"]


def test_fast_admission_needs_one_pod_of_a_group() -> None:
    workload = _build_group(_build_member("a", {"cpu": "1"}, fast="true"))
    assert [(p.name, p.count) for p in workload.spec.pod_sets] == [("dc85db45", 3)]


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ([_build_member("a", {})], "1 of the 3 pods"),
        ([_build_member("a", {}, total="0")], "'0' is not a number of pods"),
        ([_build_member("a", {}, "2"), _build_member("b", {}, "2", queue="other")], "different LocalQueues"),
        ([_build_member("a", {}, "2"), _build_member("b", {}, "3")], "different numbers"),
    ],
)
def test_incomplete_group_creates_no_workload(pods: list[Pod], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _build_group(*pods)


def test_each_replica_of_a_leader_worker_set_is_a_workload() -> None:
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": {}}}
    resource = OperatorResource(ObjectMeta("llm", "ns", labels={QUEUE_LABEL: "q"}), spec)
    builder = WorkloadBuilder(PriorityClasses(), _GATES, _CREATED)
    workloads = builder.build_workloads(Owner("LeaderWorkerSet", "ns", "llm"), resource, "q")
    assert [w.spec.pod_sets[0].count for w in workloads] == [4, 4]
    assert [w.metadata.name[: len("leaderworkerset-llm-0")] for w in workloads] == [
        "leaderworkerset-llm-0",
        "leaderworkerset-llm-1",
    ]


def test_unknown_integration_is_named() -> None:
    resource = OperatorResource(ObjectMeta("app", "ns", labels={QUEUE_LABEL: "q"}), {"driver": {}})
    builder = WorkloadBuilder(PriorityClasses(), _GATES, _CREATED)
    with pytest.raises(NotIntegratedError, match="integration for SparkApplication is not replayed"):
        builder.build_workloads(Owner("SparkApplication", "ns", "app"), resource, "q")


_TEMPLATE = PodTemplateSpec(PodMeta(labels={QUEUE_LABEL: "q"}))
_LABELLED = Job(ObjectMeta("job", "ns", labels={QUEUE_LABEL: "q"}))
_UNLABELLED = Job(ObjectMeta("job", "ns"))
_MANAGE_ALL = {"manageJobsWithoutQueueName": True}


@pytest.mark.parametrize(
    ("job", "configuration", "queue"),
    [
        (_LABELLED, {}, "q"),
        (_LABELLED, {"integrations": {"frameworks": ["pod"]}}, None),
        (_LABELLED, {"integrations": {}}, "q"),
        (_UNLABELLED, {}, None),
        (_UNLABELLED, _MANAGE_ALL, ""),
        (_UNLABELLED, {**_MANAGE_ALL, "managedJobsNamespaceSelector": {"matchLabels": {"team": "ml"}}}, None),
        (Job(ObjectMeta("job", "kube-system")), _MANAGE_ALL, None),
        (Job(ObjectMeta("job", "with-default")), {}, "default"),
        (Pod(PodMeta("p", "ns", labels={QUEUE_LABEL: "q"})), {"integrations": {"frameworks": ["batch/job"]}}, None),
        (Job(ObjectMeta("job", "ns"), JobSpec(template=_TEMPLATE)), {}, None),
        (Deployment(ObjectMeta("web", "ns"), DeploymentSpec(template=_TEMPLATE)), {}, "q"),
        (Deployment(ObjectMeta("web", "ns", labels={QUEUE_LABEL: "q"})), {}, "q"),
    ],
)
def test_configuration_determines_the_managed_jobs(job: Any, configuration: JsonObject, queue: str | None) -> None:
    default = LocalQueue(ObjectMeta("default", "with-default"))
    cluster = Cluster.of({"LocalQueue": [default], "Namespace": [Namespace(ObjectMeta("ns"))]})
    assert ManagedJobs(cluster, configuration).find_local_queue_name(get_identity(job), job) == queue


@pytest.mark.parametrize(
    "configuration",
    [
        {"integrations": {"frameworks": "pod"}},
        {"managedJobsNamespaceSelector": {"matchExpressions": [{"operator": "Near"}]}},
    ],
)
def test_malformed_configuration_is_rejected(configuration: JsonObject) -> None:
    with pytest.raises(InputError, match="Kueue's Configuration"):
        ManagedJobs(Cluster.from_objects([]), configuration)
