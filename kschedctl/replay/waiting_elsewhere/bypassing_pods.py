"""Pods that bypass the scheduler by spec.nodeName although a claim waits for the scheduler to choose a node.

Upstream: shouldSkip and syncUnboundClaim in pkg/controller/volume/persistentvolume (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import PersistentVolumeClaim, Pod
from kschedctl.cluster import Cluster
from kschedctl.replay.edits import select_pods
from kschedctl.replay.waiting_elsewhere.entries import build_waiting_entry
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.scheduler.plugins.helper.volumes.listers import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, get_claim_class

_STARTING = frozenset({"", "Pending"})


def iter_bypassing_pods(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the starting pods with spec.nodeName whose claims wait for kube-scheduler to select a node.

    The scheduler does not see such a pod, and therefore selects no node for its claims. ``now`` is the RFC 3339 time
    for ages, or empty.
    """
    waiting_claims = _find_claims_without_node(cluster)
    if not waiting_claims:
        return
    for pod in select_pods(cluster, _has_claims):
        if not pod.spec.node_name or pod.status.phase not in _STARTING:
            continue
        claims = [waiting_claims[key] for key in _iter_claim_keys(pod) if key in waiting_claims]
        if claims:
            names = ", ".join(f"{claim.metadata.namespace}/{claim.metadata.name}" for claim in claims)
            verb = "waits" if len(claims) == 1 else "wait"
            yield build_waiting_entry(
                "Pod",
                pod.metadata,
                WaitingState.BYPASSES_SCHEDULER,
                f"spec.nodeName {pod.spec.node_name} bypasses the scheduler, but claim {names} {verb} for the "
                "scheduler to choose a node (WaitForFirstConsumer)",
                now=now,
                pods=1,
                decides="whoever sets spec.nodeName",
                exists=True,
            )


def _has_claims(pod: Pod) -> bool:
    """Return whether the pod has volumes with claims."""
    return any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)


def _find_claims_without_node(cluster: Cluster) -> dict[tuple[str, str], PersistentVolumeClaim]:
    """Return the unbound claims of WaitForFirstConsumer classes without a selected node, by namespace and name."""
    classes = {
        storage_class.metadata.name
        for storage_class in cluster.storage_classes
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    }
    claims = {}
    for claim in cluster.persistent_volume_claims:
        awaits_node = not claim.spec.volume_name and SELECTED_NODE not in claim.metadata.annotations
        if awaits_node and get_claim_class(claim) in classes:
            claims[claim.metadata.namespace, claim.metadata.name] = claim
    return claims


def _iter_claim_keys(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the namespace and name of each claim of the pod's volumes."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield pod.metadata.namespace, volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield pod.metadata.namespace, f"{pod.metadata.name}-{volume.name}"
