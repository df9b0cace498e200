"""The Workloads that Kueue's integrations make of jobs, training jobs, pod groups and pods with a queue label.

Upstream: pkg/controller/jobframework (reconciler.go, tas.go and workload_names.go), pkg/util/priority, pkg/util/pod and
pkg/controller/jobs of kubernetes-sigs/kueue. `kschedctl.api.operated_pod_sets` has the pod sets of custom resources.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import decode_json
from kschedctl.api.kinds import KINDS
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
from kschedctl.api.operated_pod_sets import OperatedPodSets
from kschedctl.api.operator_resources import OperatorResource
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
from kschedctl.api.workloads import CronJob, Job, StatefulSet
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.workloads import JOB_UID_LABEL

PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"
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
_API_VERSIONS = {kind.kind: kind.versions[0] for kind in KINDS.values() if issubclass(kind.struct, OperatorResource)}
_API_VERSIONS |= {"Job": "batch/v1", "Pod": "v1", "StatefulSet": "apps/v1"}
"""The API version of each kind with Workloads, by which their names are made."""


class NotIntegratedError(InputError):
    """Kueue's integration for a kind of job, or for a part of a job, is not replayed."""


@dataclass(frozen=True)
class PriorityClasses:
    """The WorkloadPriorityClasses and PriorityClasses from which Workloads get their priority."""

    workload_classes: Sequence[WorkloadPriorityClass] = ()
    pod_classes: Sequence[PriorityClass] = ()
    uses_default_workload_class: bool = True
    """True if the WorkloadPriorityClass ``default`` is the class of jobs that name none."""
    are_pod_classes_known: bool = True
    """True if all PriorityClasses were read. An unknown class counts as priority 0 if they were not."""

    @classmethod
    def from_cluster(cls, cluster: Cluster, gates: FeatureGates) -> PriorityClasses:
        """Collect the priority classes of a cluster.

        Kueue's feature gates decide whether jobs without a class get the WorkloadPriorityClass ``default``.
        """
        return cls(
            workload_classes=cluster.workload_priority_classes,
            pod_classes=cluster.priority_classes,
            uses_default_workload_class=Gate.WORKLOAD_PRIORITY_CLASS_DEFAULTING in gates,
            are_pod_classes_known=cluster.find_gap("PriorityClass") is None,
        )

    def find_workload_class(self, name: str) -> WorkloadPriorityClass | None:
        """Return the WorkloadPriorityClass with this name, or None."""
        return next((stored for stored in self.workload_classes if stored.metadata.name == name), None)

    def find_pod_priority_class(self, name: str) -> PriorityClass | None:
        """Return the PriorityClass with this name, or None. The two system classes always exist.

        An empty name means the global default, the one with the lowest value if there are several.
        """
        if name:
            all_classes = (*self.pod_classes, *SYSTEM_CLASSES)
            return next((pod_class for pod_class in all_classes if pod_class.metadata.name == name), None)
        defaults = (pod_class for pod_class in self.pod_classes if pod_class.global_default)
        return min(defaults, key=lambda pod_class: pod_class.value, default=None)


