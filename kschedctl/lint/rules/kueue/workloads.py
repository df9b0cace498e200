"""Rules about workloads that Kueue queues: the label with the name of their queue, and requests above all quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.events import JOB_ENDED
from kschedctl.api.json_values import object_at
from kschedctl.api.kinds import KINDS, is_operated
from kschedctl.api.objects import ObjectMeta, PodTemplateSpec
from kschedctl.api.quantity import QuantityError
from kschedctl.api.queueing import QUEUE_LABEL, KueuePodSet, KueueWorkload, LocalQueue
from kschedctl.api.workloads import JOB_TEMPLATE_PATH, POD_TEMPLATE_PATHS
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.kueue.amounts import (
    UNLIMITED,
    FlavorResource,
    Requests,
    add_amounts,
    format_amount,
    scale_requests,
    sum_requests,
)
from kschedctl.kueue.cluster_queues import CachedQueue
from kschedctl.kueue.pod_requests import ResourceSettings, add_admission_defaults, compute_quota_requests
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import may_create_pods
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import Workload, has_built_in_group
from kschedctl.lint.rule import ERROR, WARNING, Rule, build_label_replacement
from kschedctl.lint.rules.kueue.references import (
    KueueReference,
    build_queue_cache,
    find_references_to_missing_objects,
)

LOCAL_QUEUES = "https://kueue.sigs.k8s.io/docs/concepts/local_queue/"
_PREFIX = "kueue.x-k8s.io/"
_LABELS = frozenset(
    f"{_PREFIX}{name}"
    for name in (
        *("queue-name", "priority-class", "prebuilt-workload-name", "pod-group-name", "max-exec-time-seconds"),
        *("job-uid", "managed", "podset", "tas", "multikueue-origin", "cluster-queue-name", "local-queue-name"),
    )
)
"""Labels that Kueue reads or sets."""
_OTHER_NAMES_OF_QUEUE_LABEL = frozenset(("queue", "localqueue", "local-queue", "queues"))
"""Names that users write instead of queue-name."""
_WORKLOAD_LABELS: Path = ("metadata", "labels")
_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"


class _LabelSet(NamedTuple):
    """The labels at one path of an object from which Kueue may create a Workload."""

    subject: Subject
    path: Path
    labels: Mapping[str, object]


def find_missing_local_queues(context: LintContext) -> Iterator[Problem]:
    """Find workloads that name a LocalQueue which does not exist in their namespace.

    The name is in a label or in a Workload object. Finished Workload objects are left out. A Workload object is also
    left out if its owner has the label, because the owner is then reported.
    """
    references = []
    labelled_objects = set()
    for subject, path, labels in _iter_labels_read_by_kueue(context):
        if QUEUE_LABEL in labels:
            namespace = subject.namespace or "default"
            queue_name = str(labels[QUEUE_LABEL])
            references.append(KueueReference(subject, (*path, QUEUE_LABEL), "LocalQueue", queue_name, namespace))
            labelled_objects.add((subject.kind, namespace, subject.name))
    for subject, workload in context.list_linted_objects(KueueWorkload):
        namespace = subject.namespace or "default"
        owners = {(owner.kind, namespace, owner.name) for owner in workload.metadata.owner_references}
        if not owners & labelled_objects and not _has_condition(workload, "Finished"):
            queue_name = workload.spec.queue_name
            references.append(KueueReference(subject, ("spec", "queueName"), "LocalQueue", queue_name, namespace))
    yield from find_references_to_missing_objects(context, references)


KQ_NO_LOCAL_QUEUE = Rule(
    "kq-no-local-queue",
    WARNING,
    find_missing_local_queues,
    summary="A workload whose LocalQueue does not exist in its namespace, or whose name looks misspelled",
    why="Kueue keeps the workload suspended, or its pods gated, until the LocalQueue is created.",
    fix="Create the LocalQueue in the namespace of the workload, or correct the name",
    source=LOCAL_QUEUES,
)


def find_misspelled_kueue_labels(context: LintContext) -> Iterator[Problem]:
    """Find workload labels that Kueue does not have but that look like misspellings of its labels."""
    for subject, path, labels in _iter_labels_read_by_kueue(context):
        for key in labels:
            kueue_label = _find_similar_kueue_label(key)
            if kueue_label:
                # A label that is already there must not be overwritten, so that there is no automatic fix.
                replacement = "" if kueue_label in labels else kueue_label
                message = f"Kueue has no label {key}"
                yield subject.build_problem((*path, key), message, f"Write {kueue_label}", replacement)


KQ_LABEL_MISSPELT = Rule(
    "kq-label-misspelt",
    WARNING,
    find_misspelled_kueue_labels,
    summary="A label that looks like a misspelled label of Kueue",
    why="Kueue ignores the label: the workload starts at once without quota, or goes to the default queue.",
    fix="Correct the label",
    source="https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/",
    safe_fix=build_label_replacement,
)


def _find_similar_kueue_label(key: str) -> str:
    """Return the Kueue label that a misspelled label was probably meant to be, or "".

    Only labels in a domain that begins with ``kueue.`` are considered.
    """
    domain, separator, name = key.rpartition("/")
    if key in _LABELS or not separator or not domain.startswith("kueue."):
        return ""
    key_with_right_domain = f"{_PREFIX}{name}"
    if key_with_right_domain in _LABELS:
        return key_with_right_domain
    if f"{domain}/" != _PREFIX:
        return ""
    if name in _OTHER_NAMES_OF_QUEUE_LABEL:
        return QUEUE_LABEL
    return find_similar_name(key, _LABELS)


def find_inadmissible_workloads(context: LintContext) -> Iterator[Problem]:
    """Find workloads that request more than their ClusterQueue could ever give them.

    Workloads of unknown queues are left out, and so are queues in a cohort unless all ClusterQueues and Cohorts are
    known.
    """
    queued_pod_sets = list(_iter_queued_pod_sets(context))
    if not queued_pod_sets:
        return
    cache = build_queue_cache(context)
    local_queues = {
        (q.metadata.namespace or "default", q.metadata.name): q for q in context.list_all_objects(LocalQueue)
    }
    for subject, path, queue_name, pod_sets in queued_pod_sets:
        local_queue = local_queues.get((subject.namespace or "default", queue_name))
        queue = cache.queues.get(local_queue.spec.cluster_queue) if local_queue else None
        if queue is None or not _is_capacity_known(context, queue):
            continue
        # kq-cohort-circle reports the cycle
        if queue.node.parent is not None and queue.node.parent.name in cache.cohorts_with_cyclic_parents:
            continue
        excess = _explain_inadmissibility(queue, pod_sets)
        if excess:
            yield subject.build_problem(path, f"ClusterQueue {queue.name} can never admit it: {excess}")


KQ_NEVER_ADMITTED = Rule(
    "kq-never-admitted",
    ERROR,
    find_inadmissible_workloads,
    summary="A workload that requests more than its ClusterQueue can ever grant, or a resource without quota",
    why="Kueue never admits the workload, even if nothing else uses quota. Resource exclusions and transformations "
    "in Kueue's Configuration are not considered.",
    fix="Lower the requests or the number of pods, or raise the quota",
    source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources",
)


class _PodSetRequests(NamedTuple):
    """The total requests of a pod set with the fewest pods that Kueue admits."""

    name: str
    requests: Requests


class _QueuedPodSets(NamedTuple):
    """The pod sets of a workload that waits in a queue."""

    subject: Subject
    path: Path
    """The path at which a problem with the requests is reported."""
    queue_name: str
    """The name of the LocalQueue."""
    pod_sets: list[_PodSetRequests]


def _iter_queued_pod_sets(context: LintContext) -> Iterator[_QueuedPodSets]:
    """Yield the pod sets that wait for quota: first the Workload objects, then the manifests of workloads.

    Workloads with reserved quota or malformed quantities are left out, and so are manifests without a queue name.
    """
    for subject, stored in context.list_linted_objects(KueueWorkload):
        if _has_condition(stored, "Finished") or _has_condition(stored, "QuotaReserved"):
            continue
        pod_sets = _compute_pod_set_requests(stored.spec.pod_sets)
        if pod_sets:
            yield _QueuedPodSets(subject, ("spec", "podSets"), stored.spec.queue_name, pod_sets)
    for workload in context.workloads:
        queue_name = object_at(workload.subject.document, *_WORKLOAD_LABELS).get(QUEUE_LABEL)
        count = _count_required_pods(workload)
        if not queue_name or not count:
            continue
        pod_set = KueuePodSet(count=count, template=PodTemplateSpec(spec=workload.spec))
        pod_sets = _compute_pod_set_requests([pod_set])
        if pod_sets:
            yield _QueuedPodSets(workload.subject, workload.get_path("containers"), str(queue_name), pod_sets)


def _count_required_pods(workload: Workload) -> int:
    """Return the lowest number of pods with which Kueue admits a workload.

    Kueue admits the pods of a Deployment one by one. Returns 0 for kinds for which the number is not known.
    """
    if workload.custom_kind:
        return 0
    match workload.kind:
        case "Job":
            return _count_required_job_pods(workload)
        case "StatefulSet":
            return workload.replicas or 0
        case "Pod" | "Deployment":
            return 1
    return 0


def _count_required_job_pods(workload: Workload) -> int:
    """Return the lowest number of pods with which Kueue admits a Job.

    This is the minimum parallelism in the Job's annotations. Without one, it is the parallelism, but at most the
    completions.
    """
    annotations = object_at(workload.subject.document, "metadata", "annotations")
    min_parallelism = str(annotations.get(_MIN_PARALLELISM, ""))
    if min_parallelism.isdecimal():
        return int(min_parallelism)
    parallelism = workload.replicas or 0
    completions = object_at(workload.subject.document, "spec").get("completions")
    return min(parallelism, completions) if isinstance(completions, int) else parallelism


def _compute_pod_set_requests(pod_sets: Iterable[KueuePodSet]) -> list[_PodSetRequests] | None:
    """Compute the total requests of each pod set with its minimum count of pods.

    Returns None if a quantity is malformed.
    """
    pod_set_requests = []
    try:
        for pod_set in add_admission_defaults(pod_sets, limit_ranges=(), overheads={}):
            requests = compute_quota_requests(pod_set.template.spec, ResourceSettings())
            count = pod_set.count if pod_set.min_count is None else min(pod_set.min_count, pod_set.count)
            total = {**scale_requests(requests, count), "pods": count}
            pod_set_requests.append(_PodSetRequests(pod_set.name, total))
    except QuantityError:
        return None
    return pod_set_requests


def _is_capacity_known(context: LintContext, queue: CachedQueue) -> bool:
    """Return whether the quota that the queue can use is known.

    This requires that the queue is in no cohort, or that all ClusterQueues and Cohorts are known.
    """
    if queue.node.parent is None:
        return True
    return context.cluster is not None and context.all_manifests_read and context.are_all_read("ClusterQueue", "Cohort")


def _explain_inadmissibility(queue: CachedQueue, pod_sets: list[_PodSetRequests]) -> str:
    """Explain why a queue could never admit these pod sets, or return "" if it could."""
    return _describe_total_excess(queue, pod_sets) or _describe_pod_set_above_all_flavors(queue, pod_sets)


def _describe_total_excess(queue: CachedQueue, pod_sets: list[_PodSetRequests]) -> str:
    """Describe the first requested resource that has no quota or exceeds all flavors together.

    Returns "" if the flavors together have enough of every resource.
    """
    total = sum_requests(pod_set.requests for pod_set in pod_sets)
    for resource, amount in total.items():
        group = queue.settings.find_resource_group(resource)
        if group is None:
            if amount and resource != "pods":  # Kueue counts pods only if there is quota for them
                return f"there is no quota for {resource}"
            continue
        capacity = 0
        for flavor in group.flavors:
            capacity = add_amounts(capacity, queue.node.compute_capacity(FlavorResource(flavor, resource)))
        if amount > capacity:
            flavors = f"flavor {group.flavors[0]}" if len(group.flavors) == 1 else "all flavors together"
            return _format_excess("it", FlavorExcess(flavors, resource, amount, capacity))
    return ""


def _describe_pod_set_above_all_flavors(queue: CachedQueue, pod_sets: list[_PodSetRequests]) -> str:
    """Describe the first pod set whose requests exceed the capacity of every single flavor.

    The pods of a pod set get one flavor for each group of resources. Returns "" if each pod set fits a flavor of every
    group.
    """
    for name, requests in pod_sets:
        for group in queue.settings.groups:
            needed = {resource: requests[resource] for resource in sorted(group.resources & requests.keys())}
            excesses = [_find_flavor_excess(queue, flavor, needed) for flavor in group.flavors]
            if excesses and all(excesses):
                return "; ".join(_format_excess(f"pod set {name}", excess) for excess in excesses if excess)
    return ""


class FlavorExcess(NamedTuple):
    """A request that exceeds what one or several flavors could ever give."""

    flavors: str
    """The flavors in words, such as ``flavor spot``."""
    resource: str
    requested: int
    capacity: int


def _find_flavor_excess(queue: CachedQueue, flavor: str, needed: Mapping[str, int]) -> FlavorExcess | None:
    """Find the first needed resource that exceeds a flavor's capacity. Return None if the flavor has enough."""
    for resource, amount in needed.items():
        capacity = queue.node.compute_capacity(FlavorResource(flavor, resource))
        if amount > capacity:
            return FlavorExcess(f"flavor {flavor}", resource, amount, capacity)
    return None


