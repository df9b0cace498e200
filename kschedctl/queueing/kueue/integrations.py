"""The Workloads that Kueue's integrations make of Jobs, StatefulSets, Deployments and pods with a queue label.

Upstream: pkg/controller/jobframework (reconciler.go, tas.go and workload_names.go), pkg/util/priority and
pkg/controller/jobs (job, pod, deployment and statefulset) of kubernetes-sigs/kueue.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import decode_json
from kschedctl.api.objects import (
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAnnotations,
    PodMeta,
    PodTemplateSpec,
    PriorityClass,
    StoredJob,
    Struct,
)
from kschedctl.api.ownership import Owner
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.queueing import (
    QUEUE_LABEL,
    KueuePodSet,
    KueueWorkload,
    KueueWorkloadSpec,
    SliceConstraint,
    TopologyRequest,
    WorkloadPriorityClass,
    WorkloadPriorityClassRef,
)
from kschedctl.api.workloads import CronJob, Deployment, Job, StatefulSet
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.queueing.kueue.feature_gates import FeatureGates, Gate
from kschedctl.queueing.kueue.workloads import JOB_UID_LABEL

PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"
POD_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
PREBUILT_WORKLOAD_LABEL = "kueue.x-k8s.io/prebuilt-workload-name"
MIN_PARALLELISM_ANNOTATION = "kueue.x-k8s.io/job-min-parallelism"
_MAIN = "main"
_DEFAULT_PRIORITY_CLASS = "default"
_MAX_NAME_LENGTH = 253
_HASH_LENGTH = 5
_MAX_SLICE_LAYERS = 3
_INTEGER = re.compile(r"[+-]?\d+")
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_API_VERSIONS = {"Job": "batch/v1", "Pod": "v1", "StatefulSet": "apps/v1"}


class NotIntegratedError(InputError):
    """Kueue's integration for a kind of job, or for a part of a job, is not replayed."""


@dataclass(frozen=True)
class PriorityClasses:
    """The classes by which Workloads get their priority."""

    workload_classes: Sequence[WorkloadPriorityClass] = ()
    pod_classes: Sequence[PriorityClass] = ()
    uses_default_workload_class: bool = True
    """Whether the WorkloadPriorityClass ``default`` is the class of jobs that name none."""
    are_pod_classes_known: bool = True
    """Whether all PriorityClasses were read. An unknown class counts as priority 0 if they were not."""

    @classmethod
    def read(cls, cluster: Cluster, gates: FeatureGates) -> PriorityClasses:
        """Read the classes of a cluster."""
        return cls(
            cluster.workload_priority_classes,
            cluster.priority_classes,
            Gate.WORKLOAD_PRIORITY_CLASS_DEFAULTING in gates,
            cluster.gap("PriorityClass") is None,
        )

    def find_workload_class(self, name: str) -> WorkloadPriorityClass | None:
        """Return the WorkloadPriorityClass of that name, or None."""
        return next((c for c in self.workload_classes if c.metadata.name == name), None)

    def find_pod_class(self, name: str) -> PriorityClass | None:
        """Return the PriorityClass of that name, or the lowest global default if the name is empty, or None."""
        if name:
            return next((c for c in (*self.pod_classes, *SYSTEM_CLASSES) if c.metadata.name == name), None)
        defaults = (c for c in self.pod_classes if c.global_default)
        return min(defaults, key=lambda c: c.value, default=None)


def find_queue_name(job: Struct) -> str:
    """Return the LocalQueue that a job or a pod names, or "" if Kueue does not manage it.

    The pods of a workload without a label of its own are managed if its pod template has the label.
    """
    if isinstance(job, CronJob):
        return job.spec.job_template.metadata.labels.get(QUEUE_LABEL, "")
    labels: dict[str, str] = job.metadata.labels  # type: ignore[attr-defined]
    if QUEUE_LABEL in labels and _has_integration(job):
        return labels[QUEUE_LABEL]
    if isinstance(job, Pod | Job | StoredJob):
        return ""
    template = getattr(job.spec, "template", None)  # type: ignore[attr-defined]
    return "" if template is None else template.metadata.labels.get(QUEUE_LABEL, "")


def _has_integration(job: Struct) -> bool:
    """Return whether Kueue reads the labels of the object itself."""
    return isinstance(job, Pod | Job | StoredJob | Deployment | StatefulSet)