@dataclass(frozen=True)
class WorkloadBuilder:
    """A builder of jobs' Workloads that follows the integrations of Kueue."""

    classes: PriorityClasses
    gates: FeatureGates
    created: str
    """The RFC 3339 time at which the Workloads are created."""

    def build_workloads(self, owner: Owner, job: Struct, queue: str) -> tuple[KueueWorkload, ...]:
        """Build the Workloads of a job: one for the job, or one for each replica if replicas have separate Workloads.

        A CronJob is treated as the Job that it creates. ``queue`` is the LocalQueue of the job, or "". Raises
        NotIntegratedError if the integration is not replayed, and InputError if Kueue creates no Workload for the job.
        """
        metadata: ObjectMeta | PodMeta = job.metadata  # type: ignore[attr-defined]
        if PREBUILT_WORKLOAD_LABEL in metadata.labels:
            raise NotIntegratedError("Workloads that a job names with prebuilt-workload-name are not replayed")
        if isinstance(job, CronJob):
            template = job.spec.job_template
            job_metadata = replace(template.metadata, namespace=owner.namespace, name=owner.name)
            created_job = Job(job_metadata, template.spec)
            return self.build_workloads(Owner("Job", owner.namespace, owner.name), created_job, queue)

        pod_class_name = ""
        match job:
            case Job() | StoredJob():
                pod_sets = [_build_job_pod_set(job, self.gates)]
            case Pod():
                pod_sets = [build_pod_set(PodTemplateSpec(job.metadata, job.spec), 1, self.gates)]
            case StatefulSet() if _is_managed_as_whole(job):
                pod_sets = [build_pod_set(job.spec.template, _count_replicas(job.spec.replicas), self.gates)]
            case OperatorResource():
                pod_sets = _build_custom_resource_pod_sets(owner, job.pod_sets, self.gates)
                pod_class_name = job.pod_sets.priority_class_name
            case _ if hasattr(job.spec, "template") and hasattr(job.spec, "replicas"):  # type: ignore[attr-defined]
                return self._build_replica_workloads(owner, job, queue)
            case _:
                raise NotIntegratedError(f"Kueue's integration for {owner.kind} is not replayed")

        # Each replica of a LeaderWorkerSet has a Workload
        spec = self.build_workload_spec(metadata, queue, pod_sets, pod_class_name)
        if owner.kind == "LeaderWorkerSet" and isinstance(job, OperatorResource):
            names = [f"{owner.name}-{index}" for index in range(job.pod_sets.replicas)]
            return tuple(self._build_workload(owner, metadata, spec, name) for name in names)
        return (self._build_workload(owner, metadata, spec, owner.name),)

    def build_workload_spec(
        self, metadata: ObjectMeta | PodMeta, queue: str, pod_sets: Sequence[KueuePodSet], pod_class_name: str = ""
    ) -> KueueWorkloadSpec:
        """Build the spec of a Workload. A label in the job's ``metadata`` may name a WorkloadPriorityClass.

        ``pod_class_name`` is a PriorityClass that takes precedence over the pods' classes, or "". Raises InputError if
        a priority class does not exist.
        """
        class_name = metadata.labels.get(PRIORITY_CLASS_LABEL, "")
        priority = resolve_workload_priority(class_name, pod_class_name, pod_sets, self.classes)
        return KueueWorkloadSpec(
            queue_name=queue,
            priority=priority.value,
            priority_class_ref=priority.reference,
            pod_sets=tuple(pod_sets),
        )

    def _build_replica_workloads(self, owner: Owner, job: Struct, queue: str) -> tuple[KueueWorkload, ...]:
        """Build one Workload for each replica of a Deployment or another object with a pod template.

        Pods of a Deployment inherit its priority class label. Raises InputError if an annotation or class is invalid.
        """
        spec = job.spec  # type: ignore[attr-defined]
        template: PodTemplateSpec = spec.template
        job_labels: dict[str, str] = job.metadata.labels  # type: ignore[attr-defined]
        labels = dict(template.metadata.labels)
        if owner.kind == "Deployment" and PRIORITY_CLASS_LABEL in job_labels:
            labels[PRIORITY_CLASS_LABEL] = job_labels[PRIORITY_CLASS_LABEL]

        workloads: list[KueueWorkload] = []
        for index in range(_count_replicas(spec.replicas)):
            name = f"{owner.name}-{index}"
            pod = Pod(replace(template.metadata, name=name, namespace=owner.namespace, labels=labels), template.spec)
            workloads += self.build_workloads(Owner("Pod", owner.namespace, name), pod, queue)
        return tuple(workloads)

    def _build_workload(
        self, owner: Owner, metadata: ObjectMeta | PodMeta, spec: KueueWorkloadSpec, name: str
    ) -> KueueWorkload:
        """Build the Workload object for a job, which owns it. ``name`` is the name of the owner or of a replica."""
        api_version = _API_VERSIONS.get(owner.kind, "")
        named = Owner(owner.kind, owner.namespace, name)
        return KueueWorkload(
            ObjectMeta(
                name=build_workload_name(named, metadata.uid, api_version.rpartition("/")[0]),
                namespace=owner.namespace,
                labels={JOB_UID_LABEL: metadata.uid} if metadata.uid else {},
                owner_references=(OwnerReference(owner.kind, owner.name, api_version, metadata.uid, controller=True),),
                creation_timestamp=self.created,
            ),
            spec,
        )


