"""Which changes of an object the API server accepts as updates; for all others it is deleted and created again.

Upstream: Validate*Update in pkg/apis/{core,storage,resource}/validation (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import asdict, replace

from kschedctl.api.objects import (
    Container,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    StorageClass,
    Struct,
)

OF_CLASS = ("provisioner", "volume_binding_mode")
OF_VOLUME = frozenset({"capacity", "access_modes", "claim_ref", "storage_class_name", "volume_attributes_class_name"})
"""The fields of a volume's spec that may change."""


def _pod(before: Pod, after: Pod) -> bool:
    """Return whether tolerations are added, or a pod that has a node is resized in place, and nothing else changes."""
    known = before.spec.tolerations
    if before.spec.node_name:
        after = _with_resources_of(before, after)
    same = {**asdict(after.spec), "tolerations": known} == asdict(before.spec)
    return same and after.spec.tolerations[: len(known)] == known


def _with_resources_of(before: Pod, after: Pod) -> Pod:
    """Return the pod with the resources that its containers had before."""
    resources = {c.name: c.resources for c in (*before.spec.containers, *before.spec.init_containers)}

    def restored(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(replace(c, resources=resources.get(c.name, c.resources)) for c in containers)

    spec = after.spec
    containers, init_containers = restored(spec.containers), restored(spec.init_containers)
    own = before.spec.resources
    return replace(after, spec=replace(spec, containers=containers, init_containers=init_containers, resources=own))


def _claim(before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> bool:
    """A claim is given a volume once."""
    own = {**asdict(after.spec), "volume_name": before.spec.volume_name or after.spec.volume_name}
    named = {**asdict(before.spec), "volume_name": own["volume_name"]}
    return own == named and before.spec.volume_name in ("", after.spec.volume_name)


def _volume(before: PersistentVolume, after: PersistentVolume) -> bool:
    old, new = asdict(before.spec), asdict(after.spec)
    fixed = old.keys() - OF_VOLUME - ({"node_affinity"} if before.spec.node_affinity is None else set())
    return all(old[name] == new[name] for name in fixed)


def _same_spec(before: ResourceClaim | ResourceClaimTemplate, after: ResourceClaim | ResourceClaimTemplate) -> bool:
    return before.spec == after.spec


def _class(before: StorageClass, after: StorageClass) -> bool:
    return all(getattr(before, name) == getattr(after, name) for name in OF_CLASS)


_UPDATES: Mapping[type[Struct], Callable[[Any, Any], bool]] = {
    Pod: _pod,
    PersistentVolumeClaim: _claim,
    PersistentVolume: _volume,
    ResourceClaim: _same_spec,
    ResourceClaimTemplate: _same_spec,
    StorageClass: _class,
}


def is_updated(before: Any, after: Any) -> bool:
    """Return whether the API server accepts the change as an update of the same object."""
    updates = _UPDATES.get(type(before))
    same = before.metadata.uid == after.metadata.uid
    return same and (updates is None or updates(before, after))
