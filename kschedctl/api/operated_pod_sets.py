"""The pod sets of custom resources whose operators Kueue knows: JobSets, training jobs, Ray, and LeaderWorkerSets.

Their specification says which pods the operator creates. Resources of other operators have no pod sets here.

Upstream: PodSets in pkg/controller/jobs (jobset, kubeflow, mpijob, raycluster, rayjob and leaderworkerset) of
kubernetes-sigs/kueue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject, drop_nulls, object_at, objects_at, text_at
from kschedctl.api.objects import Container, Int64, PodTemplateSpec, ResourceRequirements, Struct
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError, parse_quantity

_REPLICA_TYPES = {
    "pytorchReplicaSpecs": ("Master", "Worker"),
    "tfReplicaSpecs": ("Chief", "Master", "PS", "Worker", "Evaluator"),
    "xgbReplicaSpecs": ("Master", "Worker"),
    "paddleReplicaSpecs": ("Master", "Worker"),
    "jaxReplicaSpecs": ("Worker",),
    "mpiReplicaSpecs": ("Launcher", "Worker"),
}
"""The roles of Kubeflow's training jobs, in the order of their pod sets, by the field that holds them."""

_FAULT_TOLERANCE_ANNOTATION = "ray.io/ft-enabled"
_REDIS_CLEANUP = {"cpu": "200m", "memory": "256Mi"}
"""The requests of the job that cleans up Redis, which takes the place of Ray's head."""
_AUTOSCALER = Container(
    "autoscaler",
    resources=ResourceRequirements({"cpu": "500m", "memory": "512Mi"}, {"cpu": "500m", "memory": "512Mi"}),
)
_SUBMITTER = Container(
    "ray-job-submitter",
    resources=ResourceRequirements({"cpu": "500m", "memory": "200Mi"}, {"cpu": "1", "memory": "1Gi"}),
)


class OperatedPodSet(Struct, frozen=True):
    """The pods of a custom resource that share a template."""

    name: str
    count: Int64
    template: PodTemplateSpec = PodTemplateSpec()
    has_indexes: bool = True
    """True if a label numbers the pods."""


class OperatedPodSets(Struct, frozen=True):
    """The pod sets that Kueue reads from the specification of a custom resource."""

    pod_sets: tuple[OperatedPodSet, ...] = ()
    """Empty for an operator that is not known."""
    replicas: Int64 = 1
    """The number of times that the pod sets exist."""
    priority_class_name: str = ""
    """The PriorityClass that precedes those of the pod templates, or ""."""
    problem: str = ""
    """The reason why the pod sets are unknown although the operator is known, or ""."""


NO_POD_SETS = OperatedPodSets()


def read_pod_sets(spec: JsonObject, annotations: Mapping[str, str]) -> OperatedPodSets:
    """Read the pod sets of a custom resource from its specification and annotations.

    If the pod sets cannot be read, the result contains the problem instead.

    >>> worker = {"replicas": 4, "template": {}}
    >>> [(s.name, s.count) for s in read_pod_sets({"pytorchReplicaSpecs": {"Worker": worker}}, {}).pod_sets]
    [('worker', 4)]
    """
    try:
        return _read_pod_sets_by_fields(spec, annotations)
    except (msgspec.ValidationError, QuantityError) as error:
        return OperatedPodSets(problem=f"its pod templates cannot be read: {error}")


def _read_pod_sets_by_fields(spec: JsonObject, annotations: Mapping[str, str]) -> OperatedPodSets:
    """Read the pod sets of a resource whose kind is recognized by its fields.

    A resource with other fields is read as a Ray resource. Raises ValidationError if a template or count is invalid,
    and QuantityError if a request is.
    """
    for field, roles in _REPLICA_TYPES.items():
        if field in spec:
            pod_sets = tuple(_iter_training_pod_sets(object_at(spec, field), roles))
            priority_class_name = text_at(spec, "runPolicy", "schedulingPolicy", "priorityClass")
            return OperatedPodSets(pod_sets, priority_class_name=priority_class_name)
    if "replicatedJobs" in spec:
        return OperatedPodSets(tuple(_iter_job_set_pod_sets(spec)))
    if "leaderWorkerTemplate" in spec:
        template = object_at(spec, "leaderWorkerTemplate")
        return OperatedPodSets(tuple(_iter_leader_worker_pod_sets(template)), replicas=_read_count(spec, "replicas"))
    return _read_ray_pod_sets(spec, annotations)


def _read_ray_pod_sets(spec: JsonObject, annotations: Mapping[str, str]) -> OperatedPodSets:
    """Read the pod sets of a RayJob, RayService or RayCluster. Any other resource has none."""
    if object_at(spec, "clusterSelector"):
        return OperatedPodSets(problem="Kueue ignores a RayJob with a clusterSelector")
    if "rayClusterSpec" in spec:
        pod_sets = tuple(_iter_ray_pod_sets(object_at(spec, "rayClusterSpec"), annotations))
        return OperatedPodSets(_add_ray_job_submitter(pod_sets, spec))
    if "rayClusterConfig" in spec:
        return OperatedPodSets(tuple(_iter_ray_pod_sets(object_at(spec, "rayClusterConfig"), annotations)))
    if "headGroupSpec" in spec:
        return OperatedPodSets(tuple(_iter_ray_pod_sets(spec, annotations)))
    return NO_POD_SETS


