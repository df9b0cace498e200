"""Grouping of pods that are equal in all that scheduling reads, so that they share one PodInfo."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints, Rows
from kschedctl.api.objects import Pod, PodSpec
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable, digest
from kschedctl.snapshot.pod_info import PodInfo


class DistinctInfos(Sequence[PodInfo]):
    """T PodInfos, each of which is built on first use, since many a cluster has one for every other pod.

    `rows` (T,) are the first pods in the table that have each info. `stored` converts a pod to what the API server
    stores.
    """

    def __init__(self, pods: PodTable, rows: Rows, stored: Callable[[Pod], Pod], options: Options) -> None:
        self._pods, self.rows, self._stored, self._options = pods, rows, stored, options
        self._made: list[PodInfo | None] = [None] * len(rows)

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, number: int) -> PodInfo: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[PodInfo]: ...
    def __getitem__(self, number: int | slice) -> PodInfo | Sequence[PodInfo]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        return self._made[number] or self._make(int(number))

    def __iter__(self) -> Iterator[PodInfo]:
        return map(self.__getitem__, range(len(self)))

    @cached_property
    def templates(self) -> list[Pod]:
        """The common part of each info's pods, as in the documents."""
        templates = self._pods.templates
        return [templates[number] for number in self._pods.template[self.rows].tolist()]

    @cached_property
    def bound(self) -> list[bool]:
        """Whether each info's pods have a node."""
        named = [bool(name) for name in self._pods.node.values]
        return [named[code] for code in self._pods.node.codes[self.rows].tolist()]

    def _make(self, number: int) -> PodInfo:
        """Build the info of a number."""
        pod = self._pods[int(self.rows[number])]
        info = PodInfo(self._stored(pod), self._options, number, self._alike.get(number, number))
        self._made[number] = info
        return info

    @cached_property
    def _alike(self) -> dict[int, int]:
        """Number of an info with resource claims -> the first info that differs only in names."""
        known: dict[bytes, int] = {}
        with_claims = [number for number, template in enumerate(self.templates) if template.spec.resource_claims]
        return {
            number: known.setdefault(digest(_without_claim_names(self._pods[int(self.rows[number])])), number)
            for number in with_claims
        }


def intern_pods(pods: PodTable, stored: Callable[[Pod], Pod], options: Options) -> tuple[Ints, DistinctInfos]:
    """Return the number of each pod's info, (P,), and the infos. `stored` converts a pod to what the API server stores.

    Pods of one template share an info if both or neither are bound, unless claims were made for them by name.
    """
    bound = np.array([bool(name) for name in pods.node.values], np.bool_)[pods.node.codes]
    groups = pods.template.astype(np.int64) * 2 + bound
    named = np.array([_has_claims_by_name(template.spec) for template in pods.templates], np.bool_)[pods.template]
    groups[named] = 2 * len(pods.templates) + np.arange(int(named.sum()))
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first)
    numbers = np.empty(len(first), np.int32)
    numbers[order] = np.arange(len(first))
    return numbers[inverse], DistinctInfos(pods, first[order], stored, options)


def _without_claim_names(pod: Pod) -> tuple[object, ...]:
    """Return what scheduling reads of a pod, without the names of its resource claims."""
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
        (pod.metadata.name, pod.metadata.uid) if _has_ephemeral_volumes(spec) else None,
    )


def _has_claims_by_name(spec: PodSpec) -> bool:
    """Return whether claims may have been made for this very pod, by its name."""
    return bool(spec.resource_claims or (spec.volumes and _has_ephemeral_volumes(spec)))


def _has_ephemeral_volumes(spec: PodSpec) -> bool:
    """Return whether the pod has ephemeral volumes."""
    return any(volume.ephemeral is not None for volume in spec.volumes)
