"""Search for the PersistentVolume to which a claim would be bound on each node.

Upstream: FindMatchingVolume in staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go (v1.36), as the
scheduler calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.labels import EVERYTHING, Selector, SelectorError, selector_from_api
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim
from kschedctl.scheduler.plugins.helper.volume_listers import (
    ClassVolumes,
    Listers,
    VolumeReachability,
    format_claim_key,
    get_claim_class,
    parse_requested_storage,
    to_billionths,
)

Matches = npt.NDArray[np.int32]
"""(N,) an index into the candidates, or NO_MATCH."""
NO_MATCH = -1


class MatchingError(Exception):
    """The error for a claim for which no volume can be searched, with upstream's message."""


class Binding(NamedTuple):
    """The volume that a claim gets on each node."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume]
    """The candidates."""
    chosen: Matches
    """(N,) the index of the chosen candidate, or NO_MATCH."""

    def find_volume(self, row: int) -> PersistentVolume | None:
        """Return the volume that the claim gets on the node at `row`, or None if it gets no volume there."""
        index = int(self.chosen[row])
        if index == NO_MATCH:
            return None
        return self.volumes[index]


def choose_volume_per_node(
    claim: PersistentVolumeClaim, listers: Listers, earlier: Sequence[Binding], *, attributes_class: bool = True
) -> Binding:
    """Choose the volume that the claim would get on each node, independently of the other nodes.

    Only volumes that are large enough, reachable and usable for the claim are considered. A volume that is reserved for
    the claim is preferred. Otherwise, the smallest available volume is chosen. Volumes that `earlier` bindings chose on
    a node are not available there. `attributes_class` is the gate VolumeAttributesClass. Raises MatchingError if
    volumes cannot be searched, and InputError for an invalid quantity.
    """
    selector = _parse_volume_selector(claim, attributes_class=attributes_class)
    class_volumes = listers.volumes_of_class.get(get_claim_class(claim), ClassVolumes())
    search = _VolumeSearch(listers.topology, class_volumes.volumes, earlier)
    required_size = to_billionths(parse_requested_storage(claim))
    is_suitable = [
        class_volumes.sizes[i] >= required_size and _is_volume_usable(volume, claim, attributes_class=attributes_class)
        for i, volume in enumerate(class_volumes.volumes)
    ]

    for i, volume in enumerate(class_volumes.volumes):
        if is_suitable[i] and is_reserved_for(volume, claim):
            search.choose_reserved_volume(i)

    for i in class_volumes.by_size:
        if not search.open_count:
            break
        if is_suitable[i] and _is_volume_available(class_volumes.volumes[i], claim, selector):
            search.choose_unreserved_volume(i)
    return Binding(claim, class_volumes.volumes, search.chosen)


class _VolumeSearch:
    """The progress of a search: the nodes that have no volume yet, and the choices for the other nodes."""

    def __init__(
        self, topology: VolumeReachability, volumes: Sequence[PersistentVolume], earlier: Sequence[Binding]
    ) -> None:
        self.topology, self.volumes = topology, volumes
        self.chosen = np.full(len(topology.nodes), NO_MATCH, np.int32)
        """(N,) the index of the chosen volume, or NO_MATCH."""
        self.open = np.ones(len(topology.nodes), np.bool_)
        """(N,) a mask of the nodes for which the search goes on."""
        self.open_count = len(topology.nodes)
        self._earlier_choices = [binding.chosen for binding in earlier if binding.volumes is volumes]
        """The choices for earlier claims of the same class."""

    def choose_reserved_volume(self, i: int) -> None:
        """Choose the volume at index `i`, which is reserved for the claim, on all open nodes that can reach it.

        On open nodes that cannot reach the volume, the search ends without a volume. Nodes where an earlier claim has
        chosen this volume stay open.
        """
        available = self.open.copy()
        for earlier_choice in self._earlier_choices:
            available &= earlier_choice != i
        reachable = self.topology.find_reachable_nodes(self.volumes[i].spec.node_affinity)
        self.chosen[available & reachable] = i
        self.open &= ~available
        self.open_count = int(self.open.sum())

    def choose_unreserved_volume(self, i: int) -> None:
        """Choose the volume at index `i` on the open nodes that can reach it.

        Nodes where an earlier claim has chosen this volume stay open.
        """
        rows = self.topology.find_reachable_rows(self.volumes[i].spec.node_affinity)
        rows = rows[self.open[rows]]
        for earlier_choice in self._earlier_choices:
            is_free = earlier_choice[rows] != i
            rows = rows[is_free]
        self.chosen[rows] = i
        self.open[rows] = False
        self.open_count -= len(rows)


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume's claimRef names the claim, with its namespace and, if given, with its UID."""
    reference, metadata = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.name, reference.namespace or "") != (metadata.name, metadata.namespace):
        return False
    return not reference.uid or reference.uid == metadata.uid


def _parse_volume_selector(claim: PersistentVolumeClaim, *, attributes_class: bool) -> Selector:
    """Parse the claim's volume selector. A claim without a selector selects all volumes.

    Raises MatchingError for an invalid selector, and for a claim with a VolumeAttributesClass if the gate
    `attributes_class` is off.
    """
    if claim.spec.volume_attributes_class_name and not attributes_class:
        raise MatchingError(
            f"unsupported volumeAttributesClassName is set on claim {format_claim_key(claim)} "
            "when the feature-gate VolumeAttributesClass is disabled"
        )
    if claim.spec.selector is None:
        return EVERYTHING
    try:
        return selector_from_api(claim.spec.selector)
    except SelectorError as error:
        problem = f"error creating internal label selector for claim: {format_claim_key(claim)}: {error.what}"
        raise MatchingError(problem) from None


def _is_volume_usable(volume: PersistentVolume, claim: PersistentVolumeClaim, *, attributes_class: bool) -> bool:
    """Return whether the volume meets the conditions that apply to both reserved and unreserved volumes.

    The volume must not be deleted or reserved for another claim. Its mode and attributes class must be those of the
    claim. The attributes class is only compared if the gate `attributes_class` is on. The size is not checked.
    """
    if volume.metadata.deletion_timestamp is not None:
        return False
    if volume.spec.claim_ref is not None and not is_reserved_for(volume, claim):
        return False
    if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
        return False
    requested_class = (claim.spec.volume_attributes_class_name or "") if attributes_class else ""
    return (volume.spec.volume_attributes_class_name or "") == requested_class


def _is_volume_available(volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector) -> bool:
    """Return whether the volume is unreserved and Available, and matches the claim's selector and access modes."""
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and selector.matches(volume.metadata.labels)
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )
