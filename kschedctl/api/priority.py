"""A pod's priority from its PriorityClass.

Upstream: plugin/pkg/admission/priority/admission.go and pkg/apis/scheduling/helpers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kschedctl.api.objects import ObjectMeta, Pod, PriorityClass

SYSTEM_CLASSES = (
    PriorityClass(ObjectMeta("system-cluster-critical"), 2_000_000_000),
    PriorityClass(ObjectMeta("system-node-critical"), 2_000_001_000),
)
"""The classes that every cluster has."""


def resolve_priority(pod: Pod, classes: Iterable[PriorityClass]) -> Pod:
    """A pod whose priority the API server did not set yet gets that of its class, or of the global default.

    Of several global defaults the lowest counts. A class that does not exist leaves the pod without priority, as 0.
    """
    if pod.spec.priority is not None:
        return pod
    found = priority_class(pod.spec.priority_class_name, classes)
    if found is None:
        return pod
    policy = pod.spec.preemption_policy or found.preemption_policy
    return replace(pod, spec=replace(pod.spec, priority=found.value, preemption_policy=policy))


def priority_class(name: str, classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """The class of that name; for the empty name the global default, if there is one."""
    if name:
        return next((c for c in (*classes, *SYSTEM_CLASSES) if c.metadata.name == name), None)
    return min((c for c in classes if c.global_default), key=lambda c: c.value, default=None)
