"""NodeVolumeLimits: nodes to which a CSI driver cannot attach as many volumes more as the pod needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import Volume
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.facts import DriverLimit, TooManyVolumes
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, PluginError, PreFilterResult, Rejection
from kschedctl.scheduler.leaning import Effect, Lean
from kschedctl.scheduler.pod_traits import USES_DISKS
from kschedctl.scheduler.volumes.attachments import (
    AttachedVolume,
    NodeAttachments,
    attachable_volumes,
    node_attachments,
)
from kschedctl.scheduler.volumes.claim_leans import CLAIM_KINDS, claim_leans
from kschedctl.scheduler.volumes.csi_migration import plugin_of
from kschedctl.scheduler.volumes.csi_nodes import NO_LIMIT
from kschedctl.scheduler.volumes.listers import Listers, NotFoundError, listers
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "node(s) exceed max volume count"
OF_OTHERS = ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment")
"""What tells how many volumes a node has."""


class NodeVolumeLimits(DeclaredPlugin):
    """Rejects nodes whose CSINode limits a driver to fewer volumes than it would have attached with the pod's.

    Upstream: pkg/scheduler/framework/plugins/nodevolumelimits (v1.36). A volume that several pods of a node use counts
    once. ``limit_scaling`` (gate VolumeLimitScaling): a driver may also ask to be installed where its volumes go.
    """

    name = "NodeVolumeLimits"
    kinds = (*CLAIM_KINDS, "CSINode", "CSIDriver", "VolumeAttachment")
    kinds_matter_to = USES_DISKS

    def __init__(self, limit_scaling: bool = False) -> None:
        self.limit_scaling = limit_scaling

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        return cls(gates.enabled("VolumeLimitScaling"))

    def leans(self, info: PodInfo, view: Fork) -> Iterator[Lean]:
        """Where some node limits a driver, the volumes of its other pods count too."""
        if not any(map(_may_attach, info.spec.volumes)):
            return
        found = listers(view)
        yield from claim_leans(info, found)
        counted = OF_OTHERS if found.csi_nodes.limited.any() else ()
        for kind in ("CSINode", *counted, *["CSIDriver"] * self.limit_scaling):
            yield Lean(kind, Effect.REFUSES)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        return PreFilterResult() if any(map(_may_attach, info.spec.volumes)) else PRE_FILTER_SKIP

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        found = listers(view)
        for migrated, rows in ((True, found.csi_nodes.present), (False, ~found.csi_nodes.present)):
            if rows.any():
                yield from self._filter(info, view, rows, migrated, delta)

    def _filter(self, info: PodInfo, view: Fork, rows: Bools, migrated: bool, delta: Delta) -> Iterator[Rejection]:
        """The answer for nodes that all have, or all lack, a CSINode."""
        found = listers(view)
        try:
            volumes = attachable_volumes(info, found, migrated, new=True)
        except NotFoundError as missing:
            yield Rejection(rows, Code.UNRESOLVABLE, str(missing))
            return
        except PluginError as error:
            yield Rejection(rows, Code.ERROR, str(error))
            return
        for driver in dict.fromkeys(volume.driver for volume in volumes) if self.limit_scaling else ():
            refused = rows & _requires_driver(driver, found) & ~found.csi_nodes.has_driver(driver)
            yield Rejection(refused, Code.UNSCHEDULABLE, f"{driver} CSI driver is not installed on the node")
            rows = rows & ~refused
        rows = rows & found.csi_nodes.limited
        if not volumes or not rows.any():
            return
        attached = node_attachments(view, delta)
        for refused, text in attached.errors(view, delta):
            yield Rejection(rows & refused, Code.ERROR, text)
            rows = rows & ~refused
        yield _over_limit(volumes, rows, found, attached)


def _over_limit(volumes: list[AttachedVolume], rows: Bools, found: Listers, attached: NodeAttachments) -> Rejection:
    """The nodes on which some driver would exceed its limit. Volumes that a pod of the node uses are no new ones."""
    refused, distance = np.zeros(len(rows), np.bool_), np.zeros(len(rows))
    limited: list[tuple[Bools, Callable[[int], DriverLimit]]] = []
    for driver in dict.fromkeys(volume.driver for volume in volumes):
        limits, used = found.csi_nodes.limits(driver), attached.count(driver)
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


def _limit(driver: str, limits: Counts, used: Counts, new: Counts, row: int) -> DriverLimit:
    return DriverLimit(driver, int(used[row]), int(limits[row]), int(new[row]))


def _may_attach(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or plugin_of(volume) is not None


def _requires_driver(driver: str, found: Listers) -> bool:
    known = found.drivers.get(driver)
    return known is not None and known.spec.prevent_pod_scheduling_if_missing is True
