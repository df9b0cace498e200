"""Volume claims that have to be deleted, as most of their fields are fixed: what becomes of their data, in which order.

A claim that a pod on a node uses stays in Terminating until that pod is gone, and takes its data along: it is left
alone. Of another one the volume is kept by its reclaim policy before the claim goes.

Reference: Persistent Volumes, "Reclaiming" and "Storage Object in Use Protection" (k8s.io/docs); Change the Reclaim
Policy of a PersistentVolume (k8s.io/docs).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, Pod
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.trial.changes import ObjectEdit
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.helper.volumes.listers import claim_key, iter_claim_volumes, listers

RETAIN = "Retain"


class Deletion(NamedTuple):
    """How a claim is deleted so that its data are kept: the commands in order, the edits beside that of the claim.

    ``weakens``: whose data stay where; ``price``: None where there are none.
    """

    commands: tuple[str, ...]
    edits: tuple[ObjectEdit, ...] = ()
    weakens: str = ""
    price: Price | None = None

    @property
    def before(self) -> tuple[str, ...]:
        """What has to be done before the claim is deleted, which is the last command."""
        return self.commands[:-1]


def plan_deletion(tried: TriedNode, claim: PersistentVolumeClaim) -> Deletion | None:
    """Return how to delete the claim without losing its data, or None if a pod uses the claim."""
    if is_in_use(tried, claim):
        return None
    delete = kubectl.render_delete(ObjectKey.of(claim))
    name = claim.spec.volume_name
    if not name:
        return Deletion((delete,))
    volume = listers(tried.cycle.view).volumes.get(name)
    if volume is None:
        lost = f"nothing records any longer that the data of claim {claim_key(claim)} are on volume {name}"
        return Deletion((delete,), (), lost, Price.LOSS)
    kept, edits = retain_volume(volume)
    stays = f"it starts without the data of claim {claim_key(claim)}, which stay on volume {name}"
    policy = volume.spec.persistent_volume_reclaim_policy
    why = f"reclaim policy {RETAIN}"
    if policy != RETAIN:
        why = f"reclaim policy {policy or 'not known'}, so make it {RETAIN} first"
    return Deletion((*kept, delete), edits, f"{stays} ({why})", Price.LOSS)


def retain_volume(volume: PersistentVolume) -> tuple[tuple[str, ...], tuple[ObjectEdit, ...]]:
    """Return the commands and edits that keep a volume and its data after its claim is deleted."""
    if volume.spec.persistent_volume_reclaim_policy == RETAIN:
        return (), ()
    key = ObjectKey.of(volume)
    command = kubectl.render_patch(key, {"spec": {"persistentVolumeReclaimPolicy": RETAIN}})
    return (command,), (ObjectEdit(key, _with_retain_policy),)


def _with_retain_policy(volume: PersistentVolume) -> PersistentVolume:
    """Return the volume with reclaim policy Retain."""
    return replace(volume, spec=replace(volume.spec, persistent_volume_reclaim_policy=RETAIN))


def is_in_use(tried: TriedNode, claim: PersistentVolumeClaim) -> bool:
    """Return whether a pod that is bound to a node refers to the claim, so that the claim is protected from
    deletion.
    """
    pods, name, namespace = tried.trial.scheduler.cluster.pods, claim.metadata.name, claim.metadata.namespace
    gone = {key for key, edit in tried.trial.edits.items() if edit.after is None}

    def may(template: Pod) -> bool:
        return template.metadata.namespace == namespace and any(iter_claim_volumes(template))

    def holds(pod: Pod) -> bool:
        there = bool(pod.spec.node_name) and ObjectKey.of(pod) not in gone
        return there and any(used == name for _, used, _ in iter_claim_volumes(pod))

    return any(holds(pods[row]) for row in pods.find_rows(may).tolist())


def is_of_stateful_set(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return whether the pod's StatefulSet creates the claim from its template."""
    return find_owner(pod).kind == "StatefulSet" and claim.metadata.name.endswith(f"-{pod.metadata.name}")
