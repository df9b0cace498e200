"""In-tree disks that pods attach to nodes, as they counted before CSI drivers replaced them.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go and pkg/volume/util/attach_limit.go (v1.31).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.api.objects import PersistentVolumeClaim, PersistentVolumeSpec, Volume
from kschedctl.scheduler.plugins.helper.volumes.listers import Listers, claim_key
from kschedctl.scheduler.plugins.node_volume_limits.attachments import AttachedVolume, find_claim
from kschedctl.snapshot.pod_info import PodInfo


class InTreeDisks(NamedTuple):
    """A kind of in-tree disk."""

    provisioner: str
    field: str
    """The field of a volume's source."""
    identity: str
    """The field of the source that identifies the disk."""
    resource: str
    """The allocatable resource of a node with its limit."""
    limit: int
    """The limit of nodes without this resource."""

    def find_disk(self, source: Volume | PersistentVolumeSpec) -> AttachedVolume | None:
        """Return the disk of the volume, or None if it is of another kind."""
        disk = getattr(source, self.field)
        return None if disk is None else AttachedVolume(self.provisioner, getattr(disk, self.identity))


EBS = InTreeDisks("kubernetes.io/aws-ebs", "aws_elastic_block_store", "volume_id", "attachable-volumes-aws-ebs", 39)
GCE_PD = InTreeDisks("kubernetes.io/gce-pd", "gce_persistent_disk", "pd_name", "attachable-volumes-gce-pd", 16)
AZURE_DISK = InTreeDisks("kubernetes.io/azure-disk", "azure_disk", "disk_name", "attachable-volumes-azure-disk", 16)
CINDER = InTreeDisks("kubernetes.io/cinder", "cinder", "volume_id", "attachable-volumes-cinder", 256)
ALL_KINDS = (EBS, GCE_PD, AZURE_DISK, CINDER)
PROVISIONERS = frozenset(disks.provisioner for disks in ALL_KINDS)


def find_disks_of_pod(info: PodInfo, storage: Listers, new: bool) -> list[AttachedVolume]:
    """Return the distinct disks that a pod needs, in the pod's order.

    A disk that is yet to be provisioned has its claim as handle. The claims of a `new` pod must exist. Missing claims
    of other pods are skipped. Raises NotFoundError and PluginError.
    """
    return list(dict.fromkeys(_iter_disks(info, storage, new)))


def find_disks_of_running_pod(info: PodInfo, storage: Listers) -> list[AttachedVolume]:
    """Return the disks that a running pod has attached. Raises PluginError."""
    return find_disks_of_pod(info, storage, new=False)


def _iter_disks(info: PodInfo, storage: Listers, new: bool) -> Iterator[AttachedVolume]:
    """Yield the disks of the pod's volumes."""
    for volume in info.spec.volumes:
        disk = _find_disk(volume)
        if disk is None and (claim := find_claim(volume, info, storage, new)) is not None:
            disk = _find_disk_of_claim(claim, storage)
        if disk is not None:
            yield disk


def _find_disk(source: Volume | PersistentVolumeSpec) -> AttachedVolume | None:
    """Return the disk of the volume, or None if it is no in-tree disk."""
    return next((disk for disks in ALL_KINDS if (disk := disks.find_disk(source)) is not None), None)


def _find_disk_of_claim(claim: PersistentVolumeClaim, storage: Listers) -> AttachedVolume | None:
    """Return the claim's disk or, if its volume is unknown, one that its class would provision."""
    volume = storage.volumes.get(claim.spec.volume_name)
    if volume is not None:
        return _find_disk(volume.spec)
    storage_class = storage.classes.get(claim.spec.storage_class_name or "")
    if storage_class is None or storage_class.provisioner not in PROVISIONERS:
        return None
    return AttachedVolume(storage_class.provisioner, f"claim {claim_key(claim)}")
