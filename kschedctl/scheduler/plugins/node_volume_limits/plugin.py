"""NodeVolumeLimits plugin: rejects nodes to which a CSI driver cannot attach the pod's volumes.

Upstream: plugins/nodevolumelimits/csi.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.api.objects import CSINode, Volume
from kschedctl.scheduler.framework import PRE_FILTER_SKIP, Code, Fragment, PluginError, PreFilterResult, Rejection
from kschedctl.scheduler.framework.declaration import USES_DISKS, DeclaredPlugin, NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import (
    ADD,
    DELETE,
    NOMINATED_PODS_FREE_ROOM,
    POD,
    UPDATE,
    ActionType,
    ChangedObject,
    ClusterEventWithHint,
    WakeTrigger,
    frees_room,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.csi_migration import (
    NO_LIMIT,
    PLUGINS,
    TranslationError,
    find_in_tree_plugin,
    translate_handle,
)
from kschedctl.scheduler.plugins.helper.signing import sign_volumes
from kschedctl.scheduler.plugins.helper.volume_hints import (
    CLAIM_KINDS,
    describe_claim_creation,
    is_schedulable_after_any_claim_change,
    iter_claim_dependencies,
)
from kschedctl.scheduler.plugins.helper.volume_listers import Listers, NotFoundError, get_listers
from kschedctl.scheduler.plugins.node_volume_limits.attachments import (
    AttachedVolume,
    DriverLimit,
    NodeAttachments,
    TooManyVolumes,
    build_limit_resource_name,
    find_attachable_volumes,
    find_node_attachments,
    find_node_limits,
    find_nodes_with_limits,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REGISTERS_LIMIT_EVENTS = ByVersion(
    "a raised limit in a CSINode can make the scheduler retry a rejected pod", (("", False), ("1.33", True))
)
HAS_ATTACHMENT_HINT = ByVersion(
    "a detached volume makes the scheduler retry only pods that may need the volume's CSI driver",
    (("", False), ("1.33", True)),
)
REGISTERS_ATTACHMENT_EVENTS = ByVersion(
    "a detached volume can make the scheduler retry a rejected pod", (("", False), ("1.32", True))
)
HAS_CLAIM_HINT = ByVersion(
    "a new PersistentVolumeClaim makes the scheduler retry only pods that use this claim", (("", False), ("1.32", True))
)


REASON = "node(s) exceed max volume count"
IN_TREE_FIELDS = tuple(plugin.field for plugin in PLUGINS)
COUNTS_RBD = ByVersion("RBD volumes count towards the node's volume limit", (("", True), ("1.31", False)), "#124546")
READS_NODES = ByVersion(
    "a node's attachable-volumes-csi-* resources limit its CSI volumes if its CSINode has no limit",
    (("", True), ("1.32", False)),
)
COUNTS_WITHOUT_PODS = ByVersion(
    "attached CSI volumes that no pod uses count towards the limit", (("", False), ("1.32", True)), "#127757"
)
NO_DRIVER = "{} CSI driver is not installed on the node"
KINDS_OF_OTHER_PODS = ("PersistentVolumeClaim", "PersistentVolume")
KINDS_OF_ATTACHED_VOLUMES = (*KINDS_OF_OTHER_PODS, "VolumeAttachment")
"""The kinds that determine how many volumes a node has."""


class NodeVolumeLimits(DeclaredPlugin):
    """Plugin that rejects nodes where a CSI driver would exceed the limit in the node's CSINode.

    A volume that several pods of a node use counts once. With `limit_scaling` (gate VolumeLimitScaling), a CSIDriver
    can require that it is installed on nodes with its volumes.

    Upstream: pkg/scheduler/framework/plugins/nodevolumelimits (v1.36).
    """

    name = "NodeVolumeLimits"
    facts = (TooManyVolumes,)
    changed = (
        COUNTS_RBD,
        READS_NODES,
        COUNTS_WITHOUT_PODS,
        REGISTERS_LIMIT_EVENTS,
        REGISTERS_ATTACHMENT_EVENTS,
        HAS_ATTACHMENT_HINT,
        HAS_CLAIM_HINT,
    )
    hints_since = 31
    looks_at_own_pods = True
    without = "more volumes are placed on a node than it can attach"
    fixes = "held_volumes"
    next_step = NextStep(
        "DetachVolumes",
        "Move pods with volumes of this driver off {node}, or raise the driver's limit if it is set too low",
    )
    kinds = (*CLAIM_KINDS, "CSINode", "CSIDriver", "VolumeAttachment")
    kinds_matter_to = USES_DISKS

    def __init__(self, limit_scaling: bool = False, version: KubeVersion = VERIFIED) -> None:
        self.limit_scaling = limit_scaling
        self.migratable = ("rbd", *IN_TREE_FIELDS) if COUNTS_RBD.at(version) else IN_TREE_FIELDS
        self.reads_node_allocatable = READS_NODES.at(version)
        self.counts_without_pods = COUNTS_WITHOUT_PODS.at(version)

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        """Build the plugin for the feature gates and their version. It takes no arguments."""
        return cls(gates.enabled("VolumeLimitScaling"), gates.release)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield a dependency on each kind whose unread objects could change the results for a pod with volumes.

        These kinds decide which volumes the pod attaches and, if any node has a limit, which volumes other pods attach.
        Nothing is yielded for a pod without volumes that may count.
        """
        if not any(map(self._may_count_towards_limit, info.spec.volumes)):
            return
        yield from iter_claim_dependencies(info, get_listers(view))
        kinds = ["CSINode"]
        if self._find_limited_nodes(view).any():
            kinds += KINDS_OF_ATTACHED_VOLUMES if self.counts_without_pods else KINDS_OF_OTHER_PODS
        if self.limit_scaling:
            kinds.append("CSIDriver")
        for kind in kinds:
            yield Dependency(kind, Effect.REFUSES)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod may become schedulable, with their hints."""
        return events_to_register(gates, self._may_count_towards_limit)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[None]:
        """Return success, or skip Filter if no volume of the pod may count towards a limit."""
        return PreFilterResult() if any(map(self._may_count_towards_limit, info.spec.volumes)) else PRE_FILTER_SKIP

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        """Yield the rejections of nodes to which a CSI driver cannot attach the pod's volumes.

        Nodes with and without a CSINode are handled separately, because in-tree volumes count as CSI volumes only on
        nodes with a CSINode.
        """
        has_csi_node = get_listers(view).csi_nodes.present
        if has_csi_node.any():
            yield from self._iter_rejections(info, view, has_csi_node, counts_in_tree=True, delta=delta)
        if not has_csi_node.all():
            yield from self._iter_rejections(info, view, ~has_csi_node, counts_in_tree=False, delta=delta)

    def _iter_rejections(
        self, info: PodInfo, view: Fork, considered: Bools, *, counts_in_tree: bool, delta: Delta
    ) -> Iterator[Rejection]:
        """Yield the rejections of nodes in the mask `considered` (N,), which all have or all lack a CSINode.

        Set `counts_in_tree` if in-tree volumes count as CSI volumes on these nodes. All these nodes are rejected if a
        claim of the pod is missing or cannot be used. Otherwise, a node is rejected if it lacks a required driver, has
        a pod whose volumes cannot be determined, or would exceed a driver's limit.
        """
        listers = get_listers(view)
        try:
            volumes = find_attachable_volumes(info, listers, counts_in_tree=counts_in_tree, is_new=True)
        except NotFoundError as missing:
            yield Rejection(considered, Code.UNRESOLVABLE, str(missing))
            return
        except PluginError as error:
            yield Rejection(considered, Code.ERROR, str(error))
            return

        if self.limit_scaling:
            for driver in dict.fromkeys(volume.driver for volume in volumes):
                if not _requires_driver(driver, listers):
                    continue
                lacks_driver = considered & ~listers.csi_nodes.find_nodes_with_driver(driver)
                yield Rejection(lacks_driver, Code.UNSCHEDULABLE, NO_DRIVER.format(driver))
                considered = considered & ~lacks_driver

        considered = considered & self._find_limited_nodes(view)
        if not volumes or not considered.any():
            return
        attached = find_node_attachments(view, delta)
        for has_error, message in attached.iter_errors(view, delta):
            yield Rejection(considered & has_error, Code.ERROR, message)
            considered = considered & ~has_error
        yield self._build_limit_rejection(volumes, considered, view, attached)

    def _build_limit_rejection(
        self, volumes: list[AttachedVolume], considered: Bools, view: Fork, attached: NodeAttachments
    ) -> Rejection:
        """Build the rejection of the nodes on which the pod's `volumes` would make a driver exceed its limit.

        Only nodes in the mask `considered` (N,) are rejected. Volumes already in use on a node do not count as new. The
        rejection's distance is the largest number of volumes by which a driver exceeds its limit.
        """
        rejected = np.zeros(len(considered), np.bool_)
        distance = np.zeros(len(considered))
        driver_excesses: list[_DriverExcess] = []
        for driver in dict.fromkeys(volume.driver for volume in volumes):
            driver_volumes = [volume for volume in volumes if volume.driver == driver]
            limits = self._find_driver_limits(driver, view)
            used = attached.count_volumes(driver, with_unused=self.counts_without_pods)
            new = np.sum([~attached.find_nodes_with_volume(volume) for volume in driver_volumes], axis=0)
            excess = used + new - limits
            is_limited = limits != NO_LIMIT
            exceeds = considered & is_limited & (new > 0) & (excess > 0)
            rejected |= exceeds
            distance[exceeds] = np.maximum(distance[exceeds], excess[exceeds])
            driver_excesses.append(_DriverExcess(driver, exceeds, limits, used=used, new=new))

        def build_fact(row: int) -> TooManyVolumes:
            return TooManyVolumes(tuple(excess.build_fact(row) for excess in driver_excesses if excess.exceeds[row]))

        return Rejection(rejected, Code.UNSCHEDULABLE, REASON, fact=build_fact, distance=distance)

    def _find_limited_nodes(self, view: Fork) -> Bools:
        """Return a mask (N,) of the nodes that limit the volumes of at least one driver.

        The limit is in the CSINode or, before 1.32, in the node's allocatable resources.
        """
        limited_by_csi_node = get_listers(view).csi_nodes.nodes_with_limits
        if not self.reads_node_allocatable:
            return limited_by_csi_node
        return limited_by_csi_node | find_nodes_with_limits(view).by_any_resource

    def _find_driver_limits(self, driver: str, view: Fork) -> Counts:
        """Return the number of volumes that the driver can attach to each node, or NO_LIMIT.

        A limit in the CSINode takes precedence. Versions before 1.32 also read a limit from the node's allocatable
        resources.
        """
        csi_node_limits = get_listers(view).csi_nodes.find_driver_limits(driver)
        if not self.reads_node_allocatable:
            return csi_node_limits
        node_limits = find_node_limits(view, build_limit_resource_name(driver))
        return np.where(csi_node_limits == NO_LIMIT, node_limits, csi_node_limits)

    def _may_count_towards_limit(self, volume: Volume) -> bool:
        """Return whether the volume may count towards a limit, because it has a claim or is an in-tree volume."""
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
        return any(getattr(volume, field) is not None for field in self.migratable)

    def iter_waking_changes(self, info: PodInfo, view: Fork, gates: FeatureGates) -> Iterator[WakeTrigger]:
        """Yield a description of each change that moves a rejected pod back to the queue."""
        yield WakeTrigger(POD, DELETE, "a pod with volumes ends or is deleted")
        yield WakeTrigger("CSINode", ADD, "a CSINode is added")
        yield WakeTrigger("CSINode", UPDATE, "a driver's volume limit on a node is raised (CSINode)")
        yield WakeTrigger("VolumeAttachment", DELETE, "a volume is detached from a node")
        yield WakeTrigger("PersistentVolumeClaim", ADD, describe_claim_creation(info, view))

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the sources of the pod's volumes as part of its signature."""
        return sign_volumes(info)


