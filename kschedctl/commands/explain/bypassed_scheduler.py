"""Find claims that stay unbound because their pod sets spec.nodeName and so bypasses the scheduler."""

from __future__ import annotations

from kschedctl.api.objects import PersistentVolumeClaim, Pod, Volume
from kschedctl.commands.explain.report import ClaimWithoutScheduler
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    format_claim_key,
    get_claim_class,
    get_listers,
)
from kschedctl.snapshot.fork import Fork

STARTING = frozenset({"", "Pending"})
"""The phases of a pod whose containers have not started yet."""


def find_claims_without_scheduler(pod: Pod, view: Fork) -> tuple[ClaimWithoutScheduler, ...]:
    """Find the pod's unbound claims that stay unbound because spec.nodeName bypasses the scheduler.

    The volume controller provisions a volume of a WaitForFirstConsumer class once kube-scheduler has put the
    selected-node annotation on the claim. It does so for pods that it binds, never for a pod that has a node.
    Upstream: shouldSkip and syncUnboundClaim in pkg/controller/volume/persistentvolume (v1.36).
    """
    if not pod.spec.node_name or pod.status.phase not in STARTING:
        return ()
    storage = get_listers(view)
    names = (_get_claim_name(pod, volume) for volume in pod.spec.volumes)
    claims = (storage.claims.get((pod.metadata.namespace, name)) for name in names if name)
    return tuple(
        ClaimWithoutScheduler(format_claim_key(claim), get_claim_class(claim))
        for claim in claims
        if claim is not None and _waits_for_first_consumer(claim, view)
    )


def _get_claim_name(pod: Pod, volume: Volume) -> str:
    """Return the name of the volume's claim, or an empty string if the volume has no claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _waits_for_first_consumer(claim: PersistentVolumeClaim, view: Fork) -> bool:
    """Return whether the claim still waits for a scheduler to select the node of its first consumer."""
    if claim.spec.volume_name or SELECTED_NODE in claim.metadata.annotations:
        return False
    storage_class = get_listers(view).classes.get(get_claim_class(claim))
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
