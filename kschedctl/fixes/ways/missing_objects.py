"""Fixes for volume claims and StorageClasses that are missing, and for claims that belong to another pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import (
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PhaseStatus,
    Pod,
    StorageClass,
    VolumeResourceRequirements,
)
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.claims import (
    PodClaim,
    adapt_to_volume,
    build_binding,
    has_delayed_binding,
    iter_pod_claims,
    recreate_claim,
    recreate_deleted_claim,
    reset_claim,
    with_class,
)
from kschedctl.fixes.ways.deleted_claims import plan_deletion
from kschedctl.fixes.ways.new_volumes import LOST, create_volume
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    format_claim_key,
    get_claim_class,
    get_listers,
    parse_volume_storage,
    require_owner,
    to_billionths,
)

CORRECT, CREATE, CREATE_CLASS, REMAKE = 10, 20, 25, 30
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
UNKNOWN_SIZE = "1Gi"
"""The size of a claim of which nobody knows how much it should hold."""
MOST = 4
NEAR = 0.75
"""How alike two names have to be for one to be taken for the other."""


def fix_claims(tried: TriedNode) -> Iterator[Fix]:
    """Yield fixes for the first claim that is missing, being deleted, lost, or owned by another pod."""
    for pod_claim in iter_pod_claims(tried):
        claim = pod_claim.claim
        if claim is None:
            yield from _fix_missing_claim(tried, pod_claim)
            return
        if claim.metadata.deletion_timestamp is not None or claim.status.phase == LOST:
            yield from _fix_lost_or_deleted(tried, claim)
            return
        if pod_claim.ephemeral and not _is_owned_by(tried.trial.pod, claim):
            yield from _replace_foreign_claim(tried, claim, pod_claim)
            return


# -- a claim ---------------------------------------------------------------------------------------------------------


def _fix_missing_claim(tried: TriedNode, pod_claim: PodClaim) -> Iterator[Fix]:
    """Yield fixes that use a claim with a similar name, or create the claim."""
    if pod_claim.ephemeral:
        yield from _await_ephemeral_claim(tried, pod_claim)
        return
    names = [claim.metadata.name for claim in _find_namespace_claims(tried)]
    for right in get_close_matches(pod_claim.claim_name, names, n=2, cutoff=NEAR):
        text = f"use claim {right} instead of {pod_claim.claim_name}, which does not exist"
        edits = on_pod(tried.trial.pod, _with_claim(pod_claim.claim_name, right))
        yield Fix(FixKind.CORRECT_CLAIM, (pod_claim.claim_name, right), text, "author", edits, CORRECT)
    meta = ObjectMeta(pod_claim.claim_name, tried.trial.pod.metadata.namespace)
    spec = PersistentVolumeClaimSpec(("ReadWriteOnce",), resources=_asking(UNKNOWN_SIZE))
    claim = PersistentVolumeClaim(meta, spec, PhaseStatus("Pending"))
    yield from _create_for_volume(tried, claim)
    yield from _create_with_class(tried, claim)


def _asking(size: str) -> VolumeResourceRequirements:
    return VolumeResourceRequirements({"storage": size})


def _find_namespace_claims(tried: TriedNode) -> list[PersistentVolumeClaim]:
    """Return the claims in the pod's namespace."""
    namespace = tried.trial.pod.metadata.namespace
    return [claim for (where, _), claim in get_listers(tried.cycle.view).claims.items() if where == namespace]


def _with_claim(wrong: str, right: str) -> Callable[[Pod], Pod]:
    """Return a change that makes the pod's volumes use another claim."""

    def change(pod: Pod) -> Pod:
        volumes = tuple(
            replace(volume, persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=right))
            if volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == wrong
            else volume
            for volume in pod.spec.volumes
        )
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    return change