def _build_custom_resource_pod_sets(owner: Owner, operated: OperatedPodSets, gates: FeatureGates) -> list[KueuePodSet]:
    """Build the pod sets of a custom resource.

    Raises NotIntegratedError if the pod sets are unknown or there are none, and InputError if an annotation of a pod
    template is invalid.
    """
    if operated.problem:
        raise NotIntegratedError(operated.problem)
    if not operated.pod_sets:
        raise NotIntegratedError(f"Kueue's integration for {owner.kind} is not replayed")
    return [
        replace(
            build_pod_set(pod_set.template, pod_set.count, gates, has_indexes=pod_set.has_indexes), name=pod_set.name
        )
        for pod_set in operated.pod_sets
    ]


def _is_managed_as_whole(stateful_set: StatefulSet) -> bool:
    """Return whether a StatefulSet gets a single Workload.

    If only its pod template has a queue label, each of its pods gets a Workload.
    """
    template = stateful_set.spec.template
    return QUEUE_LABEL in stateful_set.metadata.labels or QUEUE_LABEL not in template.metadata.labels


def _count_replicas(replicas: int | None) -> int:
    """Return the number of replicas that a spec requests, by default 1."""
    return 1 if replicas is None else replicas


def _build_job_pod_set(job: Job | StoredJob, gates: FeatureGates) -> KueuePodSet:
    """Build the only pod set of a Job, with as many pods as run in parallel, but not more than the Job's completions.

    With the gate PartialAdmission, an annotation may set the minimum number of pods. Raises InputError if an annotation
    is invalid.
    """
    spec = job.spec
    count = _count_replicas(spec.parallelism)
    if spec.completions is not None:
        count = min(count, spec.completions)

    min_count = None
    if Gate.PARTIAL_ADMISSION in gates:
        annotation = job.metadata.annotations.get(MIN_PARALLELISM_ANNOTATION, "")
        min_count = int(annotation) if _INTEGER.fullmatch(annotation) else None

    # A Job's template keeps its metadata, unlike the templates of other pod sets
    pod_set = build_pod_set(spec.template, count, gates)
    return replace(pod_set, template=spec.template, min_count=min_count)


def build_pod_set(
    template: PodTemplateSpec, count: int, gates: FeatureGates, *, has_indexes: bool = True
) -> KueuePodSet:
    """Build the pod set ``main`` with the topology that the template's annotations request.

    Without such annotations, the topology request is empty if the pods have an index label (``has_indexes``), otherwise
    None. It is also None if the gate TopologyAwareScheduling is off. Raises InputError if an annotation is invalid.
    """
    request = None
    if Gate.TOPOLOGY_AWARE_SCHEDULING in gates:
        request = _build_topology_request(template.metadata.annotations, gates)
    if request == TopologyRequest() and not has_indexes:
        request = None
    return KueuePodSet(
        _MAIN, count, min_count=None, template=PodTemplateSpec(spec=template.spec), topology_request=request
    )


def _build_topology_request(annotations: PodAnnotations, gates: FeatureGates) -> TopologyRequest:
    """Build a topology request from the annotations of a pod template. It is empty if they request none.

    Raises InputError if an annotation is invalid.
    """
    # The level. The strictest of the three annotations counts
    request = TopologyRequest()
    if annotations.required_topology is not None:
        request = TopologyRequest(required=annotations.required_topology)
    elif annotations.preferred_topology is not None:
        request = TopologyRequest(preferred=annotations.preferred_topology)
    elif annotations.unconstrained_topology is not None:
        request = TopologyRequest(unconstrained=_parse_unconstrained_topology(annotations.unconstrained_topology))

    # The slices
    if Gate.TAS_MULTI_LAYER_TOPOLOGY in gates and annotations.slice_constraints is not None:
        constraints = _parse_slice_constraints(annotations.slice_constraints)
        request = replace(request, podset_slice_required_topology_constraints=constraints)
    elif annotations.slice_topology is not None and annotations.slice_size is not None:
        if not _INTEGER.fullmatch(annotations.slice_size):
            raise InputError(f"annotation podset-slice-size: {annotations.slice_size!r} is not an integer")
        request = replace(
            request,
            pod_set_slice_required_topology=annotations.slice_topology,
            pod_set_slice_size=int(annotations.slice_size),
        )

    # Only pod sets with a level can be grouped with others
    if request.required is not None or request.preferred is not None:
        request = replace(request, pod_set_group_name=annotations.podset_group_name)
    return request


