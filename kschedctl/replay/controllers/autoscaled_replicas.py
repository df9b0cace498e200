"""The replicas to which HorizontalPodAutoscalers bring a workload as soon as it is applied.

Upstream: reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go (v1.36).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kschedctl.api.objects import StoredAutoscaler, Struct
from kschedctl.api.workloads import format_title, get_identity, with_replicas
from kschedctl.cluster import Cluster

SCALED_KINDS = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})
"""Kinds of workloads whose replicas are scaled here."""
DEFAULT_MIN_REPLICAS = 1


class AutoscaledWorkload(NamedTuple):
    """A workload after its HorizontalPodAutoscaler has brought its replicas within the bounds."""

    workload: Struct
    note: str = ""
    """The change in words, or an empty string if the replicas stay."""


def bring_within_bounds(cluster: Cluster, workload: Struct) -> AutoscaledWorkload:
    """Return the workload with the replicas that its autoscaler sets at once, whatever the metrics are.

    With 0 replicas, autoscaling is off.
    """
    owner = get_identity(workload)
    spec: Any = workload.spec  # type: ignore[attr-defined]
    if owner.kind not in SCALED_KINDS or spec.replicas == 0:
        return AutoscaledWorkload(workload)
    replicas = 1 if spec.replicas is None else spec.replicas
    for autoscaler in cluster.in_namespace("horizontal_pod_autoscalers", owner.namespace):
        target = autoscaler.spec.scale_target_ref
        if (target.kind, target.name) == (owner.kind, owner.name):
            break
    else:
        return AutoscaledWorkload(workload)

    bounded, limit = _find_bounded_replicas(autoscaler, replicas)
    if bounded == replicas:
        return AutoscaledWorkload(workload)
    verb = "raises" if bounded > replicas else "lowers"
    change = f"{verb} {format_title(workload)} from {replicas:,} to {bounded:,} replicas at once ({limit})"
    return AutoscaledWorkload(
        with_replicas(workload, bounded), f"HorizontalPodAutoscaler {autoscaler.metadata.name} {change}"
    )


def _find_bounded_replicas(autoscaler: StoredAutoscaler, replicas: int) -> tuple[int, str]:
    """Return the replicas within the autoscaler's bounds, and the name of the bound that changes them."""
    minimum = autoscaler.spec.min_replicas
    minimum = DEFAULT_MIN_REPLICAS if minimum is None else minimum
    if 0 < autoscaler.spec.max_replicas < replicas:
        return autoscaler.spec.max_replicas, "maxReplicas"
    return (minimum, "minReplicas") if replicas < minimum else (replicas, "")
