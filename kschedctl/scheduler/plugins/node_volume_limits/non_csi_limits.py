"""EBSLimits, GCEPDLimits, AzureDiskLimits and CinderLimits: plugins that limit in-tree disks per node.

In-tree disks are counted as before CSI drivers replaced them. Upstream:
pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go and pkg/volume/util/attach_limit.go (v1.31).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import PersistentVolumeClaim, PersistentVolumeSpec, Volume
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, PluginError, PreFilterResult, Rejection
from kschedctl.scheduler.framework.declaration import NEVER, USES_DISKS, DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.csi_migration import NO_LIMIT
from kschedctl.scheduler.plugins.helper.volume_hints import CLAIM_KINDS, iter_claim_dependencies
from kschedctl.scheduler.plugins.helper.volume_listers import Listers, NotFoundError, format_claim_key, get_listers
from kschedctl.scheduler.plugins.node_volume_limits.attachments import (
    AttachedVolume,
    DriverLimit,
    TooManyVolumes,
    find_claim_of_volume,
    find_node_attachments,
    find_node_limits,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
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
        """Return the disk in the volume's source, or None if the source is of another kind."""
        disk = getattr(source, self.field)
        if disk is None:
            return None
        return AttachedVolume(self.provisioner, getattr(disk, self.identity))


EBS = InTreeDisks(
    "kubernetes.io/aws-ebs", "aws_elastic_block_store", "volume_id", resource="attachable-volumes-aws-ebs", limit=39
)
GCE_PD = InTreeDisks(
    "kubernetes.io/gce-pd", "gce_persistent_disk", "pd_name", resource="attachable-volumes-gce-pd", limit=16
)
AZURE_DISK = InTreeDisks(
    "kubernetes.io/azure-disk", "azure_disk", "disk_name", resource="attachable-volumes-azure-disk", limit=16
)
CINDER = InTreeDisks("kubernetes.io/cinder", "cinder", "volume_id", resource="attachable-volumes-cinder", limit=256)
ALL_KINDS = (EBS, GCE_PD, AZURE_DISK, CINDER)
PROVISIONERS = frozenset(disks.provisioner for disks in ALL_KINDS)


def find_disks_of_pod(info: PodInfo, listers: Listers, *, is_new: bool) -> list[AttachedVolume]:
    """Return the distinct in-tree disks that a pod needs, in the order of the pod's volumes.

    A disk that is not provisioned yet has its claim as handle. If `is_new` is true, as for the pod that is being
    scheduled, NotFoundError is raised for a missing claim. Otherwise, missing claims are skipped. Raises PluginError
    for a claim that the pod cannot use.
    """
    return list(dict.fromkeys(_iter_disks(info, listers, is_new=is_new)))


def find_disks_of_running_pod(info: PodInfo, listers: Listers) -> list[AttachedVolume]:
    """Return the distinct in-tree disks that a running pod has attached. Missing claims are skipped.

    Raises PluginError for a claim that the pod cannot use.
    """
    return find_disks_of_pod(info, listers, is_new=False)


def _iter_disks(info: PodInfo, listers: Listers, *, is_new: bool) -> Iterator[AttachedVolume]:
    """Yield the in-tree disks of the pod's inline volumes and claims.

    Raises NotFoundError if `is_new` is true and a claim is missing. Raises PluginError for a claim that the pod cannot
    use.
    """
    for volume in info.spec.volumes:
        disk = _find_in_tree_disk(volume)
        if disk is None:
            claim = find_claim_of_volume(volume, info, listers, is_new=is_new)
            if claim is not None:
                disk = _find_disk_of_claim(claim, listers)
        if disk is not None:
            yield disk


def _find_in_tree_disk(source: Volume | PersistentVolumeSpec) -> AttachedVolume | None:
    """Return the in-tree disk in the volume's source, or None if the source is of another kind."""
    for disk_kind in ALL_KINDS:
        disk = disk_kind.find_disk(source)
        if disk is not None:
            return disk
    return None


def _find_disk_of_claim(claim: PersistentVolumeClaim, listers: Listers) -> AttachedVolume | None:
    """Return the in-tree disk behind the claim's volume, or None if the volume is not an in-tree disk.

    If the claim has no volume, return a stand-in for the disk that its class would provision, identified by the claim.
    Return None if the class does not exist or does not provision in-tree disks.
    """
    volume = listers.volumes.get(claim.spec.volume_name)
    if volume is not None:
        return _find_in_tree_disk(volume.spec)
    storage_class = listers.classes.get(claim.spec.storage_class_name or "")
    if storage_class is None or storage_class.provisioner not in PROVISIONERS:
        return None
    return AttachedVolume(storage_class.provisioner, f"claim {format_claim_key(claim)}")


REASON = "node(s) exceed max volume count"
INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
NITRO = re.compile(r"^[cmr]5.*|t3|z1d")
NITRO_LIMIT = 25
"""The AWS instance types that allow fewer disks than others, and their limit."""


