"""Rules about workloads that Kueue queues: the label that names their queue, and requests above all quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.events import JOB_ENDED
from kschedctl.api.json_values import object_at
from kschedctl.api.kinds import KINDS, is_operated
from kschedctl.api.objects import ObjectMeta, PodTemplateSpec
from kschedctl.api.quantity import QuantityError
from kschedctl.api.queueing import QUEUE_LABEL, KueuePodSet, KueueWorkload, LocalQueue
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import may_create_pods
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import Workload, has_built_in_group
from kschedctl.lint.rule import ERROR, WARNING, Rule, replace_label
from kschedctl.lint.rules.kueue.known_objects import (
    KueueReference,
    build_queue_cache,
    find_missing_names,
)
from kschedctl.queueing.kueue.amounts import (
    UNLIMITED,
    FlavorResource,
    Requests,
    add,
    format_units,
    scale_requests,
    sum_requests,
)
from kschedctl.queueing.kueue.cluster_queues import CachedQueue
from kschedctl.queueing.kueue.pod_requests import ResourceSettings, adjust_pod_sets, compute_quota_requests

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
_WORKLOAD_LABELS: Path = ("metadata", "labels")
_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"


class _LabelSet(NamedTuple):
    """The labels in one place of an object from which Kueue may make a Workload."""

    subject: Subject
    path: Path
    labels: Mapping[str, object]


def find_missing_local_queues(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose queue label names no LocalQueue of their namespace."""
    references, labelled = [], set()
    for subject, path, labels in _iter_label_sets(context):
        if QUEUE_LABEL in labels:
            name, namespace = str(labels[QUEUE_LABEL]), subject.namespace or "default"
            references.append(KueueReference(subject, (*path, QUEUE_LABEL), "LocalQueue", name, namespace))
            labelled.add((subject.kind, namespace, subject.name))
    for subject, workload in context.list_linted(KueueWorkload):
        name, namespace = workload.spec.queue_name, subject.namespace or "default"
        owners = {(owner.kind, namespace, owner.name) for owner in workload.metadata.owner_references}
        if not owners & labelled and not _has_condition(workload, "Finished"):
            references.append(KueueReference(subject, ("spec", "queueName"), "LocalQueue", name, namespace))
    yield from find_missing_names(context, references)


KQ_NO_LOCAL_QUEUE = Rule(
    "kq-no-local-queue",
    WARNING,
    find_missing_local_queues,
    summary="A queue label that names no LocalQueue of the namespace, or looks misspelt",
    why="Kueue keeps the workload suspended, or its pods gated, until such a LocalQueue is created.",
    fix="Create the LocalQueue in the namespace of the workload, or correct the name",
    source=LOCAL_QUEUES,
)


def find_misspelt_labels(context: LintContext) -> Iterator[Problem]:
    """Find labels of workloads that are similar to a label of Kueue."""
    for subject, path, labels in _iter_label_sets(context):
        for key in labels:
            if meant := _find_meant_label(key):
                replacement = "" if meant in labels else meant
                yield subject.build_problem((*path, key), f"Kueue has no label {key}", f"Write {meant}", replacement)


KQ_LABEL_MISSPELT = Rule(
    "kq-label-misspelt",
    WARNING,
    find_misspelt_labels,
    summary="A label that looks like a misspelt label of Kueue",
    why="Kueue ignores the label: the workload starts at once and without quota, or in the default queue.",
    fix="Correct the label",
    source="https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/",
    safe_fix=replace_label,
)


def _find_meant_label(key: str) -> str:
    """Return the label of Kueue that a label is a misspelling of, or ""."""
    domain, separator, name = key.rpartition("/")
    if key in _LABELS or not separator or not domain.startswith("kueue."):
        return ""
    own_key = f"{_PREFIX}{name}"
    if own_key in _LABELS:
        return own_key
    if f"{domain}/" != _PREFIX:
        return ""
    return QUEUE_LABEL if name in _OTHER_NAMES_OF_QUEUE_LABEL else find_similar_name(key, _LABELS)


