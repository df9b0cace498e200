"""Helpers for fixes of PersistentVolumeClaims, most of which recreate a claim because most of its fields are
immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.labels import EVERYTHING, SelectorError, selector_from_api
from kschedctl.api.objects import EphemeralVolumeSource, PersistentVolume, PersistentVolumeClaim, PhaseStatus, Pod
from kschedctl.api.ownership import find_controller
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_pod
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.deleted_claims import is_of_stateful_set, plan_deletion
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    BETA_STORAGE_CLASS,
    BIND_COMPLETED,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    billionths,
    claim_class,
    claim_key,
    iter_claim_volumes,
    listers,
    requested_storage,
    volume_class,
    volume_storage,
)
from kschedctl.scheduler.plugins.volume_binding.reservation import bind_claim, bind_volume

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
OF_BINDING = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)
REMADE = "RemakeClaim"
ClaimChange = Callable[[PersistentVolumeClaim], PersistentVolumeClaim]


class PodClaim(NamedTuple):
    """A volume of the pod that stands for a claim; ``found``: None where there is no such claim."""

    volume: str
    name: str
    ephemeral: bool
    found: PersistentVolumeClaim | None


def pod_claims(tried: TriedNode) -> Iterator[PodClaim]:
    """Yield the pod's volumes that refer to claims, in the order of the pod's volumes."""
    pod, known = tried.trial.pod, listers(tried.cycle.view).claims
    for volume, name, ephemeral in iter_claim_volumes(pod):
        yield PodClaim(volume.name, name, ephemeral, known.get((pod.metadata.namespace, name)))


def find_claim(tried: TriedNode, key: str) -> PersistentVolumeClaim | None:
    """Return the claim with the key ``namespace/name``, or None."""
    namespace, _, name = key.partition("/")
    return listers(tried.cycle.view).claims.get((namespace, name))


def reset_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim as if just created: unbound, and without the UID for which a volume is reserved."""
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key not in OF_BINDING}
    meta = replace(claim.metadata, uid="", annotations=annotations, deletion_timestamp=None)
    return replace(claim, metadata=meta, spec=replace(claim.spec, volume_name=""), status=PhaseStatus("Pending"))


def is_bound_late(name: str, storage: Listers) -> bool:
    """Return whether the class delays binding until the first pod, so that the scheduler chooses the volume."""
    known = storage.classes.get(name)
    return known is not None and known.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def with_class(claim: PersistentVolumeClaim, name: str) -> PersistentVolumeClaim:
    """Return the claim with another StorageClass."""
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key != BETA_STORAGE_CLASS}
    spec = replace(claim.spec, storage_class_name=name)
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations), spec=spec)


def with_size(claim: PersistentVolumeClaim, size: str) -> PersistentVolumeClaim:
    """Return the claim with another requested size."""
    resources = replace(claim.spec.resources, requests={**claim.spec.resources.requests, "storage": size})
    return replace(claim, spec=replace(claim.spec, resources=resources))


