"""Changes that a person could make in one step, as edits of API objects, and whether the API server accepts them.

An object is recreated if the API server does not accept its change as an update. Upstream: Validate*Update in
pkg/apis/{core,storage,resource}/validation (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from msgspec.structs import asdict, replace

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import (
    Container,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    StorageClass,
    Struct,
)
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.replay.edits import ObjectKey
from kschedctl.snapshot.pod_info import PodInfo

By = Literal["author", "operator"]
"""The person who can make a change: the author of the workload or the operator of the cluster."""


class ObjectEdit(NamedTuple):
    """A change of one object."""

    key: ObjectKey
    change: Callable[[Any], Struct | None]
    """Maps the object, or None if it does not exist, to the changed object, or None to delete it."""
    like: str = ""
    """The name of the node, or the key of the pod, of which a new object is a copy."""

    @classmethod
    def create(cls, obj: Any, like: str = "") -> ObjectEdit:
        """Return the edit that creates the API object, or replaces the object with its key."""
        return cls(ObjectKey.of(obj), lambda _: obj, like)

    @classmethod
    def delete(cls, key: ObjectKey) -> ObjectEdit:
        """Return the edit that deletes the object with this key."""
        return cls(key, lambda _: None)


class ClaimRecreation(NamedTuple):
    """A claim that a fix deletes and creates again with changes."""

    key: ObjectKey
    preparation: tuple[str, ...]
    """The commands that come before the recreation."""
    changes: str
    """The changes as words that follow "recreate claim …"."""
    can_be_joined: bool
    """True if `changes` can be joined with others by "and", which is not the case for a clause after a comma."""


class ClaimFate(Enum):
    """The fate of the PersistentVolumeClaims of removed replicas."""

    RETAINED = 0
    DELETED = 1
    UNKNOWN = 2


@dataclass(frozen=True, eq=False)
class Fix:
    """A single change that may help a pod, with its costs and commands. Fixes of the same kind and target are equal."""

    kind: FixKind
    target: Hashable
    """The changed object or field, with its new value. Changes of one kind with equal targets are equal."""
    text: str
    """The change as an imperative clause."""
    by: By
    edits: tuple[ObjectEdit, ...]
    cost: float
    """Orders changes of the same price, the smallest first."""
    weakens: str = ""
    """The guarantee that is given up; empty for none."""
    commands: tuple[str, ...] = ()
    """The operator's commands. The change of the target pod itself is shown as a patch instead."""
    variant_of: Hashable = None
    """Groups variants of the same idea, of which only the best is shown; None if the fix stands for itself."""
    where: str = ""
    """The node or pod that distinguishes the fix from its variants."""
    cordoned_node: str = ""
    """The node that the commands cordon while a pod leaves, and uncordon at their end; empty if there is none."""
    displaced_priority: int | None = None
    """The priority of the pod that the fix moves or removes; None if it does neither."""
    price: Price | None = None
    """The cost of the change for those affected; None for the usual price of its kind."""
    with_node_count: Callable[[int], Fix] | None = None
    """Returns the fix with this number of nodes instead of one, if it adds a node."""
    needs_special_node: Callable[[PodInfo], bool] | None = None
    """Returns whether a pod needs the added nodes rather than ordinary ones, if they are larger than their model or
    have devices that most nodes lack. None for other fixes.
    """
    larger_amounts: Mapping[str, int] = field(default_factory=dict)
    """Each added node's amounts of the resources that its model is short of, in milli-CPUs for cpu."""
    with_room_for: Callable[[Sequence[PodInfo]], Fix | None] | None = None
    """Returns the fix with a node that is large enough for these pods, too, or None if no machine is so large. None
    unless the fix adds a larger node.
    """
    remaining_replicas: int | None = None
    """The number of replicas that the workload keeps, if the fix scales it down."""
    claim_fate: ClaimFate = ClaimFate.RETAINED
    """What becomes of the claims of the replicas that the fix removes."""
    deletes_data_of: tuple[str, ...] = ()
    """The pods that scaling down removes and whose emptyDir volumes are deleted (`namespace/name`)."""
    scaling_up_again: str = ""
    """A clause on the HorizontalPodAutoscaler that may undo the scale-down; empty if there is none."""
    check_first: str = ""
    """A clause about what to find out before running the commands; empty if there is nothing."""
    needs_values: tuple[str, ...] = ()
    """Names of the fields whose values only the user knows."""
    manifests: tuple[JsonObject, ...] = ()
    """The objects in which these fields are still empty."""
    recreation: ClaimRecreation | None = None
    """The claim that the fix deletes and creates again with a command of its own, if it does. If several fixes of one
    remedy recreate the same claim, it is recreated once, with all their changes.
    """
    volume_to_find: PersistentVolume | None = None
    """The volume that the text names and that the scheduler has to find itself, since its class delays binding."""

    @property
    def effective_price(self) -> Price:
        """The price of the change, by default that of its kind."""
        return self.kind.price if self.price is None else self.price

    @property
    def family(self) -> tuple[FixKind, Hashable]:
        """The kind and the idea, which all variants of the fix share."""
        return self.kind, self.target if self.variant_of is None else self.variant_of

    @property
    def name(self) -> tuple[FixKind, Hashable]:
        """The kind and the target, which identify the fix."""
        return self.kind, self.target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fix) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class EditedObject(NamedTuple):
    """An object before and after an edit."""

    before: Struct | None
    """The object as it was read, None if it is created."""
    after: Struct | None
    """The changed object, None if it is deleted."""
    like: str = ""
    """The node or pod of which a new object is a copy."""


