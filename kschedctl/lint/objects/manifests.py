"""Manifests as rules read them: workloads, other typed objects, and what is wrong with those that cannot be read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.api.kinds import KINDS, get_kind
from kschedctl.cluster import CLUSTER_SCOPED, without_nulls
from kschedctl.lint.objects.amounts import (
    asks_for_less_than_nothing,
    uncountable,
    unreadable_requests,
    unreadable_storage,
)
from kschedctl.lint.objects.custom_resources import custom_workloads
from kschedctl.lint.objects.kinds import AUTOSCALERS, Scaler, struct_of
from kschedctl.lint.objects.subject import Located, Problem, Subject
from kschedctl.lint.objects.variants import Variants
from kschedctl.lint.objects.workload import InvalidFieldError, Workload, scaled_by, typed_at, workload_of

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
    """A linted object: what a problem refers to, and its fields."""

    subject: Subject
    value: T


ObjectsByKind = Mapping[type, tuple[TypedObject[Any], ...]]
"""Struct -> the objects that were read as it."""


@dataclass
class ManifestObjects:
    """What of manifests can be read, and what is wrong with the others."""

    subjects: list[Subject] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    typed: dict[type, list[TypedObject[Any]]] = field(default_factory=lambda: defaultdict(list))
    invalid: list[Problem] = field(default_factory=list)

    @property
    def by_kind(self) -> ObjectsByKind:
        return {kind: tuple(of_kind) for kind, of_kind in self.typed.items()}

    def read(self, subject: Subject) -> None:
        self.subjects.append(subject)
        try:
            self._read(subject)
        except InvalidFieldError as error:
            self.invalid.append(subject.problem(error.path, str(error)))

    def _read(self, subject: Subject) -> None:
        """Raises InvalidFieldError."""
        if (workload := workload_of(subject)) is not None:
            self.invalid += (faulty := _faults([workload]))
            self.workloads += [] if workload.owned or faulty or uncountable(workload) else [workload]
        elif struct := TYPED.get(get_kind(subject.document)) or struct_of(subject.document):
            value = typed_at((), without_nulls(subject.document), struct)
            self.invalid += unreadable_storage(subject, value)
            self.typed[struct].append(TypedObject(subject, value))
        else:
            made = list(custom_workloads(subject))
            self.invalid += (faulty := _faults(made))
            self.workloads += [] if faulty else made

    def scaled(self, variants: Variants) -> tuple[Workload, ...]:
        """The workloads, with the replicas that autoscalers beside them give them."""
        autoscalers = (scaler for kind in AUTOSCALERS for scaler in self.typed[kind])
        return tuple(_autoscaled(self.workloads, autoscalers, variants))


def subject_of(document: JsonObject, place: Located, otherwise: str) -> Subject:
    """What a manifest is of; ``otherwise``: its namespace where it names none."""
    metadata = object_at(document, "metadata")
    kind = str(document["kind"])
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    namespace = "" if kind in UNSCOPED else str(metadata.get("namespace") or otherwise)
    return Subject(kind, name, namespace, document, place)


def _faults(workloads: Iterable[Workload]) -> list[Problem]:
    """The quantities of what an object makes that cannot be read, else sums that cannot be counted.

    Of its own kinds the API server refuses what is below nothing in words of its own.
    """
    problems = [problem for workload in workloads for problem in unreadable_requests(workload)]
    for workload in workloads if not problems else ():
        fault = uncountable(workload)
        if fault and (workload.made_by or not asks_for_less_than_nothing(workload)):
            problems.append(workload.problem(("containers",), fault))
    return problems


def _autoscaled(
    workloads: Iterable[Workload], autoscalers: Iterable[TypedObject[Scaler]], variants: Variants
) -> Iterator[Workload]:
    ranges: dict[tuple[str, str, str], list[tuple[Subject, int, int]]] = defaultdict(list)
    for subject, autoscaler in autoscalers:
        if (limits := autoscaler.limits) is not None:
            target = subject.namespace or "default", limits.kind, limits.name
            ranges[target].append((subject, limits.fewest, limits.most))
    for workload in workloads:
        autoscaled = ranges.get((workload.namespace, workload.kind, workload.subject.name), ())
        limits_beside = next((limits for by, *limits in autoscaled if variants.together(by, workload.subject)), None)
        yield scaled_by(workload, *limits_beside) if limits_beside else workload


Release = tuple[str, str]
"""A file or a build, and the chart that was rendered to it; the chart is empty for what Helm did not write."""

_INSTALLED = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "ConfigMap", "PodDisruptionBudget"}
    | {"HorizontalPodAutoscaler", "ServiceAccount"}
)
"""Kinds that charts put where the release goes; roles and their bindings are made in other namespaces too."""


def release_of(place: Located) -> Release:
    return place.build or place.file, place.source.partition("/")[0]


def release_namespaces(manifests: Iterable[tuple[JsonObject, Located]]) -> dict[Release, str]:
    """The one namespace that objects of a release name; releases that name none, or several, are left out."""
    named: dict[Release, set[str]] = defaultdict(set)
    for document, place in manifests:
        namespace = field_at(document, "metadata", "namespace")
        if document.get("kind") in _INSTALLED and isinstance(namespace, str) and namespace and place.source:
            named[release_of(place)].add(namespace)
    return {release: next(iter(namespaces)) for release, namespaces in named.items() if len(namespaces) == 1}
