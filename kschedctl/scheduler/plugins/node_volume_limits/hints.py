"""Queueing hints of NodeVolumeLimits.

Upstream: plugins/nodevolumelimits/csi.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import CSINode, Volume
from kschedctl.scheduler.framework.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.placed_pods import NOMINATED_PODS_FREE_ROOM, frees_room
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import (
    TranslationError,
    find_in_tree_plugin,
    translate_handle,
)
from kschedctl.scheduler.plugins.helper.volumes.hints import is_schedulable_after_any_claim_change
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REGISTERS_LIMIT_EVENTS = ByVersion(
    "whether NodeVolumeLimits asks how many volumes a CSINode allows, and has a hint for detached ones",
    (("", False), ("1.33", True)),
)
REGISTERS_ATTACHMENT_EVENTS = ByVersion(
    "whether NodeVolumeLimits asks to be told of detached volumes", (("", False), ("1.32", True))
)
HAS_CLAIM_HINT = ByVersion("whether NodeVolumeLimits has a hint for new claims", (("", False), ("1.32", True)))


def events_to_register(gates: FeatureGates, may_attach: Callable[[Volume], bool]) -> Iterator[ClusterEventWithHint]:
    """Yield the events that NodeVolumeLimits registers.

    `may_attach` returns whether a volume may count towards a limit.
    """
    release = gates.release
    yield ClusterEventWithHint("CSINode", ActionType.ADD)
    if REGISTERS_LIMIT_EVENTS.at(release):
        yield ClusterEventWithHint("CSINode", ActionType.UPDATE, is_schedulable_after_csi_node_updated)
    counts_nominated = NOMINATED_PODS_FREE_ROOM.at(release)
    yield ClusterEventWithHint(
        POD,
        ActionType.DELETE,
        partial(is_schedulable_after_pod_deleted, may_attach=may_attach, counts_nominated=counts_nominated),
    )
    yield ClusterEventWithHint(
        "PersistentVolumeClaim",
        ActionType.ADD,
        is_schedulable_after_any_claim_change if HAS_CLAIM_HINT.at(release) else None,
    )
    if REGISTERS_ATTACHMENT_EVENTS.at(release):
        hint = is_schedulable_after_attachment_deleted if REGISTERS_LIMIT_EVENTS.at(release) else None
        yield ClusterEventWithHint("VolumeAttachment", ActionType.DELETE, hint)


def is_schedulable_after_pod_deleted(
    info: PodInfo, change: ChangedObject, view: Fork, may_attach: Callable[[Volume], bool], counts_nominated: bool
) -> bool:
    """Return whether the deleted pod had a node and a volume that may count towards a limit."""
    return frees_room(change.old, counts_nominated) and any(map(may_attach, change.old.spec.volumes))


def is_schedulable_after_csi_node_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether some driver can attach more volumes to the node than before."""
    old, new = _limits_by_driver(change.old), _limits_by_driver(change.new)
    return any(limit > old.get(driver, 0) for driver, limit in new.items())


def is_schedulable_after_attachment_deleted(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Return whether the deleted attachment may belong to a driver that the pod needs.

    Any attachment counts for a pod with claims.
    """
    for volume in info.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        plugin = find_in_tree_plugin(volume)
        if plugin is not None and (
            plugin.driver == change.old.spec.attacher or not _is_translatable(volume, plugin.field)
        ):
            return True
    return False


def _is_translatable(volume: Volume, field: str) -> bool:
    """Return whether the in-line volume can be translated to a CSI volume."""
    try:
        translate_handle(getattr(volume, field))
    except TranslationError:
        return False
    return True


def _limits_by_driver(node: CSINode) -> dict[str, int]:
    """Return driver -> how many volumes it can attach, 0 if it does not say."""
    return {driver.name: (driver.allocatable.count or 0) if driver.allocatable else 0 for driver in node.spec.drivers}
