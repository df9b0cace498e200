"""Evaluation of a pod's claims on all nodes at once, and updates of claims and volumes after the pod is placed.

Before PreBind only the plugin knows the decision: volumes are reserved for their claims, which do not name them yet. A
claim that is to be provisioned is annotated with the selected node. The volume that the driver would create is not
guessed. Upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PhaseStatus,
    StorageClass,
    Struct,
    TypedObjectReference,
)
from kschedctl.scheduler.plugins.helper.csi_migration import (
    TranslationError,
    find_in_tree_plugin,
    translate_affinity,
    translate_volume_handle,
)
from kschedctl.scheduler.plugins.helper.volume_listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    StoragePool,
    get_claim_class,
    parse_requested_storage,
    to_billionths,
)
from kschedctl.scheduler.plugins.volume_binding.matching import NO_MATCH, Binding, MatchingError, choose_volume_per_node
from kschedctl.snapshot.nodes import HOSTNAME

ClaimIndices = npt.NDArray[np.int32]
"""(N,) the index of a claim or pool per node, or NO_MATCH."""


class PodVolumeClaims(NamedTuple):
    """The claims of a pod by their state."""

    bound: tuple[PersistentVolumeClaim, ...]
    """Claims that are bound."""
    delay_binding: tuple[PersistentVolumeClaim, ...]
    """Claims that are bound or provisioned after a node is chosen."""
    immediate: tuple[PersistentVolumeClaim, ...]
    """Claims that must be bound before a node is chosen."""


class Provision(NamedTuple):
    """A claim that is provisioned on some nodes."""

    claim: PersistentVolumeClaim
    mask: Bools
    """(N,) a mask of these nodes."""
    pools: tuple[StoragePool, ...]
    """The pools of storage whose capacity is checked, empty if the capacity is not checked."""
    capacity: ClaimIndices
    """(N,) the index of the pool that is used on each node, or NO_MATCH."""


def group_claims_by_state(claims: list[PersistentVolumeClaim], listers: Listers) -> PodVolumeClaims:
    """Group the claims into bound claims, claims that wait for their first consumer, and immediate claims.

    A claim that names a volume but is not completely bound counts as immediate.
    """
    bound = []
    delayed = []
    immediate = []
    for claim in claims:
        names_volume = claim.spec.volume_name != ""
        if names_volume and BIND_COMPLETED in claim.metadata.annotations:
            bound.append(claim)
        elif not names_volume and _waits_for_consumer(claim, listers):
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodVolumeClaims(tuple(bound), tuple(delayed), tuple(immediate))


def _waits_for_consumer(claim: PersistentVolumeClaim, listers: Listers) -> bool:
    """Return whether the claim's class delays binding until the first pod with the claim is scheduled.

    Return False if the class does not exist.
    """
    class_ = listers.classes.get(get_claim_class(claim))
    return class_ is not None and class_.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def find_eligible_hostnames(claims: PodVolumeClaims, listers: Listers) -> frozenset[str] | None:
    """Return the hostnames that the node affinities of all bound volumes allow.

    Volumes and terms that name no host are ignored, and hostnames are used as node names. Return None if a volume is
    missing or no volume names a host, so that all nodes are eligible. Upstream: GetEligibleNodes (v1.31.2, removed
    later) and GetLocalPersistentVolumeNodeNames in pkg/volume/util/util.go.
    """
    hostname_sets = []
    for claim in claims.bound:
        volume = listers.volumes.get(claim.spec.volume_name)
        if volume is None:
            return None
        hostnames = _list_required_hostnames(volume)
        if hostnames:
            hostname_sets.append(hostnames)
    if not hostname_sets:
        return None
    return frozenset.intersection(*hostname_sets)


def _list_required_hostnames(volume: PersistentVolume) -> frozenset[str]:
    """Return the hostnames that the volume's node affinity allows.

    A term allows the hostnames that are in all its requirements on the hostname, and the affinity allows the hostnames
    of all its terms. The set is empty if the affinity does not select by hostname.
    """
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return frozenset()
    hostnames: set[str] = set()
    for term in affinity.required.node_selector_terms:
        hostname_sets = [
            set(requirement.values or ())
            for requirement in term.match_expressions
            if requirement.key == HOSTNAME and requirement.operator == "In"
        ]
        if hostname_sets:
            hostnames |= set.intersection(*hostname_sets)
    return frozenset(hostnames)


class PodVolumes:
    """The result of evaluating a pod's claims on N nodes, in the steps that upstream takes.

    A node that fails in a step is skipped in later steps. Raises InputError for an invalid size.
    """

    def __init__(self, claims: PodVolumeClaims, listers: Listers, attributes_class: bool = True) -> None:
        self.listers, self.attributes_class = listers, attributes_class
        self.claims = (*claims.bound, *claims.delay_binding)
        self._delayed = range(len(claims.bound), len(self.claims))
        """The indices of the claims that are not bound yet."""
        num_nodes = len(listers.nodes)

        # The index (N,) of the claim that rejects each node for a reason, or NO_MATCH
        self.node_conflict = np.full(num_nodes, NO_MATCH, np.int32)
        """The volume of a bound claim cannot be reached."""
        self.bind_conflict = np.full(num_nodes, NO_MATCH, np.int32)
        """A claim gets no volume, and none can be provisioned."""
        self.not_enough_space = np.full(num_nodes, NO_MATCH, np.int32)
        """A claim is larger than the free storage."""
        self.missing = np.full(num_nodes, NO_MATCH, np.int32)
        """A claim is bound to a volume that does not exist."""

        self.errors: list[tuple[Bools, str]] = []
        """Masks (N,) of the nodes on which the scheduler itself fails, with its messages."""
        self.bindings: list[Binding] = []
        """The volumes that unbound claims would get."""
        self._matched: list[int] = []
        """The index of the claim of each binding."""
        self.provisions: list[Provision] = []
        """The claims that would be provisioned on some nodes."""
        self._active = np.ones(num_nodes, np.bool_)
        """A mask (N,) of the nodes that take part in the next step."""

        self._record_unreachable_claims(claims.bound)
        being_provisioned = self._exclude_unselected_nodes()
        self._record_matching_volumes([i for i in self._delayed if i not in being_provisioned])
        self._record_unprovisionable_claims(being_provisioned)

    def is_any_volume_bound(self, rows: Rows) -> bool:
        """Return whether an existing volume would be bound to a claim on one of the nodes at `rows`."""
        return any((binding.chosen[rows] != NO_MATCH).any() for binding in self.bindings)

    def find_failed_nodes(self) -> Bools:
        """Return a mask (N,) of the nodes on which the evaluation ended with an error instead of a verdict."""
        failed = np.zeros(len(self._active), np.bool_)
        for mask, _ in self.errors:
            failed |= mask
        return failed

    def _add_error(self, mask: Bools, message: str) -> None:
        """Record an error for the nodes of the mask, which take no part in later steps."""
        self.errors.append((mask, message))
        self._active = self._active & ~mask

    # -- bound claims --------------------------------------------------------------------------------------------

    def _record_unreachable_claims(self, claims: tuple[PersistentVolumeClaim, ...]) -> None:
        """Record, for each node, the index of the first bound claim whose volume is missing or out of reach.

        The index is recorded in `missing` or `node_conflict`. As in upstream, later claims are not checked once a
        volume is missing.
        """
        undecided = self._active.copy()
        for i, claim in enumerate(claims):
            volume = self.listers.volumes.get(claim.spec.volume_name)
            if volume is None:
                self.missing[undecided] = i
                return
            reachable = self._find_reachable_nodes(volume, undecided)
            undecided &= self._active  # the look-up may have recorded an error
            self.node_conflict[undecided & ~reachable] = i
            undecided &= reachable

    def _find_reachable_nodes(self, volume: PersistentVolume, undecided: Bools) -> Bools:
        """Return a mask (N,) of the nodes that can reach the volume.

        On nodes that use an in-tree volume through CSI, the volume's node affinity is translated. If the volume cannot
        be translated, an error is recorded for such nodes among the `undecided` (N,).
        """
        topology = self.listers.topology
        reachable = topology.find_reachable_nodes(volume.spec.node_affinity)
        plugin = find_in_tree_plugin(volume.spec)
        if plugin is None or not self.listers.counts_as_csi(plugin):
            return reachable
        migrated = self.listers.csi_nodes.find_migrated_nodes(plugin.name)
        try:
            translate_volume_handle(volume, plugin)  # only to find out whether upstream's translation fails
        except TranslationError as error:
            if (undecided & migrated).any():
                self._add_error(undecided & migrated, f"could not translate pv: {error}")
            return reachable
        return np.where(migrated, topology.find_reachable_nodes(translate_affinity(volume, plugin)), reachable)

    # -- unbound claims ------------------------------------------------------------------------------------------

    def _exclude_unselected_nodes(self) -> list[int]:
        """Exclude all nodes except the selected one for each claim that is being provisioned.

        Excluded nodes get a bind conflict and are no longer active. If the selected node does not exist, all nodes are
        excluded. Return the indices of the claims that are being provisioned.
        """
        being_provisioned = [i for i in self._delayed if SELECTED_NODE in self.claims[i].metadata.annotations]
        for i in being_provisioned:
            selected_node = self.claims[i].metadata.annotations[SELECTED_NODE]
            selected_row = self.listers.nodes.index.get(selected_node)
            is_elsewhere = self._active.copy()
            if selected_row is not None:
                is_elsewhere[selected_row] = False
            self.bind_conflict[is_elsewhere] = i
            self._active &= ~is_elsewhere
        return being_provisioned

    def _record_matching_volumes(self, claim_indices: list[int]) -> None:
        """Append to `bindings` the existing volumes for the claims with these indices, smallest claim first.

        The index of each of these claims is appended to `_matched`. If the volumes for a claim cannot be searched, an
        error is recorded for all active nodes, and later claims are skipped.
        """
        by_size = sorted(claim_indices, key=lambda i: to_billionths(parse_requested_storage(self.claims[i])))
        for i in by_size:
            try:
                binding = choose_volume_per_node(
                    self.claims[i], self.listers, self.bindings, attributes_class=self.attributes_class
                )
            except MatchingError as error:
                if self._active.any():
                    self._add_error(self._active.copy(), str(error))
                return
            self.bindings.append(binding)
            self._matched.append(i)

    def _record_unprovisionable_claims(self, being_provisioned: list[int]) -> None:
        """Record, for each node, the index of the first claim that gets no volume there and cannot be provisioned.

        The index is recorded in `bind_conflict` or `not_enough_space`, depending on the reason. Every unbound claim is
        appended to `provisions`, with a mask (N,) of the nodes on which it gets no volume. The claims with the indices
        in `being_provisioned` come first.
        """
        all_nodes = np.ones(len(self._active), np.bool_)
        nodes_without_volume = [(i, all_nodes) for i in being_provisioned]
        for i, binding in zip(self._matched, self.bindings, strict=True):
            nodes_without_volume.append((i, binding.chosen == NO_MATCH))

        undecided = self._active.copy()  # the nodes for which no index is recorded yet
        for i, lacks_volume in nodes_without_volume:
            claim = self.claims[i]
            class_ = self.listers.classes[get_claim_class(claim)]
            pools, pool_indices = self._find_first_fitting_pools(claim, class_)

            has_wrong_topology = lacks_volume & ~self._find_provisionable_nodes(class_)
            self.bind_conflict[undecided & has_wrong_topology] = i
            undecided &= ~has_wrong_topology

            if pools is not None:
                has_no_fitting_pool = pool_indices == NO_MATCH
                lacks_space = lacks_volume & has_no_fitting_pool
                self.not_enough_space[undecided & lacks_space] = i
                undecided &= ~lacks_space
            self.provisions.append(Provision(claim, lacks_volume, pools or (), pool_indices))

    def _find_provisionable_nodes(self, class_: StorageClass) -> Bools:
        """Return a mask (N,) of the nodes in the class's allowed topologies, all False without a provisioner."""
        if class_.provisioner in ("", NO_PROVISIONER):
            return np.zeros(len(self._active), np.bool_)
        return self.listers.topology.find_allowed_nodes(class_.allowed_topologies)

    def _find_first_fitting_pools(
        self, claim: PersistentVolumeClaim, class_: StorageClass
    ) -> tuple[tuple[StoragePool, ...] | None, ClaimIndices]:
        """Return the class's storage pools and, for each node, the index of the first pool that can hold the claim.

        The index is NO_MATCH on nodes without such a pool. If the driver does not publish capacity or the claim
        requests no size, capacity does not matter. The pools are then None, and all indices are NO_MATCH.
        """
        first_fitting = np.full(len(self._active), NO_MATCH, np.int32)
        size = parse_requested_storage(claim)
        driver = self.listers.drivers.get(class_.provisioner)
        if size is None or driver is None or not driver.spec.storage_capacity:
            return None, first_fitting
        pools = self.listers.pools_of_class.get(class_.metadata.name, ())
        for pool_index, pool in enumerate(pools):
            can_hold_claim = pool.limit is not None and pool.limit >= size.value()
            if can_hold_claim:
                has_no_pool_yet = first_fitting[pool.rows] == NO_MATCH
                first_fitting[pool.rows[has_no_pool_yet]] = pool_index
        return pools, first_fitting

    # -- one node ------------------------------------------------------------------------------------------------

    def iter_bindings(self, row: int) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume]]:
        """Yield each claim that gets an existing volume on the node, together with this volume."""
        for binding in self.bindings:
            volume = binding.find_volume(row)
            if volume is not None:
                yield binding.claim, volume

    def list_provisioned_claims(self, row: int) -> list[PersistentVolumeClaim]:
        """Return the claims that would be provisioned on the node."""
        return [provision.claim for provision in self.provisions if provision.mask[row]]


