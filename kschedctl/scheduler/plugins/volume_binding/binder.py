"""Which nodes the claims of a pod allow, and what would be bound or provisioned on each: all nodes at once.

Upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import (
    TranslationError,
    find_in_tree_plugin,
    translate_affinity,
    translate_volume_handle,
)
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    StoragePool,
    billionths,
    claim_class,
    requested_storage,
)
from kschedctl.scheduler.plugins.volume_binding.matching import NONE, Binding, MatchingError, find_matching_volume
from kschedctl.snapshot.node_order import HOSTNAME

Culprits = npt.NDArray[np.int32]


class PodVolumeClaims(NamedTuple):
    """The claims of a pod: bound; to be bound or provisioned once a node is chosen; to be bound before that."""

    bound: tuple[PersistentVolumeClaim, ...]
    delay_binding: tuple[PersistentVolumeClaim, ...]
    immediate: tuple[PersistentVolumeClaim, ...]


class Provision(NamedTuple):
    """A claim that is provisioned on the rows of ``mask``, out of ``pools[capacity[row]]`` where one is checked."""

    claim: PersistentVolumeClaim
    mask: Bools
    pools: tuple[StoragePool, ...]
    capacity: Culprits


def pod_volume_claims(claims: list[PersistentVolumeClaim], listers: Listers) -> PodVolumeClaims:
    """The claims by what is to be done about them. A claim that names its volume counts as to be bound before."""
    bound, delayed, immediate = [], [], []
    for claim in claims:
        named = claim.spec.volume_name != ""
        if named and BIND_COMPLETED in claim.metadata.annotations:
            bound.append(claim)
        elif not named and _waits_for_consumer(claim, listers):
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodVolumeClaims(tuple(bound), tuple(delayed), tuple(immediate))


def _waits_for_consumer(claim: PersistentVolumeClaim, listers: Listers) -> bool:
    class_ = listers.classes.get(claim_class(claim))
    return class_ is not None and class_.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def eligible_nodes(claims: PodVolumeClaims, listers: Listers) -> frozenset[str] | None:
    """The hostnames that all bound volumes with some in their affinity agree on; None where there are none to tell.

    Upstream, until it was removed, GetEligibleNodes (v1.31.2) and GetLocalPersistentVolumeNodeNames in
    pkg/volume/util/util.go: terms that name no host do not count, and hostnames are taken for names of nodes.
    """
    volumes = [listers.volumes.get(claim.spec.volume_name) for claim in claims.bound]
    if None in volumes:
        return None
    named = [names for volume in volumes if volume is not None and (names := _hostnames(volume))]
    return frozenset.intersection(*named) if named else None


def _hostnames(volume: PersistentVolume) -> frozenset[str]:
    affinity = volume.spec.node_affinity
    names: set[str] = set()
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        hosts = [set(r.values or ()) for r in term.match_expressions if r.key == HOSTNAME and r.operator == "In"]
        names |= set.intersection(*hosts) if hosts else set()
    return frozenset(names)


class PodVolumes:
    """The search on N nodes, in upstream's steps; a node that fails in a step takes no part in the later ones.

    Each of ``node_conflict`` (a bound volume cannot be reached), ``bind_conflict`` (no volume, and none will be
    made), ``not_enough_space`` and ``missing`` (bound to a volume that is not there) is (N,): which of ``claims`` is to
    blame, -1 where none is. ``errors`` are the nodes on which the scheduler itself fails, and its words.
    """

    def __init__(self, claims: PodVolumeClaims, listers: Listers, attributes_class: bool = True) -> None:
        self.listers, self.attributes_class = listers, attributes_class
        self.claims = (*claims.bound, *claims.delay_binding)
        self._delayed = range(len(claims.bound), len(self.claims))
        self.node_conflict, self.bind_conflict, self.not_enough_space, self.missing = (
            np.full(len(listers.nodes), NONE, np.int32) for _ in range(4)
        )
        self.errors: list[tuple[Bools, str]] = []
        self.bindings: list[Binding] = []
        self._matched: list[int] = []
        self.provisions: list[Provision] = []
        self._active = np.ones(len(listers.nodes), np.bool_)
        self._check_bound_claims(claims.bound)
        selected = self._check_selected_nodes()
        self._find_matching_volumes([i for i in self._delayed if i not in selected])
        self._check_provisions(selected)

    def bound_on_any(self, rows: Rows) -> bool:
        """Whether some volume would be bound on one of the rows."""
        return any((binding.chosen[rows] != NONE).any() for binding in self.bindings)

    def failed(self) -> Bools:
        """(N,): the nodes with an error."""
        failed = np.zeros(len(self._active), np.bool_)
        for mask, _ in self.errors:
            failed |= mask
        return failed

    def _fail(self, mask: Bools, text: str) -> None:
        self.errors.append((mask, text))
        self._active = self._active & ~mask

    # -- bound claims --------------------------------------------------------------------------------------------

    def _check_bound_claims(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """The first claim whose volume is missing or out of reach decides."""
        left = self._active.copy()
        for i, claim in enumerate(claims):
            volume = self.listers.volumes.get(claim.spec.volume_name)
            if volume is None:
                self.missing[left] = i
                return
            reachable = self._reachable(volume, left)
            self.node_conflict[left & self._active & ~reachable] = i
            left &= reachable & self._active

    def _reachable(self, volume: PersistentVolume, left: Bools) -> Bools:
        """(N,): an in-tree volume is judged as a CSI volume by the nodes that use it as one."""
        topology = self.listers.topology
        reachable = topology.reachable_mask(volume.spec.node_affinity)
        plugin = find_in_tree_plugin(volume.spec)
        if plugin is None or not self.listers.counts_as_csi(plugin):
            return reachable
        migrated = self.listers.csi_nodes.migrated(plugin.name)
        try:
            translate_volume_handle(volume, plugin)
        except TranslationError as error:
            if (left & migrated).any():
                self._fail(left & migrated, f"could not translate pv: {error}")
            return reachable
        return np.where(migrated, topology.reachable_mask(translate_affinity(volume, plugin)), reachable)

    # -- unbound claims ------------------------------------------------------------------------------------------

    def _check_selected_nodes(self) -> list[int]:
        """The claims that are being provisioned for a node already; on any other node the search ends."""
        selected = [i for i in self._delayed if SELECTED_NODE in self.claims[i].metadata.annotations]
        for i in selected:
            row = self.listers.nodes.index.get(self.claims[i].metadata.annotations[SELECTED_NODE])
            elsewhere = self._active.copy()
            if row is not None:
                elsewhere[row] = False
            self.bind_conflict[elsewhere] = i
            self._active &= ~elsewhere
        return selected

    def _find_matching_volumes(self, wanting: list[int]) -> None:
        """The smallest claims choose first."""
        for i in sorted(wanting, key=lambda i: billionths(requested_storage(self.claims[i]))):
            try:
                binding = find_matching_volume(self.claims[i], self.listers, self.bindings, self.attributes_class)
            except MatchingError as error:
                if self._active.any():
                    self._fail(self._active.copy(), str(error))
                return
            self.bindings.append(binding)
            self._matched.append(i)

    def _check_provisions(self, selected: list[int]) -> None:
        """Claims without a volume are provisioned; the first that cannot be decides."""
        unmatched = [(i, binding.chosen == NONE) for i, binding in zip(self._matched, self.bindings, strict=True)]
        everywhere = np.ones(len(self._active), np.bool_)
        left = self._active.copy()
        for i, needed in [*((i, everywhere) for i in selected), *unmatched]:
            claim = self.claims[i]
            class_ = self.listers.classes[claim_class(claim)]
            pools, capacity = self._capacity(claim, class_)
            refused = needed & ~self._provisionable(class_)
            self.bind_conflict[left & refused] = i
            left &= ~refused
            if pools is not None:
                full = needed & (capacity == NONE)
                self.not_enough_space[left & full] = i
                left &= ~full
            self.provisions.append(Provision(claim, needed, pools or (), capacity))

    def _provisionable(self, class_: StorageClass) -> Bools:
        if class_.provisioner in ("", NO_PROVISIONER):
            return np.zeros(len(self._active), np.bool_)
        return self.listers.topology.allowed_mask(class_.allowed_topologies)

    def _capacity(
        self, claim: PersistentVolumeClaim, class_: StorageClass
    ) -> tuple[tuple[StoragePool, ...] | None, Culprits]:
        """The pools of the class, and the first that holds the claim and that each node can use; None: not checked."""
        capacity = np.full(len(self._active), NONE, np.int32)
        wanted, driver = requested_storage(claim), self.listers.drivers.get(class_.provisioner)
        if wanted is None or driver is None or not driver.spec.storage_capacity:
            return None, capacity
        pools = self.listers.pools_of_class.get(class_.metadata.name, ())
        for k, pool in enumerate(pools):
            if pool.limit is not None and pool.limit >= wanted.value():
                capacity[pool.rows[capacity[pool.rows] == NONE]] = k
        return pools, capacity

    # -- one node ------------------------------------------------------------------------------------------------

    def bound_on(self, row: int) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume]]:
        """The claims that find a volume on the node, with it."""
        for binding in self.bindings:
            volume = binding.volume(row)
            if volume is not None:
                yield binding.claim, volume

    def provisioned_on(self, row: int) -> list[PersistentVolumeClaim]:
        """The claims for which a volume would be made."""
        return [provision.claim for provision in self.provisions if provision.mask[row]]
