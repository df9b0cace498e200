"""Pod templates in custom resources, and which custom resources may create pods that lint cannot see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.api.operator_resources import KINDS_WITHOUT_PODS
from kschedctl.cluster import drop_nulls
from kschedctl.lint.objects.subject import Path, Subject
from kschedctl.lint.objects.workload import InvalidFieldError, Workload, convert_field

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

_PARTIAL_SPECS: dict[str, tuple[Path, ...]] = {
    _KUBEVIRT: (("spec", "template", "spec"),),
    "pool.kubevirt.io": (("spec", "virtualMachineTemplate", "spec", "template", "spec"),),
    _SPARK: tuple((*at, part) for at in (("spec",), ("spec", "template")) for part in ("driver", "executor")),
    _STRIMZI: (("spec", "template", "pod"),),
    _ARGO: (("spec",), ("spec", "workflowSpec")),
}
"""API group -> paths at which its resources have such fields."""

_DEPLOYERS = frozenset({"HelmRelease", "HelmChart", "Application", "ApplicationSet", "Kustomization"})
"""Kinds that install into other namespaces than their own."""


class _PodFields(NamedTuple):
    """The fields of a pod, or of something like a pod, within a custom resource."""

    spec_path: Path
    """Path of the pod's spec in the resource."""
    spec: JsonObject
    """The fields of the spec that decide scheduling; all fields if it is a pod template."""
    metadata: JsonObject
    """The metadata of the template, or an empty object."""
    replicas: int = 1
    """How many such pods the resource asks for."""


def may_create_pods(subject: Subject) -> bool:
    """Return whether an unknown controller may create pods for objects of this kind."""
    return _is_custom_group(subject.group) and subject.kind not in KINDS_WITHOUT_PODS


def _is_custom_group(group: str) -> bool:
    """Return whether an API group is a custom one, and not one of Kubernetes or its projects.

    `jobset.x-k8s.io` counts as custom, because its resources create pods.
    """
    return "." in group and (group in _KNOWN_GROUPS or not group.endswith(".k8s.io"))


def may_own_pods_in(subject: Subject, namespace: str) -> bool:
    """Return whether pods created for an object may be in a namespace."""
    return subject.namespace in ("", namespace) or subject.kind in _DEPLOYERS


def find_custom_workloads(subject: Subject) -> Iterator[Workload]:
    """Yield the workloads in a custom resource, and skip parts that are not valid as a pod template."""
    group = subject.group
    spec = subject.document.get("spec")
    if not _is_custom_group(group) or not isinstance(spec, Mapping) or subject.kind in _DEPLOYERS:
        return
    known = group in _KNOWN_GROUPS or group.endswith(_ELASTIC)
    for pods in (*_find_pod_templates(spec), *_find_partial_pod_specs(subject, group)):
        written = {"metadata": drop_nulls(pods.metadata), "spec": drop_nulls(pods.spec)}
        try:
            typed = convert_field((), written, api.PodTemplateSpec)
        except InvalidFieldError:
            continue
        yield Workload(
            subject,
            typed.metadata.labels,
            typed.spec,
            pods.replicas,
            template_path=pods.spec_path[:-1],
            spec_path=pods.spec_path,
            custom_kind=ROLLOUT if (group, subject.kind) == (_ARGO, ROLLOUT) else f"{subject.kind}.{group}",
            remark="" if known else f" (in what looks like a pod template of a {subject.kind})",
        )


def _find_pod_templates(spec: JsonObject) -> Iterator[_PodFields]:
    """Yield each pod template in the spec of a custom resource, in the order of the manifest.

    A pod template within another template is needed once for each replica of the outer one.
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
                    yield _PodFields((*at, key, "spec"), template["spec"], metadata, _get_count(value) * times)
                elif isinstance(template, dict):
                    times *= _get_count(value)
            inside = ((key, inner) for key, inner in value.items() if isinstance(inner, dict | list))
            unvisited += [((*at, key), inner, times) for key, inner in inside][::-1]


def _is_pod_template(value: JsonObject) -> bool:
    """Return whether a value has containers in `spec`, as a pod template has."""
    containers = array_at(value, "spec", "containers")
    return bool(containers) and all(isinstance(container, dict) for container in containers)


def _get_count(holder: JsonObject) -> int:
    """Return the number of replicas that a part of a resource asks for, or 1."""
    counts = (holder.get(key) for key in _COUNTS)
    return next((count for count in counts if isinstance(count, int) and not isinstance(count, bool)), 1)


def _find_partial_pod_specs(subject: Subject, group: str) -> Iterator[_PodFields]:
    """Yield the parts of a resource that have scheduling fields of a pod but no pod template."""
    document = subject.document
    for at in _PARTIAL_SPECS.get(group, ()):
        yield from _find_scheduling_fields(document, at)
    if group == _STRIMZI:
        for part in object_at(document, "spec"):
            yield from _find_scheduling_fields(document, ("spec", str(part), "template", "pod"))
    elif group == _ARGO:
        for at in _PARTIAL_SPECS[_ARGO]:
            for index in range(len(array_at(document, *at, "templates"))):
                yield from _find_scheduling_fields(document, (*at, "templates", index))


def _find_scheduling_fields(document: JsonObject, at: Path) -> Iterator[_PodFields]:
    """Yield the scheduling fields of a pod at a path of a document, if there are any."""
    part = object_at(document, *at)
    fields = {key: value for key, value in part.items() if key in _SCHEDULING}
    if fields:
        yield _PodFields(at, fields, object_at(part, "metadata"))