class NonCSILimits(DeclaredPlugin):
    """Plugin that rejects nodes that would have too many disks of a kind attached. Shared disks count once.

    Nodes with a CSINode have migrated these disks to CSI and are left to NodeVolumeLimits. The scheduler's environment
    (KUBE_MAX_PD_VOLS) is not known here.

    Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go (v1.31).
    """

    kinds = (*CLAIM_KINDS, "CSINode")
    kinds_matter_to = USES_DISKS
    until = 31
    default_until = 30
    fixes = "held_volumes"
    disk_kind: ClassVar[InTreeDisks]

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on each kind whose unread objects could change the result for the pod.

        Nothing is yielded if no volume of the pod may be a disk of this kind.
        """
        if self._may_need_disk(info):
            yield from iter_claim_dependencies(info, get_listers(view))
            yield from (Dependency(kind, Effect.REFUSES) for kind in self.kinds)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable."""
        yield ClusterEventWithHint(NODE, ActionType.ADD)
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint("PersistentVolumeClaim", ActionType.ADD)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[None]:
        """Return success, or skip Filter if no volume of the pod may be a disk of this kind."""
        return PreFilterResult() if self._may_need_disk(info) else PRE_FILTER_SKIP

    def _may_need_disk(self, info: PodInfo) -> bool:
        """Return whether any volume of the pod may be a disk of this kind.

        A volume may be such a disk if it uses a claim, or if it names a disk of this kind.
        """
        return any(
            volume.persistent_volume_claim is not None
            or volume.ephemeral is not None
            or self.disk_kind.find_disk(volume) is not None
            for volume in info.spec.volumes
        )

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        """Yield the rejections of nodes without a CSINode whose limit the pod's disks would exceed.

        All nodes are rejected if a claim of the pod is missing or cannot be used.
        """
        listers = get_listers(view)
        all_nodes = np.ones(len(view.nodes), np.bool_)
        try:
            needed_disks = find_disks_of_pod(info, listers, is_new=True)
        except NotFoundError as missing:
            yield Rejection(all_nodes, Code.UNRESOLVABLE, str(missing))
            return
        except PluginError as error:
            yield Rejection(all_nodes, Code.ERROR, str(error))
            return
        disks = [disk for disk in needed_disks if disk.driver == self.disk_kind.provisioner]
        if disks and not listers.csi_nodes.present.all():
            yield from self._iter_limit_rejections(disks, ~listers.csi_nodes.present, view, delta)

    def _iter_limit_rejections(
        self, disks: list[AttachedVolume], considered: Bools, view: Fork, delta: Delta
    ) -> Iterator[Rejection]:
        """Yield the rejections of nodes in the mask `considered` (N,) that cannot attach the pod's `disks`.

        Nodes with a pod whose disks cannot be determined are rejected first, then nodes that would exceed their limit.
        Disks that a pod on the node already uses do not count as new.
        """
        attached = find_node_attachments(view, delta, find_disks_of_running_pod)
        for has_error, message in attached.iter_errors(view, delta):
            yield Rejection(considered & has_error, Code.ERROR, message)
            considered = considered & ~has_error
        used = attached.count_volumes(self.disk_kind.provisioner, with_unused=False)
        new = np.sum([~attached.find_nodes_with_volume(disk) for disk in disks], axis=0)
        limits = self._find_disk_limits(view)
        excess = used + new - limits

        def build_fact(row: int) -> TooManyVolumes:
            limit = DriverLimit(self.disk_kind.provisioner, int(used[row]), int(limits[row]), int(new[row]))
            return TooManyVolumes((limit,))

        distance = np.maximum(excess, 0).astype(np.float64)
        yield Rejection(considered & (excess > 0), Code.UNSCHEDULABLE, REASON, fact=build_fact, distance=distance)

    def _find_disk_limits(self, view: Fork) -> Counts:
        """Return the number of disks that each node allows (N,).

        A node that declares no limit has the default limit.
        """
        declared = find_node_limits(view, self.disk_kind.resource)
        return np.where(declared == NO_LIMIT, self.find_default_limits(view), declared)

    def find_default_limits(self, view: Fork) -> Counts:
        """Return the limit (N,) that applies to each node if the node does not declare one itself."""
        return np.full(len(view.nodes), self.disk_kind.limit)


class EBSLimits(NonCSILimits):
    """Plugin that limits disks of AWS. Newer instance types allow fewer."""

    name = "EBSLimits"
    disk_kind = EBS

    def find_default_limits(self, view: Fork) -> Counts:
        """Return the default limit for each node's instance type, which is different for instances of the Nitro system.

        The limit applies to nodes that do not declare one. If a node has both labels for the instance type, the stable
        label is used.
        """
        limits = super().find_default_limits(view)
        has_type = np.zeros(len(view.nodes), np.bool_)
        for key in INSTANCE_TYPES:
            column = view.nodes.label(key)
            is_nitro_value = [NITRO.search(value) is not None for value in column.values]
            is_nitro = np.array([*is_nitro_value, False])[column.codes]  # code -1, for no label, selects the last entry
            limits[is_nitro & ~has_type] = NITRO_LIMIT
            has_type |= column.present
        return limits


class GCEPDLimits(NonCSILimits):
    """Plugin that limits disks of Google Cloud."""

    name = "GCEPDLimits"
    disk_kind = GCE_PD


class AzureDiskLimits(NonCSILimits):
    """Plugin that limits disks of Azure."""

    name = "AzureDiskLimits"
    disk_kind = AZURE_DISK


class CinderLimits(NonCSILimits):
    """Plugin that limits disks of OpenStack."""

    name = "CinderLimits"
    disk_kind = CINDER
    default_until = NEVER