class _DriverExcess(NamedTuple):
    """The volumes of one CSI driver on each of N nodes, if the pod were there."""

    driver: str
    exceeds: Bools
    """Mask of the nodes (N,) on which the driver would exceed its limit."""
    limits: Counts
    """The number of volumes that the driver can attach (N,), or NO_LIMIT."""
    used: Counts
    """The number of attached volumes (N,)."""
    new: Counts
    """The number of volumes that the pod adds (N,)."""

    def build_fact(self, row: int) -> DriverLimit:
        """Build the fact about the driver's limit on the node in the row."""
        return DriverLimit(self.driver, int(self.used[row]), int(self.limits[row]), int(self.new[row]))


def _requires_driver(driver: str, listers: Listers) -> bool:
    """Return whether a CSIDriver exists and requires that the driver is installed on nodes with its volumes."""
    csi_driver = listers.drivers.get(driver)
    return csi_driver is not None and csi_driver.spec.prevent_pod_scheduling_if_missing is True


def events_to_register(
    gates: FeatureGates, may_count_towards_limit: Callable[[Volume], bool]
) -> Iterator[ClusterEventWithHint]:
    """Yield the events after which a pod rejected by NodeVolumeLimits may become schedulable, with their hints.

    `may_count_towards_limit` returns whether a volume may count towards a limit.
    """
    release = gates.release
    yield ClusterEventWithHint("CSINode", ActionType.ADD)
    if REGISTERS_LIMIT_EVENTS.at(release):
        yield ClusterEventWithHint("CSINode", ActionType.UPDATE, is_schedulable_after_csi_node_updated)
    pod_hint = partial(
        is_schedulable_after_pod_deleted,
        may_count_towards_limit=may_count_towards_limit,
        counts_nominated=NOMINATED_PODS_FREE_ROOM.at(release),
    )
    yield ClusterEventWithHint(POD, ActionType.DELETE, pod_hint)
    claim_hint = is_schedulable_after_any_claim_change if HAS_CLAIM_HINT.at(release) else None
    yield ClusterEventWithHint("PersistentVolumeClaim", ActionType.ADD, claim_hint)
    if REGISTERS_ATTACHMENT_EVENTS.at(release):
        attachment_hint = is_schedulable_after_attachment_deleted if HAS_ATTACHMENT_HINT.at(release) else None
        yield ClusterEventWithHint("VolumeAttachment", ActionType.DELETE, attachment_hint)


