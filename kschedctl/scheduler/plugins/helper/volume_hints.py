"""The dependencies of the volume plugins on storage objects, and their queueing hints.

Upstream: plugins/{volumebinding/volume_binding.go,volumezone/volume_zone.go, volumerestrictions/volume_restrictions.go}
(v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from kschedctl.scheduler.framework.declaration import NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import (
    ADD_OR_UPDATE,
    NODE,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    join_words,
    resolve_node_actions,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    MIGRATED_PLUGINS,
    REGION,
    ZONE,
    ZONE_DELIMITER,
    find_in_tree_plugin,
)
from kschedctl.scheduler.plugins.helper.volume_listers import (
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    get_claim_class,
    get_listers,
    iter_claim_volumes,
    parse_size,
)
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

CLAIM_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
"""The kinds through which a pod's claim leads to a volume."""

LOOK_AT_CLAIM = NextStep(
    "LookAtClaim", "Look at the claim and its events", "Check that the pod's claims exist and are bound"
)


def iter_claim_dependencies(info: PodInfo, listers: Listers) -> Iterator[Dependency]:
    """Yield a dependency on each kind of storage object whose unread objects could cause a false rejection of the pod.

    For a missing claim, this is PersistentVolumeClaim, because the claim may exist unread. For other claims, the kinds
    depend on the claim's volume and class. A kind can be yielded several times.
    """
    for volume in iter_claim_volumes(info.pod):
        claim = listers.claims.get((info.namespace, volume.claim_name))
        if claim is None:
            yield Dependency("PersistentVolumeClaim", Effect.REFUSES)
            continue
        for kind in _iter_kinds_behind_claim(claim, listers):
            yield Dependency(kind, Effect.REFUSES)


def _iter_kinds_behind_claim(claim: PersistentVolumeClaim, listers: Listers) -> Iterator[str]:
    """Yield the kinds whose unread objects could cause a false rejection of a pod with this existing claim.

    For a claim that names a volume, this is PersistentVolume if the volume is missing, or CSINode if it is an in-tree
    volume. For any other claim, these are the kinds that decide which volume the claim can get.
    """
    if claim.spec.volume_name:
        volume = listers.volumes.get(claim.spec.volume_name)
        if volume is None:
            yield "PersistentVolume"
        elif find_in_tree_plugin(volume.spec) is not None:
            yield "CSINode"  # says whether the node uses the volume through CSI
        return

    class_name = get_claim_class(claim)
    storage_class = listers.classes.get(class_name)
    if storage_class is None:
        gets_default_class = claim.spec.storage_class_name is None
        if class_name or gets_default_class:
            yield "StorageClass"
    elif storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        yield "PersistentVolume"
        driver = listers.drivers.get(storage_class.provisioner)
        if driver is None:
            yield "CSIDriver"
        elif driver.spec.storage_capacity:
            yield "CSIStorageCapacity"


REGISTERS_NEW_DRIVERS = ByVersion(
    "a new CSIDriver can make the scheduler retry a rejected pod", (("", True), ("1.32", False))
)
HAS_DRIVER_HINT = ByVersion(
    "a changed CSIDriver makes the scheduler retry only pods with an in-line volume of this driver",
    (("", False), ("1.32", True)),
)
REGISTERS_CLAIM_UPDATES = ByVersion(
    "a changed PersistentVolumeClaim can make the scheduler retry a rejected pod", (("", False), ("1.31", True))
)
TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


def is_schedulable_after_any_claim_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether a volume of the pod uses the changed claim. Claims of ephemeral volumes count."""
    return _does_pod_use_claim(info, change.new, ephemeral=True)


def is_schedulable_after_named_claim_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether a volume of the pod names the changed claim. Claims of ephemeral volumes do not count."""
    return _does_pod_use_claim(info, change.new, ephemeral=False)


def is_schedulable_after_storage_class_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the StorageClass is new or allows different topologies than before."""
    return change.old is None or change.old.allowed_topologies != change.new.allowed_topologies


def is_schedulable_after_csi_node_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the CSINode is new or its migrated in-tree plugins have changed."""
    if change.old is None:
        return True
    old_plugins = change.old.metadata.annotations.get(MIGRATED_PLUGINS, "")
    new_plugins = change.new.metadata.annotations.get(MIGRATED_PLUGINS, "")
    return bool(old_plugins != new_plugins)


def is_schedulable_after_csi_driver_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the driver of an inline volume of the pod stopped publishing its free capacity."""
    drivers = {volume.csi.driver for volume in info.spec.volumes if volume.csi is not None}
    if change.new.metadata.name not in drivers:
        return False
    return bool(change.old.spec.storage_capacity) and not change.new.spec.storage_capacity


def is_schedulable_after_storage_capacity_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the CSIStorageCapacity is new or has room for a larger volume than before.

    If the new size is unknown, return False. Any known size is larger than an unknown size. Raises InputError for an
    invalid size.
    """
    if change.old is None:
        return True
    old_size, new_size = _parse_max_volume_size(change.old), _parse_max_volume_size(change.new)
    if new_size is None:
        return False
    return old_size is None or new_size > old_size


def is_schedulable_after_storage_class_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the added StorageClass delays binding until the first pod with a claim is scheduled."""
    return bool(change.new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def is_schedulable_after_volume_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the PersistentVolume is new or its zone or region labels have changed."""
    return change.old is None or list_topology_labels(change.old) != list_topology_labels(change.new)


