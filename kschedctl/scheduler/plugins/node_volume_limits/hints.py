"""NodeVolumeLimits: what frees room for volumes on a node.

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

HEARS_OF_LIMITS = ByVersion(
    "whether NodeVolumeLimits asks how many volumes a CSINode allows, and has a hint for detached ones",
    (("", False), ("1.33", True)),
)
HEARS_OF_ATTACHMENTS = ByVersion(
    "whether NodeVolumeLimits asks to be told of detached volumes", (("", False), ("1.32", True))
)
HINTS_AT_CLAIMS = ByVersion("whether NodeVolumeLimits has a hint for new claims", (("", False), ("1.32", True)))


def events_to_register(gates: FeatureGates, may_attach: Callable[[Volume], bool]) -> Iterator[ClusterEventWithHint]:
    """What NodeVolumeLimits asks for; ``may_attach``: whether a volume may count."""
    release = gates.release
    yield ClusterEventWithHint("CSINode", ActionType.ADD)
    if HEARS_OF_LIMITS.at(release):
        yield ClusterEventWithHint("CSINode", ActionType.UPDATE, after_csi_node_updated)
    promised = NOMINATED_PODS_FREE_ROOM.at(release)
    yield ClusterEventWithHint(
        POD, ActionType.DELETE, partial(after_pod_deleted, may_attach=may_attach, promised=promised)
    )
    yield ClusterEventWithHint(
        "PersistentVolumeClaim",
        ActionType.ADD,
        is_schedulable_after_any_claim_change if HINTS_AT_CLAIMS.at(release) else None,
    )
    if HEARS_OF_ATTACHMENTS.at(release):
        hint = after_attachment_deleted if HEARS_OF_LIMITS.at(release) else None
        yield ClusterEventWithHint("VolumeAttachment", ActionType.DELETE, hint)


def after_pod_deleted(
    info: PodInfo, change: ChangedObject, view: Fork, may_attach: Callable[[Volume], bool], promised: bool
) -> bool:
    """A pod that had a place, and a volume that counts."""
    return frees_room(change.old, promised) and any(map(may_attach, change.old.spec.volumes))


def after_csi_node_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A node on which some driver can attach more volumes than before."""
    old, new = _limits(change.old), _limits(change.new)
    return any(limit > old.get(driver, 0) for driver, limit in new.items())


def after_attachment_deleted(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Any attachment for a pod with claims, else one of a driver that one of its in-line volumes needs."""
    for volume in info.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        plugin = find_in_tree_plugin(volume)
        if plugin is not None and (plugin.driver == change.old.spec.attacher or not _translates(volume, plugin.field)):
            return True
    return False


def _translates(volume: Volume, field: str) -> bool:
    try:
        translate_handle(getattr(volume, field))
    except TranslationError:
        return False
    return True


def _limits(node: CSINode) -> dict[str, int]:
    """Driver -> how many volumes it can attach, 0 where it does not say."""
    return {driver.name: (driver.allocatable.count or 0) if driver.allocatable else 0 for driver in node.spec.drivers}
