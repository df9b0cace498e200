"""The in-tree disks that pods attach to nodes, as they counted before CSI drivers took them over.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go and pkg/volume/util/attach_limit.go (v1.31).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.api.objects import PersistentVolumeClaim, PersistentVolumeSpec, Volume
from kschedctl.scheduler.plugins.helper.volumes.listers import Listers, claim_key
from kschedctl.scheduler.plugins.node_volume_limits.attachments import AttachedVolume, claim_of
from kschedctl.snapshot.pod_info import PodInfo


class InTreeDisks(NamedTuple):
    """A sort of disks: its provisioner, where a volume names one, and how many a node takes.

    ``resource``: where a node's allocatable says how many; ``limit``: where it does not.
    """

    provisioner: str
    field: str
    identity: str
    resource: str
    limit: int

    def of(self, source: Volume | PersistentVolumeSpec) -> AttachedVolume | None:
        """The disk that a volume of a pod, or a PersistentVolume, is."""
        disk = getattr(source, self.field)
        return None if disk is None else AttachedVolume(self.provisioner, getattr(disk, self.identity))


EBS = InTreeDisks("kubernetes.io/aws-ebs", "aws_elastic_block_store", "volume_id", "attachable-volumes-aws-ebs", 39)
GCE_PD = InTreeDisks("kubernetes.io/gce-pd", "gce_persistent_disk", "pd_name", "attachable-volumes-gce-pd", 16)
AZURE_DISK = InTreeDisks("kubernetes.io/azure-disk", "azure_disk", "disk_name", "attachable-volumes-azure-disk", 16)
CINDER = InTreeDisks("kubernetes.io/cinder", "cinder", "volume_id", "attachable-volumes-cinder", 256)
ALL = (EBS, GCE_PD, AZURE_DISK, CINDER)
PROVISIONERS = frozenset(disks.provisioner for disks in ALL)


def in_tree_disks(info: PodInfo, storage: Listers, new: bool) -> list[AttachedVolume]:
    """The distinct disks that a pod needs, in the pod's order; one that is yet to be made has its claim for a handle.

    A ``new`` pod's claims must exist; those of others are left out. Raises NotFoundError, PluginError.
    """
    return list(dict.fromkeys(_disks(info, storage, new)))


def disks_of_running(info: PodInfo, storage: Listers) -> list[AttachedVolume]:
    """The disks that a pod that runs has attached. Raises PluginError."""
    return in_tree_disks(info, storage, new=False)


def _disks(info: PodInfo, storage: Listers, new: bool) -> Iterator[AttachedVolume]:
    for volume in info.spec.volumes:
        disk = _disk_of(volume)
        if disk is None and (claim := claim_of(volume, info, storage, new)) is not None:
            disk = _of_claim(claim, storage)
        if disk is not None:
            yield disk


def _disk_of(source: Volume | PersistentVolumeSpec) -> AttachedVolume | None:
    return next((disk for disks in ALL if (disk := disks.of(source)) is not None), None)


def _of_claim(claim: PersistentVolumeClaim, storage: Listers) -> AttachedVolume | None:
    """The claim's disk; where its volume is not known, one of the class that its spec names."""
    volume = storage.volumes.get(claim.spec.volume_name)
    if volume is not None:
        return _disk_of(volume.spec)
    storage_class = storage.classes.get(claim.spec.storage_class_name or "")
    if storage_class is None or storage_class.provisioner not in PROVISIONERS:
        return None
    return AttachedVolume(storage_class.provisioner, f"claim {claim_key(claim)}")
