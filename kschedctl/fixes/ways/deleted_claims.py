"""Plans for deleting PersistentVolumeClaims without losing their data.

A claim used by a pod on a node stays in Terminating until that pod is gone, so it is not deleted. For other claims, the
volume's reclaim policy is set to Retain first.

Reference: Persistent Volumes, "Reclaiming" and "Storage Object in Use Protection" (k8s.io/docs); Change the Reclaim
Policy of a PersistentVolume (k8s.io/docs).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, Pod
from kschedctl.api.ownership import find_owner
from kschedctl.fixes.trial.changes import ObjectEdit
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.helper.volumes.listers import format_claim_key, get_listers, iter_claim_volumes

RETAIN = "Retain"


class Deletion(NamedTuple):
    """The steps that delete a claim but keep its data."""

    commands: tuple[str, ...]
    """The commands in order; the last one deletes the claim."""
    edits: tuple[ObjectEdit, ...] = ()
    """The edits of other objects."""
    weakens: str = ""
    """Which data the new claim loses and where they stay; empty if there are none."""
    price: Price | None = None
    """The price of that loss, None if there is none."""

    @property
    def preparation(self) -> tuple[str, ...]:
        """The commands to run before the claim is deleted."""
        return self.commands[:-1]


def plan_deletion(tried: TriedNode, claim: PersistentVolumeClaim) -> Deletion | None:
    """Return how to delete the claim without losing its data, or None if a pod uses the claim."""
    if is_in_use(tried, claim):
        return None
    delete_command = kubectl.render_delete(ObjectKey.of(claim))
    name = claim.spec.volume_name
    if not name:
        return Deletion((delete_command,))
    volume = get_listers(tried.cycle.view).volumes.get(name)
    if volume is None:
        loss = f"nothing records any longer that the data of claim {format_claim_key(claim)} are on volume {name}"
        return Deletion((delete_command,), (), loss, Price.LOSS)
    commands, edits = retain_volume(volume)
    loss = f"it starts without the data of claim {format_claim_key(claim)}, which stay on volume {name}"
    policy = volume.spec.persistent_volume_reclaim_policy
    policy_text = f"reclaim policy {RETAIN}"
    if policy != RETAIN:
        policy_text = f"reclaim policy {policy or 'not known'}, so make it {RETAIN} first"
    return Deletion((*commands, delete_command), edits, f"{loss} ({policy_text})", Price.LOSS)


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
    """Return whether a pod on a node uses the claim, which protects it from deletion."""
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