def build_workloads(
    owner: Owner, job: Struct, classes: PriorityClasses, gates: FeatureGates, created: str
) -> tuple[KueueWorkload, ...]:
    """Build the Workloads that Kueue makes of a job or of its pods, in the order of the pods.

    ``created`` is the RFC 3339 time of their creation. Raises NotIntegratedError if Kueue's integration is not
    replayed, and InputError if Kueue makes no Workload of the job.
    """
    metadata: ObjectMeta | PodMeta = job.metadata  # type: ignore[attr-defined]
    if PREBUILT_WORKLOAD_LABEL in metadata.labels:
        raise NotIntegratedError("Workloads that a job names with prebuilt-workload-name are not replayed")
    priority_class = metadata.labels.get(PRIORITY_CLASS_LABEL, "")
    queue = find_queue_name(job)
    match job:
        case CronJob():
            template = job.spec.job_template
            job_metadata = replace(template.metadata, namespace=owner.namespace, name=owner.name)
            return build_workloads(
                Owner("Job", owner.namespace, owner.name), Job(job_metadata, template.spec), classes, gates, created
            )
        case Job() | StoredJob():
            pod_set = _build_job_pod_set(job, gates)
        case Pod():
            if POD_GROUP_LABEL in metadata.labels or job.metadata.annotations.pod_group_name:
                raise NotIntegratedError("Kueue's integration for groups of pods is not replayed")
            pod_set = _build_pod_set(PodTemplateSpec(job.metadata, job.spec), 1, gates)
        case StatefulSet() if QUEUE_LABEL in metadata.labels:
            pod_set = _build_pod_set(job.spec.template, _count_replicas(job.spec.replicas), gates)
        case _ if hasattr(job.spec, "template") and hasattr(job.spec, "replicas"):  # type: ignore[attr-defined]
            return _build_workloads_of_pods(owner, job, classes, gates, created)
        case _:
            raise NotIntegratedError(f"Kueue's integration for {owner.kind} is not replayed")
    workload = _build_workload(owner, metadata, (pod_set,), queue, created)
    return (_with_priority(workload, priority_class, classes),)


def _build_workloads_of_pods(
    owner: Owner, job: Struct, classes: PriorityClasses, gates: FeatureGates, created: str
) -> tuple[KueueWorkload, ...]:
    """Build the Workloads of the pods of a Deployment or another workload, one for each replica."""
    spec = job.spec  # type: ignore[attr-defined]
    template: PodTemplateSpec = spec.template
    own_labels: dict[str, str] = job.metadata.labels  # type: ignore[attr-defined]
    labels = {**template.metadata.labels, QUEUE_LABEL: find_queue_name(job)}
    if owner.kind == "Deployment" and PRIORITY_CLASS_LABEL in own_labels:
        labels[PRIORITY_CLASS_LABEL] = own_labels[PRIORITY_CLASS_LABEL]
    workloads: list[KueueWorkload] = []
    for index in range(_count_replicas(spec.replicas)):
        name = f"{owner.name}-{index}"
        pod = Pod(replace(template.metadata, name=name, namespace=owner.namespace, labels=labels), template.spec)
        workloads += build_workloads(Owner("Pod", owner.namespace, name), pod, classes, gates, created)
    return tuple(workloads)


def _count_replicas(replicas: int | None) -> int:
    """Return the number of replicas, which is 1 by default."""
    return 1 if replicas is None else replicas


def _build_job_pod_set(job: Job | StoredJob, gates: FeatureGates) -> KueuePodSet:
    """Build the pod set of a Job. Raises InputError."""
    spec = job.spec
    count = _count_replicas(spec.parallelism)
    if spec.completions is not None:
        count = min(count, spec.completions)
    minimum = job.metadata.annotations.get(MIN_PARALLELISM_ANNOTATION, "")
    accepts_fewer = Gate.PARTIAL_ADMISSION in gates and _INTEGER.fullmatch(minimum)
    pod_set = _build_pod_set(spec.template, count, gates)
    return replace(pod_set, template=spec.template, min_count=int(minimum) if accepts_fewer else None)


def _build_pod_set(template: PodTemplateSpec, count: int, gates: FeatureGates) -> KueuePodSet:
    """Build a pod set with the topology that the template's annotations request. Raises InputError."""
    request = None
    if Gate.TOPOLOGY_AWARE_SCHEDULING in gates:
        request = _build_topology_request(template.metadata.annotations, gates)
    return KueuePodSet(_MAIN, count, None, PodTemplateSpec(spec=template.spec), request)


