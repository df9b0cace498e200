"""NodeVolumeLimits: what frees room for volumes on a node.

Upstream: plugins/nodevolumelimits/csi.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kschedctl.api.objects import CSINode, Volume
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.queueing.events import POD, ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.queueing.hints.volumes import after_own_claim
from kschedctl.scheduler.volumes.csi_migration import TranslationError, plugin_of, volume_handle
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


def events_to_register(gates: FeatureGates, may_attach: Callable[[Volume], bool]) -> Iterator[ClusterEventWithHint]:
    """What NodeVolumeLimits asks for; ``may_attach``: whether a volume may count."""
    yield ClusterEventWithHint("CSINode", ActionType.ADD)
    yield ClusterEventWithHint("CSINode", ActionType.UPDATE, after_csi_node_updated)
    yield ClusterEventWithHint(POD, ActionType.DELETE, partial(after_pod_deleted, may_attach=may_attach))
    yield ClusterEventWithHint("PersistentVolumeClaim", ActionType.ADD, after_own_claim)
    yield ClusterEventWithHint("VolumeAttachment", ActionType.DELETE, after_attachment_deleted)


def after_pod_deleted(info: PodInfo, change: ChangedObject, view: Fork, may_attach: Callable[[Volume], bool]) -> bool:
    """A pod that was placed, or promised a node, and had a volume that counts."""
    gone = change.old
    placed = gone.spec.node_name or gone.status.nominated_node_name
    return bool(placed) and any(map(may_attach, gone.spec.volumes))


def after_csi_node_updated(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A node on which some driver can attach more volumes than before."""
    old, new = _limits(change.old), _limits(change.new)
    return any(limit > old.get(driver, 0) for driver, limit in new.items())


def after_attachment_deleted(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """Any attachment for a pod with claims, else one of a driver that one of its in-line volumes needs."""
    for volume in info.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        plugin = plugin_of(volume)
        if plugin is not None and (plugin.driver == change.old.spec.attacher or not _translates(volume, plugin.field)):
            return True
    return False


def _translates(volume: Volume, field: str) -> bool:
    try:
        volume_handle(getattr(volume, field))
    except TranslationError:
        return False
    return True


def _limits(node: CSINode) -> dict[str, int]:
    """Driver -> how many volumes it can attach, 0 where it does not say."""
    return {each.name: (each.allocatable.count or 0) if each.allocatable else 0 for each in node.spec.drivers}
