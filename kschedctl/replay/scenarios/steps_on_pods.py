"""Scenario steps about pods and their scheduler: scale, set a priority class, configure, apply manifests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import ObjectMeta, Pod, PriorityClass
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.priority import find_priority_class, validate_priority_class
from kschedctl.api.workloads import recreate_pod
from kschedctl.cluster import Cluster, flatten_lists
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.plan_change import rank_for_removal
from kschedctl.replay.controllers.workload_change import get_ordinal
from kschedctl.replay.edits import select_pods
from kschedctl.replay.scenarios.scenario import FileReader, StepResult
from kschedctl.reports import scenario as parts


def scale(part: parts.ScaleWorkload, cluster: Cluster, read: FileReader) -> StepResult:
    """Scale a workload. New pods are like the existing ones; a StatefulSet removes the highest ordinals first.

    Raises UsageError.
    """
    if part.kind in ("DaemonSet", "Pod"):
        raise UsageError(f"kind: a {part.kind} has no replicas")
    pods = _find_pods(part, cluster)
    edit = StepResult(cluster)
    ranked = sorted(pods, key=get_ordinal, reverse=True) if part.kind == "StatefulSet" else rank_for_removal(pods)
    for pod in ranked[: max(len(pods) - part.replicas, 0)]:
        edit.change_pod(pod, None)
    existing_names = {pod.metadata.name for pod in pods}
    names = (name for i in count() if (name := _generate_name(part, i)) not in existing_names)
    for _ in range(len(pods), part.replicas):
        pod = _with_name(recreate_pod(pods[0]), next(names))
        edit.change_pod(pod, pod)
    if part.replicas > len(pods) and any(v.persistent_volume_claim for v in pods[0].spec.volumes):
        edit.notes.append("the new pods share the claims of those that there are")
    return edit


def _generate_name(part: parts.ScaleWorkload, number: int) -> str:
    """Return the name of an additional pod."""
    return f"{part.name}-{number}" if part.kind == "StatefulSet" else f"{part.name}-more-{number}"


def _with_name(pod: Pod, name: str) -> Pod:
    """Return the pod with another name and UID."""
    meta = pod.metadata
    return replace(pod, metadata=replace(meta, name=name, uid=f"{meta.namespace}/{name}"))


def _find_pods(part: parts.NamedWorkload, cluster: Cluster) -> list[Pod]:
    """Return the pods of a workload. Raises UsageError if it has none."""
    owner = Owner(part.kind, part.namespace, part.name)
    bare_pod = cluster.pod(part.namespace, part.name) if part.kind == "Pod" else None
    pods = [bare_pod] if bare_pod else select_pods(cluster, lambda pod: part.kind != "Pod" and find_owner(pod) == owner)
    pods = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if not pods:
        raise UsageError(f"{part.kind} {part.namespace}/{part.name} has no pods", hint="apply a manifest of it")
    return pods


def set_priority_class(part: parts.SetPriorityClass, cluster: Cluster, read: FileReader) -> StepResult:
    """Give pods of workloads another priority class, which is created if it has a value. Raises UsageError."""
    if part.value is not None:
        new_class = PriorityClass(ObjectMeta(part.name), part.value, part.global_default, part.preemption_policy)
        if problems := validate_priority_class(new_class):
            raise UsageError(str(problems[0]))
        cluster = cluster.with_objects({"PriorityClass": [new_class]})
    class_ = find_priority_class(part.name, cluster.priority_classes)
    if class_ is None:
        raise UsageError(f'no PriorityClass "{part.name}"', hint="a value makes one")
    edit = StepResult(cluster)
    policy = class_.preemption_policy or "PreemptLowerPriority"
    for pod in (pod for workload in part.workloads for pod in _find_pods(workload, cluster)):
        spec = replace(pod.spec, priority_class_name=part.name, priority=class_.value, preemption_policy=policy)
        edit.change_pod(pod, replace(pod, spec=spec))
    return edit


def configure(part: parts.Configure, cluster: Cluster, read: FileReader) -> StepResult:
    """Replace the scheduler's configuration. Running pods stay where they are. Raises UsageError."""
    if bool(part.file) == (part.configuration is not None):
        raise UsageError("either file or configuration")
    documents = list(read(part.file)) if part.file else [part.configuration]
    if len(documents) != 1:
        raise UsageError(f"{part.file} has {len(documents)} documents", hint="one KubeSchedulerConfiguration")
    return StepResult(replace(cluster, configuration=documents[0]))


def iter_manifests(part: parts.ApplyManifests, read: FileReader) -> Iterator[tuple[str, JsonObject]]:
    """Yield the manifests of an apply step with their places; Lists are flattened."""
    for name in part.files:
        for number, document in enumerate(read(name), 1):
            yield from ((f"{name}: document {number}", manifest) for manifest in flatten_lists((document,)))
    for index, document in enumerate(part.manifests):
        yield from ((f"manifests[{index}]", manifest) for manifest in flatten_lists((document,)))