def _iter_training_pod_sets(replica_specs: JsonObject, roles: tuple[str, ...]) -> Iterator[OperatedPodSet]:
    """Yield a pod set for each of the roles for which the training job has a replica spec."""
    for role in roles:
        if isinstance(replica_specs.get(role), Mapping):
            replica_spec = object_at(replica_specs, role)
            yield _build_pod_set(role, _read_count(replica_spec, "replicas"), replica_spec.get("template"))


def _iter_job_set_pod_sets(spec: JsonObject) -> Iterator[OperatedPodSet]:
    """Yield a pod set for each replicated job of a JobSet.

    A pod set counts the pods that run at the same time. Each replica runs as many as the parallelism of its Job, but at
    most its completions.
    """
    for replicated_job in objects_at(spec, "replicatedJobs"):
        job = object_at(replicated_job, "template", "spec")
        parallelism = _read_count(job, "parallelism")
        pods_per_job = min(parallelism, _read_count(job, "completions", default=parallelism))
        count = _read_count(replicated_job, "replicas") * pods_per_job
        yield _build_pod_set(text_at(replicated_job, "name"), count, job.get("template"))


def _iter_leader_worker_pod_sets(template: JsonObject) -> Iterator[OperatedPodSet]:
    """Yield the pod sets of one replica of a LeaderWorkerSet.

    Without a template for the leader, all pods are in one set.
    """
    size = _read_count(template, "size")
    if template.get("leaderTemplate") is None:
        yield _build_pod_set("main", size, template.get("workerTemplate"))
        return
    yield _build_pod_set("leader", 1, template.get("leaderTemplate"), has_indexes=False)
    yield _build_pod_set("worker", size - 1, template.get("workerTemplate"))


def _iter_ray_pod_sets(cluster: JsonObject, annotations: Mapping[str, str]) -> Iterator[OperatedPodSet]:
    """Yield the pod sets of a RayCluster: the head, then each worker group.

    The head includes the containers and requests that KubeRay adds to it.
    """
    head = _build_pod_set("head", 1, object_at(cluster, "headGroupSpec").get("template"), has_indexes=False)
    if annotations.get(_FAULT_TOLERANCE_ANNOTATION, "").lower() == "true" or cluster.get("gcsFaultToleranceOptions"):
        head = _raise_requests_for_redis_cleanup(head)
    if cluster.get("enableInTreeAutoscaling") is True:
        resources = object_at(cluster, "autoscalerOptions").get("resources")
        own_resources = None if resources is None else convert_builtins(resources, ResourceRequirements)
        head = _with_container(head, replace(_AUTOSCALER, resources=own_resources or _AUTOSCALER.resources))
    yield head
    for group in objects_at(cluster, "workerGroupSpecs"):
        count = _read_count(group, "replicas") * max(1, _read_count(group, "numOfHosts"))
        yield _build_pod_set(text_at(group, "groupName"), count, group.get("template"), has_indexes=False)


def _add_ray_job_submitter(pod_sets: tuple[OperatedPodSet, ...], spec: JsonObject) -> tuple[OperatedPodSet, ...]:
    """Return the pod sets of a RayJob with the container that submits the job.

    In K8sJobMode, the container is in a pod of its own, and in SidecarMode beside Ray's head. Other modes have no such
    container.
    """
    mode = spec.get("submissionMode") or "K8sJobMode"
    if mode == "SidecarMode":
        return (_with_container(pod_sets[0], _SUBMITTER), *pod_sets[1:])
    if mode != "K8sJobMode":
        return pod_sets
    submitter = _build_pod_set("submitter", 1, spec.get("submitterPodTemplate"), has_indexes=False)
    if spec.get("submitterPodTemplate") is None:
        submitter = _with_container(submitter, _SUBMITTER)
    return (*pod_sets, submitter)


def _with_container(pod_set: OperatedPodSet, container: Container) -> OperatedPodSet:
    """Return the pod set with one more container."""
    spec = pod_set.template.spec
    spec = replace(spec, containers=(*spec.containers, container))
    return replace(pod_set, template=replace(pod_set.template, spec=spec))


def _raise_requests_for_redis_cleanup(head: OperatedPodSet) -> OperatedPodSet:
    """Return Ray's head with its first container's requests raised to what the cleanup of Redis needs.

    A head without containers is returned unchanged. Raises QuantityError if a request cannot be parsed.
    """
    spec = head.template.spec
    if not spec.containers:
        return head
    first, *other_containers = spec.containers
    requests = dict(first.resources.requests or {})
    amounts = parse_quantities(requests)
    for name, text in _REDIS_CLEANUP.items():
        if name not in amounts or amounts[name] < parse_quantity(text):
            requests[name] = text
    first = replace(first, resources=replace(first.resources, requests=requests))
    return replace(head, template=replace(head.template, spec=replace(spec, containers=(first, *other_containers))))


def _build_pod_set(name: str, count: int, template: object, *, has_indexes: bool = True) -> OperatedPodSet:
    """Build a pod set, whose name is in lower case as in Kueue. Raises ValidationError."""
    document = {} if template is None else drop_nulls(template)
    return OperatedPodSet(name.lower(), count, convert_builtins(document, PodTemplateSpec), has_indexes)


def _read_count(part: JsonObject, field: str, default: int = 1) -> int:
    """Read a number of pods or replicas, or return the default if the field is missing.

    Raises ValidationError for anything but a non-negative integer.
    """
    value = part.get(field)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise msgspec.ValidationError(f"{field}: {value!r} is not a number of pods")
    return value
