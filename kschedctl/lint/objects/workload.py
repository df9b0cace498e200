"""Workloads: objects with a pod template, read as that template, its number of pods, and checked quantities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins, locate_mismatch
from kschedctl.api.field_errors import FieldError
from kschedctl.api.json_values import JsonObject, drop_nulls, field_at, object_at
from kschedctl.api.labels import Selector, SelectorError, selector_from_api
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_requests import compute_pod_requests, parse_quantities
from kschedctl.api.quantity import Quantity, QuantityError
from kschedctl.api.workloads import POD_TEMPLATE_PATHS, UpdateStrategy
from kschedctl.lint.objects.stored_pods import to_written_spec
from kschedctl.lint.objects.subject import Path, Problem, Subject, format_path
from kschedctl.snapshot.pod_info import convert_to_amounts
from kschedctl.text.counts import counted

T = TypeVar("T")
_TYPE_WORDS = {
    "int": "an integer",
    "float": "a float",
    "str": "a string",
    "bool": "a boolean",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
"""msgspec's names of types -> plain words."""
SERVING_KINDS = frozenset({"ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "Rollout"})
"""Kinds that keep a number of pods running."""


class RolloutLimits(NamedTuple):
    """How many pods a rollout may create beyond the replicas, and how many it may remove before new ones run."""

    surge: int
    unavailable: int

    @property
    def must_start_new_pod_first(self) -> bool:
        """True if no old pod may stop before a new pod runs."""
        return self.surge > 0 and not self.unavailable


_NO_SURGE = RolloutLimits(surge=0, unavailable=1)


class _EmptyDir(api.Struct, frozen=True):
    """An emptyDir volume."""

    medium: str = ""


class _Volume(api.Struct, frozen=True):
    """A volume of a pod."""

    name: str = ""
    empty_dir: _EmptyDir | None = None


class _Volumes(api.Struct, frozen=True):
    """The volumes of a pod, with fields that scheduling does not read."""

    volumes: tuple[_Volume, ...] = ()


@dataclass(frozen=True, eq=False)
class Workload:
    """A pod template and the number of its pods."""

    subject: Subject
    labels: Mapping[str, str]
    spec: api.PodSpec
    replicas: int | None
    """Pods at the same time; None for one on each node."""
    max_replicas: int | None = None
    """Upper bound of an autoscaler, or None."""
    min_replicas: int | None = None
    """Lower bound of an autoscaler, or None."""
    template_path: Path = ()
    """Path of the pod template in the object."""
    annotations: JsonObject = field(default_factory=dict)
    owned: bool = False
    """True if a controller owns the object."""
    disk_volumes: Mapping[int, str] = field(default_factory=dict)
    """Index -> name of each emptyDir volume that is not in memory."""
    strategy: UpdateStrategy = field(default_factory=UpdateStrategy)
    """A Deployment's strategy for replacing its pods."""
    spec_path: Path | None = None
    """Path of the pod's spec in a custom resource without a pod template."""
    custom_kind: str = ""
    """Name of the kind, if it is a custom resource."""
    remark: str = ""
    """Text that is added to the message of each problem."""

    @property
    def kind(self) -> str:
        """The kind of the object, with the API group if it is a custom resource other than Argo's ``Rollout``."""
        return self.custom_kind or self.subject.kind

    @property
    def has_known_labels(self) -> bool:
        """True if the pods have only the labels of the template. Operators add labels of their own."""
        return not self.custom_kind or self.kind in SERVING_KINDS

    @property
    def namespace(self) -> str:
        """The namespace of the pods, ``default`` if the object names none."""
        return self.subject.namespace or "default"

    @property
    def owner(self) -> Owner:
        """The owner that the pods refer to."""
        return Owner(self.kind, self.namespace, self.subject.name)

    @property
    def is_serving_replicas(self) -> bool:
        """True if the workload, such as a Deployment, keeps more than one pod running."""
        return self.kind in SERVING_KINDS and self.highest_replicas > 1

    @property
    def highest_replicas(self) -> int:
        """The maximum number of pods at the same time, or 0 for a DaemonSet."""
        return max(self.replicas or 0, self.max_replicas or 0)

    @property
    def highest_replicas_text(self) -> str:
        """The maximum number of pods as messages show it, such as `3 replicas` or `20 replicas (maxReplicas)`."""
        is_bound_of_autoscaler = self.highest_replicas > (self.replicas or 0)
        return counted(self.highest_replicas, "replica") + (" (maxReplicas)" if is_bound_of_autoscaler else "")

    @property
    def lowest_replicas(self) -> int:
        """The minimum number of pods that are kept running, or 0 for a DaemonSet."""
        if self.min_replicas is not None:
            return self.min_replicas
        return self.replicas or 0

    @property
    def replica_range(self) -> str:
        """The number of pods as messages show it, such as `3` or `2 to 10`."""
        if self.lowest_replicas >= self.highest_replicas:
            return str(self.highest_replicas)
        return f"{self.lowest_replicas} to {self.highest_replicas}"

    @cached_property
    def pod(self) -> api.Pod:
        """A pod of the workload before it is scheduled."""
        name = self.subject.name if self.kind == "Pod" else f"{self.subject.name}-0"
        return api.Pod(api.PodMeta(name, self.namespace, labels=dict(self.labels)), self.spec)

    @cached_property
    def written_spec(self) -> JsonObject:
        """The pod's spec in the manifest, including fields that scheduling does not read.

        It is {} for a workload read from a cluster.
        """
        return object_at(self.subject.document, *self.get_path())

    @property
    def containers(self) -> Iterator[tuple[Path, api.Container]]:
        """The containers, then the init containers, each with its path in the pod's spec."""
        yield from ((("containers", i), container) for i, container in enumerate(self.spec.containers))
        yield from ((("initContainers", i), container) for i, container in enumerate(self.spec.init_containers))

    def build_problem(self, path: Path, message: str, fix: str = "", replacement: str = "") -> Problem:
        """Build a problem at a field of the pod's spec."""
        return Problem(self.subject, self.get_path(*path), message + self.remark, fix, replacement)

    def get_path(self, *path: str | int) -> Path:
        """Return the path of a field of the pod's spec from the root of the object."""
        spec_path = (*self.template_path, "spec") if self.spec_path is None else self.spec_path
        return (*spec_path, *path)

    def to_problems(self, errors: Iterable[FieldError]) -> Iterator[Problem]:
        """Convert errors of the API server to problems. The paths of the errors begin at the root of the object."""
        return (Problem(self.subject, error.field, str(error)) for error in errors)

    def is_selected_by(self, selector: Selector) -> bool:
        """Return whether a selector matches the labels of the pods."""
        return selector.matches(self.labels)

    def compute_rollout_limits(self) -> RolloutLimits:
        """Return maxSurge and maxUnavailable as pod counts: 0 and 1 unless this is a Deployment with rolling updates.

        maxSurge is rounded up, and maxUnavailable is rounded down. If both are 0, one pod may be unavailable. Upstream:
        ResolveFenceposts in pkg/controller/deployment/util (v1.36).
        """
        if self.kind != "Deployment" or self.strategy.type == "Recreate":
            return _NO_SURGE
        rolling, count = self.strategy.rolling_update, self.replicas or 0
        surge = resolve_int_or_percent("25%" if rolling.max_surge is None else rolling.max_surge, count, round_up=True)
        unavailable = resolve_int_or_percent(
            "25%" if rolling.max_unavailable is None else rolling.max_unavailable, count, round_up=False
        )
        return RolloutLimits(surge, unavailable) if surge or unavailable else _NO_SURGE


def resolve_int_or_percent(value: object, total: int, *, round_up: bool) -> int:
    """Convert an IntOrString to a number, resolving a percentage of ``total``. Any other value counts as 0.

    >>> resolve_int_or_percent("50%", 7, round_up=True)
    4
    >>> resolve_int_or_percent("25%", 3, round_up=False)
    0
    """
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}%", value):
        hundredths = int(value.removesuffix("%")) * total
        return -(-hundredths // 100) if round_up else hundredths // 100
    return value if isinstance(value, int) else 0


def read_workload(subject: Subject) -> Workload | None:
    """Read a manifest as a workload, or return None if it is not one of the built-in workload kinds.

    Raises InvalidFieldError if a field has the wrong type.
    """
    template_path = POD_TEMPLATE_PATHS.get(subject.kind)
    if template_path is None or not has_built_in_group(subject):
        return None
    template = object_at(subject.document, *template_path)
    metadata = object_at(template, "metadata")
    template_fields = {"metadata": drop_nulls(metadata), "spec": drop_nulls(template.get("spec") or {})}
    typed = convert_field(template_path, template_fields, api.PodTemplateSpec)

    # A pod of a cluster has fields that the API server added
    spec = typed.spec
    is_stored_pod = subject.kind == "Pod" and "status" in subject.document
    if is_stored_pod:
        spec = to_written_spec(api.Pod(api.PodMeta(labels=typed.metadata.labels), spec))
    return Workload(
        subject,
        typed.metadata.labels,
        spec,
        _read_replicas(subject),
        template_path=template_path,
        annotations=object_at(metadata, "annotations"),
        owned=any(owner.controller for owner in _read_owners(subject)),
        disk_volumes=_find_disk_volumes((*template_path, "spec"), template_fields["spec"]),
        strategy=_read_strategy(subject),
    )


def _find_disk_volumes(at: Path, spec: object) -> dict[int, str]:
    """Return the emptyDir volumes that are not in memory, by their index."""
    volumes = convert_field(at, spec, _Volumes).volumes
    return {i: v.name for i, v in enumerate(volumes) if v.empty_dir is not None and v.empty_dir.medium != "Memory"}


def _read_strategy(subject: Subject) -> UpdateStrategy:
    """Read the update strategy of a Deployment, or return the default one for other kinds."""
    strategy = field_at(subject.document, "spec", "strategy") if subject.kind == "Deployment" else None
    return convert_field(("spec", "strategy"), drop_nulls(strategy or {}), UpdateStrategy)


def has_built_in_group(subject: Subject) -> bool:
    """Return whether the object's API group is built in. A custom resource may have the kind of a built-in object."""
    return subject.group in ("", "apps", "batch", "extensions")


def _read_replicas(subject: Subject) -> int | None:
    """Read the number of pods of a built-in workload, by default 1. Return None for a DaemonSet.

    Raises InvalidFieldError if the number is not an integer.
    """
    if subject.kind == "DaemonSet":
        return None
    if subject.kind in ("Pod", "PodTemplate"):
        return 1
    path: Path = POD_TEMPLATE_PATHS[subject.kind][:-1]
    spec = object_at(subject.document, *path)
    key = "parallelism" if subject.kind in ("Job", "CronJob") else "replicas"
    if spec.get(key) is None:
        return 1
    return convert_field((*path, key), spec[key], int)


def _read_owners(subject: Subject) -> tuple[api.OwnerReference, ...]:
    """Read the owner references."""
    owners = field_at(subject.document, "metadata", "ownerReferences") or ()
    return convert_field(("metadata", "ownerReferences"), drop_nulls(owners), tuple[api.OwnerReference, ...])


class InvalidFieldError(Exception):
    """A field of a manifest has the wrong type."""

    def __init__(self, path: Path, what: str, fix: str = "", replacement: str = "") -> None:
        super().__init__(f"{format_path(path)}: {what}" if path else what)
        self.path, self.what = path, what
        self.fix = fix
        """The correction of the field; empty if only the message says it."""
        self.replacement = replacement
        """The integer to write; empty unless the field has it in quotes."""


def convert_field(base_path: Path, value: object, into: type[T]) -> T:
    """Convert the value at ``base_path`` of an object to a type.

    Raises InvalidFieldError, which names the faulty field within the value.
    """
    try:
        return convert_builtins(value, into)
    except msgspec.ValidationError as error:
        mismatch = locate_mismatch(value, error)
        message = describe_type_mismatch(mismatch.message)
        fix, replacement = _advise_on_quotes(message, field_at(value, *mismatch.path))
        raise InvalidFieldError((*base_path, *mismatch.path), message, fix, replacement) from None


def describe_type_mismatch(message: str) -> str:
    """Return msgspec's message about a value of the wrong type with the types in plain words.

    >>> describe_type_mismatch("Expected `int | null`, got `str`")
    'expected an integer, got a string'
    >>> describe_type_mismatch("Object missing required field `name`")
    'object missing required field name'
    """
    without_null = message.replace(" | null`", "`").replace("`null | ", "`")
    text = re.sub(r"`([a-z |]+)`", _translate_type_names, without_null)
    return (text[:1].lower() + text[1:]).replace("`", "")


def _translate_type_names(types: re.Match[str]) -> str:
    """Return msgspec's names of types, which are separated by bars, in plain words. Unknown names stay as they are."""
    return " or ".join(_TYPE_WORDS.get(name, name) for name in types[1].split(" | "))


def _advise_on_quotes(message: str, value: object) -> tuple[str, str]:
    """Return advice to remove or add the quotes around a value of the wrong type, and the integer to write instead.

    Each is "" if it does not apply.

    >>> _advise_on_quotes("expected an integer, got a string", "3")
    ('Write 3, without quotes', '3')
    >>> _advise_on_quotes("expected a string, got a boolean", True)
    ('Write "true", with quotes', '')
    """
    if message.startswith("expected an integer") and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return f"Write {value}, without quotes", value
    if message.startswith("expected a boolean") and value in ("true", "false"):
        return f"Write {value}, without quotes", ""
    if message.startswith("expected a string") and isinstance(value, bool | int | float):
        return f'Write "{str(value).lower()}", with quotes', ""
    return "", ""


def compile_selector(selector: api.LabelSelector | None) -> Selector | None:
    """Compile a selector, or return None if the API server would reject it."""
    try:
        return selector_from_api(selector)
    except SelectorError:
        return None


QuantityFields = Iterator[tuple[Path, api.Resources]]
"""Pairs of a field's path and the quantities that it holds by resource name."""


def parse_valid_quantities(resources: api.Resources) -> dict[str, Quantity]:
    """Parse the quantities of resources, and leave out invalid quantities, which are reported separately."""
    amounts: dict[str, Quantity] = {}
    for name, text in resources.items():
        with suppress(QuantityError):
            amounts |= parse_quantities({name: text})
    return amounts


def find_invalid_requests(workload: Workload) -> Iterator[Problem]:
    """Yield a problem for each request, limit or overhead that is not a valid quantity."""
    return _find_invalid_quantities(workload.subject, _iter_pod_quantities(workload))


def find_invalid_storage(subject: Subject, value: object) -> Iterator[Problem]:
    """Yield a problem for each invalid quantity that a claim requests or a volume provides."""
    return _find_invalid_quantities(subject, _iter_storage_quantities(value))


def explain_uncountable_requests(workload: Workload) -> str:
    """Explain why the total requests of a pod cannot be computed, or return "" if they can.

    The reason is an invalid or negative quantity, or a total too large for any node.
    """
    try:
        convert_to_amounts(compute_pod_requests(workload.pod))
    except QuantityError as error:
        return f"{format_path(workload.get_path('containers'))}: {error.what}"
    return ""


def has_negative_quantity(workload: Workload) -> bool:
    """Return whether any request or limit of the pod is negative. Invalid quantities are ignored."""
    return any(
        amount.mantissa < 0
        for _, resources in _iter_pod_quantities(workload)
        for amount in parse_quantities(resources).values()
    )


def _find_invalid_quantities(subject: Subject, fields: QuantityFields) -> Iterator[Problem]:
    """Yield a problem for each value in these fields of the subject that is not a valid quantity."""
    for path, resources in fields:
        for name, text in resources.items():
            try:
                parse_quantities({name: text})
            except QuantityError as error:
                quantity_path = (*path, name)
                yield subject.build_problem(quantity_path, f"{format_path(quantity_path)}: {text}: {error.what}")


def _iter_pod_quantities(workload: Workload) -> QuantityFields:
    """Yield the requests, limits and overhead of a workload's pod, with their paths from the root of the object."""
    yield from ((workload.get_path(*path), resources) for path, resources in iter_requests_and_limits(workload))
    yield workload.get_path("overhead"), workload.spec.overhead


def iter_requests_and_limits(workload: Workload) -> QuantityFields:
    """Yield the requests and limits of each container, then of the whole pod, with their paths in the pod's spec."""
    for path, container in workload.containers:
        yield (*path, "resources", "requests"), container.resources.requests
        yield (*path, "resources", "limits"), container.resources.limits
    if workload.spec.resources is not None:
        yield ("resources", "requests"), workload.spec.resources.requests
        yield ("resources", "limits"), workload.spec.resources.limits


def _iter_storage_quantities(value: object) -> QuantityFields:
    """Yield the requests of a PersistentVolumeClaim or the capacity of a PersistentVolume, with the path.

    Any other object yields nothing.
    """
    if isinstance(value, api.PersistentVolumeClaim):
        yield ("spec", "resources", "requests"), value.spec.resources.requests
    elif isinstance(value, api.PersistentVolume):
        yield ("spec", "capacity"), value.spec.capacity
