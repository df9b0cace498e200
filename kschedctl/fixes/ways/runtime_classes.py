"""Fixes for the node labels that a RuntimeClass requires: correct the class, or use another class.

Admission puts the RuntimeClass's node selector and overhead back into every pod that is created, so changes of the
pod's own selector do not remove them. Reference: Runtime Class, "Scheduling" (k8s.io/docs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Pod, RuntimeClass, RuntimeClassScheduling, Toleration
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.readmission import find_runtime_class
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.node_labels import find_similar_keys, is_misspelt
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework.facts import Wanted

CORRECT, OTHER = 15, 70


def find_selecting_class(pod: Pod, key: str, tried: TriedNode) -> RuntimeClass | None:
    """Return the pod's RuntimeClass if its node selector requires this label, else None."""
    runtime_class = find_runtime_class(pod, tried.cycle.view.cluster)
    if runtime_class is None or runtime_class.scheduling is None or key not in runtime_class.scheduling.node_selector:
        return None
    return runtime_class


def fix_runtime_class(tried: TriedNode, wanted: Wanted) -> Iterator[Fix]:
    """Yield fixes for a node label that the pod's RuntimeClass requires and the node lacks."""
    pod, key, value = tried.trial.pod, wanted.key, wanted.values[0]
    runtime_class = find_selecting_class(pod, key, tried)
    if runtime_class is None:
        return
    for similar_key in find_similar_keys(key, tried):
        yield _correct_selector(pod, runtime_class, {key: None, similar_key: value})
    if wanted.found and is_misspelt(key, value, wanted.found, tried.cycle.view.nodes.label(key).values):
        yield _correct_selector(pod, runtime_class, {key: wanted.found})
    for other in tried.cycle.view.cluster.runtime_classes:
        if other.metadata.name != runtime_class.metadata.name:
            yield _use_other_class(pod, runtime_class, other)


def _correct_selector(pod: Pod, runtime_class: RuntimeClass, labels: dict[str, str | None]) -> Fix:
    """Build the fix that changes labels in the RuntimeClass's node selector. None as a value removes the label."""
    name, scheduling = runtime_class.metadata.name, runtime_class.scheduling or RuntimeClassScheduling()
    selector = _merge_labels(scheduling.node_selector, labels)

    def change(known: RuntimeClass) -> RuntimeClass:
        return replace(known, scheduling=replace(scheduling, node_selector=selector))

    selector_text = ", ".join(f"{key}={value}" for key, value in selector.items())
    key = ObjectKey.of(runtime_class)
    command = kubectl.render_patch(key, {"scheduling": {"nodeSelector": labels}})
    return Fix(
        FixKind.CORRECT_RUNTIME_CLASS,
        (name, tuple(labels.items())),
        f"let RuntimeClass {name} select nodes with {selector_text}",
        "operator",
        (ObjectEdit(key, change), *on_pod(pod, _change_selector(labels))),
        CORRECT,
        commands=(command,),
    )


def _use_other_class(pod: Pod, runtime_class: RuntimeClass, other: RuntimeClass) -> Fix:
    """Build the fix that gives the pod another RuntimeClass and removes what the current class added to it."""
    old_name, new_name = runtime_class.metadata.name, other.metadata.name
    scheduling = runtime_class.scheduling or RuntimeClassScheduling()

    def change(known: Pod) -> Pod:
        spec = known.spec
        selector = {key: value for key, value in spec.node_selector.items() if key not in scheduling.node_selector}
        added = frozenset(scheduling.tolerations) - _get_tolerations(other)
        return replace(
            known,
            spec=replace(
                spec,
                runtime_class_name=new_name,
                node_selector={**selector, **(other.scheduling.node_selector if other.scheduling else {})},
                tolerations=tuple(toleration for toleration in spec.tolerations if toleration not in added),
                overhead=other.overhead.pod_fixed if other.overhead else {},
            ),
        )

    return Fix(
        FixKind.OTHER_RUNTIME_CLASS,
        (old_name, new_name),
        f"use RuntimeClass {new_name} instead of {old_name}",
        "author",
        on_pod(pod, change),
        OTHER,
        f"its containers are isolated as RuntimeClass {new_name} does it, not as {old_name} does",
        variant_of=old_name,
        where=f"RuntimeClass {new_name}",
    )


def _get_tolerations(runtime_class: RuntimeClass) -> frozenset[Toleration]:
    """Return the tolerations that the RuntimeClass adds to its pods."""
    return frozenset(runtime_class.scheduling.tolerations) if runtime_class.scheduling else frozenset()


def _merge_labels(selector: dict[str, str], labels: dict[str, str | None]) -> dict[str, str]:
    """Return the selector with these labels set, or removed if the value is None."""
    merged = {**selector, **labels}
    return {key: value for key, value in merged.items() if value is not None}


def _change_selector(labels: dict[str, str | None]) -> Callable[[Pod], Pod]:
    """Return a change of a pod that sets or removes labels in its nodeSelector."""

    def change(pod: Pod) -> Pod:
        return replace(pod, spec=replace(pod.spec, node_selector=_merge_labels(pod.spec.node_selector, labels)))

    return change