ObjectReader = Callable[[ObjectKey], Struct | None]
"""Returns the object of a key as it was read, or None."""


def apply_fixes(changes: Iterable[Fix], read: ObjectReader) -> dict[ObjectKey, EditedObject]:
    """Apply the fixes in order, and return each edited object as it was before the first and after the last edit."""
    objects: dict[ObjectKey, EditedObject] = {}
    edits = (edit for change in changes for edit in change.edits)
    for edit in edits:
        edited_object = objects.get(edit.key)
        if edited_object is None:
            before = read(edit.key)
            edited_object = EditedObject(before, before, edit.like)
        objects[edit.key] = edited_object._replace(after=edit.change(edited_object.after))
    return objects


def build_object_reader(cluster: Cluster) -> ObjectReader:
    """Return a function that returns the cluster's object with a key, or None.

    The function indexes a kind when it first reads an object of this kind.
    """
    objects_by_kind: dict[str, Mapping[tuple[str, str], Struct]] = {}

    def read(key: ObjectKey) -> Struct | None:
        """Return the object with the key, or None."""
        if key.kind == "Pod":
            return cluster.pod(key.namespace, key.name)
        if key.kind not in objects_by_kind:
            objects = getattr(cluster, FIELDS[key.kind])
            objects_by_kind[key.kind] = {(obj.metadata.namespace, obj.metadata.name): obj for obj in objects}
        return objects_by_kind[key.kind].get((key.namespace, key.name))

    return read


def build_pod_edits(pod: Pod, change: Callable[[Pod], Pod]) -> tuple[ObjectEdit, ...]:
    """Return the edits of a fix that changes only this pod."""
    return (ObjectEdit(ObjectKey.of(pod), change),)


def build_node_edits(node: Node, change: Callable[[Node], Node]) -> tuple[ObjectEdit, ...]:
    """Return the edits of a fix that changes only this node."""
    return (ObjectEdit(ObjectKey.of(node), change),)


IMMUTABLE_CLASS_FIELDS = ("provisioner", "volume_binding_mode")
MUTABLE_VOLUME_FIELDS = frozenset(
    {"capacity", "access_modes", "claim_ref", "storage_class_name", "volume_attributes_class_name"}
)
"""The fields of a PersistentVolume's spec that may change."""


def _is_pod_update_valid(before: Pod, after: Pod) -> bool:
    """Return whether the update only adds tolerations or, for a pod on a node, resizes the pod or its containers."""
    new_spec = (_restore_resources(before, after) if before.spec.node_name else after).spec
    old_tolerations = before.spec.tolerations
    are_tolerations_kept = new_spec.tolerations[: len(old_tolerations)] == old_tolerations
    are_other_fields_equal = {**asdict(new_spec), "tolerations": old_tolerations} == asdict(before.spec)
    return are_tolerations_kept and are_other_fields_equal


def _restore_resources(before: Pod, after: Pod) -> Pod:
    """Return the changed pod `after`, but with the resources that the pod and its containers had in `before`."""
    resources = {
        container.name: container.resources for container in (*before.spec.containers, *before.spec.init_containers)
    }

    def restore(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        """Return the containers with their old resources."""
        return tuple(
            replace(container, resources=resources.get(container.name, container.resources)) for container in containers
        )

    spec = after.spec
    containers, init_containers = restore(spec.containers), restore(spec.init_containers)
    pod_resources = before.spec.resources
    return replace(
        after, spec=replace(spec, containers=containers, init_containers=init_containers, resources=pod_resources)
    )


def _is_claim_update_valid(before: PersistentVolumeClaim, after: PersistentVolumeClaim) -> bool:
    """Return whether the update leaves the claim's spec unchanged or only binds an unbound claim to a volume."""
    if before.spec.volume_name not in ("", after.spec.volume_name):
        return False
    bound_spec = {**asdict(before.spec), "volume_name": after.spec.volume_name}
    return asdict(after.spec) == bound_spec


def _is_volume_update_valid(before: PersistentVolume, after: PersistentVolume) -> bool:
    """Return whether the update changes no immutable field of the volume's spec.

    The node affinity is immutable once it is set.
    """
    old, new = asdict(before.spec), asdict(after.spec)
    immutable_fields = old.keys() - MUTABLE_VOLUME_FIELDS
    if before.spec.node_affinity is None:
        immutable_fields = immutable_fields - {"node_affinity"}
    return all(old[name] == new[name] for name in immutable_fields)


def _is_spec_unchanged(
    before: ResourceClaim | ResourceClaimTemplate, after: ResourceClaim | ResourceClaimTemplate
) -> bool:
    """Return whether the specs are equal, since the spec of a claim or template for devices is immutable."""
    return before.spec == after.spec


def _is_class_update_valid(before: StorageClass, after: StorageClass) -> bool:
    """Return whether the update changes no immutable field of the StorageClass."""
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
    """Return whether the API server accepts the object `after` as an update of `before`.

    Otherwise the object has to be recreated. An object with another UID is always a new one, and kinds without rules
    here accept all updates.
    """
    validate = _UPDATES.get(type(before))
    is_same_object = before.metadata.uid == after.metadata.uid
    return is_same_object and (validate is None or validate(before, after))
