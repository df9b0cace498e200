"""Manifests as rules read them: workloads, custom resources with pods, other objects, and what cannot be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject, array_at, drop_nulls, field_at, object_at
from kschedctl.api.kinds import KINDS, get_kind
from kschedctl.api.operator_resources import KINDS_WITHOUT_PODS
from kschedctl.cluster import CLUSTER_SCOPED
from kschedctl.lint.objects.kinds import AUTOSCALERS, Scaler, ScalingLimits, get_manifest_struct
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
    """The subject to which problems with the object refer."""
    value: T
    """The object as a struct."""


ObjectsByKind = Mapping[type, tuple[TypedObject[Any], ...]]
"""Struct type -> the objects that were read as it."""


@dataclass
class ManifestObjects:
    """The objects read from manifests, and the problems of objects that could not be read."""

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
        """Read an object and store it, or store the problem that makes it unreadable.

        In the second case, further problems of the object are stored as well.
        """
        self.subjects.append(subject)
        try:
            self._read_and_store_object(subject)
        except InvalidFieldError as error:
            self.invalid.append(subject.build_problem(error.path, str(error), error.fix, error.replacement))
            self._add_masked_problems(subject, error.path)

    def _add_masked_problems(self, subject: Subject, faulty_path: Path) -> None:
        """Add the problems that the fault at ``faulty_path`` masks, by reading the object again without this field.

        Does nothing if the field cannot be removed.
        """
        remaining_document = remove_fields(subject.document, [faulty_path])
        if remaining_document is None:
            return
        reread = ManifestObjects()
        reread.add(replace(subject, document=remaining_document))  # calls this method again for the next problem
        known_paths = [faulty_path]
        for problem in reread.invalid:
            if not any(is_at_or_around(problem.path, path) for path in known_paths):
                known_paths.append(problem.path)
                self.invalid.append(problem._replace(subject=subject))

    def _read_and_store_object(self, subject: Subject) -> None:
        """Read an object as a workload, a typed object or a custom resource, and store the result.

        Faulty quantities are recorded as problems. A workload is not stored if it has faulty quantities, if a
        controller owns it, or if its total requests cannot be computed. Raises InvalidFieldError if a field has the
        wrong type.
        """
        workload = read_workload(subject)
        if workload is not None:
            faults = _find_quantity_problems([workload])
            self.invalid += faults
            if not (workload.owned or faults or explain_uncountable_requests(workload)):
                self.workloads.append(workload)
            return

        struct = TYPED.get(get_kind(subject.document)) or get_manifest_struct(subject.document)
        if struct is not None:
            value = convert_field((), drop_nulls(subject.document), struct)
            self.invalid += find_invalid_storage(subject, value)
            self.typed[struct].append(TypedObject(subject, value))
            return

        custom_workloads = list(iter_custom_workloads(subject))
        faults = _find_quantity_problems(custom_workloads)
        self.invalid += faults
        if not faults:
            self.workloads += custom_workloads

    def apply_autoscalers(self, variants: Variants) -> tuple[Workload, ...]:
        """Return the workloads, with the replica limits of the autoscalers in the manifests that scale them."""
        autoscalers = (scaler for kind in AUTOSCALERS for scaler in self.typed[kind])
        return tuple(_iter_autoscaled_workloads(self.workloads, autoscalers, variants))


def remove_fields(document: JsonObject, paths: Iterable[Path]) -> JsonObject | None:
    """Return a copy of a document without the fields, or None if one of them cannot be removed.

    The whole document, an item of a list (since others would move) and a missing field cannot be removed.
    """
    copy = deepcopy(document)
    for path in paths:
        if not path or isinstance(path[-1], int):
            return None
        parent = field_at(copy, *path[:-1])
        if not isinstance(parent, dict) or path[-1] not in parent:
            return None
        del parent[path[-1]]
    return copy


def is_at_or_around(path: Path, other: Path) -> bool:
    """Return whether one of two paths begins with the other."""
    length = min(len(path), len(other))
    return path[:length] == other[:length]


def build_manifest_subject(document: JsonObject, place: Location, default_namespace: str) -> Subject:
    """Build the subject for a manifest. Without a name, it is named by its generateName.

    A manifest without a namespace gets ``default_namespace``, and a cluster-scoped kind gets "".
    """
    metadata = object_at(document, "metadata")
    kind = str(document["kind"])
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    namespace = "" if kind in UNSCOPED else str(metadata.get("namespace") or default_namespace)
    return Subject(kind, name, namespace, document, place)


def _find_quantity_problems(workloads: Iterable[Workload]) -> list[Problem]:
    """Return a problem for each invalid quantity or, if all are valid, for each total that cannot be computed.

    Negative quantities of built-in kinds are left to the validation rules, which quote the API server's message.
    """
    invalid = [problem for workload in workloads for problem in find_invalid_requests(workload)]
    if invalid:
        return invalid

    uncountable = []
    for workload in workloads:
        fault = explain_uncountable_requests(workload)
        is_reported_elsewhere = not workload.custom_kind and has_negative_quantity(workload)
        if fault and not is_reported_elsewhere:
            uncountable.append(workload.build_problem(("containers",), fault))
    return uncountable


def _iter_autoscaled_workloads(
    workloads: Iterable[Workload], autoscalers: Iterable[TypedObject[Scaler]], variants: Variants
) -> Iterator[Workload]:
    """Yield each workload, limited to the replica bounds of its autoscaler if it has one.

    Of several autoscalers, the first one counts. Autoscalers that cannot be in the same cluster as the workload are
    ignored.
    """
    limits_by_target: dict[tuple[str, str, str], list[tuple[Subject, ScalingLimits]]] = defaultdict(list)
    for scaler, autoscaler in autoscalers:
        limits = autoscaler.limits
        if limits is not None:
            limits_by_target[scaler.namespace or "default", limits.kind, limits.name].append((scaler, limits))

    for workload in workloads:
        candidates = limits_by_target.get((workload.namespace, workload.kind, workload.subject.name), ())
        coexisting_limits = (limits for scaler, limits in candidates if variants.can_coexist(scaler, workload.subject))
        first_limits = next(coexisting_limits, None)
        if first_limits is None:
            yield workload
        else:
            yield replace(workload, min_replicas=first_limits.min_replicas, max_replicas=first_limits.max_replicas)


Release = tuple[str, str]
"""A file or built folder, and the chart that Helm rendered to it (empty without Helm)."""

_INSTALLED = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "ConfigMap", "PodDisruptionBudget"}
    | {"HorizontalPodAutoscaler", "ServiceAccount"}
)
"""Kinds that charts create in the namespace of the release. Roles and bindings may be in other namespaces."""


def get_helm_release(place: Location) -> Release:
    """Return the release that a document at this location belongs to."""
    return place.build or place.file, place.source.partition("/")[0]


def find_release_namespaces(manifests: Iterable[tuple[JsonObject, Location]]) -> dict[Release, str]:
    """Return the namespace of each Helm release whose manifests name exactly one namespace.

    Only kinds that charts create in the namespace of the release count.
    """
    namespaces_by_release: dict[Release, set[str]] = defaultdict(set)
    for document, place in manifests:
        namespace = field_at(document, "metadata", "namespace")
        is_in_release_namespace = bool(place.source) and document.get("kind") in _INSTALLED
        if is_in_release_namespace and isinstance(namespace, str) and namespace:
            namespaces_by_release[get_helm_release(place)].add(namespace)
    return {
        release: next(iter(namespaces)) for release, namespaces in namespaces_by_release.items() if len(namespaces) == 1
    }


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
"""API group -> paths at which its resources have scheduling fields of pods."""

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
    """The number of pods that the resource requests with these fields."""


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


def iter_custom_workloads(subject: Subject) -> Iterator[Workload]:
    """Yield a workload for each pod template in a custom resource.

    Parts that are not a valid pod template are skipped. Resources of built-in API groups, and resources that only
    deploy other objects, yield nothing.
    """
    group = subject.group
    spec = subject.document.get("spec")
    if not _is_custom_group(group) or not isinstance(spec, Mapping) or subject.kind in _DEPLOYERS:
        return

    # Whether a field is a pod template is a guess, unless the API group is known
    remark = f" (in what looks like a pod template of a {subject.kind})"
    if group in _KNOWN_GROUPS or group.endswith(_ELASTIC):
        remark = ""
    is_rollout = (group, subject.kind) == (_ARGO, ROLLOUT)
    for pods in (*_iter_pod_templates(spec), *_iter_partial_pod_specs(subject, group)):
        template_fields = {"metadata": drop_nulls(pods.metadata), "spec": drop_nulls(pods.spec)}
        try:
            template = convert_field((), template_fields, api.PodTemplateSpec)
        except InvalidFieldError:
            continue
        yield Workload(
            subject,
            template.metadata.labels,
            template.spec,
            pods.replicas,
            template_path=pods.spec_path[:-1],
            spec_path=pods.spec_path,
            custom_kind=ROLLOUT if is_rollout else f"{subject.kind}.{group}",
            remark=remark,
        )


def _iter_pod_templates(spec: JsonObject) -> Iterator[_PodFields]:
    """Yield each pod template in the spec of a custom resource, in the order of the manifest.

    If templates are nested, the number of replicas is the product of the outer and the inner number.
    """
    # A stack of paths, values and the replicas of the templates around them. Children are pushed in reverse order.
    unvisited: list[tuple[Path, object, int]] = [(("spec",), spec, 1)]
    while unvisited:
        path, value, outer_replicas = unvisited.pop()
        if isinstance(value, list):
            unvisited += [((*path, i), item, outer_replicas) for i, item in enumerate(value)][::-1]
        elif isinstance(value, dict):
            replicas = outer_replicas * _read_replica_count(value)
            replicas_of_nested_values = outer_replicas
            for key in _TEMPLATES:
                template = value.get(key)
                if not isinstance(template, dict):
                    continue
                if _is_pod_template(template):
                    yield _PodFields((*path, key, "spec"), template["spec"], object_at(template, "metadata"), replicas)
                else:  # it may contain templates, whose replicas multiply
                    replicas_of_nested_values = replicas
            nested_values = [(key, inner) for key, inner in value.items() if isinstance(inner, dict | list)]
            unvisited += [((*path, key), inner, replicas_of_nested_values) for key, inner in reversed(nested_values)]


def _is_pod_template(value: JsonObject) -> bool:
    """Return whether a value has containers in `spec`, as a pod template has."""
    containers = array_at(value, "spec", "containers")
    return bool(containers) and all(isinstance(container, dict) for container in containers)


def _read_replica_count(part: JsonObject) -> int:
    """Return the number of replicas that a part of a custom resource requests. The default is 1."""
    for key in _COUNTS:
        count = part.get(key)
        if isinstance(count, int) and not isinstance(count, bool):
            return count
    return 1


def _iter_partial_pod_specs(subject: Subject, group: str) -> Iterator[_PodFields]:
    """Yield the parts of a custom resource, other than pod templates, that set scheduling fields of its pods.

    `group` is the API group of the resource. Only the resources of known operators have these parts.
    """
    document = subject.document
    paths = list(_PARTIAL_SPECS.get(group, ()))
    if group == _STRIMZI:
        paths += [("spec", str(part), "template", "pod") for part in object_at(document, "spec")]
    elif group == _ARGO:
        for path in _PARTIAL_SPECS[_ARGO]:
            paths += [(*path, "templates", i) for i in range(len(array_at(document, *path, "templates")))]
    for path in paths:
        part = object_at(document, *path)
        scheduling_fields = {key: value for key, value in part.items() if key in _SCHEDULING}
        if scheduling_fields:
            yield _PodFields(path, scheduling_fields, object_at(part, "metadata"))
