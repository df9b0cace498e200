"""Objects that the pod names and that are not there, or not its own: volume claims and their classes."""

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
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.claims import (
    REMADE,
    PodClaim,
    as_offered,
    given,
    made_anew,
    pod_claims,
    rebound,
    remade,
    waits,
    with_class,
)
from kschedctl.fixes.ways.deleted_claims import deletion
from kschedctl.fixes.ways.new_volumes import LOST, for_claim
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    billionths,
    claim_class,
    claim_key,
    listers,
    require_owner,
    volume_storage,
)

CORRECT, CREATE, CREATE_CLASS, REMAKE = 10, 20, 25, 30
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
UNKNOWN_SIZE = "1Gi"
"""The size of a claim of which nobody knows how much it should hold."""
MOST = 4
NEAR = 0.75
"""How alike two names have to be for one to be taken for the other."""


def claims(tried: TriedNode) -> Iterator[Fix]:
    """The first of the pod's claims that is not there, that is going, that lost its volume, or that is another's."""
    for wanted in pod_claims(tried):
        claim = wanted.found
        if claim is None:
            yield from _missing(tried, wanted)
            return
        if claim.metadata.deletion_timestamp is not None or claim.status.phase == LOST:
            yield from _again(tried, claim)
            return
        if wanted.ephemeral and not _own(tried.trial.pod, claim):
            yield from _of_pod(tried, claim, wanted)
            return


# -- a claim ---------------------------------------------------------------------------------------------------------


def _missing(tried: TriedNode, wanted: PodClaim) -> Iterator[Fix]:
    if wanted.ephemeral:
        yield from _made_for_pod(tried, wanted)
        return
    names = [claim.metadata.name for claim in _neighbours(tried)]
    for right in get_close_matches(wanted.name, names, n=2, cutoff=NEAR):
        text = f"use claim {right} instead of {wanted.name}, which does not exist"
        edits = on_pod(tried.trial.pod, _with_claim(wanted.name, right))
        yield Fix("CorrectClaim", (wanted.name, right), text, "author", edits, CORRECT)
    meta = ObjectMeta(wanted.name, tried.trial.pod.metadata.namespace)
    spec = PersistentVolumeClaimSpec(("ReadWriteOnce",), resources=_asking(UNKNOWN_SIZE))
    claim = PersistentVolumeClaim(meta, spec, PhaseStatus("Pending"))
    yield from _of_volumes(tried, claim)
    yield from _of_classes(tried, claim)


def _asking(size: str) -> VolumeResourceRequirements:
    return VolumeResourceRequirements({"storage": size})


def _neighbours(tried: TriedNode) -> list[PersistentVolumeClaim]:
    namespace = tried.trial.pod.metadata.namespace
    return [claim for (where, _), claim in listers(tried.cycle.view).claims.items() if where == namespace]


def _with_claim(wrong: str, right: str) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        volumes = tuple(
            replace(volume, persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=right))
            if volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == wrong
            else volume
            for volume in pod.spec.volumes
        )
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    return change


