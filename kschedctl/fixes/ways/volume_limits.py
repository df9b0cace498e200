"""Fixes for volume limits of nodes: raise the limit, or detach volumes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import CSINode, CSINodeDriver, VolumeNodeResources
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import neighbours, volumes, waiting
from kschedctl.fixes.ways.given_back import find_attached_volumes, find_driver_users
from kschedctl.fixes.ways.stopped_pods import stop_pod
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework.declaration import PluginClass
from kschedctl.scheduler.plugins.helper.volumes.listers import get_listers
from kschedctl.scheduler.plugins.node_volume_limits.attachments import DriverLimit, TooManyVolumes
from kschedctl.scheduler.plugins.node_volume_limits.non_csi_limits import (
    AzureDiskLimits,
    CinderLimits,
    EBSLimits,
    GCEPDLimits,
)
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.text.counts import counted

RAISE, DETACH = 40, 35
MOST = 3


def fix_limit(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes for the first driver whose limit the pod's volumes exceed."""
    if not isinstance(refusal.fact, TooManyVolumes):
        return
    limit = refusal.fact.drivers[0]
    yield from _raise_limit(tried, limit)
    yield from _detach_unused(tried, limit)
    for position in find_driver_users(tried.cycle.view, tried.at, limit.driver)[:MOST]:
        yield from stop_pod(tried, position)


def _raise_limit(tried: TriedNode, limit: DriverLimit) -> Iterator[Fix]:
    """Yield the fix that raises the limit in the CSINode. No command does so for every driver."""
    csi_node = get_listers(tried.cycle.view).csi_nodes.nodes[tried.at]
    if csi_node is None:
        return
    count, name = limit.attached + limit.more, csi_node.metadata.name

    def change(known: CSINode) -> CSINode:
        own = next(
            (driver for driver in known.spec.drivers if driver.name == limit.driver), CSINodeDriver(limit.driver, name)
        )
        new = replace(own, allocatable=VolumeNodeResources(count))
        others = tuple(driver for driver in known.spec.drivers if driver.name != limit.driver)
        return replace(known, spec=replace(known.spec, drivers=(*others, new)))

    text = f"let driver {limit.driver} attach {counted(count, 'volume')} to node {name} instead of {limit.limit}"
    edits = (ObjectEdit(ObjectKey.of(csi_node), change),)
    yield Fix(
        FixKind.RAISE_VOLUME_LIMIT,
        (name, limit.driver, count),
        text,
        "operator",
        edits,
        RAISE,
        "a volume too many for the machine is never attached",
        variant_of=limit.driver,
        where=name,
    )


def _detach_unused(tried: TriedNode, limit: DriverLimit) -> Iterator[Fix]:
    """Yield fixes that detach volumes that no pod on the node uses."""
    view = tried.cycle.view
    storage, name = get_listers(view), view.nodes.names[tried.at]
    used = {volume.handle for at in view.pods_on(tried.at) for volume in find_attached_volumes(view, at)}
    here = [a for a in storage.attachments if (a.spec.node_name, a.spec.attacher) == (name, limit.driver)]
    for attachment in here:
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if volume is None or volume.spec.csi is None or volume.spec.csi.volume_handle in used:
            continue
        text = f"detach volume {volume.metadata.name} from node {name}, where no pod uses it"
        key = ObjectKey.of(attachment)
        edits, command = (ObjectEdit(key, lambda _: None),), kubectl.render_delete(key)
        weakens = "if the node still has it mounted, what is on it may be damaged"
        name = volume.metadata.name
        yield Fix(FixKind.DETACH_VOLUME, key, text, "operator", edits, DETACH, weakens, (command,), limit.driver, name)


WAYS = (waiting.await_terminating, volumes.fix_claims, neighbours.move_or_drop, fix_limit)
REMEDIES: dict[PluginClass, PluginRemedies] = {
    NodeVolumeLimits: PluginRemedies(WAYS, clears_with="volume"),
    **dict.fromkeys((EBSLimits, GCEPDLimits, AzureDiskLimits, CinderLimits), PluginRemedies(WAYS)),
}
