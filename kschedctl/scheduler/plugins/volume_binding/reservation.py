"""Claims and volumes as they are after a pod was placed on a node.

Upstream: Reserve and PreBind of plugins/volumebinding (v1.36: AssumePodVolumes, BindPodVolumes in binder.go). Before
PreBind only the plugin knows the result: volumes are reserved for their claims, which do not name them yet. A claim
that is to be provisioned is annotated with the selected node. The volume that the driver would create is not guessed.
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, PhaseStatus, Struct, TypedObjectReference
from kschedctl.scheduler.plugins.helper.volumes.listers import BIND_COMPLETED, SELECTED_NODE
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes


def build_bound_objects(volumes: PodVolumes, row: int, node: str) -> dict[str, list[Struct]]:
    """Return by kind the claims and volumes after they are bound."""
    claims: list[Struct] = []
    bound: list[Struct] = []
    for claim, volume in volumes.iter_bound(row):
        claims.append(bind_claim(claim, volume.metadata.name))
        bound.append(bind_volume(volume, claim))
    claims += (_annotate_claim(claim, SELECTED_NODE, node) for claim in volumes.provisioned_claims(row))
    by_kind = {"PersistentVolumeClaim": claims, "PersistentVolume": bound}
    return {kind: objects for kind, objects in by_kind.items() if objects}


def build_assumed_objects(volumes: PodVolumes, row: int, node: str) -> dict[str, list[Struct]]:
    """Return by kind the claims and volumes that the scheduler assumes before anything is bound."""
    claims: list[Struct] = [_annotate_claim(claim, SELECTED_NODE, node) for claim in volumes.provisioned_claims(row)]
    reserved: list[Struct] = [_reserve_volume(volume, claim) for claim, volume in volumes.iter_bound(row)]
    by_kind = {"PersistentVolumeClaim": claims, "PersistentVolume": reserved}
    return {kind: objects for kind, objects in by_kind.items() if objects}


def bind_claim(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    """Return the claim bound to the volume of this name."""
    marked = _annotate_claim(claim, BIND_COMPLETED, "yes")
    return replace(marked, spec=replace(claim.spec, volume_name=volume), status=PhaseStatus("Bound"))


def _annotate_claim(claim: PersistentVolumeClaim, annotation: str, value: str) -> PersistentVolumeClaim:
    """Return the claim with an annotation."""
    annotations = {**claim.metadata.annotations, annotation: value}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def bind_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume bound to the claim."""
    return replace(_reserve_volume(volume, claim), status=PhaseStatus("Bound"))


def _reserve_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume with a reference to the claim, so that no other claim can get it."""
    meta = claim.metadata
    reference = TypedObjectReference(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return replace(volume, spec=replace(volume.spec, claim_ref=reference))
