"""Fixes for volumes that other pods use: raise a node's volume limit, detach volumes, or stop the other pod."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.objects import CSINode, CSINodeDriver, VolumeNodeResources
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.fixes.ways import neighbours, volumes, waiting
from kschedctl.fixes.ways.neighbours import choose_maker, is_evictable, iter_scale_down_fixes
from kschedctl.fixes.ways.waiting import build_deletion_edits, find_attached_volumes, find_driver_users
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework.declaration import PluginClass
from kschedctl.scheduler.plugins.helper.volume_listers import get_listers
from kschedctl.scheduler.plugins.node_volume_limits.attachments import DriverLimit, TooManyVolumes
from kschedctl.scheduler.plugins.node_volume_limits.non_csi_limits import (
    AzureDiskLimits,
    CinderLimits,
    EBSLimits,
    GCEPDLimits,
)
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.scheduler.plugins.volume_restrictions import ClaimInUse, DiskMounted, VolumeRestrictions
from kschedctl.text.counts import counted

RAISE, DETACH, STOP = 40, 35, 49
MOST_USERS = 3
"""The most pods that are proposed to be stopped for one driver."""


def iter_volume_limit_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for the first driver on the node whose volume limit the pod would exceed.

    They raise the limit, detach unused volumes, or stop a few pods that use the driver's volumes. There are no fixes
    for other rejections.
    """
    if not isinstance(rejection.fact, TooManyVolumes):
        return
    limit = rejection.fact.drivers[0]
    yield from _iter_limit_raise_fixes(trial_node, limit)
    yield from _iter_volume_detach_fixes(trial_node, limit)
    for position in find_driver_users(trial_node.cycle.view, trial_node.known_row, limit.driver)[:MOST_USERS]:
        yield from iter_pod_stop_fixes(trial_node, position)


def _iter_limit_raise_fixes(trial_node: TrialNode, limit: DriverLimit) -> Iterator[Fix]:
    """Yield the fix that raises the driver's limit in the node's CSINode, or nothing if the node has no CSINode.

    The fix has no command, since the way to raise the limit depends on the driver.
    """
    csi_node = get_listers(trial_node.cycle.view).csi_nodes.nodes[trial_node.known_row]
    if csi_node is None:
        return
    count = limit.attached + limit.more
    name = csi_node.metadata.name

    def change(current: CSINode) -> CSINode:
        """Return the CSINode with the raised limit."""
        new_driver = CSINodeDriver(limit.driver, name)
        driver = next((driver for driver in current.spec.drivers if driver.name == limit.driver), new_driver)
        raised_driver = replace(driver, allocatable=VolumeNodeResources(count))
        other_drivers = tuple(driver for driver in current.spec.drivers if driver.name != limit.driver)
        return replace(current, spec=replace(current.spec, drivers=(*other_drivers, raised_driver)))

    text = f"let driver {limit.driver} attach {counted(count, 'volume')} to node {name} instead of {limit.limit}"
    edits = (ObjectEdit(ObjectKey.of(csi_node), change),)
    yield Fix(
        kind=FixKind.RAISE_VOLUME_LIMIT,
        target=(name, limit.driver, count),
        text=text,
        by="operator",
        edits=edits,
        cost=RAISE,
        weakens="this only helps if the machine itself can attach as many volumes",
        variant_of=limit.driver,
        where=name,
    )


def _iter_volume_detach_fixes(trial_node: TrialNode, limit: DriverLimit) -> Iterator[Fix]:
    """Yield fixes that each detach one of the driver's volumes that is attached to the node but not used there.

    Only CSI volumes with a PersistentVolume are considered.
    """
    view = trial_node.cycle.view
    storage = get_listers(view)
    node_name = view.nodes.names[trial_node.known_row]
    used_handles = {
        volume.handle
        for position in view.pods_on(trial_node.known_row)
        for volume in find_attached_volumes(view, position)
    }
    node_attachments = [
        attachment
        for attachment in storage.attachments
        if attachment.spec.node_name == node_name and attachment.spec.attacher == limit.driver
    ]
    for attachment in node_attachments:
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if volume is None or volume.spec.csi is None or volume.spec.csi.volume_handle in used_handles:
            continue
        text = f"detach volume {volume.metadata.name} from node {node_name}, where no pod uses it"
        key = ObjectKey.of(attachment)
        edits = (ObjectEdit.delete(key),)
        command = kubectl.render_delete(key)
        weakens = "if the node still has the volume mounted, the data may be damaged"
        name = volume.metadata.name
        yield Fix(
            kind=FixKind.DETACH_VOLUME,
            target=key,
            text=text,
            by="operator",
            edits=edits,
            cost=DETACH,
            weakens=weakens,
            commands=(command,),
            variant_of=limit.driver,
            where=name,
        )


def iter_holder_stop_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield the fix that stops the pod that blocks a disk or an exclusive claim.

    Yield nothing if the pod is unknown.
    """
    match rejection.fact:
        case DiskMounted(pod=pod) | ClaimInUse(pod=pod) if pod in trial_node.cycle.view.pods.index:
            yield from iter_pod_stop_fixes(trial_node, trial_node.cycle.view.pods.index[pod])


def iter_pod_stop_fixes(trial_node: TrialNode, position: Position) -> Iterator[Fix]:
    """Yield the fix that stops a pod. A pod without a controller is evicted; otherwise its workload is scaled down.

    There is no fix if the pod's PDBs do not allow its eviction, or if scaling down would remove another pod.
    """
    view = trial_node.cycle.view
    pod = view.pods.objects[position]
    if not is_evictable(trial_node, position):
        return
    if find_owner(pod).kind != "Pod":
        yield from iter_scale_down_fixes(trial_node, position)
        return
    text = f"evict pod {pod.key}"
    command = kubectl.render_eviction(pod)
    weakens = f"pod {pod.key} is not recreated, since it has no controller"
    yield Fix(
        kind=FixKind.STOP_POD,
        target=pod.key,
        text=text,
        by=choose_maker(trial_node, pod.metadata.namespace),
        edits=build_deletion_edits(view, pod),
        cost=STOP,
        weakens=weakens,
        commands=(command,),
        variant_of="pod",
        where=pod.key,
    )


LIMIT_WAYS = (
    waiting.iter_termination_wait_fixes,
    volumes.iter_volume_claim_fixes,
    neighbours.iter_neighbour_removal_fixes,
    iter_volume_limit_fixes,
)
"""The functions that propose fixes for volume limits."""
REMEDIES: dict[PluginClass, PluginRemedies] = {
    NodeVolumeLimits: PluginRemedies(LIMIT_WAYS, clears_with="volume"),
    **dict.fromkeys((EBSLimits, GCEPDLimits, AzureDiskLimits, CinderLimits), PluginRemedies(LIMIT_WAYS)),
    VolumeRestrictions: PluginRemedies(
        (
            waiting.iter_termination_wait_fixes,
            volumes.iter_volume_claim_fixes,
            neighbours.iter_neighbour_removal_fixes,
            iter_holder_stop_fixes,
        ),
        clears_with="volume",
    ),
}