def build_bound_objects(volumes: PodVolumes, row: int, node: str) -> dict[str, list[Struct]]:
    """Return the claims and volumes that change if the pod is bound to a node, by kind.

    `row` and `node` are the row and the name of the node. Claims and their matching volumes are bound to each other,
    and claims to be provisioned are annotated with the node. Kinds without changes are left out.
    """
    claims: list[Struct] = []
    bound_volumes: list[Struct] = []
    for claim, volume in volumes.iter_bindings(row):
        claims.append(bind_claim(claim, volume.metadata.name))
        bound_volumes.append(bind_volume(volume, claim))
    for claim in volumes.list_provisioned_claims(row):
        claims.append(_annotate_claim(claim, SELECTED_NODE, node))
    by_kind = {"PersistentVolumeClaim": claims, "PersistentVolume": bound_volumes}
    return {kind: objects for kind, objects in by_kind.items() if objects}


def build_assumed_objects(volumes: PodVolumes, row: int, node: str) -> dict[str, list[Struct]]:
    """Return the claims and volumes that the scheduler assumes before the pod is bound to the node, by kind.

    `row` and `node` are the row and the name of the node. Volumes are reserved for their claims, and claims to be
    provisioned are annotated with the node. Kinds without changes are left out.
    """
    claims: list[Struct] = [
        _annotate_claim(claim, SELECTED_NODE, node) for claim in volumes.list_provisioned_claims(row)
    ]
    reserved: list[Struct] = [_reserve_volume(volume, claim) for claim, volume in volumes.iter_bindings(row)]
    by_kind = {"PersistentVolumeClaim": claims, "PersistentVolume": reserved}
    return {kind: objects for kind, objects in by_kind.items() if objects}


def bind_claim(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    """Return a copy of the claim that is bound to the volume called `volume`."""
    annotated = _annotate_claim(claim, BIND_COMPLETED, "yes")
    return replace(annotated, spec=replace(claim.spec, volume_name=volume), status=PhaseStatus("Bound"))


def _annotate_claim(claim: PersistentVolumeClaim, annotation: str, value: str) -> PersistentVolumeClaim:
    """Return a copy of the claim with an additional annotation."""
    annotations = {**claim.metadata.annotations, annotation: value}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def bind_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a copy of the volume that is bound to the claim."""
    return replace(_reserve_volume(volume, claim), status=PhaseStatus("Bound"))


def _reserve_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a copy of the volume that is reserved for the claim by a reference."""
    meta = claim.metadata
    reference = TypedObjectReference(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return replace(volume, spec=replace(volume.spec, claim_ref=reference))
