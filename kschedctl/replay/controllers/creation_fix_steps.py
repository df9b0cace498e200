"""Steps that might help against the denial of a pod, chosen by the API server's message.

The steps are only suggestions here; `creation_fixes` replays them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from kschedctl.admission import defaults, limit_ranger
from kschedctl.admission.node_selector import parse_node_selector_of_namespace
from kschedctl.admission.pod_security import ENFORCE, LEVELS, Standard, get_enforced_standard
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.admission.resource_quota import find_allowed_amounts
from kschedctl.api.json_values import Json, JsonObject, drop_nulls, object_at
from kschedctl.api.objects import (
    LimitRangeItem,
    Namespace,
    ObjectMeta,
    PriorityClass,
    Resources,
    RuntimeClass,
    ServiceAccount,
    Struct,
)
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.priority import SYSTEM_CLASSES, SYSTEM_PREFIX
from kschedctl.api.quantity import MILLI, Quantity, parse_quantity
from kschedctl.api.resource_names import CPU, format_amounts_for_sentence
from kschedctl.cluster import Cluster
from kschedctl.replay.edits import ObjectKey
from kschedctl.text.counts import first_few, join_words

_SETTING = "|".join(
    (
        r"allowPrivilegeEscalation != false \([^()]* must set securityContext\.allowPrivilegeEscalation=false\)",
        r'unrestricted capabilities \([^()]* must set securityContext\.capabilities\.drop=\["ALL"\]\)',
        r"runAsNonRoot != true \(pod or [^()]* must set securityContext\.runAsNonRoot=true\)",
        r"seccompProfile \(pod or [^()]* must set securityContext\.seccompProfile\.type to [^()]*\)",
    )
)
_ONLY_SETTINGS = re.compile(rf"(?:{_SETTING})(?:, (?:{_SETTING}))*")
"""Matches what level restricted says of a pod that lacks only settings. Upstream: pod-security-admission/policy."""
SERVICE_ACCOUNT_MISSING = "error looking up service account"
POD_SECURITY_VIOLATED = "violates PodSecurity"
NAME_SIMILARITY = 0.75
"""The minimum similarity (0 to 1) at which one name is taken for another."""
_MAX_REDUCTION_FACTOR = 4
"""No amount is lowered to less than a quarter of what it was."""


class StepKind(StrEnum):
    """The kinds of fix steps. Users refer to these kinds to choose among fixes."""

    CREATE_SERVICE_ACCOUNT = "CreateServiceAccount"
    CREATE_PRIORITY_CLASS = "CreatePriorityClass"
    CORRECT_PRIORITY_CLASS = "CorrectPriorityClass"
    DROP_PRIORITY_CLASS = "DropPriorityClass"
    CREATE_RUNTIME_CLASS = "CreateRuntimeClass"
    CORRECT_RUNTIME_CLASS = "CorrectRuntimeClass"
    CREATE_NAMESPACE = "CreateNamespace"
    OTHER_NODE_SELECTOR = "OtherNodeSelector"
    DROP_OVERHEAD = "DropOverhead"
    DROP_HOST_ACCESS = "DropHostAccess"
    SET_SECURITY_CONTEXT = "SetSecurityContext"
    ENFORCE_LESS = "EnforceLess"
    FEWER_REPLICAS = "FewerReplicas"
    SET_RESOURCES = "SetResources"
    OTHER_RESOURCES = "OtherResources"
    RAISE_RESOURCE_QUOTA = "RaiseResourceQuota"


SpecEdit = Callable[[Writable], None]
"""A function that changes a pod spec in place."""


class FixObjectChange(NamedTuple):
    """The change or creation of an object other than the pod."""

    before: Struct | None
    """None if the object is created."""
    after: Struct
    extra_fields: Mapping[str, Json] = {}
    """Fields of a created object that are not read for its kind."""

    @property
    def name(self) -> str:
        """The object's name."""
        return ObjectKey.of(self.after).name  # type: ignore[arg-type]


class FixStep(NamedTuple):
    """One step of a fix."""

    kind: StepKind
    summary: str
    """The step in words."""
    edit: SpecEdit | None = None
    """Changes the pod spec; None if the step changes other objects."""
    objects: tuple[FixObjectChange, ...] = ()
    """Changes of other objects."""
    weakens: str = ""
    """The guarantee that the step gives up, empty for none."""
    settings: tuple[ResourceSetting, ...] = ()
    """The requests and limits that the step sets; empty unless its kind is OTHER_RESOURCES."""

    @property
    def by(self) -> str:
        """``author`` if the step edits the pod's manifest, else ``operator``."""
        return "author" if self.edit is not None else "operator"


