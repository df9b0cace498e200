"""Manifests as rules read them: workloads, custom resources with pods, other objects, and what cannot be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject, array_at, drop_nulls, field_at, object_at
from kschedctl.api.kinds import KINDS, get_kind
from kschedctl.api.operator_resources import KINDS_WITHOUT_PODS
from kschedctl.cluster import CLUSTER_SCOPED
from kschedctl.lint.objects.kinds import AUTOSCALERS, Scaler, get_manifest_struct
from kschedctl.lint.objects.subject import Location, Path, Problem, Subject
from kschedctl.lint.objects.variants import Variants
from kschedctl.lint.objects.workload import (
    InvalidFieldError,
    Workload,
    convert_field,
    explain_uncountable_requests,
    find_invalid_requests,
    find_invalid_storage,
    has_negative_quantity,
    read_workload,
    with_replica_limits,
)

TYPED: dict[str, type[api.Struct]] = {
    kind: KINDS[kind].struct
    for kind in (
        *("PriorityClass", "PodDisruptionBudget", "PersistentVolume", "PersistentVolumeClaim", "StorageClass"),
        *("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "PodGroup"),
        *("ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "AdmissionCheck", "KueueWorkload"),
    )
}
"""The kinds, besides workloads, of which rules read typed objects."""

T = TypeVar("T")
UNSCOPED = CLUSTER_SCOPED | {"NodePool"}


class TypedObject(NamedTuple, Generic[T]):
    """An object with its typed fields."""

    subject: Subject
    """What a problem with the object refers to."""
    value: T
    """The object as a struct."""


ObjectsByKind = Mapping[type, tuple[TypedObject[Any], ...]]
"""Struct type -> the objects that were read as it."""


@dataclass
class ManifestObjects:
    """The objects read from manifests, and the problems of those that could not be read."""

    subjects: list[Subject] = field(default_factory=list)
    """All objects, also those that could not be read."""
    workloads: list[Workload] = field(default_factory=list)
    """Workloads that no controller owns and whose requests can be computed."""
    typed: dict[type, list[TypedObject[Any]]] = field(default_factory=lambda: defaultdict(list))
    """Struct type -> the objects that were read as it."""
    invalid: list[Problem] = field(default_factory=list)
    """Fields of the wrong type and invalid quantities."""

    @property
    def by_kind(self) -> ObjectsByKind:
        """The typed objects as an immutable mapping."""
        return {kind: tuple(of_kind) for kind, of_kind in self.typed.items()}

    def add(self, subject: Subject) -> None:
        """Read an object and store it, or the problems that make it unreadable."""
        self.subjects.append(subject)
        try:
            self._read(subject)
        except InvalidFieldError as error:
            self.invalid.append(subject.build_problem(error.path, str(error)))

    def _read(self, subject: Subject) -> None:
        """Read an object as a workload, a typed object or a custom resource.

        Raises InvalidFieldError.
        """
        if (workload := read_workload(subject)) is not None:
            self.invalid += (faulty := _find_faulty_quantities([workload]))
            self.workloads += [] if workload.owned or faulty or explain_uncountable_requests(workload) else [workload]
        elif struct := TYPED.get(get_kind(subject.document)) or get_manifest_struct(subject.document):
            value = convert_field((), drop_nulls(subject.document), struct)
            self.invalid += find_invalid_storage(subject, value)
            self.typed[struct].append(TypedObject(subject, value))
        else:
            made = list(find_custom_workloads(subject))
            self.invalid += (faulty := _find_faulty_quantities(made))
            self.workloads += [] if faulty else made

    def apply_autoscalers(self, variants: Variants) -> tuple[Workload, ...]:
        """Return the workloads with the range of replicas that autoscalers in the manifests give them."""
        autoscalers = (scaler for kind in AUTOSCALERS for scaler in self.typed[kind])
        return tuple(_with_autoscaler_limits(self.workloads, autoscalers, variants))


def build_subject(document: JsonObject, place: Location, default_namespace: str) -> Subject:
    """Build the subject for a manifest."""
    metadata = object_at(document, "metadata")
    kind = str(document["kind"])
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    namespace = "" if kind in UNSCOPED else str(metadata.get("namespace") or default_namespace)
    return Subject(kind, name, namespace, document, place)


def _find_faulty_quantities(workloads: Iterable[Workload]) -> list[Problem]:
    """Return invalid quantities of workloads or, if there are none, totals that cannot be computed.

    Negative quantities of built-in kinds are left to the checks of the API server, which have a wording of their own.
    """
    problems = [problem for workload in workloads for problem in find_invalid_requests(workload)]
    for workload in workloads if not problems else ():
        fault = explain_uncountable_requests(workload)
        if fault and (workload.custom_kind or not has_negative_quantity(workload)):
            problems.append(workload.build_problem(("containers",), fault))
    return problems


def _with_autoscaler_limits(
    workloads: Iterable[Workload], autoscalers: Iterable[TypedObject[Scaler]], variants: Variants
) -> Iterator[Workload]:
    """Yield each workload, with the range of its autoscaler if it has one in the same cluster."""
    ranges: dict[tuple[str, str, str], list[tuple[Subject, int, int]]] = defaultdict(list)
    for subject, autoscaler in autoscalers:
        if (limits := autoscaler.limits) is not None:
            target = subject.namespace or "default", limits.kind, limits.name
            ranges[target].append((subject, limits.min_replicas, limits.max_replicas))
    for workload in workloads:
        autoscaled = ranges.get((workload.namespace, workload.kind, workload.subject.name), ())
        limits_beside = next((limits for by, *limits in autoscaled if variants.can_coexist(by, workload.subject)), None)
        yield with_replica_limits(workload, *limits_beside) if limits_beside else workload


Release = tuple[str, str]
"""A file or built folder, and the chart that Helm rendered to it (empty without Helm)."""

_INSTALLED = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "ConfigMap", "PodDisruptionBudget"}
    | {"HorizontalPodAutoscaler", "ServiceAccount"}
)
"""Kinds that charts put where the release goes; roles and their bindings are made in other namespaces too."""


def get_release(place: Location) -> Release:
    """Return the release that a document at this location belongs to."""
    return place.build or place.file, place.source.partition("/")[0]


def find_release_namespaces(manifests: Iterable[tuple[JsonObject, Location]]) -> dict[Release, str]:
    """Return the namespace of each release whose objects name exactly one."""
    named: dict[Release, set[str]] = defaultdict(set)
    for document, place in manifests:
        namespace = field_at(document, "metadata", "namespace")
        if document.get("kind") in _INSTALLED and isinstance(namespace, str) and namespace and place.source:
            named[get_release(place)].add(namespace)
    return {release: next(iter(namespaces)) for release, namespaces in named.items() if len(namespaces) == 1}


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
