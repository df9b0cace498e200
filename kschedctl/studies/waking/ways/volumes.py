"""What wakes pods that the plugins refused which look at volumes."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.scheduler.framework.events import NODE, POD, ActionType
from kschedctl.scheduler.plugins.helper.volumes.listers import claim_volumes
from kschedctl.studies.waking.ways.told import ADD, DELETE, UPDATE, Told, Waiting, listed

EITHER = ADD | UPDATE
NODE_OR_LABEL = ADD | ActionType.UPDATE_NODE_LABEL
CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"


def volume_binding(waiting: Waiting) -> Iterator[Told]:
    yield Told(CLAIM, EITHER, f"claim {_claims(waiting)} is created or changes, such as by being bound")
    yield Told(VOLUME, EITHER, "a PersistentVolume is added or changed")
    yield Told(CLASS, EITHER, "a StorageClass is added, or allows other topologies")
    yield Told("CSIStorageCapacity", EITHER, "a CSIStorageCapacity is added, or has room for larger volumes")
    yield Told("CSINode", EITHER, "a CSINode is added, or other in-tree plugins are migrated on it")
    drivers = [volume.csi.driver for volume in waiting.info.spec.volumes if volume.csi is not None]
    if drivers:
        yield Told("CSIDriver", UPDATE, f"driver {listed(drivers, 'or')} no longer tells how much storage is free")
    yield Told(NODE, NODE_OR_LABEL, "a node is added, or its labels change")


def volume_zone(waiting: Waiting) -> Iterator[Told]:
    yield Told(CLAIM, EITHER, f"claim {_claims(waiting, ephemeral=False)} is created or changes")
    yield Told(VOLUME, EITHER, "a PersistentVolume is added, or its zone or region labels change")
    yield Told(CLASS, ADD, "a StorageClass is added that binds once a pod needs the claim")
    yield Told(NODE, NODE_OR_LABEL, "a node is added, or its labels change")


def volume_restrictions(waiting: Waiting) -> Iterator[Told]:
    claims = _claims(waiting, ephemeral=False)
    yield Told(
        POD, DELETE, f"a pod of namespace {waiting.info.namespace} goes that uses claim {claims} or a disk of it"
    )
    yield Told(CLAIM, ADD, f"claim {claims} is created")
    yield Told(NODE, ADD, "a node is added")


def node_volume_limits(waiting: Waiting) -> Iterator[Told]:
    yield Told(POD, DELETE, "a pod with volumes leaves a node")
    yield Told("CSINode", ADD, "a CSINode is added")
    yield Told("CSINode", UPDATE, "a driver can attach more volumes to a node than before (CSINode)")
    yield Told("VolumeAttachment", DELETE, "a volume is detached from a node")
    yield Told(CLAIM, ADD, f"claim {_claims(waiting)} is created")


def _claims(waiting: Waiting, ephemeral: bool = True) -> str:
    found = [each.claim_name for each in claim_volumes(waiting.info.pod) if ephemeral or not each.ephemeral]
    return listed([f"{waiting.info.namespace}/{name}" for name in found], "or") or "of the pod"
