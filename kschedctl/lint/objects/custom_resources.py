"""Custom resources that make pods: the templates of these, and which pods may be somebody's whom nobody here knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.api.operator_resources import KINDS_WITHOUT_PODS
from kschedctl.cluster import without_nulls
from kschedctl.lint.objects.subject import Path, Subject
from kschedctl.lint.objects.workload import InvalidFieldError, Workload, typed_at

ROLLOUT = "Rollout"
_ARGO, _STRIMZI, _SPARK, _KUBEVIRT = "argoproj.io", "kafka.strimzi.io", "sparkoperator.k8s.io", "kubevirt.io"
_KNOWN_GROUPS = frozenset(
    {_ARGO, _STRIMZI, _SPARK, _KUBEVIRT, "jobset.x-k8s.io", "batch.volcano.sh", "ray.io", "kubeflow.org"}
    | {"serving.knative.dev", "pool.kubevirt.io", "leaderworkerset.x-k8s.io"}
)
_ELASTIC = "k8s.elastic.co"
_TEMPLATES = ("template", "podTemplate", "podTemplateSpec")
_COUNTS = ("replicas", "count", "parallelism")
_SCHEDULING = frozenset(
    {"nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priorityClassName", "schedulerName"}
)
"""Fields of a pod that resources without a pod template carry under the same names."""

_PARTS: dict[str, tuple[Path, ...]] = {
    _KUBEVIRT: (("spec", "template", "spec"),),
    "pool.kubevirt.io": (("spec", "virtualMachineTemplate", "spec", "template", "spec"),),
    _SPARK: tuple((*at, part) for at in (("spec",), ("spec", "template")) for part in ("driver", "executor")),
    _STRIMZI: (("spec", "template", "pod"),),
    _ARGO: (("spec",), ("spec", "workflowSpec")),
}
"""Group -> where such fields stand in its resources."""

_DEPLOYERS = frozenset({"HelmRelease", "HelmChart", "Application", "ApplicationSet", "Kustomization"})
"""Kinds that install into other namespaces than their own."""


class _PodFields(NamedTuple):
    """Where something like a pod stands: its spec, what of that counts, its labels, and how many there are."""

    spec_at: Path
    spec: JsonObject
    metadata: JsonObject
    replicas: int = 1


def may_make_pods(subject: Subject) -> bool:
    """Whether it is of a kind that some controller may make pods of, for all that is known here."""
    return _is_custom(subject.group) and subject.kind not in KINDS_WITHOUT_PODS


def _is_custom(group: str) -> bool:
    """Whether it is no group of Kubernetes itself or of its projects, of which but one makes pods."""
    return "." in group and (group in _KNOWN_GROUPS or not group.endswith(".k8s.io"))


def may_own_in(subject: Subject, namespace: str) -> bool:
    """Whether pods that it makes may be in the namespace."""
    return subject.namespace in ("", namespace) or subject.kind in _DEPLOYERS


def custom_workloads(subject: Subject) -> Iterator[Workload]:
    """The workloads that a custom resource holds; what only looks like a pod is left out."""
    group = subject.group
    spec = subject.document.get("spec")
    if not _is_custom(group) or not isinstance(spec, Mapping) or subject.kind in _DEPLOYERS:
        return
    known = group in _KNOWN_GROUPS or group.endswith(_ELASTIC)
    for pods in (*_pod_templates(spec), *_pods_without_template(subject, group)):
        written = {"metadata": without_nulls(pods.metadata), "spec": without_nulls(pods.spec)}
        try:
            typed = typed_at((), written, api.PodTemplateSpec)
        except InvalidFieldError:
            continue
        yield Workload(
            subject,
            typed.metadata.labels,
            typed.spec,
            pods.replicas,
            at=pods.spec_at[:-1],
            spec_at=pods.spec_at,
            made_by=ROLLOUT if (group, subject.kind) == (_ARGO, ROLLOUT) else f"{subject.kind}.{group}",
            remark="" if known else f" (in what looks like a pod template of a {subject.kind})",
        )


def _pod_templates(spec: JsonObject) -> Iterator[_PodFields]:
    """Every ``template`` with ``spec.containers``, in the order in which they stand.

    Where that is in a template of something else, of which there are several, there are so many times more pods.
    """
    unvisited: list[tuple[Path, object, int]] = [(("spec",), spec, 1)]
    while unvisited:
        at, value, times = unvisited.pop()
        if isinstance(value, list):
            unvisited += [((*at, i), inner, times) for i, inner in enumerate(value)][::-1]
        elif isinstance(value, dict):
            for key in _TEMPLATES:
                template = value.get(key)
                if isinstance(template, dict) and _is_pod_template(template):
                    metadata = object_at(template, "metadata")
                    yield _PodFields((*at, key, "spec"), template["spec"], metadata, _count(value) * times)
                elif isinstance(template, dict):
                    times *= _count(value)
            inside = ((key, inner) for key, inner in value.items() if isinstance(inner, dict | list))
            unvisited += [((*at, key), inner, times) for key, inner in inside][::-1]


def _is_pod_template(value: JsonObject) -> bool:
    containers = array_at(value, "spec", "containers")
    return bool(containers) and all(isinstance(container, dict) for container in containers)


def _count(holder: JsonObject) -> int:
    counts = (holder.get(key) for key in _COUNTS)
    return next((count for count in counts if isinstance(count, int) and not isinstance(count, bool)), 1)


def _pods_without_template(subject: Subject, group: str) -> Iterator[_PodFields]:
    """Parts of a resource that have the fields of a pod's spec without being one."""
    document = subject.document
    for at in _PARTS.get(group, ()):
        yield from _part(document, at)
    if group == _STRIMZI:
        for part in object_at(document, "spec"):
            yield from _part(document, ("spec", str(part), "template", "pod"))
    elif group == _ARGO:
        for at in _PARTS[_ARGO]:
            for index in range(len(array_at(document, *at, "templates"))):
                yield from _part(document, (*at, "templates", index))


def _part(document: JsonObject, at: Path) -> Iterator[_PodFields]:
    part = object_at(document, *at)
    fields = {key: value for key, value in part.items() if key in _SCHEDULING}
    if fields:
        yield _PodFields(at, fields, object_at(part, "metadata"))
