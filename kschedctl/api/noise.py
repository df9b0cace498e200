"""Objects less what scheduling does not read: most annotations, and the messages and times of nodes' conditions,
and the conditions of workloads but those that say that something could not be created."""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import replace

from kschedctl.api.objects import Condition, Node, ObjectMeta, ReplicationController, StoredWorkload, Struct
from kschedctl.api.observed.failed_creation import tells_of_failure

KEPT_ANNOTATIONS = frozenset(
    {
        "kschedctl/ignore",
        "pv.kubernetes.io/bind-completed",
        "resource.kubernetes.io/extended-resource-claim",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)
"""The annotations that a plugin reads, or that speak to us."""

S = TypeVar("S", bound=Struct)


def without_noise(obj: S) -> S:
    """The object, or one without what nothing reads."""
    meta = getattr(obj, "metadata", None)
    if isinstance(meta, ObjectMeta) and not meta.annotations.keys() <= KEPT_ANNOTATIONS:
        kept = {key: value for key, value in meta.annotations.items() if key in KEPT_ANNOTATIONS}
        obj = replace(obj, metadata=replace(meta, annotations=kept))
    if isinstance(obj, Node):
        conditions = tuple(Condition(c.type, c.status, c.reason) for c in obj.status.conditions)
        obj = replace(obj, status=replace(obj.status, conditions=conditions))
    if isinstance(obj, StoredWorkload | ReplicationController) and obj.status.conditions:
        told = tuple(condition for condition in obj.status.conditions if tells_of_failure(condition))
        obj = replace(obj, status=replace(obj.status, conditions=told))
    return obj