def _parse_unconstrained_topology(text: str) -> bool:
    """Parse the annotation podset-unconstrained-topology, a boolean in Go's notation.

    Raises InputError if it is not a boolean.
    """
    if text not in _TRUE | _FALSE:
        raise InputError(f"annotation podset-unconstrained-topology: {text!r} is not a boolean")
    return text in _TRUE


def _parse_slice_constraints(text: str) -> tuple[SliceConstraint, ...]:
    """Parse the annotation podset-slice-required-topology-constraints, a JSON list with a layer of slices per entry.

    Raises InputError if the text is malformed or does not have one to _MAX_SLICE_LAYERS entries.
    """
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


def build_workload_name(owner: Owner, uid: str, group: str) -> str:
    """Build the name that Kueue gives to the Workload of a job: its kind and name, followed by a hash.

    ``group`` is the API group of the job.

    >>> build_workload_name(Owner("Job", "ai", "train"), "", "batch").startswith("job-train-")
    True
    """
    identity = f"{owner.kind}\n{group}\n{owner.name}\n{uid}"
    digest = hashlib.sha1(identity.encode(), usedforsecurity=False).hexdigest()
    prefix = f"{owner.kind.lower()}-{owner.name}"[: _MAX_NAME_LENGTH - 1 - _HASH_LENGTH]
    return f"{prefix}-{digest[:_HASH_LENGTH]}"


class WorkloadPriority(NamedTuple):
    """The priority of a Workload, and the class that decides it."""

    value: int
    reference: WorkloadPriorityClassRef | None = None


def resolve_workload_priority(
    class_name: str, pod_class_name: str, pod_sets: Iterable[KueuePodSet], classes: PriorityClasses
) -> WorkloadPriority:
    """Return the priority of the job's WorkloadPriorityClass or, without one, of its pods' PriorityClass.

    ``class_name`` is the WorkloadPriorityClass that the job names. If it is empty, the class ``default`` may apply.
    ``pod_class_name`` is a PriorityClass that takes precedence over the pods' classes, or "". Without any class, the
    priority is 0. Raises InputError if a class does not exist. If not all PriorityClasses are known, a missing one
    gives the priority 0 instead.
    """
    # The WorkloadPriorityClass
    if not class_name and classes.uses_default_workload_class:
        default = classes.find_workload_class(_DEFAULT_PRIORITY_CLASS)
        class_name = _DEFAULT_PRIORITY_CLASS if default is not None else ""
    if class_name:
        workload_class = classes.find_workload_class(class_name)
        if workload_class is None:
            raise InputError(f"WorkloadPriorityClass {class_name} does not exist")
        reference = WorkloadPriorityClassRef("kueue.x-k8s.io", "WorkloadPriorityClass", class_name)
        return WorkloadPriority(workload_class.value, reference)

    # The PriorityClass: the first that a pod set names, or else the global default
    class_names_of_pods = (pod_set.template.spec.priority_class_name for pod_set in pod_sets)
    pod_class_name = pod_class_name or next(filter(None, class_names_of_pods), "")
    pod_class = classes.find_pod_priority_class(pod_class_name)
    if pod_class is None and pod_class_name and classes.are_pod_classes_known:
        raise InputError(f"PriorityClass {pod_class_name} does not exist")
    if pod_class is None:
        return WorkloadPriority(0)
    reference = WorkloadPriorityClassRef("scheduling.k8s.io", "PriorityClass", pod_class.metadata.name)
    return WorkloadPriority(pod_class.value, reference)