def _create_with_class(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that create the claim with a class that provisions late, the default class first."""
    storage = get_listers(tried.cycle.view)
    makes = [
        storage_class
        for name, storage_class in storage.classes.items()
        if has_delayed_binding(name, storage) and storage_class.provisioner != NO_PROVISIONER
    ]
    ranked = sorted(
        makes,
        key=lambda storage_class: (
            storage_class.metadata.annotations.get(DEFAULT_CLASS) != "true",
            storage_class.metadata.name,
        ),
    )
    for place, class_ in enumerate(ranked[:MOST]):
        name = class_.metadata.name
        new = with_class(claim, name)
        key = ObjectKey.of(new)
        text = f"create claim {format_claim_key(new)} of class {name} ({UNKNOWN_SIZE}, or what the pod needs)"
        commands = (kubectl.render_apply(kubectl.build_manifest(key, new)),)
        edits = (_create_claim(new),)
        yield Fix(
            FixKind.CREATE_CLAIM, (key, name), text, "author", edits, CREATE + place, "", commands, key, f"class {name}"
        )


def _create_for_volume(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that create the claim for an available volume, the smallest first."""
    storage = get_listers(tried.cycle.view)
    free = [
        volume
        for volume in storage.volumes.values()
        if volume.spec.claim_ref is None and volume.status.phase == "Available"
    ]
    for place, volume in enumerate(
        sorted(free, key=lambda candidate: (_measure_size(candidate), candidate.metadata.name))[:MOST]
    ):
        name, size = volume.metadata.name, str(volume.spec.capacity.get("storage", "0"))
        own = replace(claim, spec=replace(claim.spec, resources=_asking(size)))
        new, _ = adapt_to_volume(own, volume)
        bind, taken = build_binding(new, volume, storage)
        key = ObjectKey.of(new)
        text = (
            f"create claim {format_claim_key(new)} of {size}, class {get_claim_class(new) or 'none'}, for volume {name}"
        )
        held = replace(new, spec=replace(new.spec, volume_name=name))
        commands = (kubectl.render_apply(kubectl.build_manifest(key, held)),)
        edits = (_create_claim(bind(new)), taken) if bind else (_create_claim(new),)
        yield Fix(
            FixKind.CREATE_CLAIM,
            (key, name),
            text,
            "author",
            edits,
            CREATE + MOST + place,
            "",
            commands,
            key,
            f"volume {name}",
        )


def _measure_size(volume: PersistentVolume) -> int:
    """Return the volume's size in billionths of a byte."""
    return to_billionths(parse_volume_storage(volume))


def _create_claim(new: PersistentVolumeClaim) -> ObjectEdit:
    """Return the edit that creates the claim."""
    return ObjectEdit(ObjectKey.of(new), lambda _: new)


def _fix_lost_or_deleted(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that recreate a claim that is being deleted or lost its volume, or that create the volume."""
    lost = claim.status.phase == LOST
    if lost:
        yield from create_volume(tried, claim)
    yield from recreate_deleted_claim(tried, claim, REMAKE)
    why = "whose volume is gone" if lost else "which is being deleted"
    yield from recreate_claim(tried, FixKind.REMAKE_CLAIM, claim, reset_claim, text=f", {why}", cost=REMAKE)


# -- claims that are made for a pod ----------------------------------------------------------------------------------


def _is_owned_by(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return whether the claim belongs to the pod."""
    try:
        require_owner(pod, claim)
    except PluginError:
        return False
    return True


def _await_ephemeral_claim(tried: TriedNode, pod_claim: PodClaim) -> Iterator[Fix]:
    """Yield the fix in which the ephemeral volume controller creates the claim."""
    spec = _find_ephemeral_spec(tried, pod_claim)
    if spec is None:
        return
    pod = tried.trial.pod
    new = PersistentVolumeClaim(
        ObjectMeta(pod_claim.claim_name, pod.metadata.namespace, owner_references=(build_owner_reference(pod),)),
        spec,
        PhaseStatus("Pending"),
    )
    text = f"let the ephemeral volume controller of kube-controller-manager create claim {format_claim_key(new)}"
    yield Fix(FixKind.CREATE_CLAIM, ObjectKey.of(new), text, "operator", (_create_claim(new),), CREATE)


def _replace_foreign_claim(tried: TriedNode, claim: PersistentVolumeClaim, pod_claim: PodClaim) -> Iterator[Fix]:
    """Yield the fix that deletes another owner's claim, so that one is created for the pod."""
    spec = _find_ephemeral_spec(tried, pod_claim) or claim.spec
    pod = tried.trial.pod

    def change(known: PersistentVolumeClaim) -> PersistentVolumeClaim:
        new = reset_claim(known)
        meta = replace(new.metadata, owner_references=(build_owner_reference(pod),))
        return replace(new, metadata=meta, spec=replace(spec, volume_name=""))

    key, gone = ObjectKey.of(claim), plan_deletion(tried, claim)
    if gone is None:
        return
    text = (
        f"delete claim {format_claim_key(claim)}, which is not the pod's, so that one of its own is made in its place"
    )
    weakens = gone.weakens or f"claim {format_claim_key(claim)} is deleted"
    edits = (*gone.edits, ObjectEdit(key, change))
    yield Fix(FixKind.REMAKE_CLAIM, key, text, "operator", edits, REMAKE, weakens, gone.commands, price=Price.LOSS)


def _find_ephemeral_spec(tried: TriedNode, pod_claim: PodClaim) -> PersistentVolumeClaimSpec | None:
    """Return the claim spec in the pod's ephemeral volume, or None."""
    own = next(volume.ephemeral for volume in tried.trial.pod.spec.volumes if volume.name == pod_claim.volume_name)
    return own.volume_claim_template.spec if own and own.volume_claim_template else None


def build_owner_reference(pod: Pod) -> OwnerReference:
    """Return an owner reference to the pod as the controller."""
    return OwnerReference("Pod", pod.metadata.name, "v1", pod.metadata.uid, controller=True)


# -- its class -------------------------------------------------------------------------------------------------------


def fix_storage_class(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes for the missing StorageClass of a claim: use one with a similar name, or create it."""
    classes, name = get_listers(tried.cycle.view).classes, get_claim_class(claim)
    for right in get_close_matches(name, classes, n=2, cutoff=NEAR):
        text = f" with class {right} instead of {name}, which does not exist"
        change = _with_class_name(right)
        yield from recreate_claim(
            tried, FixKind.CORRECT_STORAGE_CLASS, claim, change, text=text, cost=CORRECT, target=right
        )
    waiting = [class_ for class_ in classes.values() if class_.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER]
    models = {class_.provisioner: class_ for class_ in waiting if class_.provisioner != NO_PROVISIONER}
    for model in list(models.values())[:MOST] if name else ():
        yield _create_class(model, name)


def _with_class_name(right: str) -> Callable[[PersistentVolumeClaim], PersistentVolumeClaim]:
    """Return a change that resets the claim with another class."""
    return lambda known: with_class(reset_claim(known), right)


def _create_class(model: StorageClass, name: str) -> Fix:
    """Build the fix that creates a StorageClass as a copy of the model."""
    new = replace(model, metadata=ObjectMeta(name))
    key = ObjectKey.of(new)
    like = model.metadata.name
    text = f"create StorageClass {name}, like {like} (provisioner {model.provisioner}, WaitForFirstConsumer)"
    commands = (kubectl.render_copy(ObjectKey.of(model), name),)
    edits = (ObjectEdit(key, lambda _: new),)
    return Fix(
        FixKind.CREATE_STORAGE_CLASS,
        (name, like),
        text,
        "operator",
        edits,
        CREATE_CLASS,
        "",
        commands,
        name,
        f"like {like}",
    )
