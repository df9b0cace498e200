"""What stands behind VolumeBinding's reasons on a node: the claim, the volume, the class, the node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.objects import PersistentVolumeClaim
from kschedctl.scheduler.framework.facts import Detail, Fact, LabelDemand, Wanted
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import find_in_tree_plugin, translate_affinity
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    NO_PROVISIONER,
    SELECTED_NODE,
    Listers,
    claim_class,
    claim_key,
    requested_storage,
)
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes
from kschedctl.scheduler.plugins.volume_binding.matching import NONE


class UnboundClaim(Detail, frozen=True):
    """A claim that has to be bound before a node is looked for, to its ``volume`` if it names one.

    ``provisioner``: what makes volumes of its class, empty where nothing does.
    """

    claim: str
    volume: str = ""
    storage_class: str = ""
    class_exists: bool = False
    provisioner: str = ""

    def words(self) -> str:
        """
        >>> UnboundClaim("shop/data", storage_class="fast").words()
        'claim shop/data is not bound: its class fast does not exist'
        """
        name = self.storage_class
        if self.volume:
            why = f"it waits for PersistentVolume {self.volume}"
        elif not self.class_exists:
            why = f"its class {name} does not exist" if name else "it has no class and waits for a PersistentVolume"
        elif not self.provisioner:
            why = f"it waits for a PersistentVolume of class {name}, which does not provision volumes"
        else:
            why = f"it waits for {self.provisioner} to provision a volume of class {name}"
        return f"claim {self.claim} is not bound: {why}"


class ClaimsUnbound(Fact, frozen=True):
    claims: tuple[UnboundClaim, ...]

    def words(self) -> str:
        return "; ".join(claim.words() for claim in self.claims)


class VolumeOutOfReach(Fact, frozen=True):
    """What the required node affinity of a bound volume wants; empty where its terms match nothing."""

    volume: str
    claim: str
    wanted: tuple[Wanted, ...]

    def words(self) -> str:
        """
        >>> VolumeOutOfReach("pv1", "shop/data", (Wanted("zone", "In", ("a",), "b"),)).words()
        'PersistentVolume pv1 of claim shop/data wants zone In [a], the node has b'
        """
        wanted = (
            f"{requirement.key} {requirement.operator} [{', '.join(requirement.values)}], {_has(requirement)}"
            for requirement in self.wanted
        )
        text = "; ".join(dict.fromkeys(wanted)) or "a node that cannot exist: its terms match nothing"
        return f"PersistentVolume {self.volume} of claim {self.claim} wants {text}"

    def demands(self) -> tuple[LabelDemand, ...]:
        """Where it wants nothing but values of one label."""
        if len({requirement.key for requirement in self.wanted}) != 1 or any(
            requirement.operator != "In" for requirement in self.wanted
        ):
            return ()
        values = tuple(value for requirement in self.wanted for value in requirement.values)
        return (LabelDemand("its volume", self.wanted[0].key, values, self.claim),)


class ProvisionedElsewhere(Fact, frozen=True):
    """A volume for the claim is being made for another node."""

    claim: str
    node: str

    def words(self) -> str:
        return f"claim {self.claim} is being provisioned for node {self.node}"


class NoVolume(Fact, frozen=True):
    """A claim of so many ``requested`` bytes, written ``size``, that finds no volume.

    ``provisions``: its class does provision volumes, only where the ``topologies`` allow it.
    """

    claim: str
    storage_class: str
    size: str
    requested: int
    provisions: bool
    topologies: tuple[tuple[Wanted, ...], ...] = ()

    def words(self) -> str:
        """
        >>> print(NoVolume("a/d", "fast", "1Gi", 1 << 30, provisions=False).words())
        no available PersistentVolume of class fast for claim a/d (1Gi wanted), and the class does not provision volumes
        """
        size = f"{self.size} " if self.size else ""
        none = f"no available PersistentVolume of class {self.storage_class} for claim {self.claim} ({size}wanted)"
        if not self.provisions:
            return f"{none}, and the class does not provision volumes"
        allowed = "; or ".join(" and ".join(map(_allowed, term)) for term in self.topologies)
        return f"{none}, and the class provisions only where {allowed or 'no topology matches'}"


class NotEnoughStorage(Fact, frozen=True):
    """``largest``: the most bytes that a CSIStorageCapacity, the ``capacity``, has there; None: none is known."""

    claim: str
    storage_class: str
    size: str
    requested: int
    largest_size: str = ""
    largest: int | None = None
    capacity: str = ""
    driver: str = ""
    """The class's CSI driver, whose CSIDriver says storageCapacity: true."""
    pools: int = 0
    """The number of CSIStorageCapacity objects with a capacity that the class has in the whole cluster."""

    def words(self) -> str:
        """Return how much is wanted and published, and by which driver if it publishes nothing or 0.

        >>> print(NotEnoughStorage("shop/data", "fast", "2Gi", 2 << 30, "1Gi", 1 << 30, "rack-1", "csi.test").words())
        claim shop/data wants 2Gi of class fast, at most 1Gi is available (CSIStorageCapacity rack-1)
        >>> NotEnoughStorage("a/d", "fast", "2Gi", 2 << 30, "0", 0, "r1", "csi.test").words().partition(", ")[2]
        'csi.test publishes 0 there (CSIStorageCapacity r1), and its CSIDriver says storageCapacity: true'
        >>> NotEnoughStorage("a/d", "fast", "2Gi", 2 << 30, driver="csi.test").words().partition(", ")[2]
        'of which no CSIStorageCapacity has any, though CSIDriver csi.test says storageCapacity: true'
        """
        wanted = f"claim {self.claim} wants {self.size} of class {self.storage_class}"
        if self.largest is None:
            if self.driver and not self.pools:
                says = f"CSIDriver {self.driver} says storageCapacity: true"
                return f"{wanted}, of which no CSIStorageCapacity has any, though {says}"
            return f"{wanted}, of which no CSIStorageCapacity is known for the node"
        if self.largest == 0 and self.driver:
            published = f"{self.driver} publishes 0 there (CSIStorageCapacity {self.capacity})"
            return f"{wanted}, {published}, and its CSIDriver says storageCapacity: true"
        return f"{wanted}, at most {self.largest_size} is available (CSIStorageCapacity {self.capacity})"