def _format_excess(requester: str, excess: FlavorExcess) -> str:
    """Format a request and the limit that it exceeds."""
    requested = _format_amount(excess.resource, excess.requested)
    capacity = _format_amount(excess.resource, excess.capacity)
    return f"{requester} requests {requested} {excess.resource}, but {excess.flavors} can give at most {capacity}"


def _format_amount(resource: str, amount: int) -> str:
    """Format an amount of a resource, or return ``unlimited``."""
    return "unlimited" if amount == UNLIMITED else format_amount(resource, amount)


def _has_condition(workload: KueueWorkload, type_: str) -> bool:
    """Return whether a Workload has a condition of a type with status True."""
    return any(condition.type == type_ and condition.status == "True" for condition in workload.status.conditions)


def _iter_labels_read_by_kueue(context: LintContext) -> Iterator[_LabelSet]:
    """Yield the labels of each object from which Kueue may create a Workload.

    The objects are those in the manifests or, without manifests, those in the cluster.
    """
    for subject in context.subjects:
        for path in _list_label_paths(subject):
            yield _LabelSet(subject, path, object_at(subject.document, *path))
    if not context.subjects and context.cluster is not None:
        yield from _iter_cluster_label_sets(context, context.cluster)


def _list_label_paths(subject: Subject) -> list[Path]:
    """Return the paths of the labels in a manifest that Kueue reads, or [] if the object creates no pods.

    They are the object's own labels, the labels of a CronJob's Job template, and the labels of the pod template. Only
    the own labels are listed for a custom resource whose controller may create pods.
    """
    if may_create_pods(subject):  # where the custom resource has pod templates, if any, is unknown
        return [_WORKLOAD_LABELS]
    template_path = POD_TEMPLATE_PATHS.get(subject.kind)
    if template_path is None or not has_built_in_group(subject):
        return []
    paths: list[Path] = [_WORKLOAD_LABELS]
    if subject.kind == "CronJob":
        paths.append((*JOB_TEMPLATE_PATH, *_WORKLOAD_LABELS))
    if template_path:  # a Pod is its own template
        paths.append((*template_path, *_WORKLOAD_LABELS))
    return paths


