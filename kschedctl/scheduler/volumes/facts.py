"""What stands behind VolumeBinding's reasons on a node, for people: the claim, the volume, the class, the node."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.objects import PersistentVolumeClaim
from kschedctl.scheduler.volumes.binder import PodVolumes
from kschedctl.scheduler.volumes.csi_migration import plugin_of, translated_affinity
from kschedctl.scheduler.volumes.listers import (
    NO_PROVISIONER,
    SELECTED_NODE,
    Listers,
    claim_class,
    claim_key,
    requested_storage,
)


def immediate(claims: Sequence[PersistentVolumeClaim], found: Listers) -> str:
    """The claims that have to be bound before a node is looked for, and what is missing for that."""
    return "; ".join(f"claim {claim_key(claim)} is not bound: {_unbound(claim, found)}" for claim in claims)


def _unbound(claim: PersistentVolumeClaim, found: Listers) -> str:
    name = claim_class(claim)
    made_by = found.classes.get(name)
    if claim.spec.volume_name:
        return f"it waits for PersistentVolume {claim.spec.volume_name}"
    if made_by is None:
        return f"its class {name} does not exist" if name else "it has no class and waits for a PersistentVolume"
    if made_by.provisioner in ("", NO_PROVISIONER):
        return f"it waits for a PersistentVolume of class {name}, which does not provision volumes"
    return f"it waits for {made_by.provisioner} to provision a volume of class {name}"


def node_conflict(volumes: PodVolumes, row: int) -> str:
    """The volume that cannot be reached, and the labels that it asks for."""
    claim = volumes.claims[volumes.node_conflict[row]]
    volume = volumes.listers.volumes[claim.spec.volume_name]
    labels = volumes.listers.nodes.objects[row].metadata.labels
    affinity, plugin = volume.spec.node_affinity, plugin_of(volume.spec)
    if plugin is not None and plugin.enabled and volumes.listers.csi_nodes.migrated(plugin.name)[row]:
        affinity = translated_affinity(volume, plugin)
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    wanted = dict.fromkeys(
        f"{r.key} {r.operator} [{', '.join(r.values or ())}], {_found(labels, r.key)}"
        for term in terms
        for r in term.match_expressions
    )
    text = "; ".join(wanted) or "a node that cannot exist: its terms match nothing"
    return f"PersistentVolume {volume.metadata.name} of claim {claim_key(claim)} wants {text}"


def bind_conflict(volumes: PodVolumes, row: int) -> str:
    """Why the claim finds no volume, and why none would be made."""
    claim = volumes.claims[volumes.bind_conflict[row]]
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected not in (None, volumes.listers.nodes.names[row]):
        return f"claim {claim_key(claim)} is being provisioned for node {selected}"
    found = volumes.listers.classes[claim_class(claim)]
    if found.provisioner in ("", NO_PROVISIONER):
        return f"{_no_volume(claim)}, and the class does not provision volumes"
    labels = volumes.listers.nodes.objects[row].metadata.labels
    allowed = "; or ".join(
        " and ".join(
            f"{r.key} in [{', '.join(r.values)}] ({_found(labels, r.key)})" for r in term.match_label_expressions
        )
        for term in found.allowed_topologies
    )
    return f"{_no_volume(claim)}, and the class provisions only where {allowed or 'no topology matches'}"


def not_enough_space(volumes: PodVolumes, row: int) -> str:
    """How much is wanted, and the most that a pool within reach holds."""
    claim = volumes.claims[volumes.not_enough_space[row]]
    pools = volumes.listers.pools_of_class.get(claim_class(claim), ())
    within_reach = [pool for pool in pools if pool.limit is not None and row in pool.rows]
    wanted = f"claim {claim_key(claim)} wants {requested_storage(claim)} of class {claim_class(claim)}"
    if not within_reach:
        return f"{wanted}, of which no CSIStorageCapacity is known for the node"
    best = max(within_reach, key=lambda pool: pool.limit or 0)
    text = best.capacity.capacity if best.capacity.maximum_volume_size is None else best.capacity.maximum_volume_size
    return f"{wanted}, the most to be had is {text} (CSIStorageCapacity {best.capacity.metadata.name})"


def missing(volumes: PodVolumes, row: int) -> str:
    """The claim, and the volume that is not there."""
    claim = volumes.claims[volumes.missing[row]]
    return f"claim {claim_key(claim)} is bound to PersistentVolume {claim.spec.volume_name}, which does not exist"


def _no_volume(claim: PersistentVolumeClaim) -> str:
    size = requested_storage(claim)
    wanted = f"{size} " if size else ""
    return f"no available PersistentVolume of class {claim_class(claim)} for claim {claim_key(claim)} ({wanted}wanted)"


def _found(labels: dict[str, str], key: str) -> str:
    return f"the node has {labels[key]}" if key in labels else "the node has no such label"
