"""Steps of a scenario about pods and their scheduler: scale, set a priority class, configure, manifests to apply."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import ObjectMeta, Pod, PriorityClass
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.priority import find_priority_class, validate_priority_class
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster, flatten
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.plan_change import rank_for_removal
from kschedctl.replay.controllers.workload_change import get_ordinal
from kschedctl.replay.edits import select_pods
from kschedctl.replay.scenarios.scenario import Edit, Files
from kschedctl.reports import scenario as parts


def scale(part: parts.Scale, cluster: Cluster, read: Files) -> Edit:
    """The pods that come are like those that there are; a StatefulSet gives up those of the highest ordinals."""
    if part.kind in ("DaemonSet", "Pod"):
        raise UsageError(f"kind: a {part.kind} has no replicas")
    pods = _pods_of(part, cluster)
    edit = Edit(cluster)
    ranked = sorted(pods, key=get_ordinal, reverse=True) if part.kind == "StatefulSet" else rank_for_removal(pods)
    for pod in ranked[: max(len(pods) - part.replicas, 0)]:
        edit.change(pod, None)
    taken = {pod.metadata.name for pod in pods}
    names = (name for i in count() if (name := _next_name(part, i)) not in taken)
    for _ in range(len(pods), part.replicas):
        pod = _renamed(made_again(pods[0]), next(names))
        edit.change(pod, pod)
    if part.replicas > len(pods) and any(v.persistent_volume_claim for v in pods[0].spec.volumes):
        edit.notes.append("the new pods share the claims of those that there are")
    return edit


def _next_name(part: parts.Scale, number: int) -> str:
    return f"{part.name}-{number}" if part.kind == "StatefulSet" else f"{part.name}-more-{number}"


def _renamed(pod: Pod, name: str) -> Pod:
    meta = pod.metadata
    return replace(pod, metadata=replace(meta, name=name, uid=f"{meta.namespace}/{name}"))


def _pods_of(part: parts.NamedWorkload, cluster: Cluster) -> list[Pod]:
    """Raises UsageError where it has none."""
    owner = Owner(part.kind, part.namespace, part.name)
    bare = cluster.pod(part.namespace, part.name) if part.kind == "Pod" else None
    pods = [bare] if bare else select_pods(cluster, lambda pod: part.kind != "Pod" and find_owner(pod) == owner)
    pods = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    if not pods:
        raise UsageError(f"{part.kind} {part.namespace}/{part.name} has no pods", hint="apply a manifest of it")
    return pods


def set_priority_class(part: parts.SetPriorityClass, cluster: Cluster, read: Files) -> Edit:
    """Raises UsageError where there is no such class, or the API server would refuse it."""
    if part.value is not None:
        made = PriorityClass(ObjectMeta(part.name), part.value, part.global_default, part.preemption_policy)
        if problems := validate_priority_class(made):
            raise UsageError(str(problems[0]))
        cluster = cluster.with_objects({"PriorityClass": [made]})
    class_ = find_priority_class(part.name, cluster.priority_classes)
    if class_ is None:
        raise UsageError(f'no PriorityClass "{part.name}"', hint="a value makes one")
    edit = Edit(cluster)
    policy = class_.preemption_policy or "PreemptLowerPriority"
    for pod in (pod for workload in part.workloads for pod in _pods_of(workload, cluster)):
        spec = replace(pod.spec, priority_class_name=part.name, priority=class_.value, preemption_policy=policy)
        edit.change(pod, replace(pod, spec=spec))
    return edit


def configure(part: parts.Configure, cluster: Cluster, read: Files) -> Edit:
    """Pods that run stay where they are."""
    if bool(part.file) == (part.configuration is not None):
        raise UsageError("either file or configuration")
    documents = list(read(part.file)) if part.file else [part.configuration]
    if len(documents) != 1:
        raise UsageError(f"{part.file} has {len(documents)} documents", hint="one KubeSchedulerConfiguration")
    return Edit(replace(cluster, configuration=documents[0]))


def manifests_of(part: parts.Apply, read: Files) -> Iterator[tuple[str, JsonObject]]:
    """The manifests of an apply step, those of Lists one by one, each with where it stands."""
    for name in part.files:
        for number, document in enumerate(read(name), 1):
            yield from ((f"{name}: document {number}", manifest) for manifest in flatten((document,)))
    for index, document in enumerate(part.manifests):
        yield from ((f"manifests[{index}]", manifest) for manifest in flatten((document,)))
