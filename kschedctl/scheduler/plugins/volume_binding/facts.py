"""What stands behind VolumeBinding's reasons on a node: the claim, the volume, the class, the node."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.objects import PersistentVolumeClaim
from kschedctl.scheduler.framework.facts import (
    ClaimsUnbound,
    NotEnoughStorage,
    NoVolume,
    ProvisionedElsewhere,
    UnboundClaim,
    VolumeMissing,
    VolumeOutOfReach,
    Wanted,
)
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import plugin_of, translated_affinity
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    NO_PROVISIONER,
    SELECTED_NODE,
    Listers,
    claim_class,
    claim_key,
    requested_storage,
)
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes


def immediate(claims: Sequence[PersistentVolumeClaim], found: Listers) -> ClaimsUnbound:
    """The claims that have to be bound before a node is looked for, and what is missing for that."""
    return ClaimsUnbound(tuple(_unbound(claim, found) for claim in claims))


def _unbound(claim: PersistentVolumeClaim, found: Listers) -> UnboundClaim:
    name = claim_class(claim)
    made_by = found.classes.get(name)
    provisioner = made_by.provisioner if made_by and made_by.provisioner != NO_PROVISIONER else ""
    return UnboundClaim(claim_key(claim), claim.spec.volume_name, name, made_by is not None, provisioner)


def node_conflict(volumes: PodVolumes, row: int) -> VolumeOutOfReach:
    """The volume that cannot be reached, and the labels that it asks for."""
    claim = volumes.claims[volumes.node_conflict[row]]
    volume = volumes.listers.volumes[claim.spec.volume_name]
    labels = volumes.listers.nodes.objects[row].metadata.labels
    affinity, plugin = volume.spec.node_affinity, plugin_of(volume.spec)
    if (
        plugin is not None
        and volumes.listers.counts_as_csi(plugin)
        and volumes.listers.csi_nodes.migrated(plugin.name)[row]
    ):
        affinity = translated_affinity(volume, plugin)
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
    found = volumes.listers.classes[claim_class(claim)]
    provisions = found.provisioner not in ("", NO_PROVISIONER)
    labels = volumes.listers.nodes.objects[row].metadata.labels
    topologies = tuple(
        tuple(Wanted(r.key, "In", tuple(r.values), labels.get(r.key)) for r in term.match_label_expressions)
        for term in found.allowed_topologies
    )
    return NoVolume(claim_key(claim), claim_class(claim), *_size(claim), provisions, topologies if provisions else ())


def not_enough_space(volumes: PodVolumes, row: int) -> NotEnoughStorage:
    """How much is wanted, and the most that a pool within reach holds."""
    claim = volumes.claims[volumes.not_enough_space[row]]
    pools = volumes.listers.pools_of_class.get(claim_class(claim), ())
    within_reach = [pool for pool in pools if pool.limit is not None and row in pool.rows]
    fact = NotEnoughStorage(claim_key(claim), claim_class(claim), *_size(claim))
    if not within_reach:
        return fact
    best = max(within_reach, key=lambda pool: pool.limit or 0)
    text = best.capacity.capacity if best.capacity.maximum_volume_size is None else best.capacity.maximum_volume_size
    return replace(fact, largest_size=str(text), largest=best.limit, capacity=best.capacity.metadata.name)


def missing(volumes: PodVolumes, row: int) -> VolumeMissing:
    """The claim, and the volume that is not there."""
    claim = volumes.claims[volumes.missing[row]]
    return VolumeMissing(claim_key(claim), claim.spec.volume_name)


def _size(claim: PersistentVolumeClaim) -> tuple[str, int]:
    """What the claim asks for, as a quantity and in bytes."""
    size = requested_storage(claim)
    return (str(size), size.value()) if size else ("", 0)
