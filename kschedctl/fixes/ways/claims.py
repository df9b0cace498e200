"""Helpers for fixes of PersistentVolumeClaims.

Most of these fixes recreate a claim, because most of its fields are immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.labels import EVERYTHING, SelectorError, selector_from_api
from kschedctl.api.objects import EphemeralVolumeSource, PersistentVolume, PersistentVolumeClaim, PhaseStatus, Pod
from kschedctl.api.ownership import find_controller
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
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
    format_claim_key,
    get_claim_class,
    get_listers,
    get_volume_class,
    iter_claim_volumes,
    parse_requested_storage,
    parse_volume_storage,
    to_billionths,
)
from kschedctl.scheduler.plugins.volume_binding.binder import bind_claim, bind_volume

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
OF_BINDING = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)
ClaimChange = Callable[[PersistentVolumeClaim], PersistentVolumeClaim]


class PodClaim(NamedTuple):
    """A volume of the pod that refers to a PersistentVolumeClaim."""

    volume_name: str
    """The name of the volume in the pod."""
    claim_name: str
    ephemeral: bool
    """Whether the claim is created for the pod from an ephemeral volume."""
    claim: PersistentVolumeClaim | None
    """The claim, or None if it does not exist."""


def iter_pod_claims(tried: TriedNode) -> Iterator[PodClaim]:
    """Yield the pod's volumes that refer to claims, in their order in the pod."""
    pod, claims = tried.trial.pod, get_listers(tried.cycle.view).claims
    for volume, name, ephemeral in iter_claim_volumes(pod):
        yield PodClaim(volume.name, name, ephemeral, claims.get((pod.metadata.namespace, name)))


def find_claim(tried: TriedNode, key: str) -> PersistentVolumeClaim | None:
    """Return the claim with the key ``namespace/name``, or None."""
    namespace, _, name = key.partition("/")
    return get_listers(tried.cycle.view).claims.get((namespace, name))


def reset_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim as if it were new: unbound, and without the UID for which a volume may be reserved."""
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key not in OF_BINDING}
    meta = replace(claim.metadata, uid="", annotations=annotations, deletion_timestamp=None)
    return replace(claim, metadata=meta, spec=replace(claim.spec, volume_name=""), status=PhaseStatus("Pending"))


def has_delayed_binding(class_name: str, storage: Listers) -> bool:
    """Return whether the class waits for a claim's first pod before it binds the claim."""
    storage_class = storage.classes.get(class_name)
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def with_class(claim: PersistentVolumeClaim, class_name: str) -> PersistentVolumeClaim:
    """Return the claim with another StorageClass."""
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key != BETA_STORAGE_CLASS}
    spec = replace(claim.spec, storage_class_name=class_name)
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations), spec=spec)


def with_size(claim: PersistentVolumeClaim, size: str) -> PersistentVolumeClaim:
    """Return the claim with another requested size."""
    resources = replace(claim.spec.resources, requests={**claim.spec.resources.requests, "storage": size})
    return replace(claim, spec=replace(claim.spec, resources=resources))


def adapt_to_volume(
    claim: PersistentVolumeClaim, volume: PersistentVolume
) -> tuple[PersistentVolumeClaim, tuple[str, ...]]:
    """Return the claim changed so that it matches the volume, and a description of each difference."""
    adapted, differences = claim, []
    class_name, size = get_volume_class(volume), claim.spec.resources.requests.get("storage")
    if get_claim_class(claim) != class_name:
        adapted = with_class(adapted, class_name)
        differences.append(f"class {class_name}" if class_name else "no class")
    if to_billionths(parse_volume_storage(volume)) < to_billionths(parse_requested_storage(claim)):
        smaller = str(volume.spec.capacity.get("storage", "0"))
        adapted = with_size(adapted, smaller)
        differences.append(f"{smaller} instead of {size}")
    spec = adapted.spec
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
    return replace(adapted, spec=spec), tuple(differences)


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
    """Return the change of the claim, or None, and the edit of the volume that bind them to each other.

    If the class delays binding, the claim stays as it is and the volume only becomes available.
    """

    def free(known: PersistentVolume | None) -> PersistentVolume:
        own = known or volume
        return replace(own, spec=replace(own.spec, claim_ref=None), status=PhaseStatus("Available"))

    key, name = ObjectKey.of(volume), volume.metadata.name
    if has_delayed_binding(get_claim_class(claim), storage):
        return None, ObjectEdit(key, free)
    return lambda known: bind_claim(known, name), ObjectEdit(key, lambda known: bind_volume(free(known), claim))


