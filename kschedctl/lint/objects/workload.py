"""Workloads: whatever has a pod template, seen as that template and how many pods are made of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins, locate_mismatch
from kschedctl.api.field_errors import FieldError
from kschedctl.api.json_values import JsonObject, field_at, object_at
from kschedctl.api.labels import Selector, SelectorError, selector_from_api
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_templates import POD_TEMPLATE_PATHS
from kschedctl.api.workloads import UpdateStrategy
from kschedctl.cluster import without_nulls
from kschedctl.lint.objects.stored_pods import as_written
from kschedctl.lint.objects.subject import Path, Problem, Subject, path_text

T = TypeVar("T")
SERVING = frozenset({"ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "Rollout"})
"""Kinds that keep a number of pods running."""


class _EmptyDir(api.Struct, frozen=True):
    medium: str = ""


class _Volume(api.Struct, frozen=True):
    name: str = ""
    empty_dir: _EmptyDir | None = None


class _Volumes(api.Struct, frozen=True):
    """The volumes of a pod with what scheduling does not read of them."""

    volumes: tuple[_Volume, ...] = ()


@dataclass(frozen=True, eq=False)
class Workload:
    """``replicas``: pods at the same time, None for one a node; ``most``: as far as a HorizontalPodAutoscaler goes.

    ``at``: where the pod template is in the object. ``on_disk``: its emptyDir volumes that are no memory, by index.
    ``strategy``: how a Deployment replaces its pods. Of a custom resource: ``made_by``, what its kind is called here;
    ``spec_at``, where the pod's spec is, unless it is in a template; ``remark``: what problems say besides.
    """

    subject: Subject
    labels: Mapping[str, str]
    spec: api.PodSpec
    replicas: int | None
    most: int | None = None
    fewest: int | None = None
    at: Path = ()
    annotations: JsonObject = field(default_factory=dict)
    owned: bool = False
    on_disk: Mapping[int, str] = field(default_factory=dict)
    strategy: UpdateStrategy = field(default_factory=UpdateStrategy)
    spec_at: Path | None = None
    made_by: str = ""
    remark: str = ""

    @property
    def kind(self) -> str:
        return self.made_by or self.subject.kind

    @property
    def labels_known(self) -> bool:
        """Whether its pods have no labels but those of the template: operators add their own."""
        return not self.made_by or self.kind in SERVING

    @property
    def namespace(self) -> str:
        return self.subject.namespace or "default"

    @property
    def owner(self) -> Owner:
        """What its pods name as theirs."""
        return Owner(self.kind, self.namespace, self.subject.name)

    @property
    def serving(self) -> bool:
        """Several pods are kept running: a Deployment or the like with more than one replica."""
        return self.kind in SERVING and self.at_most > 1

    @property
    def at_most(self) -> int:
        """The most pods at the same time; 0 for a DaemonSet, which has one a node."""
        return max(self.replicas or 0, self.most or 0)

    @property
    def at_least(self) -> int:
        """The fewest pods that are kept."""
        return self.fewest if self.fewest is not None else self.replicas or 0

    @property
    def range(self) -> str:
        """How many pods are kept, as messages have it."""
        return str(self.at_most) if self.at_least >= self.at_most else f"{self.at_least} to {self.at_most}"

    @cached_property
    def pod(self) -> api.Pod:
        """One of its pods, before it is scheduled."""
        name = self.subject.name if self.kind == "Pod" else f"{self.subject.name}-0"
        return api.Pod(api.PodMeta(name, self.namespace, labels=dict(self.labels)), self.spec)

    @cached_property
    def written(self) -> JsonObject:
        """The pod's spec as the manifest has it, with what scheduling does not read."""
        return object_at(self.subject.document, *self.at_field())

    @property
    def containers(self) -> Iterator[tuple[Path, api.Container]]:
        """The containers, then the init containers, each with where it stands in the pod's spec."""
        yield from ((("containers", i), container) for i, container in enumerate(self.spec.containers))
        yield from ((("initContainers", i), container) for i, container in enumerate(self.spec.init_containers))

    def problem(self, path: Path, message: str, fix: str = "", replacement: str = "") -> Problem:
        """Return a problem at a field of the pod's spec."""
        return Problem(self.subject, self.at_field(*path), message + self.remark, fix, replacement)

    def at_field(self, *path: str | int) -> Path:
        """A field of the pod's spec, from the root of the object."""
        return (*((*self.at, "spec") if self.spec_at is None else self.spec_at), *path)

    def refused(self, faults: Iterable[FieldError]) -> Iterator[Problem]:
        """What the API server refuses, in its words; the paths begin at the root of the object."""
        return (Problem(self.subject, fault.field, str(fault)) for fault in faults)

    def selected_by(self, selector: Selector) -> bool:
        return selector.matches(self.labels)

    def surge(self) -> tuple[int, int]:
        """(maxSurge, maxUnavailable) in pods of a Deployment that rolls; (0, 1) for all others.

        Upstream: ResolveFenceposts in pkg/controller/deployment/util (v1.36): surge rounds up, unavailable down; both
        0 means that one may be unavailable.
        """
        if self.kind != "Deployment" or self.strategy.type == "Recreate":
            return 0, 1
        rolling, count = self.strategy.rolling_update, self.replicas or 0
        surge = scaled("25%" if rolling.max_surge is None else rolling.max_surge, count, up=True)
        unavailable = scaled("25%" if rolling.max_unavailable is None else rolling.max_unavailable, count, up=False)
        return (surge, unavailable) if surge or unavailable else (0, 1)