def adapt_to_volume(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> tuple[PersistentVolumeClaim, tuple[str, ...]]:
    """Return the claim changed so that the volume satisfies it, and a description of each difference."""
    fitting, differences = claim, []
    has, size = volume_class(volume), claim.spec.resources.requests.get("storage")
    if claim_class(claim) != has:
        fitting = with_class(fitting, has)
        differences.append(f"class {has}" if has else "no class")
    if billionths(volume_storage(volume)) < billionths(requested_storage(claim)):
        smaller = str(volume.spec.capacity.get("storage", "0"))
        fitting = with_size(fitting, smaller)
        differences.append(f"{smaller} instead of {size}")
    spec = fitting.spec
    modes = volume.spec.access_modes
    if not set(spec.access_modes) <= set(modes):
        spec = replace(spec, access_modes=tuple(m for m in spec.access_modes if m in modes) or modes)
        differences.append(f"{'+'.join(spec.access_modes)} instead of {'+'.join(claim.spec.access_modes)}")
    if (spec.volume_mode or "Filesystem") != (volume.spec.volume_mode or "Filesystem"):
        spec = replace(spec, volume_mode=volume.spec.volume_mode)
        differences.append(f"volumeMode {volume.spec.volume_mode or 'Filesystem'}")
    if not _selects(claim, volume):
        spec = replace(spec, selector=None)
        differences.append("no selector")
    if (spec.volume_attributes_class_name or "") != (volume.spec.volume_attributes_class_name or ""):
        spec = replace(spec, volume_attributes_class_name=volume.spec.volume_attributes_class_name)
        differences.append(f"VolumeAttributesClass {volume.spec.volume_attributes_class_name or 'none'}")
    return replace(fitting, spec=spec), tuple(differences)


def _selects(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return whether the claim's selector matches the volume. A claim without a selector matches all volumes."""
    try:
        selector = EVERYTHING if claim.spec.selector is None else selector_from_api(claim.spec.selector)
    except SelectorError:
        return False
    return selector.matches(volume.metadata.labels)


def build_binding(
    claim: PersistentVolumeClaim, volume: PersistentVolume, storage: Listers
) -> tuple[ClaimChange | None, ObjectEdit]:
    """Return the change of the claim, or None, and the edit of the volume that make the volume available to the
    claim.
    """

    def free(known: PersistentVolume | None) -> PersistentVolume:
        own = known or volume
        return replace(own, spec=replace(own.spec, claim_ref=None), status=PhaseStatus("Available"))

    key, name = ObjectKey.of(volume), volume.metadata.name
    if is_bound_late(claim_class(claim), storage):
        return None, ObjectEdit(key, free)
    return lambda known: bind_claim(known, name), ObjectEdit(key, lambda known: bind_volume(free(known), claim))


def recreate_claim(
    tried: TriedNode,
    kind: str,
    claim: PersistentVolumeClaim,
    change: ClaimChange,
    *,
    text: str,
    cost: int,
    target: Hashable = "",
    more: Sequence[ObjectEdit] = (),
    where: str = "",
) -> Iterator[Fix]:
    """Yield the fix that deletes the claim and creates it in another form, unless a pod uses the claim.

    What is made of a template, by a StatefulSet or for the pod, would be made again as it was.
    """
    key, new, pod = ObjectKey.of(claim), change(claim), tried.trial.pod
    gone, ephemeral = plan_deletion(tried, claim), find_controller(claim.metadata) is not None
    same, in_set = reset_claim(new).spec == reset_claim(claim).spec, is_of_stateful_set(pod, claim)
    if gone is None or (in_set and not same):
        return
    again = ephemeral or in_set
    commands = gone.commands if again else (*gone.before, recreation(claim, build_recreated(new)))
    edits = (*gone.edits, ObjectEdit(key, change), *more)
    if ephemeral and not same:
        commands, edits = (
            gone.before,
            (*edits, *on_pod(pod, _replace_ephemeral_spec(claim.metadata.name, reset_claim(new)))),
        )
    text, name = f"recreate claim {claim_key(claim)}{text}", claim_key(claim)
    variant = name if where else None
    yield Fix(
        kind, (name, target), text, "author", edits, cost, gone.weakens, commands, variant, where, price=gone.price
    )


def recreation(claim: PersistentVolumeClaim, new: PersistentVolumeClaim) -> str:
    """Return the command that deletes the claim and creates it in the new form.

    A claim in the cluster keeps what was not read of it, such as its data source, since the command reads it there. A
    claim that is being deleted may be gone before the command runs, so the command then has the whole claim.
    """
    key = ObjectKey.of(claim)
    if claim.metadata.deletion_timestamp is not None:
        return kubectl.render_forced_replace(key, new)
    return kubectl.render_recreate(key, claim, new)


def recreate_for_its_volume(tried: TriedNode, claim: PersistentVolumeClaim, cost: int) -> Iterator[Fix]:
    """Yield the fix that recreates a claim that is being deleted for the volume that it already has.

    The volume is kept, and then freed of the UID of the claim that is gone. Reference: Persistent Volumes, "Reserving a
    PersistentVolume" (k8s.io/docs).
    """
    name = claim.spec.volume_name
    volume, gone = listers(tried.cycle.view).volumes.get(name), plan_deletion(tried, claim)
    if volume is None or gone is None or find_controller(claim.metadata) or is_of_stateful_set(tried.trial.pod, claim):
        return

    def again(known: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return bind_claim(reset_claim(known), name)

    key, held = ObjectKey.of(claim), ObjectKey.of(volume)
    edits = (*gone.edits, ObjectEdit(key, again), ObjectEdit(held, lambda known: bind_volume(known, again(claim))))
    free = kubectl.render_patch(held, {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}})
    own = replace(reset_claim(claim), spec=claim.spec)
    commands = (*gone.before, kubectl.render_forced_replace(key, own), free)
    text = f"recreate claim {claim_key(claim)}, which is being deleted, for volume {name}, which has its data"
    yield Fix(REMADE, (key, name), text, "author", edits, cost, "", commands, price=Price.ROOM)


def _replace_ephemeral_spec(name: str, claim: PersistentVolumeClaim) -> Callable[[Pod], Pod]:
    """Return a change of a pod that gives the ephemeral volume behind a claim another claim spec."""

    def change(pod: Pod) -> Pod:
        volumes = tuple(
            replace(volume, ephemeral=_with_claim_spec(volume.ephemeral, claim))
            if volume.ephemeral and f"{pod.metadata.name}-{volume.name}" == name
            else volume
            for volume in pod.spec.volumes
        )
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    return change


def _with_claim_spec(source: EphemeralVolumeSource, claim: PersistentVolumeClaim) -> EphemeralVolumeSource:
    """Return the ephemeral volume source with the spec of another claim in its template."""
    template = source.volume_claim_template
    return replace(source, volume_claim_template=template and replace(template, spec=claim.spec))


def build_recreated(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim as it is applied, with the volume name that its spec sets."""
    return replace(reset_claim(claim), spec=claim.spec)