class DeniedPod(NamedTuple):
    """A pod manifest that the API server denies, and its message."""

    cluster: Cluster
    namespace: str
    manifest: JsonObject
    message: str

    @property
    def spec(self) -> JsonObject:
        """The spec in the manifest."""
        return object_at(self.manifest, "spec")


def suggest_steps(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield steps that might help against the denial, the best first, according to a phrase in the message.

    A message without a known phrase is treated as a denial by a LimitRange.
    """
    for phrase, suggest in _SUGGESTIONS.items():
        if phrase in denied.message:
            yield from suggest(denied)
            return
    yield from _suggest_resources(denied)


# -- objects that are not there --------------------------------------------------------------------------------------


def _build_creation_step(created: Any, remark: str = "", extra_fields: Mapping[str, Json] = {}) -> FixStep:
    """Build the step that creates an object. ``remark`` follows the summary.

    ``extra_fields`` are fields of the manifest that are not read for objects of this kind.
    """
    return FixStep(
        StepKind(f"Create{type(created).__name__}"),
        f"create {ObjectKey.of(created)}{remark}",
        objects=(FixObjectChange(before=None, after=created, extra_fields=extra_fields),),
    )


def _suggest_namespace(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield the step that creates the pod's namespace."""
    yield _build_creation_step(Namespace(ObjectMeta(denied.namespace)))


def _suggest_service_account(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield the step that creates the missing ServiceAccount."""
    name = denied.message.rpartition('serviceaccount "')[2].partition('"')[0]
    yield _build_creation_step(ServiceAccount(ObjectMeta(name, denied.namespace)))


def _suggest_priority_class(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield the steps against a missing PriorityClass: use an existing one, and create the missing one.

    The first step uses the class with the most similar name. If no name is similar, it leaves the class out, and lists
    the classes that could be named instead. A class whose name is reserved for the system cannot be created.
    """
    name = str(denied.spec.get("priorityClassName"))
    classes = denied.cluster.priority_classes
    existing_names = [priority_class.metadata.name for priority_class in (*classes, *SYSTEM_CLASSES)]
    similar_names = get_close_matches(name, existing_names, n=1, cutoff=NAME_SIMILARITY)
    for similar_name in similar_names:
        summary = f"use PriorityClass {similar_name} instead of {name}, which does not exist"
        yield FixStep(
            StepKind.CORRECT_PRIORITY_CLASS, summary, partial(_set_class_field, "priorityClassName", similar_name)
        )
    if not similar_names:
        yield FixStep(
            StepKind.DROP_PRIORITY_CLASS, _describe_dropped_priority_class(name, classes), _drop_priority_class
        )
    if name.startswith(SYSTEM_PREFIX):
        return
    yield _build_creation_step(
        PriorityClass(ObjectMeta(name)), ", here with value 0, which pods without a class have", {"value": 0}
    )


def _describe_dropped_priority_class(name: str, classes: Sequence[PriorityClass]) -> str:
    """Describe the step that leaves out the PriorityClass, with the resulting priority and the existing classes."""
    default = min(
        (priority_class for priority_class in classes if priority_class.global_default),
        key=lambda priority_class: priority_class.value,
        default=None,
    )
    effect = "the priority is 0"
    if default is not None:
        effect = f"the pods get the default class {default.metadata.name} ({default.value:,})"
    text = f"leave out priorityClassName {name}, so that {effect}"
    # The system's own components have the classes with this prefix
    usable = [
        priority_class
        for priority_class in classes
        if priority_class != default and not priority_class.metadata.name.startswith(SYSTEM_PREFIX)
    ]
    if usable:
        usable.sort(key=lambda priority_class: (priority_class.value, priority_class.metadata.name))
        descriptions = [f"{priority_class.metadata.name} ({priority_class.value:,})" for priority_class in usable]
        text += f", or name a class that exists: {first_few(descriptions)}"
    return text


def _drop_priority_class(spec: Writable) -> None:
    """Remove the PriorityClass from the pod spec."""
    spec.pop("priorityClassName", None)


def _set_class_field(field: str, name: str, spec: Writable) -> None:
    """Set a field of the pod spec that names a class."""
    spec[field] = name


def _suggest_runtime_class(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield steps that correct or create the RuntimeClass, or drop a conflicting overhead from the pod.

    Nothing is yielded unless the message says that the class does not exist or names the overhead.
    """
    name = str(denied.spec.get("runtimeClassName"))
    if f'RuntimeClass "{name}" not found' in denied.message:
        existing_names = [runtime_class.metadata.name for runtime_class in denied.cluster.runtime_classes]
        for similar_name in get_close_matches(name, existing_names, n=1, cutoff=NAME_SIMILARITY):
            summary = f"use RuntimeClass {similar_name} instead of {name}, which does not exist"
            yield FixStep(
                StepKind.CORRECT_RUNTIME_CLASS, summary, partial(_set_class_field, "runtimeClassName", similar_name)
            )
        remark = ", here with a handler of that name, which the container runtimes of the nodes have to know"
        yield _build_creation_step(RuntimeClass(ObjectMeta(name)), remark, {"handler": name})
    elif "Overhead" in denied.message:
        yield FixStep(StepKind.DROP_OVERHEAD, "leave overhead to the RuntimeClass", _drop_overhead)


def _drop_overhead(spec: Writable) -> None:
    """Remove the overhead from the pod spec."""
    spec.pop("overhead", None)


def _suggest_runtime_selector(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield the step that sets a conflicting nodeSelector label to the value that the RuntimeClass demands."""
    # "… runtimeClass.scheduling.nodeSelector[KEY] = VALUE; pod.spec.nodeSelector[KEY] = OTHER"
    class_part, _, _ = denied.message.rpartition("nodeSelector[")
    _, _, assignment = class_part.partition("nodeSelector[")
    key, _, value = assignment.partition("] = ")
    value, _, _ = value.partition(";")
    summary = f"set nodeSelector {key}={value} to match RuntimeClass {denied.spec.get('runtimeClassName')}"
    yield FixStep(StepKind.OTHER_NODE_SELECTOR, summary, partial(_set_node_selector, {key: value}))


def _suggest_node_selector_of_namespace(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield the step that sets conflicting nodeSelector labels to the values in the namespace's node selector.

    The namespace's node selector is an annotation that the admission plugin PodNodeSelector reads.
    """
    request = AdmissionRequest(denied.cluster, "Pod", obj={}, namespace=denied.namespace)
    pod_selector: Any = denied.spec.get("nodeSelector") or {}
    namespace_selector = parse_node_selector_of_namespace(request)
    conflicting = {key: value for key, value in namespace_selector.items() if pod_selector.get(key, value) != value}
    listed = ",".join(f"{key}={value}" for key, value in conflicting.items())
    yield FixStep(
        StepKind.OTHER_NODE_SELECTOR,
        f"set nodeSelector {listed} to match the namespace",
        partial(_set_node_selector, conflicting),
    )


def _set_node_selector(labels: Mapping[str, str], spec: Writable) -> None:
    """Add labels to the node selector of the pod spec."""
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **labels}


# -- Pod Security ----------------------------------------------------------------------------------------------------


def _suggest_pod_security_steps(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield a step that makes the pod meet the Pod Security level, and one that enforces a weaker level.

    The first step sets the required security context. If the pod would still violate the level, the first step drops
    access to the host instead. The weaker level is the strictest one that admits the pod. Either step may be missing.
    Nothing is yielded if the namespace was not read.
    """
    namespace = _find_namespace(denied)
    if namespace is None:
        return
    standard = get_enforced_standard(namespace.metadata.labels)
    if not standard.describe_violations(_apply_restricted_context(denied.manifest)):
        yield _build_security_step(denied)
    else:
        yield from _suggest_dropping_host_access(denied, standard)
    weaker_levels = LEVELS[: LEVELS.index(standard.level)]  # from the weakest to the strictest
    for level in reversed(weaker_levels):
        if not standard._replace(level=level).describe_violations(denied.manifest):
            yield _build_weaker_level_step(namespace, standard.level, level)
            return


class _HostAccess(NamedTuple):
    """A kind of access to the host that level baseline forbids."""

    summary: str
    weakens: str
    """The abilities that the pods lose."""
    drop: SpecEdit


def _suggest_dropping_host_access(denied: DeniedPod, standard: Standard) -> Iterator[FixStep]:
    """Yield the step that drops all access to the host that the pod has and the standard forbids.

    Nothing is yielded unless the pod then meets the standard, perhaps with the security context of level restricted.
    """
    manifest: Writable = copy.deepcopy(dict(denied.manifest))
    dropped = []
    # Drop each access whose removal changes the violations
    for access in _HOST_ACCESS:
        changed = copy.deepcopy(manifest)
        access.drop(changed.setdefault("spec", {}))
        if standard.describe_violations(changed) != standard.describe_violations(manifest):
            manifest = changed
            dropped.append(access)
    if not dropped or standard.describe_violations(_apply_restricted_context(manifest)):
        return

    def drop_all(spec: Writable) -> None:
        """Drop the access to the host in the pod spec."""
        for access in dropped:
            access.drop(spec)

    summary = f"drop {join_words([access.summary for access in dropped])}"
    weakens = f"the pods can no longer {join_words([access.weakens for access in dropped])}"
    yield FixStep(StepKind.DROP_HOST_ACCESS, summary, drop_all, weakens=weakens)


def _drop_spec_field(name: str, spec: Writable) -> None:
    """Remove a field of the pod spec."""
    spec.pop(name, None)


def _drop_privileges(spec: Writable) -> None:
    """Make all containers of the pod spec unprivileged."""
    for container in _list_containers(spec):
        (container.get("securityContext") or {}).pop("privileged", None)


def _drop_host_ports(spec: Writable) -> None:
    """Remove the host ports of all containers in the pod spec."""
    for container in _list_containers(spec):
        for port in container.get("ports") or ():
            port.pop("hostPort", None)


_HOST_ACCESS = (
    _HostAccess("hostNetwork", "use the node's network", partial(_drop_spec_field, "hostNetwork")),
    _HostAccess("hostPID", "see the node's processes", partial(_drop_spec_field, "hostPID")),
    _HostAccess("hostIPC", "share memory with the node's processes", partial(_drop_spec_field, "hostIPC")),
    _HostAccess("privileged", "use the node's devices and kernel", _drop_privileges),
    _HostAccess("hostPort", "be reached at ports of the node", _drop_host_ports),
)


def _find_namespace(denied: DeniedPod) -> Namespace | None:
    """Return the pod's namespace, or None if it does not exist or was not read."""
    namespaces = (namespace for namespace in denied.cluster.namespaces if namespace.metadata.name == denied.namespace)
    return next(namespaces, None)


def suggest_pod_security_steps_from_message(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield steps against a violation of Pod Security, judging only by the denial message.

    This is for pods whose security context is unknown. Nothing is yielded unless the message names only settings that
    the steps can change.
    """
    # A message is `... violates PodSecurity "restricted:latest": runAsNonRoot != true (...), seccompProfile (...)`.
    _, _, violation = denied.message.partition(f'{POD_SECURITY_VIOLATED} "')
    level, _, missing_settings = violation.partition(": ")
    if not _ONLY_SETTINGS.fullmatch(missing_settings):
        return

    yield _build_security_step(denied, with_seccomp="seccompProfile" in missing_settings)

    namespace = _find_namespace(denied)
    if namespace is not None and level.startswith("restricted"):
        # Level baseline requires none of these settings.
        yield _build_weaker_level_step(namespace, "restricted", "baseline")


def _build_security_step(denied: DeniedPod, *, with_seccomp: bool = True) -> FixStep:
    """Build the step that sets the security context of level restricted, with or without the seccomp profile.

    The step's text says that the image must support the context.
    """
    names = ", ".join(str(container.get("name", "")) for container in _list_containers(denied.spec))
    container_settings = f"allowPrivilegeEscalation=false and capabilities.drop=[ALL] of {names}"
    seccomp = " and seccompProfile.type=RuntimeDefault" if with_seccomp else ""
    summary = f"set securityContext: runAsNonRoot=true{seccomp} of the pod, {container_settings}"
    return FixStep(
        StepKind.SET_SECURITY_CONTEXT,
        f"{summary} (the image has to run as a user other than root)",
        _set_restricted_context if with_seccomp else _set_restricted_context_without_seccomp,
    )


def _apply_restricted_context(manifest: JsonObject) -> JsonObject:
    """Return the manifest with the security context of level restricted."""
    changed: Writable = copy.deepcopy(dict(manifest))
    _set_restricted_context(changed.setdefault("spec", {}))
    return changed


def _build_weaker_level_step(namespace: Namespace, before: str, level: str) -> FixStep:
    """Build the step that enforces a weaker Pod Security level in the namespace instead of the level ``before``."""
    meta = namespace.metadata
    after = replace(namespace, metadata=replace(meta, labels={**meta.labels, ENFORCE: level}))
    summary = f"enforce Pod Security {level} in namespace {meta.name} instead of {before}"
    weakens = f"all pods of namespace {meta.name} may do what {before} forbids"
    return FixStep(StepKind.ENFORCE_LESS, summary, objects=(FixObjectChange(namespace, after),), weakens=weakens)


def _set_restricted_context(spec: Writable) -> None:
    """Set the security context of level restricted in the pod spec. A seccomp profile that is set stays."""
    _set_restricted_context_without_seccomp(spec)
    spec["securityContext"].setdefault("seccompProfile", {"type": "RuntimeDefault"})


def _set_restricted_context_without_seccomp(spec: Writable) -> None:
    """Set the security context of level restricted except for the seccomp profile."""
    spec.setdefault("securityContext", {})["runAsNonRoot"] = True
    for container in _list_containers(spec):
        context: Writable = container.setdefault("securityContext", {})
        context["allowPrivilegeEscalation"] = False
        context.setdefault("capabilities", {})["drop"] = ["ALL"]


def _list_containers(spec: JsonObject) -> list[Writable]:
    """Return the containers and init containers of a pod spec."""
    containers: list[Writable] = []
    for part in ("containers", "initContainers"):
        containers += spec.get(part) or []  # type: ignore[arg-type]
    return containers


# -- LimitRanges -----------------------------------------------------------------------------------------------------


def _suggest_resources(denied: DeniedPod) -> Iterator[FixStep]:
    """Yield the step that sets the nearest requests and limits that all LimitRanges allow, if any have to change."""
    settings = find_settings_to_fit_limit_ranges(denied.cluster, denied.namespace, denied.manifest)
    if settings:
        yield _build_resources_step(settings)


def suggest_smaller_requests(stored: AdmissionRequest, count: int, extra: int | Fraction = 0) -> FixStep | None:
    """Return the step that lowers requests and limits so that quotas suffice for ``count`` pods like the stored one.

    The lowered amounts leave room for ``extra`` more pods, as old pods of a rollout may need, and a fraction for a part
    of a pod. In each resource, the largest container takes the whole change. Return None if nothing has to be lowered,
    or if less than a quarter of an amount would remain. Return None as well if quotas deny the pods for something other
    than CPU, memory or ephemeral storage.
    """
    containers = {str(container.get("name", "")): container.get("resources") or {} for container in stored.containers}
    original = {
        name: {part: parse_quantities(resources.get(part) or {}) for part in PARTS}
        for name, resources in containers.items()
    }
    lowered = copy.deepcopy(original)
    if not all(map(_is_divisible_resource, find_allowed_amounts(stored, count))):
        return None
    for quota_name, allowed in find_allowed_amounts(stored, count + extra).items():
        if not _is_divisible_resource(quota_name):
            continue  # such as the number of pods, which suffices without the extra ones
        # Such as "limits.cpu" or "requests.cpu". "cpu" alone stands for a request
        part, _, resource = quota_name.rpartition(".")
        part = part or REQUESTS
        if not _lower_largest_amount(list(lowered.values()), part, resource, allowed):
            return None
    settings = list(_iter_changed_settings(original, lowered, containers))
    return _build_resources_step(settings) if settings else None


def _lower_largest_amount(
    containers: Sequence[dict[str, Quantities]], part: str, resource: str, allowed: Quantity
) -> bool:
    """Lower the largest container's request or limit until the containers together have the allowed amount.

    ``part`` says whether requests or limits are lowered. If a limit is lowered below the container's request, the
    request is lowered with it. Return False, without a change, if less than a quarter of the largest amount would
    remain.
    """
    excess = _sum_resource_amounts(containers, part, resource).sub(allowed)
    largest = max(containers, key=partial(_get_amount, part, resource))
    amount = _get_amount(part, resource, largest)
    if excess > ZERO:
        remaining = amount.sub(excess)
        if remaining.milli_value() * _MAX_REDUCTION_FACTOR < amount.milli_value() or remaining == ZERO:
            return False
        largest[part][resource] = remaining
    requests, limits = largest[REQUESTS], largest[LIMITS]
    if part == LIMITS and resource in requests:
        requests[resource] = min(requests[resource], limits[resource])
    return True


_DIVISIBLE_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources of which a container can often do with less."""


def _is_divisible_resource(quota_name: str) -> bool:
    """Return whether the quota limits requests or limits of a resource in `_DIVISIBLE_RESOURCES`."""
    part, _, resource = quota_name.rpartition(".")
    return (part or REQUESTS) in PARTS and resource in _DIVISIBLE_RESOURCES


def _set_resources(settings: list[ResourceSetting], spec: Writable) -> None:
    """Set requests and limits of the named containers in the pod spec."""
    for setting in settings:
        container = next(
            candidate for candidate in _list_containers(spec) if candidate.get("name") == setting.container
        )
        container.setdefault("resources", {}).setdefault(setting.part, {})[setting.resource] = setting.amount


_SUGGESTIONS: Mapping[str, Callable[[DeniedPod], Iterator[FixStep]]] = {
    SERVICE_ACCOUNT_MISSING: _suggest_service_account,
    "conflict: runtimeClass.scheduling.nodeSelector": _suggest_runtime_selector,
    "conflicts with its namespace node label selector": _suggest_node_selector_of_namespace,
    'namespaces "': _suggest_namespace,
    "pod rejected: Pod": _suggest_runtime_class,
    "no PriorityClass with name": _suggest_priority_class,
    "pod rejected: RuntimeClass": _suggest_runtime_class,
    POD_SECURITY_VIOLATED: _suggest_pod_security_steps,
}
"""Phrase of a denial message -> function that suggests steps."""


# -- the nearest amounts that LimitRanges allow ------------------------------------------------------------------------


REQUESTS, LIMITS = "requests", "limits"
PARTS = (REQUESTS, LIMITS)
ZERO = Quantity(0)


class ResourceSetting(NamedTuple):
    """A request or limit that a container should set."""

    container: str
    """The container's name."""
    part: str
    """``requests`` or ``limits``."""
    resource: str
    amount: str
    before: str
    """The old amount, or an empty string if there is none."""
    is_default: bool
    """True if the old amount is a default, which the manifest does not have."""
    location: str
    """A clause that names the container if the pod has several, or an empty string."""

    @property
    def description(self) -> str:
        """The change in words, with the old amount."""
        amounts = [
            amount.milli_value() if self.resource == CPU else amount.value()
            for amount in map(parse_quantity, filter(None, (self.amount, self.before)))
        ]
        formatted = format_amounts_for_sentence(self.resource, *amounts)
        number, *before_numbers = formatted.numbers
        if self.resource == CPU:  # exact, because a rounded request could exceed a quota
            number, *before_numbers = (f"{Decimal(amount) / 1000:f}" for amount in amounts)
        if self.part == REQUESTS:
            change = f"request {number} {formatted.unit}"
        else:
            change = f"limit {'CPU' if self.resource == CPU else self.resource} to {number}{formatted.unit_suffix}"
        for before_number in before_numbers:
            default = "the default of " if self.is_default else ""
            change += f" instead of {default}{before_number}{formatted.unit_suffix}"
        return f"{change}{self.location}"


class _Bounds(NamedTuple):
    """The bounds that all LimitRange items of a type set for one resource."""

    minimum: Quantity | None
    maximum: Quantity | None
    max_ratio: Quantity | None
    """The highest allowed ratio of limit to request."""


class _RequestAndLimit(NamedTuple):
    """The request and the limit of a container for one resource."""

    request: Quantity | None
    limit: Quantity | None


def find_settings_to_fit_limit_ranges(cluster: Cluster, namespace: str, manifest: JsonObject) -> list[ResourceSetting]:
    """Return the container settings that have to change for the pod to satisfy all LimitRanges of the namespace.

    Defaults that admission adds to the manifest are taken into account. The list is empty if nothing has to change or
    if the LimitRanges are unknown.
    """
    ranges = tuple(map(limit_ranger.with_api_defaults, cluster.list_in_namespace("limit_ranges", namespace)))
    if not ranges:
        return []

    # The amounts that the containers have after admission added defaults
    request = AdmissionRequest(cluster, "Pod", copy.deepcopy(dict(drop_nulls(manifest))), namespace, ranges)
    containers = (*request.containers, *request.init_containers)
    written = {
        str(container.get("name", "")): copy.deepcopy(container.get("resources") or {}) for container in containers
    }
    defaults.set_defaults(request)
    limit_ranger.add_default_resources(request)
    original_amounts = _read_container_amounts(request)

    # Fit a second copy of the amounts, which is changed in place: each container, then the sums of the regular ones
    amounts_by_container = _read_container_amounts(request)
    items = [item for limit_range in ranges for item in limit_range.spec.limits]
    for amounts in amounts_by_container.values():
        _fit_container_to_limit_range(amounts, [item for item in items if item.type == limit_ranger.CONTAINER_TYPE])
    regular = [amounts_by_container[str(container.get("name", ""))] for container in request.containers]
    for item in items:
        if item.type == limit_ranger.POD_TYPE:
            _fit_container_sums_to_limit_range(regular, item)
    return list(_iter_changed_settings(original_amounts, amounts_by_container, written))


def _read_container_amounts(request: AdmissionRequest) -> dict[str, dict[str, Quantities]]:
    """Return the requests and limits of each container and init container, by container name."""
    amounts_by_container = {}
    for container in (*request.containers, *request.init_containers):
        resources = container.get("resources") or {}
        amounts = {part: parse_quantities(resources.get(part) or {}) for part in PARTS}
        amounts_by_container[str(container.get("name", ""))] = amounts
    return amounts_by_container


def _fit_container_to_limit_range(amounts: dict[str, Quantities], items: Sequence[LimitRangeItem]) -> None:
    """Change the amounts of one container so that they are within the bounds of the LimitRange items."""
    bounded_resources = {name for item in items for name in (*item.min, *item.max, *item.max_limit_request_ratio)}
    for name in sorted(bounded_resources.union(*amounts.values())):
        original = _RequestAndLimit(amounts[REQUESTS].get(name), amounts[LIMITS].get(name))
        fitted = _clamp_request_and_limit(original, _combine_limit_range_bounds(name, items), name)
        for part, amount in zip(PARTS, fitted, strict=True):
            if amount is not None:
                amounts[part][name] = amount


def _combine_limit_range_bounds(name: str, items: Sequence[LimitRangeItem]) -> _Bounds:
    """Return the strictest bounds that the LimitRange items set for the resource with this name."""
    minima = [parse_quantities(item.min)[name] for item in items if name in item.min]
    maxima = [parse_quantities(item.max)[name] for item in items if name in item.max]
    ratio_maps = (item.max_limit_request_ratio for item in items)
    ratios = [parse_quantities(ratio_map)[name] for ratio_map in ratio_maps if name in ratio_map]
    return _Bounds(max(minima, default=None), min(maxima, default=None), min(ratios, default=None))


def _clamp_request_and_limit(amounts: _RequestAndLimit, bounds: _Bounds, resource: str) -> _RequestAndLimit:
    """Clamp the request and the limit to the bounds, and raise the request if the ratio requires it.

    ``resource`` decides how a raised request is rounded. The limit is raised to the request if it is lower. A missing
    request is set if there is a minimum. A missing limit stays missing.
    """
    request, limit = amounts
    if bounds.maximum is not None and request is not None:
        request = min(request, bounds.maximum)
    if bounds.maximum is not None and limit is not None:
        limit = min(limit, bounds.maximum)
    if bounds.minimum is not None:
        request = max(request or ZERO, bounds.minimum)
    if request is not None and limit is not None:
        limit = max(limit, request)
        if bounds.max_ratio is not None and bounds.max_ratio > ZERO:
            request = max(request, _compute_least_request(limit, bounds.max_ratio, resource))
    return _RequestAndLimit(request, limit)


def _compute_least_request(limit: Quantity, ratio: Quantity, resource: str) -> Quantity:
    """Return the lowest request that the ratio allows for this limit, rounded up. CPU is counted in millicores."""
    # -(-a // b) is a / b rounded up. The factor 1000 cancels the milli-units of the ratio.
    if resource == "cpu":
        return Quantity(-(-limit.milli_value() * 1000 // ratio.milli_value()), MILLI)
    return Quantity(-(-limit.value() * 1000 // ratio.milli_value()), 0, limit.format)


def _fit_container_sums_to_limit_range(containers: list[dict[str, Quantities]], item: LimitRangeItem) -> None:
    """Change the containers' amounts so that their sums are within an item's bounds.

    The largest container takes the whole change.
    """
    for name, maximum in parse_quantities(item.max).items():
        _lower_largest_container_to_maximum(containers, name, maximum)
    for name, minimum in parse_quantities(item.min).items():
        _raise_largest_request_to_minimum(containers, name, minimum)


def _lower_largest_container_to_maximum(containers: list[dict[str, Quantities]], name: str, maximum: Quantity) -> None:
    """Lower the limit and the request of the largest container if their sums exceed the maximum.

    ``name`` is the resource. The maximum also applies to limits, so a container with a request but no limit first gets
    its request as the limit. An amount stays if lowering it would leave nothing. In the end, no request exceeds its
    limit.
    """
    for container in containers:
        requests, limits = container[REQUESTS], container[LIMITS]
        if name in requests:
            limits.setdefault(name, requests[name])

    # Take the excess from the largest container
    for part in (LIMITS, REQUESTS):
        excess = _sum_resource_amounts(containers, part, name).sub(maximum)
        largest = max(containers, key=partial(_get_amount, part, name))
        amount = _get_amount(part, name, largest)
        if ZERO < excess < amount:
            largest[part][name] = amount.sub(excess)

    # No request may exceed its lowered limit
    for container in containers:
        requests, limits = container[REQUESTS], container[LIMITS]
        if name in requests and name in limits:
            requests[name] = min(requests[name], limits[name])


def _raise_largest_request_to_minimum(containers: list[dict[str, Quantities]], name: str, minimum: Quantity) -> None:
    """Raise the request of the largest container if the sum of the requests is below the minimum.

    ``name`` is the resource. If the request then exceeds the container's limit, raise the limit too. The amounts are
    changed in place.
    """
    deficit = minimum.sub(_sum_resource_amounts(containers, REQUESTS, name))
    if deficit > ZERO:
        largest = max(containers, key=partial(_get_amount, REQUESTS, name))
        requests, limits = largest[REQUESTS], largest[LIMITS]
        requests[name] = _get_amount(REQUESTS, name, largest).add(deficit)
        if name in limits:
            limits[name] = max(limits[name], requests[name])


def _get_amount(part: str, name: str, amounts: Mapping[str, Quantities]) -> Quantity:
    """Return the container's amount of a resource in its requests or limits, or zero."""
    return amounts[part].get(name, ZERO)


def _sum_resource_amounts(containers: Iterable[Mapping[str, Quantities]], part: str, name: str) -> Quantity:
    """Sum the requests or the limits (``part``) for the resource with this name over the containers."""
    total = ZERO
    for amounts in containers:
        total = total.add(_get_amount(part, name, amounts))
    return total


def _iter_changed_settings(
    before: Mapping[str, Mapping[str, Quantities]],
    after: Mapping[str, Mapping[str, Quantities]],
    written: Mapping[str, Mapping[str, Resources]],
) -> Iterator[ResourceSetting]:
    """Yield the settings whose amounts differ between ``before`` and ``after``.

    Both map containers to requests and limits. ``written`` has the resources of the containers as the manifest has
    them, without defaults.
    """
    for name, amounts in after.items():
        location = f" in container {name}" if len(after) > 1 else ""
        for part in PARTS:
            for resource, amount in sorted(amounts[part].items()):
                old_amount = before[name][part].get(resource)
                if amount == old_amount:
                    continue
                before_text = "" if old_amount is None else str(old_amount)
                is_default = resource not in (written[name].get(part) or {})
                yield ResourceSetting(
                    container=name,
                    part=part,
                    resource=resource,
                    amount=str(amount),
                    before=before_text,
                    is_default=is_default,
                    location=location,
                )


def merge_resource_steps(first: FixStep, second: FixStep) -> FixStep | None:
    """Merge two consecutive steps that set resources into one, or return None if either step is of another kind.

    If both steps set the same resource, the second amount is used.
    """
    if not (first.kind is second.kind is StepKind.OTHER_RESOURCES):
        return None
    merged: dict[tuple[str, str, str], ResourceSetting] = {}
    for step in (first, second):
        for setting in step.settings:
            key = (setting.container, setting.part, setting.resource)
            original = merged.get(key, setting)
            merged[key] = setting._replace(before=original.before, is_default=original.is_default)
    return _build_resources_step(list(merged.values()))


def _build_resources_step(settings: list[ResourceSetting]) -> FixStep:
    """Build the step that sets requests and limits."""
    summary = ", ".join(setting.description for setting in settings)
    return FixStep(StepKind.OTHER_RESOURCES, summary, edit=partial(_set_resources, settings), settings=tuple(settings))
