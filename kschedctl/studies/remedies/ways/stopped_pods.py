"""Pods that hold what there is once: stopped, with all that they give back then, or run with one replica fewer."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, owner_of
from kschedctl.scheduler.facts import ClaimInUse, DiskMounted
from kschedctl.studies.remedies.changes import Fix
from kschedctl.studies.remedies.targets import NodeRefusal, Site
from kschedctl.studies.remedies.ways.given_back import gone
from kschedctl.studies.remedies.ways.neighbours import evictable, replicas

FEWER, STOP = 65, 49


def holding(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """The pod that has the disk mounted, or that uses the claim which is for one pod only."""
    match refusal.fact:
        case DiskMounted(pod=pod) | ClaimInUse(pod=pod) if pod in site.cycle.view.pods.index:
            yield from stopped(site, site.cycle.view.pods.index[pod])


def stopped(site: Site, position: Position) -> Iterator[Fix]:
    """The pod given up for good: a bare one, or the replica that its workload would give up."""
    view = site.cycle.view
    pod = view.pods.objects[position]
    if not evictable(site, position):
        return
    owner, edits = owner_of(pod), gone(view, pod)
    if owner.kind == "Pod":
        command = f"kubectl delete pod -n {quote(pod.metadata.namespace)} {quote(pod.metadata.name)}"
        text = f"stop pod {pod.key}"
        yield Fix("StopPod", pod.key, text, "operator", edits, STOP, f"evicts {pod.key}", (command,), "pod", pod.key)
        return
    left = _replicas_left(site, pod, owner)
    if left is not None:
        text = f"run one replica fewer of {owner}: {pod.metadata.name}"
        weakens = f"{owner} runs with one replica fewer"
        yield Fix(
            "ScaleDown", pod.key, text, "operator", edits, FEWER, weakens, _scaling(pod, owner, left), owner, pod.key
        )


def _replicas_left(site: Site, pod: Pod, owner: Owner) -> int | None:
    """How many replicas there are without the pod; None where its workload would not give up this one."""
    if owner.kind in ("Deployment", "ReplicaSet"):
        return replicas(site, owner) - 1
    ordinal = pod.metadata.name.removeprefix(f"{owner.name}-")
    if owner.kind != "StatefulSet" or not ordinal.isdigit():
        return None
    later = range(int(ordinal) + 1, int(ordinal) + 1 + replicas(site, owner))
    pods = site.cycle.view.pods
    last = all(pods.position(f"{owner.namespace}/{owner.name}-{number}") is None for number in later)
    return int(ordinal) if last else None


def _scaling(pod: Pod, owner: Owner, left: int) -> tuple[str, ...]:
    first = (
        f"kubectl annotate pod -n {quote(pod.metadata.namespace)} {quote(pod.metadata.name)}"
        " controller.kubernetes.io/pod-deletion-cost=-1000 --overwrite"
    )
    scale = f"kubectl scale {owner.kind.lower()} -n {quote(owner.namespace)} {quote(owner.name)} --replicas={left}"
    return (scale,) if owner.kind == "StatefulSet" else (first, scale)
