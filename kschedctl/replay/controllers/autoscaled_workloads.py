"""Workloads that a HorizontalPodAutoscaler scales, and the bounds that it sets for their replicas.

An autoscaler brings the replicas of its target within its bounds as soon as either of the two is applied. Upstream:
pkg/controller/podautoscaler (v1.36).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from kschedctl.api.objects import StoredAutoscaler, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import SCALED_KINDS, format_title, get_identity, with_replicas
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.manifests import SortedManifests
from kschedctl.replay.controllers.stored_workloads import build_current_manifest

_DEFAULT_MIN_REPLICAS = 1


def find_autoscaled_workloads(
    cluster: Cluster, autoscalers: Iterable[StoredAutoscaler], applied: Container[tuple[str, str, str]]
) -> list[Struct]:
    """Return manifests of the cluster's workloads that the autoscalers scale, as the workloads are now.

    Workloads that are applied themselves are left out, and so are workloads whose pod template was not read.
    """
    workloads: dict[Owner, Struct] = {}
    for autoscaler in autoscalers:
        target = get_scale_target(autoscaler)
        if target.kind in SCALED_KINDS and target not in applied and target not in workloads:
            manifest = build_current_manifest(cluster, target)
            if manifest is not None:
                workloads[target] = manifest
    return list(workloads.values())


def add_autoscaled_workloads(manifests: SortedManifests, cluster: Cluster) -> None:
    """Add the workloads of the cluster that new autoscalers among the manifests scale. New ones have no UID."""
    autoscalers: Sequence[Any] = manifests.objects.get("HorizontalPodAutoscaler", ())
    new_autoscalers = [autoscaler for autoscaler in autoscalers if not autoscaler.metadata.uid]
    for workload in find_autoscaled_workloads(cluster, new_autoscalers, manifests.workloads):
        manifests.workloads[get_identity(workload)] = workload


def get_scale_target(autoscaler: StoredAutoscaler) -> Owner:
    """Return kind, namespace and name of the workload that the autoscaler scales."""
    reference = autoscaler.spec.scale_target_ref
    return Owner(reference.kind, autoscaler.metadata.namespace, reference.name)


class _AutoscaledWorkload(NamedTuple):
    """A workload after its HorizontalPodAutoscaler has brought its replicas within the bounds."""

    workload: Struct
    note: str = ""
    """The change in words, or an empty string if the replicas stay."""


def clamp_replicas_to_autoscaler(cluster: Cluster, workload: Struct) -> _AutoscaledWorkload:
    """Return the workload with its replicas within its HorizontalPodAutoscaler's bounds, and a note if they changed.

    An autoscaler applies its bounds at once, regardless of the metrics. The workload is returned unchanged if it has no
    autoscaler, or if it has 0 replicas, which turns autoscaling off.
    """
    owner = get_identity(workload)
    spec: Any = workload.spec  # type: ignore[attr-defined]
    if owner.kind not in SCALED_KINDS or spec.replicas == 0:
        return _AutoscaledWorkload(workload)
    replicas = 1 if spec.replicas is None else spec.replicas
    for autoscaler in cluster.list_in_namespace("horizontal_pod_autoscalers", owner.namespace):
        if get_scale_target(autoscaler) == owner:
            break
    else:
        return _AutoscaledWorkload(workload)

    bounded, limit = _clamp_replicas(autoscaler, replicas)
    if bounded == replicas:
        return _AutoscaledWorkload(workload)
    verb = "raises" if bounded > replicas else "lowers"
    change = f"{verb} {format_title(workload)} from {replicas:,} to {bounded:,} replicas at once ({limit})"
    return _AutoscaledWorkload(
        with_replicas(workload, bounded), f"HorizontalPodAutoscaler {autoscaler.metadata.name} {change}"
    )


def _clamp_replicas(autoscaler: StoredAutoscaler, replicas: int) -> tuple[int, str]:
    """Return the replicas within the autoscaler's bounds, and the name of the bound that changes them.

    The name is an empty string if the replicas stay.
    """
    minimum = autoscaler.spec.min_replicas
    minimum = _DEFAULT_MIN_REPLICAS if minimum is None else minimum
    if 0 < autoscaler.spec.max_replicas < replicas:
        return autoscaler.spec.max_replicas, "maxReplicas"
    return (minimum, "minReplicas") if replicas < minimum else (replicas, "")
