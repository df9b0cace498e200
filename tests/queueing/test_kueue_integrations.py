"""Kueue's integrations make the Workloads of jobs as upstream's tables say.

Upstream: TestPodSets of pkg/controller/jobs/job, TestGenerateWorkloadNameWithExtra of pkg/controller/jobframework,
pkg/util/priority/priority_test.go, and the concepts "WorkloadPriorityClass" and "Plain Pods" of kueue.sigs.k8s.io.
"""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.api.objects import ObjectMeta, Pod, PodAnnotations, PodMeta, PodSpec, PodTemplateSpec, PriorityClass
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import QUEUE_LABEL, KueueWorkload, SliceConstraint, TopologyRequest, WorkloadPriorityClass
from kschedctl.api.workloads import Deployment, DeploymentSpec, Job, JobSpec, StatefulSet, StatefulSetSpec, get_identity
from kschedctl.errors import InputError
from kschedctl.queueing.kueue.feature_gates import KueueRelease, build_feature_gates
from kschedctl.queueing.kueue.integrations import (
    MIN_PARALLELISM_ANNOTATION,
    PRIORITY_CLASS_LABEL,
    NotIntegratedError,
    PriorityClasses,
    build_workload_name,
    build_workloads,
    find_queue_name,
)

_GATES = build_feature_gates(KueueRelease.V0_20, {})
_CREATED = "2026-03-01T00:00:00Z"


def _build_job(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **topology: str) -> Job:
    """Build a Job in LocalQueue q with three parallel pods."""
    metadata = ObjectMeta("job", "ns", labels={QUEUE_LABEL: "q", **(labels or {})}, annotations=annotations or {})
    template = PodTemplateSpec(PodMeta(annotations=PodAnnotations(**topology)))
    return Job(metadata, JobSpec(parallelism=3, template=template))


def _build(job: Any, classes: PriorityClasses | None = None, gates: Any = _GATES) -> tuple[KueueWorkload, ...]:
    """Build the Workloads of a job."""
    return build_workloads(get_identity(job), job, classes or PriorityClasses(), gates, _CREATED)


@pytest.mark.parametrize(
    ("uid", "name", "expected"),
    [
        ("uid", "name", "job-name-ef3a1"),
        ("uid", "n" * 300, None),
    ],
)
def test_the_name_of_a_workload_has_a_hash_of_its_job(uid: str, name: str, expected: str | None) -> None:
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
def test_the_pod_set_of_a_job(
    annotations: dict[str, str], topology: dict[str, str], minimum: int | None, expected: TopologyRequest
) -> None:
    (workload,) = _build(_build_job(annotations, **topology))
    (pod_set,) = workload.spec.pod_sets
    assert (pod_set.name, pod_set.count, pod_set.min_count) == ("main", 3, minimum)
    assert pod_set.topology_request == expected
    assert workload.spec.queue_name == "q"


def test_a_job_without_topology_aware_scheduling_requests_no_topology() -> None:
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
def test_a_malformed_topology_makes_no_workload(topology: dict[str, str], message: str) -> None:
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
def test_the_priority_of_a_workload(label: str, pod_class: str, classes: PriorityClasses, expected: int) -> None:
    labels = {QUEUE_LABEL: "q", **({PRIORITY_CLASS_LABEL: label} if label else {})}
    spec = PodSpec(priority_class_name=pod_class)
    job = Job(ObjectMeta("job", "ns", labels=labels), JobSpec(template=PodTemplateSpec(spec=spec)))
    assert _build(job, classes)[0].spec.priority == expected


@pytest.mark.parametrize("label", ["high", ""])
def test_a_missing_priority_class_makes_no_workload(label: str) -> None:
    labels = {QUEUE_LABEL: "q", **({PRIORITY_CLASS_LABEL: label} if label else {})}
    spec = PodSpec(priority_class_name="gone")
    job = Job(ObjectMeta("job", "ns", labels=labels), JobSpec(template=PodTemplateSpec(spec=spec)))
    with pytest.raises(InputError, match="does not exist"):
        _build(job)


def test_a_pod_is_a_workload_of_one_pod() -> None:
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


def test_a_stateful_set_is_one_workload_of_all_its_replicas() -> None:
    metadata = ObjectMeta("db", "ns", labels={QUEUE_LABEL: "q"})
    (workload,) = _build(StatefulSet(metadata, StatefulSetSpec(replicas=3)))
    assert [(pod_set.name, pod_set.count) for pod_set in workload.spec.pod_sets] == [("main", 3)]


def test_the_label_of_a_pod_template_makes_the_pods_of_a_job_no_workload() -> None:
    template = PodTemplateSpec(PodMeta(labels={QUEUE_LABEL: "q"}))
    assert not find_queue_name(Job(ObjectMeta("job", "ns"), JobSpec(template=template)))
    assert find_queue_name(Deployment(ObjectMeta("web", "ns"), DeploymentSpec(template=template))) == "q"


def test_groups_of_pods_are_not_replayed() -> None:
    labels = {QUEUE_LABEL: "q", "kueue.x-k8s.io/pod-group-name": "g"}
    with pytest.raises(NotIntegratedError, match="groups of pods"):
        _build(Pod(PodMeta("p", "ns", labels=labels)))
