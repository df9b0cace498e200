"""The PersistentVolume that a claim would be bound to on each node.

Upstream: FindMatchingVolume in staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go (v1.36), on the
scheduler's path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.labels import EVERYTHING, Selector, SelectorError, selector_from_api
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    ClassVolumes,
    Listers,
    billionths,
    claim_class,
    claim_key,
    requested_storage,
)
from kschedctl.scheduler.plugins.helper.volumes.topology import Topology

Matches = npt.NDArray[np.int32]
"""(N,): index into the candidates, -1 where none matches."""
NONE = -1


class MatchingError(Exception):
    """A claim for which no volume can be sought, in upstream's words."""


class Binding(NamedTuple):
    """What a claim finds: on each row ``volumes[chosen[row]]``, or nothing."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    chosen: Matches

    def volume(self, row: int) -> PersistentVolume | None:
        """The volume found on a row."""
        return None if self.chosen[row] == NONE else self.volumes[self.chosen[row]]


def find_matching_volume(
    claim: PersistentVolumeClaim, listers: Listers, earlier: Sequence[Binding], attributes_class: bool = True
) -> Binding:
    """The volume for the claim on every node, each node by itself: a volume that is reserved for the claim, else the
    smallest that is large enough and reachable, the first of equals. What ``earlier`` claims took on a node is gone.

    ``attributes_class`` is the gate VolumeAttributesClass. Raises MatchingError, InputError.
    """
    selector = _check(claim, attributes_class)
    offered = listers.volumes_of_class.get(claim_class(claim), ClassVolumes())
    search = _Search(listers.topology, offered.volumes, earlier)
    wanted = billionths(requested_storage(claim))
    suitable = [
        offered.sizes[i] >= wanted and _suits(volume, claim, attributes_class)
        for i, volume in enumerate(offered.volumes)
    ]
    for i, volume in enumerate(offered.volumes):
        if suitable[i] and is_bound_to(volume, claim):
            search.reserve(i)
    for i in offered.by_size:
        if not search.left:
            break
        if suitable[i] and _is_available(offered.volumes[i], claim, selector):
            search.choose(i)
    return Binding(claim, offered.volumes, search.chosen)


class _Search:
    """The rows that have no volume yet, and what the others have."""

    def __init__(self, topology: Topology, volumes: Sequence[PersistentVolume], earlier: Sequence[Binding]) -> None:
        self.topology, self.volumes = topology, volumes
        self.chosen = np.full(len(topology.nodes), NONE, np.int32)
        self.open = np.ones(len(topology.nodes), np.bool_)
        self.left = len(topology.nodes)
        self._taken = [binding.chosen for binding in earlier if binding.volumes is volumes]

    def reserve(self, i: int) -> None:
        """A volume that waits for the claim: no other is looked at, even where this one cannot be reached."""
        free = self.open.copy()
        for taken in self._taken:
            free &= taken != i
        self.chosen[free & self.topology.reachable_mask(self.volumes[i].spec.node_affinity)] = i
        self.open &= ~free
        self.left = int(self.open.sum())

    def choose(self, i: int) -> None:
        """A volume that anyone may have, wherever it can be reached and nothing was found before."""
        rows = self.topology.reachable_rows(self.volumes[i].spec.node_affinity)
        rows = rows[self.open[rows]]
        for taken in self._taken:
            rows = rows[taken[rows] != i]
        self.chosen[rows] = i
        self.open[rows] = False
        self.left -= len(rows)


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for this very claim."""
    holder, wanted = volume.spec.claim_ref, claim.metadata
    if holder is None or (holder.name, holder.namespace or "") != (wanted.name, wanted.namespace):
        return False
    return not holder.uid or holder.uid == wanted.uid


def _check(claim: PersistentVolumeClaim, attributes_class: bool) -> Selector:
    """The claim's selector of volumes. Raises MatchingError."""
    if claim.spec.volume_attributes_class_name and not attributes_class:
        raise MatchingError(
            f"unsupported volumeAttributesClassName is set on claim {claim_key(claim)} "
            "when the feature-gate VolumeAttributesClass is disabled"
        )
    try:
        return EVERYTHING if claim.spec.selector is None else selector_from_api(claim.spec.selector)
    except SelectorError as error:
        problem = f"error creating internal label selector for claim: {claim_key(claim)}: {error.what}"
        raise MatchingError(problem) from None


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim, attributes_class: bool) -> bool:
    """What even a reserved volume must have, its size aside."""
    if volume.metadata.deletion_timestamp is not None:
        return False
    if volume.spec.claim_ref is not None and not is_bound_to(volume, claim):
        return False
    wanted_class = (claim.spec.volume_attributes_class_name or "") if attributes_class else ""
    same_mode = (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
    return same_mode and (volume.spec.volume_attributes_class_name or "") == wanted_class


def _is_available(volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector) -> bool:
    """What a volume that is reserved for nobody must have besides."""
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and selector.matches(volume.metadata.labels)
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )
