"""Volumes that somebody makes for a claim."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.json_values import Json
from kschedctl.api.objects import (
    CSIPersistentVolumeSource,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    SelectorRequirement,
    VolumeNodeAffinity,
)
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    ClassVolumes,
    Listers,
    claim_class,
    claim_key,
    listers,
)
from kschedctl.scheduler.plugins.volume_binding.reservation import bound_claim, taken_volume
from kschedctl.studies.basics import kubectl
from kschedctl.studies.basics.object_keys import ObjectKey
from kschedctl.studies.remedies.fixes.changes import Fix, ObjectEdit
from kschedctl.studies.remedies.fixes.tried_node import TriedNode
from kschedctl.studies.remedies.ways.claims import ClaimChange, given, made_anew
from kschedctl.studies.remedies.ways.deleted_claims import Deletion, deletion

PROVISIONED, NEW_VOLUME, BESIDE_PROVISIONER = 5, 36, 30
"""The cost of a volume that is on its way and of a new one, and what is added where the class makes volumes itself."""
LOST = "Lost"
"""The phase of a claim whose volume is gone."""
PLACEHOLDER = "FILL-IN"
"""Stands for what only the operator knows: where the storage is."""


def for_claim(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """A volume as the claim asks for, within the node's reach: of the name that the claim has in mind, if it has one.

    Where that one is there, the claim is recreated besides, unless its class makes volumes itself then.
    """
    storage, named = listers(tried.cycle.view), claim.spec.volume_name
    free = _free_name(f"{claim.metadata.name}-volume", storage)
    volume = _volume(tried, claim, named if named and named not in storage.volumes else free, storage)
    key, name = ObjectKey.of(claim), volume.metadata.name
    if name == named:
        made = taken_volume(volume, claim)
        bound = BIND_COMPLETED in claim.metadata.annotations
        edits = () if bound else (ObjectEdit(key, lambda known: bound_claim(known, name)),)
        if claim.status.phase == LOST:
            edits = (ObjectEdit(key, _found_again),)
        yield _fix(tried, claim, volume, (*edits, ObjectEdit(ObjectKey.of(made), lambda _: made)))
        return
    bind, there = given(claim, volume, storage)
    if not named:
        yield _fix(tried, claim, volume, (ObjectEdit(key, bind), there) if bind else (there,))
    elif not _beside_provisioner(claim, storage) and (gone := deletion(tried, claim)) is not None:
        yield _fix(tried, claim, volume, (*gone.edits, ObjectEdit(key, _anew(bind)), there), gone)


def awaited(tried: TriedNode, claim: PersistentVolumeClaim) -> Fix:
    """The volume that the provisioner of the claim's class makes, taken to be within reach of all nodes."""
    storage = listers(tried.cycle.view)
    provisioner = storage.classes[claim_class(claim)].provisioner
    volume = _volume(tried, claim, _free_name(f"{claim.metadata.name}-volume", storage), storage)
    bind, there = given(claim, volume, storage)
    key = ObjectKey.of(claim)
    edits = (ObjectEdit(key, bind), there) if bind else (there,)
    text = f"wait until {provisioner} has provisioned a volume for claim {claim_key(claim)}: see its events"
    command = kubectl.run("describe", *kubectl.named(key))
    return Fix("Wait", key, text, "operator", edits, PROVISIONED, commands=(command,))


def _found_again(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """What the volume controller makes of a claim whose volume is there again."""
    return replace(claim, status=PhaseStatus("Bound"))


def _anew(bind: ClaimChange | None) -> ClaimChange:
    return lambda known: bind(made_anew(known)) if bind else made_anew(known)


def _fix(
    tried: TriedNode,
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    edits: tuple[ObjectEdit, ...],
    gone: Deletion | None = None,
) -> Fix:
    name, key = volume.metadata.name, ObjectKey.of(claim)
    size = str(claim.spec.resources.requests.get("storage", "any size"))
    where = _where(volume)
    reach = f" reachable from {where}" if where else ""
    text = f"create PersistentVolume {name} of {size}{reach} for claim {claim_key(claim)}"
    holder = {"claimRef": {"namespace": claim.metadata.namespace, "name": claim.metadata.name}}
    commands = [kubectl.apply(kubectl.manifest(ObjectKey.of(volume), volume, holder | _source(volume)))]
    if gone is not None:
        text += ", and recreate that"
        commands += [*gone.before, kubectl.recreated(key, claim, made_anew(claim))]
    weakens, price = (gone.weakens, gone.price) if gone is not None else ("", None)
    cost = NEW_VOLUME + (BESIDE_PROVISIONER if _beside_provisioner(claim, listers(tried.cycle.view)) else 0)
    own = claim_key(claim)
    return Fix("CreateVolume", (own, where), text, "operator", edits, cost, weakens, tuple(commands), own, where, price)


def _beside_provisioner(claim: PersistentVolumeClaim, storage: Listers) -> bool:
    """Whether volumes of the claim's class are made without anybody's doing."""
    made_by = storage.classes.get(claim_class(claim))
    return made_by is not None and made_by.provisioner not in ("", NO_PROVISIONER)


def _volume(tried: TriedNode, claim: PersistentVolumeClaim, name: str, storage: Listers) -> PersistentVolume:
    """A volume of the sort of the class's others: of the same driver, and reached by nodes of the same labels."""
    spec = claim.spec
    like = next(iter(storage.volumes_of_class.get(claim_class(claim), ClassVolumes()).volumes), None)
    csi = like.spec.csi if like else None
    return PersistentVolume(
        ObjectMeta(name, labels=dict(spec.selector.match_labels) if spec.selector else {}),
        PersistentVolumeSpec(
            capacity={"storage": spec.resources.requests.get("storage", "1Gi")},
            access_modes=spec.access_modes,
            storage_class_name=claim_class(claim),
            volume_mode=spec.volume_mode,
            node_affinity=_reach(tried, like),
            volume_attributes_class_name=spec.volume_attributes_class_name,
            csi=CSIPersistentVolumeSource(csi.driver, name) if csi else None,
        ),
        PhaseStatus("Available"),
    )


def _reach(tried: TriedNode, like: PersistentVolume | None) -> VolumeNodeAffinity | None:
    """The nodes alike this one in the labels by which the other volume is reached; all where no label decides."""
    affinity = like.spec.node_affinity if like else None
    if tried.row is None or affinity is None or affinity.required is None:
        return None
    labels = tried.cycle.view.nodes.objects[tried.row].metadata.labels
    keys = {expression.key for term in affinity.required.node_selector_terms for expression in term.match_expressions}
    wanted = tuple(SelectorRequirement(key, "In", (labels[key],)) for key in sorted(keys & labels.keys()))
    return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(wanted),))) if wanted else None


def _where(volume: PersistentVolume) -> str:
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    wanted = [
        f"{expression.key}={(expression.values or ('',))[0]}" for term in terms for expression in term.match_expressions
    ]
    return ", ".join(wanted)


def _source(volume: PersistentVolume) -> dict[str, Json]:
    """What is behind the volume, to be filled in by who makes it."""
    if volume.spec.csi is not None:
        return {"csi": {"driver": volume.spec.csi.driver, "volumeHandle": PLACEHOLDER}}
    if _where(volume):
        return {"local": {"path": PLACEHOLDER}}
    return {"nfs": {"server": PLACEHOLDER, "path": PLACEHOLDER}}


def _free_name(wanted: str, storage: Listers) -> str:
    names = (f"{wanted}{f'-{number}' if number else ''}" for number in range(len(storage.volumes) + 1))
    return next(name for name in names if name not in storage.volumes)
