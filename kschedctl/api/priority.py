"""Priority admission, which sets a pod's priority from its PriorityClass, and validation of both."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kschedctl.api.field_errors import (
    FieldError,
    TypedString,
    ValidationErrors,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kschedctl.api.objects import ObjectMeta, Pod, PriorityClass
from kschedctl.errors import InputError

SYSTEM_CLASSES = (
    PriorityClass(ObjectMeta("system-cluster-critical"), 2_000_000_000),
    PriorityClass(ObjectMeta("system-node-critical"), 2_000_001_000),
)
"""The PriorityClasses that every cluster has."""
SYSTEM_PREFIX = "system-"
HIGHEST_USER_PRIORITY = 1_000_000_000
LOWEST_PRIORITY = -(2**31)
DEFAULT_POLICY = "PreemptLowerPriority"
"""The preemption policy of a PriorityClass that sets none."""
POLICIES = (DEFAULT_POLICY, "Never")
"""The preemption policies."""


def resolve_priority(pod: Pod, classes: Iterable[PriorityClass]) -> Pod:
    """Return the pod with the priority of its PriorityClass or of the global default.

    The class also sets the preemption policy if the pod has none. A pod that has a priority is returned unchanged. The
    lowest of several global defaults counts. If the class does not exist, the pod stays without a priority, which
    counts as 0.
    """
    if pod.spec.priority is not None:
        return pod
    class_ = find_priority_class(pod.spec.priority_class_name, classes)
    if class_ is None:
        return pod
    policy = pod.spec.preemption_policy or class_.preemption_policy
    return replace(pod, spec=replace(pod.spec, priority=class_.value, preemption_policy=policy))


def admit_priority(pod: Pod, classes: Iterable[PriorityClass], all_classes_known: bool = True) -> Pod:
    """Return a new pod with the PriorityClass, priority and preemption policy that admission sets.

    If `all_classes_known` is false, a pod whose class is not among `classes` is returned unchanged.

    Raises InputError with upstream's message if the API server would deny the pod: its class does not exist, or its
    priority or preemption policy is not that of its class.
    """
    spec = pod.spec
    where = f"Pod {pod.key.lstrip('/')}"
    class_ = find_priority_class(spec.priority_class_name, classes)
    if class_ is None and not all_classes_known:
        return pod
    if class_ is None and spec.priority_class_name:
        raise InputError(f"no PriorityClass with name {spec.priority_class_name} was found", where=where)
    class_ = class_ or PriorityClass()  # without a class, the priority is 0
    policy = class_.preemption_policy or DEFAULT_POLICY
    if spec.priority not in (None, class_.value):
        raise InputError(
            f"the integer value of priority ({spec.priority}) must not be provided in pod spec; "
            f"priority admission controller computed {class_.value} from the given PriorityClass name",
            where=where,
        )
    if spec.preemption_policy not in (None, policy):
        raise InputError(
            f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name",
            where=where,
        )
    name = class_.metadata.name
    return replace(pod, spec=replace(spec, priority_class_name=name, priority=class_.value, preemption_policy=policy))


def with_class_priority(pod: Pod, classes: Iterable[PriorityClass]) -> Pod:
    """Return the pod with the priority and preemption policy that admission would give a new pod of its class.

    A running pod has other values if its PriorityClass was replaced since. A pod without a priority, or whose class is
    not among `classes`, is returned unchanged.
    """
    spec = pod.spec
    class_ = find_priority_class(spec.priority_class_name, classes)
    if class_ is None or spec.priority is None:
        return pod
    policy = class_.preemption_policy or DEFAULT_POLICY
    if (spec.priority, spec.preemption_policy or DEFAULT_POLICY) == (class_.value, policy):
        return pod
    name = class_.metadata.name
    return replace(pod, spec=replace(spec, priority_class_name=name, priority=class_.value, preemption_policy=policy))


def find_priority_class(name: str, classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the class with this name, or the global default if the name is empty. Return None if no class matches.

    Of several global defaults, the one with the lowest value is returned.
    """
    if name:
        known_classes = (*classes, *SYSTEM_CLASSES)
        return next((known_class for known_class in known_classes if known_class.metadata.name == name), None)
    global_defaults = [priority_class for priority_class in classes if priority_class.global_default]
    return min(global_defaults, key=lambda priority_class: priority_class.value, default=None)


def validate_priority_class(class_: PriorityClass) -> list[FieldError]:
    """Return the API server's validation errors for the values of a PriorityClass.

    >>> [str(error) for error in validate_priority_class(PriorityClass(ObjectMeta("urgent"), 2_000_000_000))]
    ['value: Forbidden: maximum allowed value of a user defined priority is 1000000000']
    """
    return [*_validate_name_and_value(class_), *_validate_preemption_policy(class_.preemption_policy)]


def _validate_name_and_value(class_: PriorityClass) -> ValidationErrors:
    """Validate the name and value of a PriorityClass.

    A reserved name is only allowed for a class that equals the system's class.
    """
    if class_.metadata.name.startswith(SYSTEM_PREFIX):
        if problem := _describe_reserved_class_error(class_):
            reserved = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only"
            yield forbidden(("metadata", "name"), f"{reserved}. error: {problem}")
    elif class_.value > HIGHEST_USER_PRIORITY:
        yield forbidden(("value",), f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    elif class_.value < LOWEST_PRIORITY:
        yield invalid(("value",), class_.value, f"must be at least {LOWEST_PRIORITY}")


def _describe_reserved_class_error(class_: PriorityClass) -> str:
    """Describe how a PriorityClass with a reserved name differs from the system's class.

    Returns "" if the value and globalDefault are those of the system's class.
    """
    name = class_.metadata.name
    system_class = next((c for c in SYSTEM_CLASSES if c.metadata.name == name), None)
    if system_class is None:
        return f"{name} is not a known system priority class"
    if class_.value != system_class.value:
        return f"value of {name} PriorityClass must be {system_class.value}"
    if class_.global_default:
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def _validate_preemption_policy(policy: str | None) -> ValidationErrors:
    """Validate the preemptionPolicy of a PriorityClass."""
    if policy == "":
        yield required(("preemptionPolicy",))
    elif policy is not None and policy not in POLICIES:
        yield not_supported(("preemptionPolicy",), TypedString(policy), POLICIES)
