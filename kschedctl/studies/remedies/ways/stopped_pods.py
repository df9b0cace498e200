"""Pods that hold what there is once: stopped, with all that they give back then, or run with one replica fewer."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from kschedctl.api.arrays import Position
from kschedctl.api.objects import Pod, ResourceClaim
from kschedctl.api.ownership import Owner, controller_of, owner_of
from kschedctl.scheduler.dynamic_resources.reservation import released_claims, user_of
from kschedctl.scheduler.facts import ClaimInUse, DiskMounted
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.preemption.budgets import budgets
from kschedctl.scheduler.volumes.attachments import AttachedVolume, csi_volumes
from kschedctl.scheduler.volumes.in_tree import disks_of_running
from kschedctl.scheduler.volumes.listers import listers
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.remedies.changes import Fix, ObjectEdit, ObjectKey
from kschedctl.studies.remedies.targets import NodeRefusal, Site

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
    if not all(budgets(view).allowed(name) > 0 for name in budgets(view).selecting(position)):
        return
    owner, edits = owner_of(pod), gone(view, pod)
    if owner.kind == "Pod":
        command = f"kubectl delete pod -n {quote(pod.metadata.namespace)} {quote(pod.metadata.name)}"
        text = f"stop pod {pod.key}"
        yield Fix("StopPod", pod.key, text, "operator", edits, STOP, f"evicts {pod.key}", (command,), "pod", pod.key)
        return
    left = _replicas_left(view, pod, owner)
    if left is not None:
        text = f"run one replica fewer of {owner}: {pod.metadata.name}"
        weakens = f"{owner} runs with one replica fewer"
        yield Fix(
            "ScaleDown", pod.key, text, "operator", edits, FEWER, weakens, _scaling(pod, owner, left), owner, pod.key
        )


def _replicas_left(view: Fork, pod: Pod, owner: Owner) -> int | None:
    """How many replicas there are without the pod; None where its workload would not give up this one."""
    pods = (view.pods.objects[at] for key, at in view.pods.index.items() if key.startswith(f"{owner.namespace}/"))
    others = [each for each in pods if owner_of(each) == owner and each is not pod]
    if owner.kind in ("Deployment", "ReplicaSet"):
        return len(others)
    last = owner.kind == "StatefulSet" and all(_ordinal(each) < _ordinal(pod) for each in others)
    return _ordinal(pod) if last else None


def _ordinal(pod: Pod) -> int:
    number = pod.metadata.name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _scaling(pod: Pod, owner: Owner, left: int) -> tuple[str, ...]:
    first = (
        f"kubectl annotate pod -n {quote(pod.metadata.namespace)} {quote(pod.metadata.name)}"
        " controller.kubernetes.io/pod-deletion-cost=-1000 --overwrite"
    )
    scale = f"kubectl scale {owner.kind.lower()} -n {quote(owner.namespace)} {quote(owner.name)} --replicas={left}"
    return (scale,) if owner.kind == "StatefulSet" else (first, scale)


def gone(view: Fork, pod: Pod) -> tuple[ObjectEdit, ...]:
    """The pod deleted, its devices given back, its volumes detached."""
    return (ObjectEdit(ObjectKey.of(pod), lambda _: None), *_released(view, pod), *detached(view, pod))


def _released(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """The claims that it uses: those that were made for it go too."""
    user = {user_of(pod)}
    for claim in released_claims(view.objects.of("ResourceClaim"), user):
        controller = controller_of(claim.metadata)
        if controller is not None and controller.uid == pod.metadata.uid:
            yield ObjectEdit(ObjectKey.of(claim), lambda _: None)
        else:
            yield ObjectEdit(ObjectKey.of(claim), lambda known: _without(known, user))


def _without(claim: ResourceClaim, user: set[tuple[str, str]]) -> ResourceClaim:
    return next(released_claims((claim,), user), claim)


def detached(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """The attachments to its node of volumes that no other pod uses there."""
    row, found = view.nodes.index.get(pod.spec.node_name), listers(view)
    if row is None or not found.attachments:
        return
    own, used = set[AttachedVolume](), set[AttachedVolume]()
    for at in view.pods_on(row):
        (own if view.pods.objects[at].key == pod.key else used).update(volumes_of(view, at))
    for attachment in found.attachments:
        volume = found.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if attachment.spec.node_name != pod.spec.node_name or volume is None or volume.spec.csi is None:
            continue
        if AttachedVolume(attachment.spec.attacher, volume.spec.csi.volume_handle) in own - used:
            yield ObjectEdit(ObjectKey.of(attachment), lambda _: None)


def volumes_of(view: Fork, position: Position) -> list[AttachedVolume]:
    """The volumes that a pod has attached, as CSI volumes and as in-tree disks; none where they cannot be told."""
    info, found = view.pods.infos[view.pods.info[position]], listers(view)
    try:
        return csi_volumes(info, found) + disks_of_running(info, found) if info.spec.volumes else []
    except PluginError:
        return []