class VolumeMissing(Fact, frozen=True):
    """The claim is bound to a volume that does not exist."""

    claim: str
    volume: str

    def words(self) -> str:
        return f"claim {self.claim} is bound to PersistentVolume {self.volume}, which does not exist"


def _allowed(wanted: Wanted) -> str:
    return f"{wanted.key} in [{', '.join(wanted.values)}] ({_has(wanted)})"


def _has(wanted: Wanted) -> str:
    return "the node has no such label" if wanted.found is None else f"the node has {wanted.found}"


def immediate(claims: Sequence[PersistentVolumeClaim], listers: Listers) -> ClaimsUnbound:
    """The claims that have to be bound before a node is looked for, and what is missing for that."""
    return ClaimsUnbound(tuple(_unbound(claim, listers) for claim in claims))


def _unbound(claim: PersistentVolumeClaim, listers: Listers) -> UnboundClaim:
    name = claim_class(claim)
    made_by = listers.classes.get(name)
    provisioner = made_by.provisioner if made_by and made_by.provisioner != NO_PROVISIONER else ""
    return UnboundClaim(claim_key(claim), claim.spec.volume_name, name, made_by is not None, provisioner)


def node_conflict(volumes: PodVolumes, row: int) -> VolumeOutOfReach:
    """The volume that cannot be reached, and the labels that it asks for."""
    claim = volumes.claims[volumes.node_conflict[row]]
    volume = volumes.listers.volumes[claim.spec.volume_name]
    labels = volumes.listers.nodes.objects[row].metadata.labels
    affinity, plugin = volume.spec.node_affinity, find_in_tree_plugin(volume.spec)
    if (
        plugin is not None
        and volumes.listers.counts_as_csi(plugin)
        and volumes.listers.csi_nodes.migrated(plugin.name)[row]
    ):
        affinity = translate_affinity(volume, plugin)
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    wanted = dict.fromkeys(
        Wanted(r.key, r.operator, r.values or (), labels.get(r.key)) for term in terms for r in term.match_expressions
    )
    return VolumeOutOfReach(volume.metadata.name, claim_key(claim), tuple(wanted))


def bind_conflict(volumes: PodVolumes, row: int) -> ProvisionedElsewhere | NoVolume:
    """Why the claim finds no volume, and why none would be made."""
    claim = volumes.claims[volumes.bind_conflict[row]]
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected not in (None, volumes.listers.nodes.names[row]):
        return ProvisionedElsewhere(claim_key(claim), selected)
    class_ = volumes.listers.classes[claim_class(claim)]
    provisions = class_.provisioner not in ("", NO_PROVISIONER)
    labels = volumes.listers.nodes.objects[row].metadata.labels
    topologies = tuple(
        tuple(Wanted(r.key, "In", tuple(r.values), labels.get(r.key)) for r in term.match_label_expressions)
        for term in class_.allowed_topologies
    )
    return NoVolume(claim_key(claim), claim_class(claim), *_size(claim), provisions, topologies if provisions else ())


def not_enough_space(volumes: PodVolumes, row: int) -> NotEnoughStorage:
    """How much is wanted, and the most that a pool within reach holds."""
    claim = volumes.claims[volumes.not_enough_space[row]]
    pools = volumes.listers.pools_of_class.get(claim_class(claim), ())
    known = [pool for pool in pools if pool.limit is not None]
    within_reach = [pool for pool in known if row in pool.rows]
    driver = volumes.listers.classes[claim_class(claim)].provisioner
    fact = NotEnoughStorage(claim_key(claim), claim_class(claim), *_size(claim), driver=driver, pools=len(known))
    if not within_reach:
        return fact
    best = max(within_reach, key=lambda pool: pool.limit or 0)
    text = best.capacity.capacity if best.capacity.maximum_volume_size is None else best.capacity.maximum_volume_size
    return replace(fact, largest_size=str(text), largest=best.limit, capacity=best.capacity.metadata.name)


def lacking_space(volumes: PodVolumes) -> npt.NDArray[np.float64]:
    """(N,): what the largest pool that the node can use lacks of the claim that is to blame, as a share of its size."""
    culprits, lacking = volumes.not_enough_space, np.zeros(len(volumes.not_enough_space))
    for index in np.unique(culprits[culprits != NONE]).tolist():
        claim, largest = volumes.claims[index], np.zeros(len(culprits))
        for pool in volumes.listers.pools_of_class.get(claim_class(claim), ()):
            largest[pool.rows] = np.maximum(largest[pool.rows], pool.limit or 0)
        mine, (_, wanted) = culprits == index, _size(claim)
        lacking[mine] = 1 - np.minimum(largest[mine] / max(wanted, 1), 1)
    return lacking


def missing(volumes: PodVolumes, row: int) -> VolumeMissing:
    """The claim, and the volume that is not there."""
    claim = volumes.claims[volumes.missing[row]]
    return VolumeMissing(claim_key(claim), claim.spec.volume_name)


def _size(claim: PersistentVolumeClaim) -> tuple[str, int]:
    """What the claim asks for, as a quantity and in bytes."""
    size = requested_storage(claim)
    return (str(size), size.value()) if size else ("", 0)
