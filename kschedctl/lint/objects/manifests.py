"""Manifests as rules read them: workloads, other typed objects, and the problems of what cannot be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.api.kinds import KINDS, get_kind
from kschedctl.cluster import CLUSTER_SCOPED, drop_nulls
from kschedctl.lint.objects.amounts import (
    explain_uncountable_requests,
    find_invalid_requests,
    find_invalid_storage,
    has_negative_quantity,
)
from kschedctl.lint.objects.custom_resources import find_custom_workloads
from kschedctl.lint.objects.kinds import AUTOSCALERS, Scaler, get_manifest_struct
from kschedctl.lint.objects.subject import Location, Problem, Subject
from kschedctl.lint.objects.variants import Variants
from kschedctl.lint.objects.workload import (
    InvalidFieldError,
    Workload,
    convert_field,
    read_workload,
    with_replica_limits,
)

TYPED: dict[str, type[api.Struct]] = {
    kind: KINDS[kind].struct
    for kind in (
        *("PriorityClass", "PodDisruptionBudget", "PersistentVolume", "PersistentVolumeClaim", "StorageClass"),
        *("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "PodGroup"),
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
