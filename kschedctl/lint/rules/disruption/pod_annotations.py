"""Annotations about placement and eviction that nothing reads: renamed, misspelt, or in the wrong place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.lint.analysis.near_names import one_meant
from kschedctl.lint.fixes.safe_fixes import rename_annotation
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import WARNING, Rule
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import Workload

_EVICTION = (
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "descheduler.alpha.kubernetes.io/evict",
)
"""What is read of pods, and of nothing that makes them."""
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
    known = _TRUTHS.get(key, ())
    if value not in known and value.lower() in ("true", "false", "yes", "no"):
        return (f'"{value}" is not read: the value is {" or ".join(known)}', "") if known else None
    return None


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
