"""How much of each class's storage the claims of a pod would take on a node, and the score of that.

Upstream: pkg/scheduler/framework/plugins/volumebinding/{volume_binding.go,scorer.go} (v1.36), gate
StorageCapacityScoring.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Amounts, Rows, Scores
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.quantity import Quantity
from kschedctl.scheduler.framework.scores import round_half_away
from kschedctl.scheduler.plugins.helper.shape import broken_linear
from kschedctl.scheduler.plugins.helper.volumes.listers import requested_storage, volume_storage
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes
from kschedctl.scheduler.plugins.volume_binding.matching import NONE

SCORES_PROVISIONING = ByVersion(
    "whether volumes that would be provisioned are scored, and rows are there without any to score",
    (("", False), ("1.33", True)),
    "#128184",
)


class ClassResources(NamedTuple):
    """(F, K) each, bytes: what is taken of K classes on F nodes, out of how much, and whether it counts at all."""

    requested: Amounts
    capacity: Amounts
    used: npt.NDArray[np.bool_]

    @classmethod
    def none(cls, rows: Rows, classes: int) -> ClassResources:
        shape = len(rows), classes
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.bool_))


def score_by_capacity(
    points: Sequence[tuple[int, int]], volumes: PodVolumes, rows: Rows, provisioning: bool = True
) -> Scores:
    """(F,): by the volumes that would be bound; where there are none, by those that would be provisioned, or 0."""
    static = _static_resources(volumes, rows)
    if not provisioning:
        return capacity_score(points, static)
    dynamic = _dynamic_resources(volumes, rows)
    return np.where(static.used.any(axis=1), capacity_score(points, static), capacity_score(points, dynamic))


def capacity_score(points: Sequence[tuple[int, int]], resources: ClassResources) -> Scores:
    """(F,): the function through the points at each class's utilization in percent, the mean over the classes."""
    requested, capacity, used = resources
    full = (capacity == 0) | (requested > capacity)
    percent = np.where(full, 100, requested * 100 // np.where(capacity == 0, 1, capacity))
    total, classes = np.where(used, broken_linear(points, percent), 0).sum(axis=1), used.sum(axis=1)
    return round_half_away(total / np.maximum(classes, 1))


def _static_resources(found_volumes: PodVolumes, rows: Rows) -> ClassResources:
    """The volumes that would be bound, by class: claims ask for a part of them."""
    classes: dict[str, int] = {}
    for binding in found_volumes.bindings:
        for volume in binding.volumes:
            classes.setdefault(volume.spec.storage_class_name, len(classes))
    class_resources = ClassResources.none(rows, len(classes))
    for binding in found_volumes.bindings:
        chosen = binding.chosen[rows]
        at = np.flatnonzero(chosen != NONE)
        distinct, which = np.unique(chosen[at], return_inverse=True)
        volumes = [binding.volumes[i] for i in distinct.tolist()]
        columns = np.array([classes[volume.spec.storage_class_name] for volume in volumes], np.int64)[which]
        class_resources.requested[at, columns] += _bytes(requested_storage(binding.claim))
        class_resources.capacity[at, columns] += np.array([_bytes(volume_storage(v)) for v in volumes], np.int64)[which]
        class_resources.used[at, columns] = True
    return class_resources


def _dynamic_resources(volumes: PodVolumes, rows: Rows) -> ClassResources:
    """The volumes that would be provisioned out of a known capacity, by class."""
    classes: dict[str, int] = {}
    for provision in volumes.provisions:
        classes.setdefault(provision.claim.spec.storage_class_name or "", len(classes))
    class_resources = ClassResources.none(rows, len(classes))
    for provision in volumes.provisions:
        pool = provision.capacity[rows]
        at = np.flatnonzero(provision.mask[rows] & (pool != NONE))
        column = classes[provision.claim.spec.storage_class_name or ""]
        free = np.array([pool.free for pool in provision.pools], np.int64)
        class_resources.requested[at, column] += _bytes(requested_storage(provision.claim))
        class_resources.capacity[at, column] = free[pool[at]]
        class_resources.used[at, column] = True
    return class_resources


def _bytes(quantity: Quantity | None) -> int:
    return quantity.value() if quantity else 0