def find_inadmissible_workloads(context: LintContext) -> Iterator[Problem]:
    """Find workloads that request more than their ClusterQueue could ever give them in any flavor.

    A queue in a cohort counts only if all ClusterQueues and Cohorts are known.
    """
    queued = [*_iter_queued_pod_sets(context)]
    if not queued:
        return
    cache = build_queue_cache(context)
    queue_names = {(q.metadata.namespace or "default", q.metadata.name): q for q in context.list_all(LocalQueue)}
    for subject, path, queue_name, pod_sets in queued:
        local_queue = queue_names.get((subject.namespace or "default", queue_name))
        queue = cache.queues.get(local_queue.spec.cluster_queue) if local_queue else None
        if queue is None or not _is_capacity_known(context, queue):
            continue
        if queue.node.parent is not None and queue.node.parent.name in cache.cohorts_in_circle:
            continue
        if excess := _describe_excess(queue, pod_sets):
            yield subject.build_problem(path, f"ClusterQueue {queue.name} can never admit it: {excess}")


KQ_NEVER_ADMITTED = Rule(
    "kq-never-admitted",
    ERROR,
    find_inadmissible_workloads,
    summary="A workload that requests more than its ClusterQueue could ever give, or a resource without quota",
    why="Kueue never admits it, even if nothing else holds quota. Resources that Kueue's Configuration excludes or "
    "transforms are not known here.",
    fix="Lower the requests or the number of pods, or raise the quota",
    source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#resources",
)


class _QueuedPodSets(NamedTuple):
    """The fewest pods that a workload of a queue can be admitted with."""

    subject: Subject
    path: Path
    queue_name: str
    """The name of its LocalQueue."""
    pod_sets: list[tuple[str, Requests]]
    """The name of each pod set, and what its pods request together."""


def _iter_queued_pod_sets(context: LintContext) -> Iterator[_QueuedPodSets]:
    """Yield the Workloads that have no quota, and the manifests that become Workloads. Malformed ones are left out."""
    for subject, stored in context.list_linted(KueueWorkload):
        is_waiting = not any(_has_condition(stored, type_) for type_ in ("Finished", "QuotaReserved"))
        pod_sets = _sum_pod_sets(stored.spec.pod_sets) if is_waiting else None
        if pod_sets:
            yield _QueuedPodSets(subject, ("spec", "podSets"), stored.spec.queue_name, pod_sets)
    for workload in context.workloads:
        queue_name = object_at(workload.subject.document, *_WORKLOAD_LABELS).get(QUEUE_LABEL)
        count = _count_required_pods(workload)
        pod_sets = _sum_pod_sets([_build_pod_set(workload, count)]) if queue_name and count else None
        if pod_sets:
            yield _QueuedPodSets(workload.subject, workload.get_path("containers"), str(queue_name), pod_sets)


def _count_required_pods(workload: Workload) -> int:
    """Return the fewest pods with which Kueue admits a workload of a known kind, or 0 for other kinds."""
    if workload.custom_kind:
        return 0
    if workload.kind == "Job":
        spec = object_at(workload.subject.document, "spec")
        annotations = object_at(workload.subject.document, "metadata", "annotations")
        completions, fewest = spec.get("completions"), str(annotations.get(_MIN_PARALLELISM, ""))
        if fewest.isdecimal():
            return int(fewest)
        count = workload.replicas or 0
        return min(count, completions) if isinstance(completions, int) else count
    if workload.kind == "StatefulSet":
        return workload.replicas or 0
    return 1 if workload.kind in ("Pod", "Deployment") else 0


def _build_pod_set(workload: Workload, count: int) -> KueuePodSet:
    """Build the pod set of a workload with one kind of pods."""
    return KueuePodSet(count=count, template=PodTemplateSpec(spec=workload.spec))


def _sum_pod_sets(pod_sets: Iterable[KueuePodSet]) -> list[tuple[str, Requests]] | None:
    """Return what each pod set requests with the fewest pods, or None if a quantity is malformed."""
    summed = []
    try:
        for pod_set in adjust_pod_sets(pod_sets, (), {}):
            requests = compute_quota_requests(pod_set.template.spec, ResourceSettings())
            count = pod_set.count if pod_set.min_count is None else min(pod_set.min_count, pod_set.count)
            summed.append((pod_set.name, {**scale_requests(requests, count), "pods": count}))
    except QuantityError:
        return None
    return summed


def _is_capacity_known(context: LintContext, queue: CachedQueue) -> bool:
    """Return whether everything is known that a queue can borrow from."""
    if queue.node.parent is None:
        return True
    return context.cluster is not None and context.all_manifests_read and context.are_all_read("ClusterQueue", "Cohort")


