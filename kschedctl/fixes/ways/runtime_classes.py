"""Node labels that a RuntimeClass asks for on behalf of its pods: correct the class, or use another class.

Admission puts the node selector and the overhead of the RuntimeClass back into every pod that is created, so no change
of the pod's own selector gets rid of them. Reference: Runtime Class, "Scheduling" (k8s.io/docs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Pod, RuntimeClass, RuntimeClassScheduling, Toleration
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_pod
from kschedctl.fixes.trial.readmission import find_runtime_class
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.node_labels import find_similar_keys, is_misspelt
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework.facts import Wanted

CORRECT, OTHER = 15, 70


def selecting_class(pod: Pod, key: str, tried: TriedNode) -> RuntimeClass | None:
    """Return the pod's RuntimeClass if it is the one that asks for the node label, else None."""
    runtime_class = find_runtime_class(pod, tried.cycle.view.cluster)
    if runtime_class is None or runtime_class.scheduling is None or key not in runtime_class.scheduling.node_selector:
        return None
    return runtime_class


def change_class(tried: TriedNode, wanted: Wanted) -> Iterator[Fix]:
    """Yield fixes for a node label that the pod's RuntimeClass asks for and that the node does not have."""
    pod, key, value = tried.trial.pod, wanted.key, wanted.values[0]
    runtime_class = selecting_class(pod, key, tried)
    if runtime_class is None:
        return
    for right in find_similar_keys(key, tried):
        yield _corrected(pod, runtime_class, {key: None, right: value})
    if wanted.found and is_misspelt(key, value, wanted.found, tried.cycle.view.nodes.label(key).values):
        yield _corrected(pod, runtime_class, {key: wanted.found})
    for other in tried.cycle.view.cluster.runtime_classes:
        if other.metadata.name != runtime_class.metadata.name:
            yield _other(pod, runtime_class, other)


def _corrected(pod: Pod, runtime_class: RuntimeClass, labels: dict[str, str | None]) -> Fix:
    """Build the fix that makes the RuntimeClass select other labels; None for a label that it no longer selects."""
    name, scheduling = runtime_class.metadata.name, runtime_class.scheduling or RuntimeClassScheduling()
    selector = _with_labels(scheduling.node_selector, labels)

    def change(known: RuntimeClass) -> RuntimeClass:
        return replace(known, scheduling=replace(scheduling, node_selector=selector))

    wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
    key = ObjectKey.of(runtime_class)
    command = kubectl.render_patch(key, {"scheduling": {"nodeSelector": labels}})
    return Fix(
        "CorrectRuntimeClass",
        (name, tuple(labels.items())),
        f"let RuntimeClass {name} select nodes with {wanted}",
        "operator",
        (ObjectEdit(key, change), *on_pod(pod, _with_selector(labels))),
        CORRECT,
        commands=(command,),
    )


def _other(pod: Pod, runtime_class: RuntimeClass, other: RuntimeClass) -> Fix:
    """Build the fix that runs the pod with another RuntimeClass, without what the first one has added to the pod."""
    before, after = runtime_class.metadata.name, other.metadata.name
    scheduling = runtime_class.scheduling or RuntimeClassScheduling()

    def change(known: Pod) -> Pod:
        spec = known.spec
        selector = {key: value for key, value in spec.node_selector.items() if key not in scheduling.node_selector}
        added = frozenset(scheduling.tolerations) - _tolerations(other)
        return replace(
            known,
            spec=replace(
                spec,
                runtime_class_name=after,
                node_selector={**selector, **(other.scheduling.node_selector if other.scheduling else {})},
                tolerations=tuple(toleration for toleration in spec.tolerations if toleration not in added),
                overhead=other.overhead.pod_fixed if other.overhead else {},
            ),
        )

    return Fix(
        "OtherRuntimeClass",
        (before, after),
        f"use RuntimeClass {after} instead of {before}",
        "author",
        on_pod(pod, change),
        OTHER,
        f"its containers are isolated as RuntimeClass {after} does it, not as {before} does",
        variant_of=before,
        where=f"RuntimeClass {after}",
    )


def _tolerations(runtime_class: RuntimeClass) -> frozenset[Toleration]:
    return frozenset(runtime_class.scheduling.tolerations) if runtime_class.scheduling else frozenset()


def _with_labels(selector: dict[str, str], labels: dict[str, str | None]) -> dict[str, str]:
    merged = {**selector, **labels}
    return {key: value for key, value in merged.items() if value is not None}


def _with_selector(labels: dict[str, str | None]) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        return replace(pod, spec=replace(pod.spec, node_selector=_with_labels(pod.spec.node_selector, labels)))

    return change
