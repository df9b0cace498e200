"""The rule about annotations for eviction, placement and scaling that no component reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.cel.errors import CelError
from kschedctl.cel.library.times import parse_duration
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import WARNING, FieldEdit, RenameField, Rule

_POD_ANNOTATIONS = (
    "karpenter.sh/do-not-disrupt",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "cluster-autoscaler.kubernetes.io/pod-scale-up-delay",
    "descheduler.alpha.kubernetes.io/evict",
)
"""Annotations that are read on pods only, never on the objects that create the pods."""
_SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""An annotation that is read on nodes only."""
_SCALE_UP_DELAY = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
_BOOLEAN_VALUES = {
    "karpenter.sh/do-not-disrupt": ("true",),
    "cluster-autoscaler.kubernetes.io/safe-to-evict": ("true", "false"),
}
"""Annotation -> the values that have an effect."""
_RENAMED = {
    "karpenter.sh/do-not-evict": "karpenter.sh/do-not-disrupt",
    "karpenter.sh/do-not-consolidate": "karpenter.sh/do-not-disrupt",
}
_REPLACED_BY_FIELD = {
    "scheduler.alpha.kubernetes.io/affinity": "affinity",
    "scheduler.alpha.kubernetes.io/tolerations": "tolerations",
    "scheduler.alpha.kubernetes.io/critical-pod": "priorityClassName",
}
"""Annotation of early Kubernetes -> the field of the pod's spec that replaced it."""


class _Flaw(NamedTuple):
    """The reason why an annotation has no effect."""

    message: str
    fix: str = ""
    """Advice for this annotation, or "" for the rule's general advice."""
    replacement: str = ""
    """The annotation to write instead, if there is one."""


def find_ineffective_annotations(context: LintContext) -> Iterator[Problem]:
    """Find annotations of pods, workloads and nodes that are misspelled, outdated or on the wrong object.

    Each annotation is reported once, even if its object contains several workloads.
    """
    reported: set[tuple[object, Path]] = set()  # a custom resource may contain several workloads
    for workload in context.workloads:
        for path, flaw in _iter_annotation_flaws(workload):
            if (workload.subject, path) not in reported:
                reported.add((workload.subject, path))
                yield workload.subject.build_problem(path, flaw.message, flaw.fix, flaw.replacement)
    for subject, node_annotations in _iter_node_annotations(context):
        for key, value in node_annotations.items():
            node_flaw = _find_node_annotation_flaw(key, value)
            if node_flaw is not None:
                path = ("metadata", "annotations", key)
                yield subject.build_problem(path, node_flaw.message, node_flaw.fix, node_flaw.replacement)


def _build_annotation_rename(problem: Problem) -> FieldEdit | None:
    """Build the edit that renames the annotation to the problem's replacement.

    Returns None if there is no replacement, or if the object already has that annotation.
    """
    siblings = field_at(problem.subject.document, *problem.path[:-1])
    if not problem.replacement or not isinstance(siblings, Mapping) or problem.replacement in siblings:
        return None
    return RenameField(problem.path, problem.replacement)


AN_WITHOUT_EFFECT = Rule(
    "an-without-effect",
    WARNING,
    find_ineffective_annotations,
    summary="An eviction or placement annotation that nothing reads",
    why="The annotation was renamed, is misspelled or is on the wrong object: pods are placed and evicted as if the "
    "annotation did not exist.",
    fix="Correct the annotation",
    source=f"https://karpenter.sh/docs/concepts/disruption/#pod-level-controls; {doc.LABELS}",
    safe_fix=_build_annotation_rename,
)


def _iter_node_annotations(context: LintContext) -> Iterator[tuple[Subject, Mapping[str, str]]]:
    """Yield each node of the manifests, or of the cluster if it is linted itself, with its annotations.

    Nodes of a cluster have only the annotations that are kept when the cluster is read.
    """
    for subject in context.subjects:
        if subject.kind == "Node":
            yield subject, _select_string_values(object_at(subject.document, "metadata", "annotations"))
    if not context.subjects and context.cluster is not None:
        for node in context.cluster.nodes:
            yield Subject("Node", node.metadata.name, ""), node.metadata.annotations


def _find_node_annotation_flaw(key: str, value: str) -> _Flaw | None:
    """Return why a node's annotation has no effect, because of a wrong value or a misspelled key.

    Return None for correct annotations and for annotations with unrelated keys.
    """
    if key == _SCALE_DOWN_DISABLED and value != "true":
        return _Flaw(f'"{value}" has no effect: only "true" keeps the node')
    if find_similar_name(key, (_SCALE_DOWN_DISABLED,)):
        return _Flaw(f"nothing reads {key}", f"Write {_SCALE_DOWN_DISABLED}", _SCALE_DOWN_DISABLED)
    return None


