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
from kschedctl.scheduler.plugins.helper.resource_allocation import interpolate_scores
from kschedctl.scheduler.plugins.helper.volume_listers import parse_requested_storage, parse_volume_storage
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes
from kschedctl.scheduler.plugins.volume_binding.matching import NO_MATCH

SCORES_PROVISIONING = ByVersion(
    "nodes are scored by free storage for volumes that have yet to be provisioned",
    (("", False), ("1.33", True)),
    "#128184",
)
SKIPS_SCORING = ByVersion(
    "nodes are scored even if none of the pod's claims would be bound to an existing volume",
    (("", True), ("1.33", False)),
    "#128184",
    bool_texts=("yes", "no"),
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
        """Build the storage use of a number of classes on the nodes in `rows`, with nothing used yet."""
        shape = len(rows), classes
        return cls(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.bool_))


def score_by_capacity(
    points: Sequence[tuple[int, int]], volumes: PodVolumes, rows: Rows, *, provisioning: bool = True
) -> Scores:
    """Score the nodes in `rows` by the utilization of the storage that the claims would use.

    A node is scored by the existing volumes that would be bound there. If there are none and `provisioning` is True, it
    is scored by the volumes that would be provisioned. `points` are pairs of a utilization in percent and its score.
    """
    bound = _sum_bound_resources(volumes, rows)
    bound_scores = score_by_utilization(points, bound)
    if not provisioning:
        return bound_scores
    provisioned = _sum_provisioned_resources(volumes, rows)
    binds_volume = bound.used.any(axis=1)
    return np.where(binds_volume, bound_scores, score_by_utilization(points, provisioned))


def score_by_utilization(points: Sequence[tuple[int, int]], resources: ClassResources) -> Scores:
    """Return each node's mean score of the storage classes in use there, or 0 if none is in use.

    The score of a class is interpolated between `points`, which are pairs of utilization in percent and score. A class
    with no capacity, or with less than requested, counts as full.
    """
    requested, capacity, used = resources
    is_full = (capacity == 0) | (requested > capacity)
    divisor = np.where(capacity == 0, 1, capacity)
    percent = np.where(is_full, 100, requested * 100 // divisor)
    class_scores = np.where(used, interpolate_scores(points, percent), 0)
    num_classes = used.sum(axis=1)
    return round_half_away(class_scores.sum(axis=1) / np.maximum(num_classes, 1))


def _sum_bound_resources(pod_volumes: PodVolumes, rows: Rows) -> ClassResources:
    """Sum, per node and StorageClass, the storage that claims request and the capacity of the volumes chosen for them.

    Row i of the result is about node `rows[i]`. A claim for which no volume was chosen on a node does not count there.
    """
    columns_by_class: dict[str, int] = {}
    for binding in pod_volumes.bindings:
        for volume in binding.volumes:
            columns_by_class.setdefault(volume.spec.storage_class_name, len(columns_by_class))
    resources = ClassResources.zeros(rows, len(columns_by_class))
    for binding in pod_volumes.bindings:
        chosen = binding.chosen[rows]
        positions = np.flatnonzero(chosen != NO_MATCH)  # the nodes on which the claim gets a volume

        # Look up the class column and the size once for each distinct volume, then spread them over the positions.
        distinct_choices, choice_of_position = np.unique(chosen[positions], return_inverse=True)
        volumes = [binding.volumes[i] for i in distinct_choices.tolist()]
        volume_columns = np.array([columns_by_class[volume.spec.storage_class_name] for volume in volumes], np.int64)
        volume_sizes = np.array([_count_bytes(parse_volume_storage(volume)) for volume in volumes], np.int64)
        columns = volume_columns[choice_of_position]

        resources.requested[positions, columns] += _count_bytes(parse_requested_storage(binding.claim))
        resources.capacity[positions, columns] += volume_sizes[choice_of_position]
        resources.used[positions, columns] = True
    return resources


def _sum_provisioned_resources(volumes: PodVolumes, rows: Rows) -> ClassResources:
    """Sum the sizes of the claims that would be provisioned, by class on each of the nodes in `rows`.

    As in upstream, the capacity of a class is not summed up. It is the free capacity of the pool for the last claim of
    the class. Claims without a known pool are left out.
    """
    columns_by_class: dict[str, int] = {}
    for provision in volumes.provisions:
        columns_by_class.setdefault(provision.claim.spec.storage_class_name or "", len(columns_by_class))
    resources = ClassResources.zeros(rows, len(columns_by_class))
    for provision in volumes.provisions:
        pool_indices = provision.capacity[rows]  # NO_MATCH where no pool of the class is known
        positions = np.flatnonzero(provision.mask[rows] & (pool_indices != NO_MATCH))
        column = columns_by_class[provision.claim.spec.storage_class_name or ""]
        free = np.array([pool.free for pool in provision.pools], np.int64)
        resources.requested[positions, column] += _count_bytes(parse_requested_storage(provision.claim))
        resources.capacity[positions, column] = free[pool_indices[positions]]
        resources.used[positions, column] = True
    return resources


def _count_bytes(quantity: Quantity | None) -> int:
    """Return the quantity in bytes, 0 for None."""
    return quantity.value() if quantity else 0