def _build_topology_request(annotations: PodAnnotations, gates: FeatureGates) -> TopologyRequest:
    """Build the request for a topology that annotations make, empty if they make none. Raises InputError.

    A request is never absent, since all integrations here name the label of the pod's index.
    """
    request = TopologyRequest()
    if annotations.required_topology is not None:
        request = TopologyRequest(required=annotations.required_topology)
    elif annotations.preferred_topology is not None:
        request = TopologyRequest(preferred=annotations.preferred_topology)
    elif annotations.unconstrained_topology is not None:
        request = TopologyRequest(unconstrained=_parse_bool(annotations.unconstrained_topology))
    if Gate.TAS_MULTI_LAYER_TOPOLOGY in gates and annotations.slice_constraints is not None:
        constraints = _parse_constraints(annotations.slice_constraints)
        request = replace(request, podset_slice_required_topology_constraints=constraints)
    elif annotations.slice_topology is not None and annotations.slice_size is not None:
        if not _INTEGER.fullmatch(annotations.slice_size):
            raise InputError(f"annotation podset-slice-size: {annotations.slice_size!r} is not an integer")
        request = replace(
            request,
            pod_set_slice_required_topology=annotations.slice_topology,
            pod_set_slice_size=int(annotations.slice_size),
        )
    if request.required is not None or request.preferred is not None:
        request = replace(request, pod_set_group_name=annotations.podset_group_name)
    return request


def _parse_bool(text: str) -> bool:
    """Parse a boolean as Go's strconv does. Raises InputError."""
    if text not in _TRUE | _FALSE:
        raise InputError(f"annotation podset-unconstrained-topology: {text!r} is not a boolean")
    return text in _TRUE


def _parse_constraints(text: str) -> tuple[SliceConstraint, ...]:
    """Parse the slices of several layers. Raises InputError."""
    try:
        constraints = decode_json(text.encode(), tuple[SliceConstraint, ...])
    except msgspec.DecodeError as error:
        raise InputError(f"annotation podset-slice-required-topology-constraints: {error}") from None
    if not 0 < len(constraints) <= _MAX_SLICE_LAYERS:
        raise InputError(
            f"annotation podset-slice-required-topology-constraints: {len(constraints)} entries, 1 to "
            f"{_MAX_SLICE_LAYERS} are allowed"
        )
    return constraints


def _build_workload(
    owner: Owner, metadata: ObjectMeta | PodMeta, pod_sets: Iterable[KueuePodSet], queue: str, created: str
) -> KueueWorkload:
    """Build the Workload of a job, without a priority."""
    api_version = _API_VERSIONS[owner.kind]
    return KueueWorkload(
        ObjectMeta(
            name=build_workload_name(owner, metadata.uid, api_version.rpartition("/")[0]),
            namespace=owner.namespace,
            labels={JOB_UID_LABEL: metadata.uid} if metadata.uid else {},
            owner_references=(OwnerReference(owner.kind, owner.name, api_version, metadata.uid, controller=True),),
            creation_timestamp=created,
        ),
        KueueWorkloadSpec(queue_name=queue, pod_sets=tuple(pod_sets)),
    )


def build_workload_name(owner: Owner, uid: str, group: str) -> str:
    """Return the name that Kueue gives to the Workload of a job.

    >>> build_workload_name(Owner("Job", "ai", "train"), "", "batch").startswith("job-train-")
    True
    """
    identity = f"{owner.kind}\n{group}\n{owner.name}\n{uid}"
    digest = hashlib.sha1(identity.encode(), usedforsecurity=False).hexdigest()
    prefix = f"{owner.kind.lower()}-{owner.name}"[: _MAX_NAME_LENGTH - 1 - _HASH_LENGTH]
    return f"{prefix}-{digest[:_HASH_LENGTH]}"


def _with_priority(workload: KueueWorkload, class_name: str, classes: PriorityClasses) -> KueueWorkload:
    """Return the Workload with the priority of its WorkloadPriorityClass, or else of its pods' PriorityClass.

    ``class_name`` is the WorkloadPriorityClass that the job names, or "". Raises InputError for a missing class.
    """
    spec = workload.spec
    if not class_name and classes.uses_default_workload_class:
        default = classes.find_workload_class(_DEFAULT_PRIORITY_CLASS)
        class_name = _DEFAULT_PRIORITY_CLASS if default is not None else ""
    if class_name:
        workload_class = classes.find_workload_class(class_name)
        if workload_class is None:
            raise InputError(f"WorkloadPriorityClass {class_name} does not exist")
        reference = WorkloadPriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", class_name)
        return replace(workload, spec=replace(spec, priority=workload_class.value, priority_class_ref=reference))
    named = (pod_set.template.spec.priority_class_name for pod_set in spec.pod_sets)
    pod_class_name = next(filter(None, named), "")
    pod_class = classes.find_pod_class(pod_class_name)
    if pod_class is None and pod_class_name and classes.are_pod_classes_known:
        raise InputError(f"PriorityClass {pod_class_name} does not exist")
    if pod_class is None:
        return replace(workload, spec=replace(spec, priority=0))
    reference = WorkloadPriorityClassRef("scheduling.k8s.io", "PriorityClass", pod_class.metadata.name)
    return replace(workload, spec=replace(spec, priority=pod_class.value, priority_class_ref=reference))
