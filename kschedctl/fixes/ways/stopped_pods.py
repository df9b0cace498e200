"""Pods that hold what there is once: stopped, with all that they give back then, or run with one replica fewer."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import neighbours, volumes, waiting
from kschedctl.fixes.ways.given_back import delete_pod
from kschedctl.fixes.ways.neighbours import is_evictable, scale_down
from kschedctl.replay import kubectl
from kschedctl.scheduler.plugins.volume_restrictions import ClaimInUse, DiskMounted, VolumeRestrictions

STOP = 49


def holding(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """The pod that has the disk mounted, or that uses the claim which is for one pod only."""
    match refusal.fact:
        case DiskMounted(pod=pod) | ClaimInUse(pod=pod) if pod in tried.cycle.view.pods.index:
            yield from stopped(tried, tried.cycle.view.pods.index[pod])


def stopped(tried: TriedNode, position: Position) -> Iterator[Fix]:
    """The pod given up for good: a bare one, or the replica that its workload would give up."""
    view = tried.cycle.view
    pod = view.pods.objects[position]
    if not is_evictable(tried, position):
        return
    if find_owner(pod).kind != "Pod":
        yield from scale_down(tried, position)
        return
    text, command = f"stop pod {pod.key}", kubectl.render_eviction(pod)
    weakens = f"pod {pod.key} is gone for good: no controller owns it"
    yield Fix("StopPod", pod.key, text, "operator", delete_pod(view, pod), STOP, weakens, (command,), "pod", pod.key)


REMEDIES = {
    VolumeRestrictions: PluginRemedies(
        (waiting.leaving, volumes.unbound, neighbours.move_or_drop, holding), clears_with="volume"
    )
}