def _of_classes(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """The claim for a volume that is made where the pod goes, of the default class first."""
    storage = listers(tried.cycle.view)
    makes = [
        storage_class
        for name, storage_class in storage.classes.items()
        if waits(name, storage) and storage_class.provisioner != NO_PROVISIONER
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
        text = f"create claim {claim_key(new)} of class {name} ({UNKNOWN_SIZE}, or what the pod needs)"
        commands = (kubectl.render_apply(kubectl.build_manifest(key, new)),)
        edits = (_creation(new),)
        yield Fix("CreateClaim", (key, name), text, "author", edits, CREATE + place, "", commands, key, f"class {name}")


def _of_volumes(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """The claim for a volume that is free, the smallest first."""
    storage = listers(tried.cycle.view)
    free = [
        volume
        for volume in storage.volumes.values()
        if volume.spec.claim_ref is None and volume.status.phase == "Available"
    ]
    for place, volume in enumerate(
        sorted(free, key=lambda candidate: (_size(candidate), candidate.metadata.name))[:MOST]
    ):
        name, size = volume.metadata.name, str(volume.spec.capacity.get("storage", "0"))
        own = replace(claim, spec=replace(claim.spec, resources=_asking(size)))
        new, _ = as_offered(own, volume)
        bind, taken = given(new, volume, storage)
        key = ObjectKey.of(new)
        text = f"create claim {claim_key(new)} of {size}, class {claim_class(new) or 'none'}, for volume {name}"
        held = replace(new, spec=replace(new.spec, volume_name=name))
        commands = (kubectl.render_apply(kubectl.build_manifest(key, held)),)
        edits = (_creation(bind(new)), taken) if bind else (_creation(new),)
        yield Fix(
            "CreateClaim",
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


def _size(volume: PersistentVolume) -> int:
    return billionths(volume_storage(volume))


def _creation(new: PersistentVolumeClaim) -> ObjectEdit:
    return ObjectEdit(ObjectKey.of(new), lambda _: new)


def _again(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """A claim that is being deleted, or whose volume is gone, recreated as it was; before that, the volume itself."""
    lost = claim.status.phase == LOST
    if lost:
        yield from for_claim(tried, claim)
    yield from rebound(tried, claim, REMAKE)
    why = "whose volume is gone" if lost else "which is being deleted"
    yield from remade(tried, REMADE, claim, made_anew, text=f", {why}", cost=REMAKE)


# -- claims that are made for a pod ----------------------------------------------------------------------------------


def _own(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    try:
        require_owner(pod, claim)
    except PluginError:
        return False
    return True


def _made_for_pod(tried: TriedNode, wanted: PodClaim) -> Iterator[Fix]:
    """What the ephemeral volume controller makes."""
    spec = _template(tried, wanted)
    if spec is None:
        return
    pod = tried.trial.pod
    new = PersistentVolumeClaim(
        ObjectMeta(wanted.name, pod.metadata.namespace, owner_references=(owned_by(pod),)), spec, PhaseStatus("Pending")
    )
    text = f"let the ephemeral volume controller of kube-controller-manager create claim {claim_key(new)}"
    yield Fix("CreateClaim", ObjectKey.of(new), text, "operator", (_creation(new),), CREATE)


def _of_pod(tried: TriedNode, claim: PersistentVolumeClaim, wanted: PodClaim) -> Iterator[Fix]:
    """Another's claim of the name, in whose place one is made for the pod."""
    spec = _template(tried, wanted) or claim.spec
    pod = tried.trial.pod

    def change(known: PersistentVolumeClaim) -> PersistentVolumeClaim:
        new = made_anew(known)
        meta = replace(new.metadata, owner_references=(owned_by(pod),))
        return replace(new, metadata=meta, spec=replace(spec, volume_name=""))

    key, gone = ObjectKey.of(claim), deletion(tried, claim)
    if gone is None:
        return
    text = f"delete claim {claim_key(claim)}, which is not the pod's, so that one of its own is made in its place"
    weakens = gone.weakens or f"claim {claim_key(claim)} is deleted"
    edits = (*gone.edits, ObjectEdit(key, change))
    yield Fix(REMADE, key, text, "operator", edits, REMAKE, weakens, gone.commands, price=Price.LOSS)


def _template(tried: TriedNode, wanted: PodClaim) -> PersistentVolumeClaimSpec | None:
    own = next(volume.ephemeral for volume in tried.trial.pod.spec.volumes if volume.name == wanted.volume)
    return own.volume_claim_template.spec if own and own.volume_claim_template else None


def owned_by(pod: Pod) -> OwnerReference:
    """The reference to a pod as to a controller."""
    return OwnerReference("Pod", pod.metadata.name, "v1", pod.metadata.uid, controller=True)


# -- its class -------------------------------------------------------------------------------------------------------


def storage_class(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """The class that a claim asks for and that is not there: another name that is meant, or the class itself."""
    classes, name = listers(tried.cycle.view).classes, claim_class(claim)
    for right in get_close_matches(name, classes, n=2, cutoff=NEAR):
        text = f" with class {right} instead of {name}, which does not exist"
        change = _renamed(right)
        yield from remade(tried, "CorrectStorageClass", claim, change, text=text, cost=CORRECT, target=right)
    waiting = [class_ for class_ in classes.values() if class_.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER]
    models = {class_.provisioner: class_ for class_ in waiting if class_.provisioner != NO_PROVISIONER}
    for model in list(models.values())[:MOST] if name else ():
        yield _created(model, name)


def _renamed(right: str) -> Callable[[PersistentVolumeClaim], PersistentVolumeClaim]:
    return lambda known: with_class(made_anew(known), right)


def _created(model: StorageClass, name: str) -> Fix:
    new = replace(model, metadata=ObjectMeta(name))
    key = ObjectKey.of(new)
    like = model.metadata.name
    text = f"create StorageClass {name}, like {like} (provisioner {model.provisioner}, WaitForFirstConsumer)"
    commands = (kubectl.render_copy(ObjectKey.of(model), name),)
    edits = (ObjectEdit(key, lambda _: new),)
    return Fix(
        "CreateStorageClass", (name, like), text, "operator", edits, CREATE_CLASS, "", commands, name, f"like {like}"
    )