def _describe_excess(queue: CachedQueue, pod_sets: list[tuple[str, Requests]]) -> str:
    """Say what a queue could never give to these pod sets, or return "" if some flavor could hold each of them."""
    total = sum_requests(requests for _, requests in pod_sets)
    for resource, amount in total.items():
        group = queue.settings.find_group(resource)
        if group is None:
            if amount and resource != "pods":
                return f"it has no quota for {resource}"
            continue
        capacity = 0
        for flavor in group.flavors:
            capacity = add(capacity, queue.node.compute_capacity(FlavorResource(flavor, resource)))
        if amount > capacity:
            return _format_excess(
                "it", resource, amount, f"{_name_flavors(group.flavors)} can give {_format(resource, capacity)}"
            )
    for name, requests in pod_sets:
        for group in queue.settings.groups:
            needed = {resource: requests[resource] for resource in sorted(group.resources & requests.keys())}
            excesses = [_find_excess(queue, flavor, needed) for flavor in group.flavors]
            if excesses and all(excesses):
                return "; ".join(
                    _format_excess(f"pod set {name}", resource, needed[resource], f"flavor {flavor} can give {limit}")
                    for flavor, (resource, limit) in zip(group.flavors, filter(None, excesses), strict=True)
                )
    return ""


def _name_flavors(flavors: Sequence[str]) -> str:
    """Return the words for the flavors of a resource group."""
    return f"flavor {flavors[0]}" if len(flavors) == 1 else "all flavors together"


def _find_excess(queue: CachedQueue, flavor: str, needed: Mapping[str, int]) -> tuple[str, str] | None:
    """Return the first resource of which a flavor can never give enough, with what it can give, or None."""
    for resource, amount in needed.items():
        capacity = queue.node.compute_capacity(FlavorResource(flavor, resource))
        if amount > capacity:
            return resource, _format(resource, capacity)
    return None


def _format_excess(what: str, resource: str, amount: int, limit: str) -> str:
    """Format a request and the limit that it exceeds."""
    return f"{what} requests {_format(resource, amount)} {resource}, and {limit}"


def _format(resource: str, amount: int) -> str:
    """Format an amount of a resource."""
    return "unlimited" if amount == UNLIMITED else format_units(resource, amount)


def _has_condition(workload: KueueWorkload, type_: str) -> bool:
    """Return whether a condition of a Workload is true."""
    return any(condition.type == type_ and condition.status == "True" for condition in workload.status.conditions)


def _iter_label_sets(context: LintContext) -> Iterator[_LabelSet]:
    """Yield the labels of the linted objects from which Kueue may make Workloads."""
    for subject in context.subjects:
        for path in _list_label_paths(subject):
            yield _LabelSet(subject, path, object_at(subject.document, *path))
    if not context.subjects and context.cluster is not None:
        yield from _iter_cluster_label_sets(context, context.cluster)


def _list_label_paths(subject: Subject) -> list[Path]:
    """Return where a manifest may have labels that Kueue reads; nowhere if the object creates no pods."""
    if may_create_pods(subject):
        return [_WORKLOAD_LABELS]
    template = POD_TEMPLATE_PATHS.get(subject.kind)
    if template is None or not has_built_in_group(subject):
        return []
    job_template: list[Path] = [("spec", "jobTemplate", *_WORKLOAD_LABELS)] if subject.kind == "CronJob" else []
    return list(dict.fromkeys((_WORKLOAD_LABELS, *job_template, (*template, *_WORKLOAD_LABELS))))


def _iter_cluster_label_sets(context: LintContext, cluster: Cluster) -> Iterator[_LabelSet]:
    """Yield the labels of the cluster's Jobs, Deployments, StatefulSets, custom resources and single pods.

    Objects that have ended or that a controller owns are left out.
    """
    for job in cluster.jobs:
        if not any(c.type in JOB_ENDED and c.status == "True" for c in job.status.conditions):
            yield from _build_label_set("Job", job.metadata)
    for kind in ("Deployment", "StatefulSet", *filter(is_operated, KINDS)):
        for item in getattr(cluster, FIELDS[kind]):
            if str(getattr(item, "phase", "")).lower() not in ("completed", "complete", "succeeded", "failed"):
                yield from _build_label_set(KINDS[kind].kind, item.metadata)
    for workload in context.workloads:
        if workload.kind == "Pod":
            yield _LabelSet(workload.subject, _WORKLOAD_LABELS, workload.labels)


def _build_label_set(kind: str, metadata: ObjectMeta) -> Iterator[_LabelSet]:
    """Yield the labels of an object that nothing owns."""
    if not metadata.owner_references:
        yield _LabelSet(Subject(kind, metadata.name, metadata.namespace), _WORKLOAD_LABELS, metadata.labels)