def scaled(value: object, total: int, *, up: bool) -> int:
    """An IntOrString of a total.

    >>> scaled("50%", 7, up=True), scaled("25%", 3, up=False), scaled(2, 7, up=True)
    (4, 0, 2)
    """
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}%", value):
        parts = int(value[:-1]) * total
        return -(-parts // 100) if up else parts // 100
    return value if isinstance(value, int) else 0


def workload_of(subject: Subject) -> Workload | None:
    """The workload that a manifest stands for, if it is one. Raises InvalidFieldError."""
    at = POD_TEMPLATE_PATHS.get(subject.kind)
    if at is None or not in_core_group(subject):
        return None
    template = object_at(subject.document, *at)
    metadata = object_at(template, "metadata")
    written = {"metadata": without_nulls(metadata), "spec": without_nulls(template.get("spec") or {})}
    typed = typed_at(at, written, api.PodTemplateSpec)
    stored = subject.kind == "Pod" and "status" in subject.document
    spec = as_written(api.Pod(api.PodMeta(labels=typed.metadata.labels), typed.spec)) if stored else typed.spec
    return Workload(
        subject,
        typed.metadata.labels,
        spec,
        _replicas(subject),
        at=at,
        annotations=object_at(metadata, "annotations"),
        owned=any(owner.controller for owner in _owners(subject)),
        on_disk=_on_disk((*at, "spec"), written["spec"]),
        strategy=_strategy(subject),
    )


def _on_disk(at: Path, spec: object) -> dict[int, str]:
    volumes = typed_at(at, spec, _Volumes).volumes
    return {i: v.name for i, v in enumerate(volumes) if v.empty_dir is not None and v.empty_dir.medium != "Memory"}


def _strategy(subject: Subject) -> UpdateStrategy:
    written = field_at(subject.document, "spec", "strategy") if subject.kind == "Deployment" else None
    return typed_at(("spec", "strategy"), without_nulls(written or {}), UpdateStrategy)


def in_core_group(subject: Subject) -> bool:
    """Not a custom resource that only shares the kind's name."""
    return subject.group in ("", "apps", "batch", "extensions")


def _replicas(subject: Subject) -> int | None:
    if subject.kind == "DaemonSet":
        return None
    if subject.kind in ("Pod", "PodTemplate"):
        return 1
    path: Path = POD_TEMPLATE_PATHS[subject.kind][:-1]
    spec = object_at(subject.document, *path)
    key = "parallelism" if subject.kind in ("Job", "CronJob") else "replicas"
    return 1 if spec.get(key) is None else typed_at((*path, key), spec[key], int)


def _owners(subject: Subject) -> tuple[api.OwnerReference, ...]:
    owners = field_at(subject.document, "metadata", "ownerReferences") or ()
    return typed_at(("metadata", "ownerReferences"), without_nulls(owners), tuple[api.OwnerReference, ...])


class InvalidFieldError(Exception):
    """A field of a manifest has the wrong type."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path_text(path)}: {what}" if path else what)
        self.path, self.what = path, what


def typed_at(at: Path, value: object, into: type[T]) -> T:
    """Decode the value of the field at ``at``. Raises InvalidFieldError, which names the field within."""
    try:
        return convert_builtins(value, into)
    except msgspec.ValidationError as error:
        mismatch = locate_mismatch(value, error)
        raise InvalidFieldError((*at, *mismatch.path), mismatch.message.replace("`", "").lower()) from None


def scaled_by(workload: Workload, fewest: int, most: int) -> Workload:
    """The workload as an autoscaler may make it."""
    return replace(workload, fewest=fewest, most=most)


def compiled(selector: api.LabelSelector | None) -> Selector | None:
    """The selector, or None where the API would refuse it."""
    try:
        return selector_from_api(selector)
    except SelectorError:
        return None