def iter_volume_binding_events(gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
    """Yield the events after which a pod rejected by VolumeBinding may become schedulable, with their hints."""
    yield ClusterEventWithHint("StorageClass", ADD_OR_UPDATE, is_schedulable_after_storage_class_change)
    yield ClusterEventWithHint("PersistentVolumeClaim", ADD_OR_UPDATE, is_schedulable_after_any_claim_change)
    yield ClusterEventWithHint("PersistentVolume", ADD_OR_UPDATE)
    yield ClusterEventWithHint(NODE, resolve_node_actions(ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates))
    yield ClusterEventWithHint("CSINode", ADD_OR_UPDATE, is_schedulable_after_csi_node_change)
    driver_actions = ADD_OR_UPDATE if REGISTERS_NEW_DRIVERS.at(gates.release) else ActionType.UPDATE
    driver_hint = is_schedulable_after_csi_driver_change if HAS_DRIVER_HINT.at(gates.release) else None
    yield ClusterEventWithHint("CSIDriver", driver_actions, driver_hint)
    yield ClusterEventWithHint("CSIStorageCapacity", ADD_OR_UPDATE, is_schedulable_after_storage_capacity_change)


def iter_volume_zone_events(gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
    """Yield the events after which a pod rejected by VolumeZone may become schedulable, with their hints."""
    yield ClusterEventWithHint("StorageClass", ActionType.ADD, is_schedulable_after_storage_class_added)
    yield ClusterEventWithHint(NODE, resolve_node_actions(ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates))
    claim_actions = ADD_OR_UPDATE if REGISTERS_CLAIM_UPDATES.at(gates.release) else ActionType.ADD
    yield ClusterEventWithHint("PersistentVolumeClaim", claim_actions, is_schedulable_after_named_claim_change)
    yield ClusterEventWithHint("PersistentVolume", ADD_OR_UPDATE, is_schedulable_after_volume_change)


def _does_pod_use_claim(info: PodInfo, claim: PersistentVolumeClaim, *, ephemeral: bool) -> bool:
    """Return whether a volume of the pod uses the claim. Ephemeral volumes count only if `ephemeral` is true."""
    if claim.metadata.namespace != info.namespace:
        return False
    for claim_volume in iter_claim_volumes(info.pod):
        if claim_volume.claim_name == claim.metadata.name and (ephemeral or not claim_volume.ephemeral):
            return True
    return False


def _parse_max_volume_size(capacity: CSIStorageCapacity) -> int | None:
    """Return the size in bytes of the largest volume that can be created, or None if it is unknown.

    If no maximum volume size is published, it is the free capacity. Raises InputError for an invalid size.
    """
    text = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    if text is None:
        return None
    name = f"{capacity.metadata.namespace}/{capacity.metadata.name}"
    return parse_size(text, "CSIStorageCapacity", name).value()


def list_topology_labels(volume: PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    """Return the volume's zone and region labels, each with its values.

    As in upstream, a label with an empty value among its values is left out.
    """
    labels = []
    for key in TOPOLOGY_LABELS:
        text = volume.metadata.labels.get(key, "")  # a missing label has a single value, which is empty
        values = [value.strip() for value in text.split(ZONE_DELIMITER)]
        if all(values):
            labels.append((key, frozenset(values)))
    return labels


def describe_claims(info: PodInfo, *, ephemeral: bool = True) -> str:
    """Return the pod's claims as a phrase that follows the word "claim", such as "a/x or a/y".

    If there are no claims, the phrase is "of the pod". If `ephemeral` is False, claims of ephemeral volumes are left
    out.
    """
    claim_volumes = [volume for volume in iter_claim_volumes(info.pod) if ephemeral or not volume.ephemeral]
    return join_words([f"{info.namespace}/{volume.claim_name}" for volume in claim_volumes], "or") or "of the pod"


def describe_claim_creation(info: PodInfo, view: Fork, *, ephemeral: bool = True) -> str:
    """Describe the creation of one of the pod's claims.

    If all claims exist, the text says that a claim is deleted and created again. If `ephemeral` is False, claims of
    ephemeral volumes are left out.
    """
    claims = get_listers(view).claims
    claim_volumes = [volume for volume in iter_claim_volumes(info.pod) if ephemeral or not volume.ephemeral]
    do_all_exist = all((info.namespace, volume.claim_name) in claims for volume in claim_volumes)
    created = "is deleted and created again" if claim_volumes and do_all_exist else "is created"
    return f"claim {describe_claims(info, ephemeral=ephemeral)} {created}"


def describe_claim_changes(info: PodInfo, view: Fork, *, ephemeral: bool = True) -> str:
    """Describe the changes of the pod's claims that make the scheduler retry the pod.

    Creation is mentioned only if a claim is missing. If `ephemeral` is False, claims of ephemeral volumes are left out.
    """
    claims = get_listers(view).claims
    claim_volumes = [volume for volume in iter_claim_volumes(info.pod) if ephemeral or not volume.ephemeral]
    if all((info.namespace, volume.claim_name) in claims for volume in claim_volumes):
        changes = "changes, for example when it is bound"
    else:
        changes = "is created or changes"
    return f"claim {describe_claims(info, ephemeral=ephemeral)} {changes}"