def recreate_claim(
    tried: TriedNode,
    kind: FixKind,
    claim: PersistentVolumeClaim,
    change: ClaimChange,
    *,
    text: str,
    cost: int,
    target: Hashable = "",
    more_edits: Sequence[ObjectEdit] = (),
    where: str = "",
) -> Iterator[Fix]:
    """Yield the fix that deletes a claim and creates it in another form, unless a running pod uses it.

    A claim that a StatefulSet creates cannot get another spec, since the StatefulSet would create the old form again.
    For an ephemeral volume the pod's template is changed as well.
    """
    key, new, pod = ObjectKey.of(claim), change(claim), tried.trial.pod
    deletion, ephemeral = plan_deletion(tried, claim), find_controller(claim.metadata) is not None
    keeps_spec, in_set = reset_claim(new).spec == reset_claim(claim).spec, is_of_stateful_set(pod, claim)
    if deletion is None or (in_set and not keeps_spec):
        return
    is_recreated = ephemeral or in_set
    commands = (
        deletion.commands
        if is_recreated
        else (*deletion.preparation, render_recreation(claim, build_claim_to_apply(new)))
    )
    edits = (*deletion.edits, ObjectEdit(key, change), *more_edits)
    if ephemeral and not keeps_spec:
        commands, edits = (
            deletion.preparation,
            (*edits, *on_pod(pod, _replace_ephemeral_spec(claim.metadata.name, reset_claim(new)))),
        )
    text, name = f"recreate claim {format_claim_key(claim)}{text}", format_claim_key(claim)
    variant = name if where else None
    yield Fix(
        kind,
        (name, target),
        text,
        "author",
        edits,
        cost,
        deletion.weakens,
        commands,
        variant,
        where,
        price=deletion.price,
    )


def render_recreation(claim: PersistentVolumeClaim, new: PersistentVolumeClaim) -> str:
    """Return the command that deletes the claim and creates it in its new form.

    The command reads the claim in the cluster, so fields that kschedctl does not know, such as the data source, are
    kept. A claim that is being deleted may be gone by then, so its command contains the whole claim.
    """
    key = ObjectKey.of(claim)
    if claim.metadata.deletion_timestamp is not None:
        return kubectl.render_forced_replace(key, new)
    return kubectl.render_recreate(key, claim, new)


def recreate_deleted_claim(tried: TriedNode, claim: PersistentVolumeClaim, cost: int) -> Iterator[Fix]:
    """Yield the fix that recreates a claim that is being deleted and keeps its volume.

    The volume is retained, and then its reference to the old claim's UID is cleared. Reference: Persistent Volumes,
    "Reserving a PersistentVolume" (k8s.io/docs).
    """
    name = claim.spec.volume_name
    volume, deletion = get_listers(tried.cycle.view).volumes.get(name), plan_deletion(tried, claim)
    if (
        volume is None
        or deletion is None
        or find_controller(claim.metadata)
        or is_of_stateful_set(tried.trial.pod, claim)
    ):
        return

    def again(known: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return bind_claim(reset_claim(known), name)

    key, volume_key = ObjectKey.of(claim), ObjectKey.of(volume)
    edits = (
        *deletion.edits,
        ObjectEdit(key, again),
        ObjectEdit(volume_key, lambda known: bind_volume(known, again(claim))),
    )
    clear_reservation = kubectl.render_patch(volume_key, {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}})
    new_claim = replace(reset_claim(claim), spec=claim.spec)
    commands = (*deletion.preparation, kubectl.render_forced_replace(key, new_claim), clear_reservation)
    text = f"recreate claim {format_claim_key(claim)}, which is being deleted, for volume {name}, which has its data"
    yield Fix(FixKind.REMAKE_CLAIM, (key, name), text, "author", edits, cost, "", commands, price=Price.ROOM)


def _replace_ephemeral_spec(claim_name: str, claim: PersistentVolumeClaim) -> Callable[[Pod], Pod]:
    """Return a change of a pod that replaces the claim spec in the ephemeral volume behind a claim."""

    def change(pod: Pod) -> Pod:
        volumes = tuple(
            replace(volume, ephemeral=_with_claim_spec(volume.ephemeral, claim))
            if volume.ephemeral and f"{pod.metadata.name}-{volume.name}" == claim_name
            else volume
            for volume in pod.spec.volumes
        )
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    return change


def _with_claim_spec(source: EphemeralVolumeSource, claim: PersistentVolumeClaim) -> EphemeralVolumeSource:
    """Return the ephemeral volume source with the spec of another claim in its template."""
    template = source.volume_claim_template
    return replace(source, volume_claim_template=template and replace(template, spec=claim.spec))


def build_claim_to_apply(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim in the form in which it is created: reset, but with the volume name of its spec."""
    return replace(reset_claim(claim), spec=claim.spec)
