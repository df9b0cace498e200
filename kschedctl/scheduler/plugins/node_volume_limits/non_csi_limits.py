"""EBSLimits, GCEPDLimits, AzureDiskLimits, CinderLimits: nodes to which no more in-tree disks can be attached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, PluginError, PreFilterResult, Rejection
from kschedctl.scheduler.framework.declaration import NEVER, DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.pod_traits import USES_DISKS
from kschedctl.scheduler.plugins.helper.volumes.claim_dependencies import CLAIM_KINDS, claim_dependencies
from kschedctl.scheduler.plugins.helper.volumes.csi_nodes import NO_LIMIT
from kschedctl.scheduler.plugins.helper.volumes.listers import NotFoundError, listers
from kschedctl.scheduler.plugins.node_volume_limits.attachments import AttachedVolume, node_attachments
from kschedctl.scheduler.plugins.node_volume_limits.in_tree import (
    AZURE_DISK,
    CINDER,
    EBS,
    GCE_PD,
    InTreeDisks,
    disks_of_running,
    in_tree_disks,
)
from kschedctl.scheduler.plugins.node_volume_limits.node_limits import DriverLimit, TooManyVolumes, node_limits
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) exceed max volume count"
INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
NITRO, NITRO_LIMIT = re.compile(r"^[cmr]5.*|t3|z1d"), 25
"""The machines of AWS that take fewer disks than others."""


class NonCSILimits(DeclaredPlugin):
    """Rejects nodes that would have more disks of a sort attached with the pod's; a disk of several pods counts once.

    Nodes with a CSINode have handed these disks over to CSI and are left to NodeVolumeLimits. Upstream:
    pkg/scheduler/framework/plugins/nodevolumelimits/non_csi.go (v1.31). The scheduler's environment (KUBE_MAX_PD_VOLS)
    is not known here.
    """

    kinds = (*CLAIM_KINDS, "CSINode")
    kinds_matter_to = USES_DISKS
    until = 31
    default_until = 30
    disks: ClassVar[InTreeDisks]

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Where a node has no CSINode, the disks of its other pods count too."""
        if self._may_attach(info):
            yield from claim_dependencies(info, listers(view))
            yield from (Dependency(kind, Effect.REFUSES) for kind in self.kinds)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(NODE, ActionType.ADD)
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint("PersistentVolumeClaim", ActionType.ADD)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[None]:
        return PreFilterResult() if self._may_attach(info) else PRE_FILTER_SKIP

    def _may_attach(self, info: PodInfo) -> bool:
        return any(
            volume.persistent_volume_claim is not None
            or volume.ephemeral is not None
            or self.disks.of(volume) is not None
            for volume in info.spec.volumes
        )

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        storage = listers(view)
        everywhere = np.ones(len(view.nodes), np.bool_)
        try:
            needed = in_tree_disks(info, storage, new=True)
        except NotFoundError as missing:
            yield Rejection(everywhere, Code.UNRESOLVABLE, str(missing))
            return
        except PluginError as error:
            yield Rejection(everywhere, Code.ERROR, str(error))
            return
        disks = [disk for disk in needed if disk.driver == self.disks.provisioner]
        if disks and not storage.csi_nodes.present.all():
            yield from self._over_limit(disks, ~storage.csi_nodes.present, view, delta)

    def _over_limit(self, disks: list[AttachedVolume], rows: Bools, view: Fork, delta: Delta) -> Iterator[Rejection]:
        attached = node_attachments(view, delta, disks_of_running)
        for refused, text in attached.errors(view, delta):
            yield Rejection(rows & refused, Code.ERROR, text)
            rows = rows & ~refused
        used = attached.count(self.disks.provisioner, without_pods=False)
        new = np.sum([~attached.has(disk) for disk in disks], axis=0)
        limits = self._limits(view)
        over = used + new - limits

        def fact(row: int) -> TooManyVolumes:
            limit = DriverLimit(self.disks.provisioner, int(used[row]), int(limits[row]), int(new[row]))
            return TooManyVolumes((limit,))

        yield Rejection(rows & (over > 0), Code.UNSCHEDULABLE, REASON, fact, np.maximum(over, 0).astype(np.float64))

    def _limits(self, view: Fork) -> Counts:
        """(N,): how many the nodes take."""
        said = node_limits(view, self.disks.resource)
        return np.where(said == NO_LIMIT, self.assumed(view), said)

    def assumed(self, view: Fork) -> Counts:
        """(N,): how many the nodes take that do not say so."""
        return np.full(len(view.nodes), self.disks.limit)


class EBSLimits(NonCSILimits):
    """The disks of AWS, of which the newer machines take fewer."""

    name = "EBSLimits"
    disks = EBS

    def assumed(self, view: Fork) -> Counts:
        limits, typed = super().assumed(view), np.zeros(len(view.nodes), np.bool_)
        for key in INSTANCE_TYPES:
            column = view.nodes.label(key)
            nitro = np.array([*(NITRO.search(value) is not None for value in column.values), False])[column.codes]
            limits[nitro & ~typed] = NITRO_LIMIT
            typed |= column.present
        return limits


class GCEPDLimits(NonCSILimits):
    """The disks of Google Cloud."""

    name = "GCEPDLimits"
    disks = GCE_PD


class AzureDiskLimits(NonCSILimits):
    """The disks of Azure."""

    name = "AzureDiskLimits"
    disks = AZURE_DISK


class CinderLimits(NonCSILimits):
    """The disks of OpenStack."""

    name = "CinderLimits"
    disks = CINDER
    default_until = NEVER