def is_schedulable_after_pod_deleted(
    info: PodInfo,
    change: ChangedObject,
    view: Fork,
    may_count_towards_limit: Callable[[Volume], bool],
    counts_nominated: bool,
) -> bool:
    """Return whether the deleted pod had a node and a volume that may count towards a limit.

    If `counts_nominated` is True, a nominated node is enough.
    """
    return frees_room(change.old, counts_nominated=counts_nominated) and any(
        map(may_count_towards_limit, change.old.spec.volumes)
    )


def is_schedulable_after_csi_node_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether some driver can attach more volumes to the node than before."""
    old, new = _index_limits_by_driver(change.old), _index_limits_by_driver(change.new)
    return any(limit > old.get(driver, 0) for driver, limit in new.items())


def is_schedulable_after_attachment_deleted(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the deleted attachment may belong to a driver that the pod needs.

    Return True for every attachment if the pod has a claim, or an inline volume that cannot be translated to CSI.
    """
    for volume in info.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        plugin = find_in_tree_plugin(volume)
        if plugin is None:
            continue
        if plugin.driver == change.old.spec.attacher or not _is_translatable_to_csi(volume, plugin.field):
            return True
    return False


def _is_translatable_to_csi(volume: Volume, field: str) -> bool:
    """Return whether the inline volume, whose source is in this field, can be translated to a CSI volume."""
    try:
        translate_handle(getattr(volume, field))
    except TranslationError:
        return False
    return True


def _index_limits_by_driver(node: CSINode) -> dict[str, int]:
    """Return the number of volumes that each driver can attach to the node, or 0 without a declared limit."""
    limits = {}
    for driver in node.spec.drivers:
        limit = driver.allocatable.count if driver.allocatable else None
        limits[driver.name] = limit or 0
    return limits
