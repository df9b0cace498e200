"""Fixes that stop pods that hold a disk, a claim or devices."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import neighbours, volumes, waiting
from kschedctl.fixes.ways.given_back import delete_pod
from kschedctl.fixes.ways.neighbours import is_evictable, scale_down
from kschedctl.replay import kubectl
from kschedctl.scheduler.plugins.volume_restrictions import ClaimInUse, DiskMounted, VolumeRestrictions

STOP = 49


def stop_holder(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes that stop the pod that has mounted the disk or uses the exclusive claim."""
    match refusal.fact:
        case DiskMounted(pod=pod) | ClaimInUse(pod=pod) if pod in tried.cycle.view.pods.index:
            yield from stop_pod(tried, tried.cycle.view.pods.index[pod])


def stop_pod(tried: TriedNode, position: Position) -> Iterator[Fix]:
    """Yield the fix that evicts a bare pod for good, or scales down the workload of the pod."""
    view = tried.cycle.view
    pod = view.pods.objects[position]
    if not is_evictable(tried, position):
        return
    if find_owner(pod).kind != "Pod":
        yield from scale_down(tried, position)
        return
    text, command = f"stop pod {pod.key}", kubectl.render_eviction(pod)
    weakens = f"pod {pod.key} is gone for good: no controller owns it"
    yield Fix(
        FixKind.STOP_POD, pod.key, text, "operator", delete_pod(view, pod), STOP, weakens, (command,), "pod", pod.key
    )


REMEDIES = {
    VolumeRestrictions: PluginRemedies(
        (waiting.await_terminating, volumes.fix_claims, neighbours.move_or_drop, stop_holder), clears_with="volume"
    )
}
