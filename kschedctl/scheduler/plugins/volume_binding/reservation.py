"""Volumes and claims as they are once a pod has them on its node.

Upstream: Reserve and PreBind of plugins/volumebinding (v1.36: AssumePodVolumes, BindPodVolumes in binder.go). Until
PreBind the plugin alone knows of it: volumes are reserved for their claims, which name none yet. A claim that is to be
provisioned is marked with the selected node; the volume that a driver would make is not guessed.
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, PhaseStatus, Struct, TypedObjectReference
from kschedctl.scheduler.plugins.helper.volumes.listers import BIND_COMPLETED, SELECTED_NODE
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes


def bound_volumes(volumes: PodVolumes, row: int, node: str) -> dict[str, list[Struct]]:
    """What changes when the pod comes to this node: kind -> the objects as they are then."""
    claims: list[Struct] = []
    taken: list[Struct] = []
    for claim, volume in volumes.bound_on(row):
        claims.append(bound_claim(claim, volume.metadata.name))
        taken.append(taken_volume(volume, claim))
    claims += (_marked(claim, SELECTED_NODE, node) for claim in volumes.provisioned_on(row))
    by_kind = {"PersistentVolumeClaim": claims, "PersistentVolume": taken}
    return {kind: objects for kind, objects in by_kind.items() if objects}


def assumed_volumes(volumes: PodVolumes, row: int, node: str) -> dict[str, list[Struct]]:
    """The claims and volumes as the scheduler takes them to be before anything is bound."""
    claims: list[Struct] = [_marked(claim, SELECTED_NODE, node) for claim in volumes.provisioned_on(row)]
    taken: list[Struct] = [_reserved(volume, claim) for claim, volume in volumes.bound_on(row)]
    by_kind = {"PersistentVolumeClaim": claims, "PersistentVolume": taken}
    return {kind: objects for kind, objects in by_kind.items() if objects}


def bound_claim(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    """The claim once it is bound to the volume of this name."""
    marked = _marked(claim, BIND_COMPLETED, "yes")
    return replace(marked, spec=replace(claim.spec, volume_name=volume), status=PhaseStatus("Bound"))


def _marked(claim: PersistentVolumeClaim, annotation: str, value: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, annotation: value}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def taken_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume once the claim has it."""
    return replace(_reserved(volume, claim), status=PhaseStatus("Bound"))


def _reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume once no other claim may have it."""
    meta = claim.metadata
    reference = TypedObjectReference(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return replace(volume, spec=replace(volume.spec, claim_ref=reference))
