"""Pods that are alike in all that scheduling reads are found, and share one PodInfo."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints
from kschedctl.api.objects import Pod, PodSpec
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable, identity
from kschedctl.snapshot.pod_info import PodInfo


def interned(pods: PodTable, stored: Callable[[Pod], Pod], options: Options) -> tuple[Ints, list[PodInfo]]:
    """(P,): the number of each pod's info, and the infos. ``stored``: a pod as the API server has it.

    Pods of one template share one when both are bound or neither is, unless claims were made for them by name.
    """
    bound = np.array([bool(name) for name in pods.node.values], np.bool_)[pods.node.codes]
    groups = pods.template.astype(np.int64) * 2 + bound
    named = np.array([_is_named(template.spec) for template in pods.templates], np.bool_)[pods.template]
    groups[named] = 2 * len(pods.templates) + np.arange(int(named.sum()))
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers = np.empty(len(first), np.int32)
    numbers[order] = np.arange(len(first))
    infos: list[PodInfo] = []
    known: dict[bytes, int] = {}
    for number, row in enumerate(first[order].tolist()):
        pod = pods[row]
        alike = known.setdefault(identity(_unnamed(pod)), number) if pod.spec.resource_claims else number
        infos.append(PodInfo(stored(pod), options, number, alike))
    return numbers[inverse], infos


def _unnamed(pod: Pod) -> tuple[object, ...]:
    """What scheduling reads of a pod besides the names of its resource claims, and its own where it matters."""
    spec, status = pod.spec, pod.status
    return (
        pod.metadata.namespace,
        pod.metadata.labels,
        pod.metadata.deletion_timestamp is not None,
        replace(spec, node_name="", resource_claims=()),
        [claim.name for claim in spec.resource_claims],
        bool(spec.node_name),
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        status.node_allocatable_resource_claim_statuses,
        [c.reason for c in status.conditions if c.type == "PodResizePending"],
        status.extended_resource_claim_status,
        (pod.metadata.name, pod.metadata.uid) if _has_volumes_of_its_own(spec) else None,
    )


def _is_named(spec: PodSpec) -> bool:
    """Whether claims may have been made for the very pod, by its name."""
    return bool(spec.resource_claims) or _has_volumes_of_its_own(spec)


def _has_volumes_of_its_own(spec: PodSpec) -> bool:
    return any(volume.ephemeral for volume in spec.volumes)
