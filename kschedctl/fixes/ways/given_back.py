"""What a pod frees when it leaves its node: its devices and its attached volumes."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod, ResourceClaim
from kschedctl.api.ownership import find_controller
from kschedctl.fixes.trial.changes import ObjectEdit
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.dynamic_resources.reservation import get_pod_user, release_claims
from kschedctl.scheduler.plugins.helper.volumes.listers import get_listers
from kschedctl.scheduler.plugins.node_volume_limits.attachments import AttachedVolume, find_csi_volumes
from kschedctl.scheduler.plugins.node_volume_limits.non_csi_limits import find_disks_of_running_pod
from kschedctl.snapshot.fork import Fork


def delete_pod(view: Fork, pod: Pod) -> tuple[ObjectEdit, ...]:
    """Return the edits that delete the pod, release its devices, and detach its volumes."""
    return (ObjectEdit(ObjectKey.of(pod), lambda _: None), *_release_claims(view, pod), *detach_volumes(view, pod))


def _release_claims(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """Yield the edits that release the pod's claims, and delete those that were generated for it."""
    user = {get_pod_user(pod)}
    for claim in release_claims(view.objects.of("ResourceClaim"), user):
        controller = find_controller(claim.metadata)
        if controller is not None and controller.uid == pod.metadata.uid:
            yield ObjectEdit(ObjectKey.of(claim), lambda _: None)
        else:
            yield ObjectEdit(ObjectKey.of(claim), lambda known: _without_user(known, user))


def _without_user(claim: ResourceClaim, user: set[tuple[str, str]]) -> ResourceClaim:
    """Return the claim without the pod's reservation."""
    return next(release_claims((claim,), user), claim)


def detach_volumes(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """Yield the edits that detach the volumes that no other pod on the node uses."""
    row, storage = view.nodes.index.get(pod.spec.node_name), get_listers(view)
    if row is None or not storage.attachments:
        return
    own, used = set[AttachedVolume](), set[AttachedVolume]()
    for at in view.pods_on(row):
        (own if view.pods.objects[at].key == pod.key else used).update(find_attached_volumes(view, at))
    for attachment in storage.attachments:
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if attachment.spec.node_name != pod.spec.node_name or volume is None or volume.spec.csi is None:
            continue
        if AttachedVolume(attachment.spec.attacher, volume.spec.csi.volume_handle) in own - used:
            yield ObjectEdit(ObjectKey.of(attachment), lambda _: None)


def find_attached_volumes(view: Fork, position: Position) -> list[AttachedVolume]:
    """Return the pod's attached CSI volumes and in-tree disks, or none if they cannot be determined."""
    info, storage = view.pods.infos[view.pods.info[position]], get_listers(view)
    try:
        return find_csi_volumes(info, storage) + find_disks_of_running_pod(info, storage) if info.spec.volumes else []
    except PluginError:
        return []


def find_driver_users(view: Fork, row: Row, driver: str) -> list[Position]:
    """Return the node's pods with volumes of the driver, those with the fewest volumes first."""
    volumes = {
        at: {volume for volume in find_attached_volumes(view, at) if volume.driver == driver}
        for at in view.pods_on(row)
    }
    return sorted((at for at, volume in volumes.items() if volume), key=lambda at: len(volumes[at]))