_ENDED_PHASES = frozenset({"completed", "complete", "succeeded", "failed"})
"""The phases, in lower case, in which operators report that a custom resource has ended."""


def _iter_cluster_label_sets(context: LintContext, cluster: Cluster) -> Iterator[_LabelSet]:
    """Yield the labels of the cluster's Jobs, Deployments, StatefulSets, custom resources and bare pods.

    Finished objects and objects with an owner are left out.
    """
    for job in cluster.jobs:
        has_ended = any(
            condition.type in JOB_ENDED and condition.status == "True" for condition in job.status.conditions
        )
        if not has_ended and not job.metadata.owner_references:
            yield _build_label_set("Job", job.metadata)
    custom_kinds = [kind for kind in KINDS if is_operated(kind)]
    for kind in ("Deployment", "StatefulSet", *custom_kinds):
        for item in getattr(cluster, FIELDS[kind]):
            has_ended = str(getattr(item, "phase", "")).lower() in _ENDED_PHASES
            if not has_ended and not item.metadata.owner_references:
                yield _build_label_set(KINDS[kind].kind, item.metadata)
    for workload in context.workloads:  # these are neither finished nor owned
        if workload.kind == "Pod":
            yield _LabelSet(workload.subject, _WORKLOAD_LABELS, workload.labels)


def _build_label_set(kind: str, metadata: ObjectMeta) -> _LabelSet:
    """Build the label set of a cluster's object from its kind and metadata."""
    return _LabelSet(Subject(kind, metadata.name, metadata.namespace), _WORKLOAD_LABELS, metadata.labels)
