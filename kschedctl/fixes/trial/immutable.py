"""Decide which changes of an object the API server accepts as an update; otherwise the object must be recreated.

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

IMMUTABLE_CLASS_FIELDS = ("provisioner", "volume_binding_mode")
MUTABLE_VOLUME_FIELDS = frozenset(
    {"capacity", "access_modes", "claim_ref", "storage_class_name", "volume_attributes_class_name"}
)
"""The fields of a PersistentVolume's spec that may change."""


def _is_pod_update_valid(before: Pod, after: Pod) -> bool:
    """Return whether only tolerations are added or, on a node, container resources are resized."""
    old_tolerations = before.spec.tolerations
    if before.spec.node_name:
        after = _restore_resources(before, after)
    is_rest_unchanged = {**asdict(after.spec), "tolerations": old_tolerations} == asdict(before.spec)
    return is_rest_unchanged and after.spec.tolerations[: len(old_tolerations)] == old_tolerations


def _restore_resources(before: Pod, after: Pod) -> Pod:
    """Return the pod with the resources that it and its containers had before."""
    resources = {c.name: c.resources for c in (*before.spec.containers, *before.spec.init_containers)}

    def restore(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        """Return the containers with their old resources."""
        return tuple(replace(c, resources=resources.get(c.name, c.resources)) for c in containers)

    spec = after.spec
    containers, init_containers = restore(spec.containers), restore(spec.init_containers)
    own = before.spec.resources
    return replace(after, spec=replace(spec, containers=containers, init_containers=init_containers, resources=own))


def _is_claim_update_valid(before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> bool:
    """Return whether the update only binds an unbound claim to a volume."""
    new_spec = {**asdict(after.spec), "volume_name": before.spec.volume_name or after.spec.volume_name}
    bound_spec = {**asdict(before.spec), "volume_name": new_spec["volume_name"]}
    return new_spec == bound_spec and before.spec.volume_name in ("", after.spec.volume_name)


def _is_volume_update_valid(before: PersistentVolume, after: PersistentVolume) -> bool:
    """Return whether no immutable field of the volume changes; node affinity may be set once."""
    old, new = asdict(before.spec), asdict(after.spec)
    fixed = old.keys() - MUTABLE_VOLUME_FIELDS - ({"node_affinity"} if before.spec.node_affinity is None else set())
    return all(old[name] == new[name] for name in fixed)


def _is_spec_unchanged(
    before: ResourceClaim | ResourceClaimTemplate, after: ResourceClaim | ResourceClaimTemplate
) -> bool:
    """Return whether the spec stays the same."""
    return before.spec == after.spec


def _is_class_update_valid(before: StorageClass, after: StorageClass) -> bool:
    """Return whether no immutable field of the StorageClass changes."""
    return all(getattr(before, name) == getattr(after, name) for name in IMMUTABLE_CLASS_FIELDS)


_UPDATES: Mapping[type[Struct], Callable[[Any, Any], bool]] = {
    Pod: _is_pod_update_valid,
    PersistentVolumeClaim: _is_claim_update_valid,
    PersistentVolume: _is_volume_update_valid,
    ResourceClaim: _is_spec_unchanged,
    ResourceClaimTemplate: _is_spec_unchanged,
    StorageClass: _is_class_update_valid,
}


def is_valid_update(before: Any, after: Any) -> bool:
    """Return whether the API server accepts the change as an update of the same object."""
    validate = _UPDATES.get(type(before))
    same = before.metadata.uid == after.metadata.uid
    return same and (validate is None or validate(before, after))
