"""What is free again once a pod is gone from its node: its devices, and the volumes that were attached for it."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod, ResourceClaim
from kschedctl.api.ownership import find_controller
from kschedctl.fixes.trial.changes import ObjectEdit
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.dynamic_resources.reservation import released_claims, user_of
from kschedctl.scheduler.plugins.helper.volumes.listers import listers
from kschedctl.scheduler.plugins.node_volume_limits.attachments import AttachedVolume, find_csi_volumes
from kschedctl.scheduler.plugins.node_volume_limits.in_tree import find_disks_of_running_pod
from kschedctl.snapshot.fork import Fork


def gone(view: Fork, pod: Pod) -> tuple[ObjectEdit, ...]:
    """The pod deleted, its devices given back, its volumes detached."""
    return (ObjectEdit(ObjectKey.of(pod), lambda _: None), *_released(view, pod), *detached(view, pod))


def _released(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """The claims that it uses: those that were made for it go too."""
    user = {user_of(pod)}
    for claim in released_claims(view.objects.of("ResourceClaim"), user):
        controller = find_controller(claim.metadata)
        if controller is not None and controller.uid == pod.metadata.uid:
            yield ObjectEdit(ObjectKey.of(claim), lambda _: None)
        else:
            yield ObjectEdit(ObjectKey.of(claim), lambda known: _without(known, user))


def _without(claim: ResourceClaim, user: set[tuple[str, str]]) -> ResourceClaim:
    return next(released_claims((claim,), user), claim)


def detached(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """The attachments to its node of volumes that no other pod uses there."""
    row, storage = view.nodes.index.get(pod.spec.node_name), listers(view)
    if row is None or not storage.attachments:
        return
    own, used = set[AttachedVolume](), set[AttachedVolume]()
    for at in view.pods_on(row):
        (own if view.pods.objects[at].key == pod.key else used).update(volumes_of(view, at))
    for attachment in storage.attachments:
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if attachment.spec.node_name != pod.spec.node_name or volume is None or volume.spec.csi is None:
            continue
        if AttachedVolume(attachment.spec.attacher, volume.spec.csi.volume_handle) in own - used:
            yield ObjectEdit(ObjectKey.of(attachment), lambda _: None)


def volumes_of(view: Fork, position: Position) -> list[AttachedVolume]:
    """The volumes that a pod has attached, as CSI volumes and as in-tree disks; none where they cannot be told."""
    info, storage = view.pods.infos[view.pods.info[position]], listers(view)
    try:
        return find_csi_volumes(info, storage) + find_disks_of_running_pod(info, storage) if info.spec.volumes else []
    except PluginError:
        return []


def users_of(view: Fork, row: Row, driver: str) -> list[Position]:
    """The pods of a node that have a volume of the driver, those with the fewest volumes first."""
    volumes = {at: {volume for volume in volumes_of(view, at) if volume.driver == driver} for at in view.pods_on(row)}
    return sorted((at for at, volume in volumes.items() if volume), key=lambda at: len(volumes[at]))
