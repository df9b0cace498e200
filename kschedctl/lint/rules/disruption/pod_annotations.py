"""Annotations about placement, eviction and scaling that nothing reads: renamed, misspelt, or in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.cel.errors import CelError
from kschedctl.cel.library.times import parse_duration
from kschedctl.lint.analysis.near_names import one_meant
from kschedctl.lint.fixes.safe_fixes import rename_annotation
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import WARNING, Rule
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import Workload

_EVICTION = (
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "cluster-autoscaler.kubernetes.io/pod-scale-up-delay",
    "descheduler.alpha.kubernetes.io/evict",
)
"""What is read of pods, and of nothing that makes them."""
_NODES_STAY = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_SCALE_UP_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
_TRUTHS = {
    "karpenter.sh/do-not-disrupt": ("true",),
    "cluster-autoscaler.kubernetes.io/safe-to-evict": ("true", "false"),
}
"""Annotation -> the values that are read; what is written otherwise in the case alone is one of them."""
_RENAMED = {
    "karpenter.sh/do-not-evict": "karpenter.sh/do-not-disrupt",
    "karpenter.sh/do-not-consolidate": "karpenter.sh/do-not-disrupt",
}
_FIELDS = {
    "scheduler.alpha.kubernetes.io/affinity": "affinity",
    "scheduler.alpha.kubernetes.io/tolerations": "tolerations",
    "scheduler.alpha.kubernetes.io/critical-pod": "priorityClassName",
}
"""Annotation of old -> the field that replaced it."""


def without_effect(context: LintContext) -> Iterator[Problem]:
    reported: set[tuple[object, Path]] = set()
    for workload in context.workloads:
        for path, message, fix in _of(workload):
            if (workload.subject, path) not in reported:
                reported.add((workload.subject, path))
                yield workload.subject.problem(path, message, fix)
    for subject, written in _of_nodes(context):
        for key, value in written.items():
            if (of_node := _faulty_of_node(key, value)) is not None:
                yield subject.problem(("metadata", "annotations", key), *of_node)


def _of_nodes(context: LintContext) -> Iterator[tuple[Subject, Mapping[str, str]]]:
    """The annotations of the nodes that are linted; of a cluster those that are kept."""
    for subject in context.subjects:
        if subject.kind == "Node":
            yield subject, _texts(object_at(subject.document, "metadata", "annotations"))
    if not context.subjects and context.cluster is not None:
        for node in context.cluster.nodes:
            yield Subject("Node", node.metadata.name, ""), node.metadata.annotations


def _faulty_of_node(key: str, value: str) -> tuple[str, str] | None:
    """(what is wrong with an annotation of a node, what to do), None where nothing is."""
    if key == _NODES_STAY and value != "true":
        return f'"{value}" is not read: the node stays only where the value is true', ""
    if one_meant(key, (_NODES_STAY,)):
        return f"nothing reads {key}", f"Write {_NODES_STAY}"
    return None


def _of(workload: Workload) -> Iterator[tuple[Path, str, str]]:
    """(field, what is wrong, what to do) of what stands on the pods, and on the object that makes them."""
    on_pods = _texts(workload.annotations)
    at: Path = (*workload.at, "metadata", "annotations")
    for key, value in on_pods.items():
        if (fault := _faulty(key, value, on_pods, workload)) is not None:
            yield (*at, key), *fault
    for key in _EVICTION:
        if key in workload.labels and key not in on_pods:
            message = f"{key} is read as an annotation, and never as a label"
            yield (*workload.at, "metadata", "labels", key), message, "Move it to the annotations of the pods"
    if not workload.at or workload.made_by:
        return
    for key in _texts(object_at(workload.subject.document, "metadata", "annotations")):
        if (key in _EVICTION or key in _RENAMED) and _RENAMED.get(key, key) not in on_pods:
            message = f"{key} is read of pods, not of a {workload.subject.kind}: nothing reads it here"
            yield ("metadata", "annotations", key), message, "Move it to the metadata of the pod template"


def _faulty(key: str, value: str, beside: Mapping[str, str], workload: Workload) -> tuple[str, str] | None:
    """(what is wrong with an annotation of pods, what to do), None where nothing is."""
    if key in _RENAMED:
        fault = f"{key} is no longer read: Karpenter's v1beta1 renamed it", f"Write {_RENAMED[key]}"
        return None if _RENAMED[key] in beside else fault
    if key in _FIELDS:
        instead = _FIELDS[key]
        fault = f"{key} is no longer read: {instead} replaced it", f"Set {instead} of the pod's spec"
        return None if workload.written.get(instead) else fault
    if key not in _EVICTION and (meant := one_meant(key, _EVICTION)):
        return f"nothing reads {key}", f"Write {meant}"
    return _of_no_effect(key, value)


def _of_no_effect(key: str, value: str) -> tuple[str, str] | None:
    """Problems of an annotation that is spelt as one that is read."""
    if key == _NODES_STAY:
        return f"{key} is read of nodes, not of pods: nothing reads it here", "Annotate the node"
    if key == _SCALE_UP_DELAY and not _is_duration(value):
        return f'"{value}" is not a duration: the delay of the flags holds instead', "Write it as 90s or 5m"
    known = _TRUTHS.get(key, ())
    if value not in known and value.lower() in ("true", "false", "yes", "no"):
        return (f'"{value}" is not read: the value is {" or ".join(known)}', "") if known else None
    return None


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except CelError:
        return False
    return True


def _texts(annotations: JsonObject) -> dict[str, str]:
    return {str(key): value for key, value in annotations.items() if isinstance(value, str)}


RULES = (
    Rule(
        "an-without-effect",
        WARNING,
        without_effect,
        summary="An eviction or placement annotation that nothing reads",
        why="It was renamed, is misspelt or is set on the owner of the pods: they are evicted, and placed, as if it "
        "were not there.",
        fix="Correct the annotation",
        source=f"https://karpenter.sh/docs/concepts/disruption/#pod-level-controls; {doc.LABELS}",
        safe_fix=rename_annotation,
    ),
)
