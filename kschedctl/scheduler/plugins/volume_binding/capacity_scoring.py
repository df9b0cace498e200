"""Scores of nodes by the storage capacity that a pod's claims would use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Rows, Scores
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.quantity import Quantity
from kschedctl.scheduler.framework.scores import round_half_away
from kschedctl.scheduler.plugins.helper.scoring_strategy import evaluate_broken_linear
from kschedctl.scheduler.plugins.helper.volumes.listers import parse_requested_storage, parse_volume_storage
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes
from kschedctl.scheduler.plugins.volume_binding.matching import NO_MATCH

SCORES_PROVISIONING = ByVersion(
    "volumes to be provisioned are scored, and nodes have a score even without any",
    (("", False), ("1.33", True)),
    "#128184",
)


class ClassResources(NamedTuple):
    """The storage use of K classes on F nodes, (F, K) each, in bytes."""

    requested: Amounts
    """The bytes that claims request."""
    capacity: Amounts
    """The bytes of the volumes or pools that they use."""
    used: npt.NDArray[np.bool_]
    """A mask of the classes that are used on each node."""

    @classmethod
    def zeros(cls, rows: Rows, classes: int) -> ClassResources:
        """Create empty resources."""
        shape = len(rows), classes
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.bool_))


def score_by_capacity(
    points: Sequence[tuple[int, int]], volumes: PodVolumes, rows: Rows, provisioning: bool = True
) -> Scores:
    """Return scores (F,) by the volumes that would be bound or, if there are none, provisioned.

    Without `provisioning`, only volumes that would be bound are scored.
    """
    static = _sum_bound_resources(volumes, rows)
    if not provisioning:
        return score_utilization(points, static)
    dynamic = _sum_provisioned_resources(volumes, rows)
    return np.where(static.used.any(axis=1), score_utilization(points, static), score_utilization(points, dynamic))


def score_utilization(points: Sequence[tuple[int, int]], resources: ClassResources) -> Scores:
    """Return the mean score (F,) of the used classes, interpolated between points by utilization in percent."""
    requested, capacity, used = resources
    full = (capacity == 0) | (requested > capacity)
    percent = np.where(full, 100, requested * 100 // np.where(capacity == 0, 1, capacity))
    total = np.where(used, evaluate_broken_linear(points, percent), 0).sum(axis=1)
    classes = used.sum(axis=1)
    return round_half_away(total / np.maximum(classes, 1))


def _sum_bound_resources(pod_volumes: PodVolumes, rows: Rows) -> ClassResources:
    """Return the capacity of the volumes that would be bound and the amount that the claims request."""
    classes: dict[str, int] = {}
    for binding in pod_volumes.bindings:
        for volume in binding.volumes:
            classes.setdefault(volume.spec.storage_class_name, len(classes))
    class_resources = ClassResources.zeros(rows, len(classes))
    for binding in pod_volumes.bindings:
        chosen = binding.chosen[rows]
        positions = np.flatnonzero(chosen != NO_MATCH)
        distinct, volume_of_position = np.unique(chosen[positions], return_inverse=True)
        volumes = [binding.volumes[i] for i in distinct.tolist()]
        columns = np.array([classes[volume.spec.storage_class_name] for volume in volumes], np.int64)[
            volume_of_position
        ]
        class_resources.requested[positions, columns] += _count_bytes(parse_requested_storage(binding.claim))
        class_resources.capacity[positions, columns] += np.array(
            [_count_bytes(parse_volume_storage(v)) for v in volumes], np.int64
        )[volume_of_position]
        class_resources.used[positions, columns] = True
    return class_resources


def _sum_provisioned_resources(volumes: PodVolumes, rows: Rows) -> ClassResources:
    """Return the resources of volumes that would be provisioned from pools with known capacity."""
    classes: dict[str, int] = {}
    for provision in volumes.provisions:
        classes.setdefault(provision.claim.spec.storage_class_name or "", len(classes))
    class_resources = ClassResources.zeros(rows, len(classes))
    for provision in volumes.provisions:
        pool = provision.capacity[rows]
        positions = np.flatnonzero(provision.mask[rows] & (pool != NO_MATCH))
        column = classes[provision.claim.spec.storage_class_name or ""]
        free = np.array([pool.free for pool in provision.pools], np.int64)
        class_resources.requested[positions, column] += _count_bytes(parse_requested_storage(provision.claim))
        class_resources.capacity[positions, column] = free[pool[positions]]
        class_resources.used[positions, column] = True
    return class_resources


def _count_bytes(quantity: Quantity | None) -> int:
    """Return the quantity in bytes, 0 for None."""
    return quantity.value() if quantity else 0