def _iter_annotation_flaws(workload: Workload) -> Iterator[tuple[Path, _Flaw]]:
    """Yield the path and flaw of each ineffective annotation of a workload and of its pod template.

    Labels that should be annotations are included. For bare pods and custom resources, only the pods' metadata is
    checked.
    """
    yield from _iter_flaws_of_pod_metadata(workload)
    is_bare_pod = not workload.template_path
    if not is_bare_pod and not workload.custom_kind:
        yield from _iter_flaws_of_workload_annotations(workload)


def _iter_flaws_of_pod_metadata(workload: Workload) -> Iterator[tuple[Path, _Flaw]]:
    """Yield the path and flaw of each ineffective annotation of the pods, and of each label that should be one."""
    metadata_path = (*workload.template_path, "metadata")
    pod_annotations = _select_string_values(workload.annotations)
    for key, value in pod_annotations.items():
        flaw = _find_pod_annotation_flaw(key, value, pod_annotations, workload)
        if flaw is not None:
            yield (*metadata_path, "annotations", key), flaw

    for key in _POD_ANNOTATIONS:
        if key in workload.labels and key not in pod_annotations:
            message = f"{key} is read only as an annotation, not as a label"
            yield (*metadata_path, "labels", key), _Flaw(message, "Move it to the annotations of the pods")


def _iter_flaws_of_workload_annotations(workload: Workload) -> Iterator[tuple[Path, _Flaw]]:
    """Yield the path and flaw of each annotation of the workload itself that is read only on pods.

    An annotation is no flaw if the pods have it as well, possibly under its present name.
    """
    pod_annotations = _select_string_values(workload.annotations)
    for key in _select_string_values(object_at(workload.subject.document, "metadata", "annotations")):
        present_key = _RENAMED.get(key, key)
        belongs_on_pods = key in _POD_ANNOTATIONS or key in _RENAMED
        if belongs_on_pods and present_key not in pod_annotations:
            message = f"{key} is read only on pods, not on a {workload.subject.kind}"
            yield ("metadata", "annotations", key), _Flaw(message, "Move it to the metadata of the pod template")


def _find_pod_annotation_flaw(
    key: str, value: str, pod_annotations: Mapping[str, str], workload: Workload
) -> _Flaw | None:
    """Explain why one of the annotations of a workload's pods has no effect.

    Returns None if it has an effect or is not known, or if the pods also have its replacement.
    """
    new_name, field = _RENAMED.get(key), _REPLACED_BY_FIELD.get(key)
    has_new_annotation = new_name is not None and new_name in pod_annotations
    sets_field = field is not None and bool(workload.written_spec.get(field))
    if has_new_annotation or sets_field:
        return None
    if new_name is not None:
        return _Flaw(f"{key} is no longer read: Karpenter's v1beta1 renamed it", f"Write {new_name}", new_name)
    if field is not None:
        return _Flaw(f"{key} is no longer read: {field} replaced it", f"Set {field} in the pod's spec")
    if key not in _POD_ANNOTATIONS:
        similar_name = find_similar_name(key, _POD_ANNOTATIONS)
        if similar_name:
            return _Flaw(f"nothing reads {key}", f"Write {similar_name}", similar_name)
    if key == _SCALE_DOWN_DISABLED:
        return _Flaw(f"{key} is read only on nodes, not on pods", "Annotate the node")
    return _find_annotation_value_flaw(key, value)


def _find_annotation_value_flaw(key: str, value: str) -> _Flaw | None:
    """Explain why the value of a known pod annotation has no effect, or return None if it may have an effect."""
    if key == _SCALE_UP_DELAY and not _is_duration(value):
        return _Flaw(f'"{value}" is not a duration: the autoscaler\'s default delay applies', "Write it as 90s or 5m")
    accepted_values = _BOOLEAN_VALUES.get(key, ())
    if accepted_values and value not in accepted_values and value.lower() in ("true", "false", "yes", "no"):
        return _Flaw(f'"{value}" has no effect: the value has to be {" or ".join(accepted_values)}')
    return None


def _is_duration(text: str) -> bool:
    """Return whether the text is a Go duration, such as ``5m``."""
    try:
        parse_duration(text)
    except CelError:
        return False
    return True


def _select_string_values(annotations: JsonObject) -> dict[str, str]:
    """Return the annotations with string values, without invalid ones."""
    return {str(key): value for key, value in annotations.items() if isinstance(value, str)}
