"""VolumeBinding, VolumeZone and VolumeRestrictions: the claims, volumes and classes that a pod may wait for.

Upstream: plugins/{volumebinding/volume_binding.go,volumezone/volume_zone.go,
volumerestrictions/volume_restrictions.go} (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from kschedctl.scheduler.framework.events import NODE, ActionType, ChangedObject, ClusterEventWithHint, node_actions
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import ADD_OR_UPDATE, join_words
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import (
    BETA_REGION,
    BETA_ZONE,
    MIGRATED_PLUGINS,
    REGION,
    ZONE,
    ZONE_DELIMITER,
)
from kschedctl.scheduler.plugins.helper.volumes.listers import WAIT_FOR_FIRST_CONSUMER, claim_volumes, size
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

HINTS_AT_DRIVERS = ByVersion(
    "whether VolumeBinding asks for changed CSIDrivers alone, and has a hint for them", (("", False), ("1.32", True))
)
HEARS_OF_BOUND_CLAIMS = ByVersion("whether VolumeZone asks for changed claims too", (("", False), ("1.31", True)))
TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)


def after_own_claim(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A claim that one of the pod's volumes stands for, those that are made for the pod among them."""
    return _is_own(info, change.new, ephemeral=True)


def after_named_claim(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A claim that one of the pod's volumes names."""
    return _is_own(info, change.new, ephemeral=False)


def after_storage_class_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A new class, or one that allows other topologies."""
    return change.old is None or change.old.allowed_topologies != change.new.allowed_topologies


def after_csi_node_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A new CSINode, or one that has handed over other in-tree plugins to CSI."""
    if change.old is None:
        return True
    old, new = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (change.old, change.new))
    return bool(old != new)


def after_csi_driver_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A driver of one of the pod's in-line volumes that no longer tells how much storage is free."""
    drivers = {volume.csi.driver for volume in info.spec.volumes if volume.csi is not None}
    tells_no_more = change.old.spec.storage_capacity and not change.new.spec.storage_capacity
    return change.new.metadata.name in drivers and bool(tells_no_more)


def after_storage_capacity_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A new pool of storage, or one in which larger volumes fit."""
    if change.old is None:
        return True
    old, new = _volume_limit(change.old), _volume_limit(change.new)
    return new is not None and (old is None or new > old)


def after_storage_class_added(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A class that binds once a pod needs the claim."""
    return bool(change.new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def after_volume_change(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A new volume, or one in other zones or regions."""
    return change.old is None or _topologies(change.old) != _topologies(change.new)


def volume_binding_events(gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
    """What VolumeBinding asks for."""
    yield ClusterEventWithHint("StorageClass", ADD_OR_UPDATE, after_storage_class_change)
    yield ClusterEventWithHint("PersistentVolumeClaim", ADD_OR_UPDATE, after_own_claim)
    yield ClusterEventWithHint("PersistentVolume", ADD_OR_UPDATE)
    yield ClusterEventWithHint(NODE, node_actions(ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates))
    yield ClusterEventWithHint("CSINode", ADD_OR_UPDATE, after_csi_node_change)
    if HINTS_AT_DRIVERS.at(gates.release):
        yield ClusterEventWithHint("CSIDriver", ActionType.UPDATE, after_csi_driver_change)
    else:
        yield ClusterEventWithHint("CSIDriver", ADD_OR_UPDATE)
    yield ClusterEventWithHint("CSIStorageCapacity", ADD_OR_UPDATE, after_storage_capacity_change)


def volume_zone_events(gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
    """What VolumeZone asks for."""
    yield ClusterEventWithHint("StorageClass", ActionType.ADD, after_storage_class_added)
    yield ClusterEventWithHint(NODE, node_actions(ActionType.ADD | ActionType.UPDATE_NODE_LABEL, gates))
    of_claims = ADD_OR_UPDATE if HEARS_OF_BOUND_CLAIMS.at(gates.release) else ActionType.ADD
    yield ClusterEventWithHint("PersistentVolumeClaim", of_claims, after_named_claim)
    yield ClusterEventWithHint("PersistentVolume", ADD_OR_UPDATE, after_volume_change)


def _is_own(info: PodInfo, claim: PersistentVolumeClaim, ephemeral: bool) -> bool:
    if claim.metadata.namespace != info.namespace:
        return False
    volumes = claim_volumes(info.pod)
    return any(
        claim_volume.claim_name == claim.metadata.name and (ephemeral or not claim_volume.ephemeral)
        for claim_volume in volumes
    )


def _volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that fits, in bytes. Raises InputError."""
    text = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    where = f"{capacity.metadata.namespace}/{capacity.metadata.name}"
    return None if text is None else size(text, "CSIStorageCapacity", where).value()


def _topologies(volume: PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    """The labels that say where a volume is, and their values; one with an empty value among them counts as none."""
    topologies = []
    for key in TOPOLOGY_LABELS:
        values = [value.strip() for value in volume.metadata.labels.get(key, "").split(ZONE_DELIMITER)]
        if all(values):
            topologies.append((key, frozenset(values)))
    return topologies


def named_claims(info: PodInfo, ephemeral: bool = True) -> str:
    names = [
        claim_volume.claim_name for claim_volume in claim_volumes(info.pod) if ephemeral or not claim_volume.ephemeral
    ]
    return join_words([f"{info.namespace}/{name}" for name in names], "or") or "of the pod"
