"""NodeVolumeLimits: nodes to which a CSI driver cannot attach as many volumes more as the pod needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import Volume
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, Fragment, PluginError, PreFilterResult, Rejection
from kschedctl.scheduler.framework.declaration import DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import POD, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.pod_traits import USES_DISKS
from kschedctl.scheduler.framework.waking import ADD, DELETE, UPDATE, WakeTrigger
from kschedctl.scheduler.plugins.helper.signing import sign_volumes
from kschedctl.scheduler.plugins.helper.volumes.claim_dependencies import CLAIM_KINDS, claim_dependencies
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import PLUGINS
from kschedctl.scheduler.plugins.helper.volumes.csi_nodes import NO_LIMIT
from kschedctl.scheduler.plugins.helper.volumes.hints import describe_claims
from kschedctl.scheduler.plugins.helper.volumes.listers import Listers, NotFoundError, listers
from kschedctl.scheduler.plugins.node_volume_limits import hints
from kschedctl.scheduler.plugins.node_volume_limits.attachments import (
    AttachedVolume,
    NodeAttachments,
    attachable_volumes,
    node_attachments,
)
from kschedctl.scheduler.plugins.node_volume_limits.node_limits import (
    DriverLimit,
    TooManyVolumes,
    csi_limit_resource,
    node_limits,
    nodes_with_limits,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) exceed max volume count"
IN_TREE_FIELDS = tuple(plugin.field for plugin in PLUGINS)
MIGRATABLE = ByVersion(
    "the in-tree volumes of a pod that NodeVolumeLimits takes notice of",
    (("", ("rbd", *IN_TREE_FIELDS)), ("1.31", IN_TREE_FIELDS)),
    "#124546",
)
READS_NODES = ByVersion(
    "whether attachable-volumes-csi-* of a node limit CSI volumes where its CSINode does not",
    (("", True), ("1.32", False)),
)
COUNTS_WITHOUT_PODS = ByVersion(
    "whether CSI volumes that are attached for no pod count", (("", False), ("1.32", True)), "#127757"
)
NO_DRIVER = "{} CSI driver is not installed on the node"
OF_OTHER_PODS = ("PersistentVolumeClaim", "PersistentVolume")
OF_OTHERS = (*OF_OTHER_PODS, "VolumeAttachment")
"""What tells how many volumes a node has."""


class NodeVolumeLimits(DeclaredPlugin):
    """Rejects nodes whose CSINode limits a driver to fewer volumes than it would have attached with the pod's.

    Upstream: pkg/scheduler/framework/plugins/nodevolumelimits (v1.36). A volume that several pods of a node use counts
    once. ``limit_scaling`` (gate VolumeLimitScaling): a driver may also ask to be installed where its volumes go.
    """

    name = "NodeVolumeLimits"
    facts = (TooManyVolumes,)
    changed = (
        MIGRATABLE,
        READS_NODES,
        COUNTS_WITHOUT_PODS,
        hints.HEARS_OF_LIMITS,
        hints.HEARS_OF_ATTACHMENTS,
        hints.HINTS_AT_CLAIMS,
    )
    hints_since = 31
    without = "more volumes are placed on a node than it can attach"
    next_step = NextStep("DetachVolumes", "Detach volumes from {node}, or correct its driver's limit")
    kinds = (*CLAIM_KINDS, "CSINode", "CSIDriver", "VolumeAttachment")
    kinds_matter_to = USES_DISKS

    def __init__(self, limit_scaling: bool = False, version: KubeVersion = VERIFIED) -> None:
        self.limit_scaling = limit_scaling
        self.migratable = MIGRATABLE.at(version)
        self.reads_nodes = READS_NODES.at(version)
        self.counts_without_pods = COUNTS_WITHOUT_PODS.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.enabled("VolumeLimitScaling"), gates.release)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Where some node limits a driver, the volumes of its other pods count too."""
        if not any(map(self._may_attach, info.spec.volumes)):
            return
        storage = listers(view)
        yield from claim_dependencies(info, storage)
        of_others = OF_OTHERS if self.counts_without_pods else OF_OTHER_PODS
        counted = of_others if self._limited(view).any() else ()
        for kind in ("CSINode", *counted, *["CSIDriver"] * self.limit_scaling):
            yield Dependency(kind, Effect.REFUSES)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        return hints.events_to_register(gates, self._may_attach)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[None]:
        return PreFilterResult() if any(map(self._may_attach, info.spec.volumes)) else PRE_FILTER_SKIP

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        storage = listers(view)
        for migrated, rows in ((True, storage.csi_nodes.present), (False, ~storage.csi_nodes.present)):
            if rows.any():
                yield from self._filter(info, view, rows, migrated, delta)

    def _filter(self, info: PodInfo, view: Fork, rows: Bools, migrated: bool, delta: Delta) -> Iterator[Rejection]:
        """The answer for nodes that all have, or all lack, a CSINode."""
        storage = listers(view)
        try:
            volumes = attachable_volumes(info, storage, migrated, new=True)
        except NotFoundError as missing:
            yield Rejection(rows, Code.UNRESOLVABLE, str(missing))
            return
        except PluginError as error:
            yield Rejection(rows, Code.ERROR, str(error))
            return
        for driver in dict.fromkeys(volume.driver for volume in volumes) if self.limit_scaling else ():
            refused = rows & _requires_driver(driver, storage) & ~storage.csi_nodes.has_driver(driver)
            yield Rejection(refused, Code.UNSCHEDULABLE, NO_DRIVER.format(driver))
            rows = rows & ~refused
        rows = rows & self._limited(view)
        if not volumes or not rows.any():
            return
        attached = node_attachments(view, delta)
        for refused, text in attached.errors(view, delta):
            yield Rejection(rows & refused, Code.ERROR, text)
            rows = rows & ~refused
        yield self._over_limit(volumes, rows, view, attached)

    def _over_limit(
        self, volumes: list[AttachedVolume], rows: Bools, view: Fork, attached: NodeAttachments
    ) -> Rejection:
        """The nodes on which some driver would exceed its limit. What a pod of the node uses is no new volume."""
        refused, distance = np.zeros(len(rows), np.bool_), np.zeros(len(rows))
        limited: list[tuple[Bools, Callable[[int], DriverLimit]]] = []
        for driver in dict.fromkeys(volume.driver for volume in volumes):
            limits, used = self._limits(driver, view), attached.count(driver, self.counts_without_pods)
            new = np.sum([~attached.has(volume) for volume in volumes if volume.driver == driver], axis=0)
            over = rows & (limits != NO_LIMIT) & (new > 0) & (used + new > limits)
            refused |= over
            distance[over] = np.maximum(distance, used + new - limits)[over]
            limited.append((over, partial(_limit, driver, limits, used, new)))
        return Rejection(
            refused,
            Code.UNSCHEDULABLE,
            REASON,
            lambda row: TooManyVolumes(tuple(limit(row) for over, limit in limited if over[row])),
            distance,
        )

    def _limited(self, view: Fork) -> Bools:
        """(N,): the nodes on which some limit is known."""
        by_driver = listers(view).csi_nodes.limited
        return by_driver | nodes_with_limits(view).any if self.reads_nodes else by_driver

    def _limits(self, driver: str, view: Fork) -> Counts:
        """(N,): how many volumes a driver can attach, NO_LIMIT where that is not known."""
        by_driver = listers(view).csi_nodes.limits(driver)
        if not self.reads_nodes:
            return by_driver
        return np.where(by_driver == NO_LIMIT, node_limits(view, csi_limit_resource(driver)), by_driver)

    def _may_attach(self, volume: Volume) -> bool:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
        return any(getattr(volume, field) is not None for field in self.migratable)

    def waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        yield WakeTrigger(POD, DELETE, "a pod with volumes leaves a node")
        yield WakeTrigger("CSINode", ADD, "a CSINode is added")
        yield WakeTrigger("CSINode", UPDATE, "a driver can attach more volumes to a node than before (CSINode)")
        yield WakeTrigger("VolumeAttachment", DELETE, "a volume is detached from a node")
        yield WakeTrigger("PersistentVolumeClaim", ADD, f"claim {describe_claims(info)} is created")

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        return sign_volumes(info)


def _limit(driver: str, limits: Counts, used: Counts, new: Counts, row: int) -> DriverLimit:
    return DriverLimit(driver, int(used[row]), int(limits[row]), int(new[row]))


def _requires_driver(driver: str, storage: Listers) -> bool:
    known = storage.drivers.get(driver)
    return known is not None and known.spec.prevent_pod_scheduling_if_missing is True
