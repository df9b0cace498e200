"""Volumes that somebody makes for a claim."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject, object_at
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
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways import storage_pools
from kschedctl.fixes.ways.claims import ClaimChange, given, made_anew, recreation
from kschedctl.fixes.ways.deleted_claims import Deletion, deletion
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    ClassVolumes,
    Listers,
    claim_class,
    claim_key,
    listers,
)
from kschedctl.scheduler.plugins.volume_binding.reservation import bind_claim, bind_volume

PROVISIONED, NEW_VOLUME, BESIDE_PROVISIONER = 5, 36, 30
"""The cost of a volume that is on its way and of a new one, and what is added where the class makes volumes itself."""
LOST = "Lost"
"""The phase of a claim whose volume is gone."""
ANY_SOURCE = "the volume source (spec.csi, spec.nfs, …)"
"""Names what a volume lacks if nothing in the cluster says by what kind of storage it is backed."""


def for_claim(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield the fix that creates a volume for the claim within the node's reach, which the user has to complete.

    The volume has the name that the claim asks for, if any. If a volume of that name exists, the claim is recreated as
    well, unless its class provisions volumes. A claim that another change of the trial recreates needs no such volume.
    """
    if ObjectKey.of(claim) in tried.trial.edits:
        return
    storage, named = listers(tried.cycle.view), claim.spec.volume_name
    free = _free_name(f"{claim.metadata.name}-volume", storage)
    volume = _volume(tried, claim, named if named and named not in storage.volumes else free, storage)
    key, name = ObjectKey.of(claim), volume.metadata.name
    if name == named:
        made = bind_volume(volume, claim)
        bound = BIND_COMPLETED in claim.metadata.annotations
        edits = () if bound else (ObjectEdit(key, lambda known: bind_claim(known, name)),)
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
    source = volume.spec.csi or CSIPersistentVolumeSource(provisioner, volume.metadata.name)
    volume = replace(volume, spec=replace(volume.spec, csi=source, local=None, host_path=None))
    bind, there = given(claim, volume, storage)
    key = ObjectKey.of(claim)
    edits = (ObjectEdit(key, bind), there) if bind else (there,)
    text = f"wait until {provisioner} has provisioned a volume for claim {claim_key(claim)}: see its events"
    command = kubectl.render_command("describe", *kubectl.object_arguments(key))
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
    name = volume.metadata.name
    size = str(claim.spec.resources.requests.get("storage", "any size"))
    where = _where(volume)
    reach = f" reachable from {where}" if where else ""
    text = f"create PersistentVolume {name} of {size}{reach} for claim {claim_key(claim)}"
    holder = {"claimRef": {"namespace": claim.metadata.namespace, "name": claim.metadata.name}}
    source, missing = _source(volume)
    plain = kubectl.build_manifest(ObjectKey.of(volume), replace(volume, spec=replace(volume.spec, csi=None)))
    manifest = {**plain, "spec": {**object_at(plain, "spec"), **holder, **source}}
    commands: list[str] = []
    if gone is not None:
        text += ", and recreate that"
        commands += [*gone.before, recreation(claim, made_anew(claim))]
    weakens, price = (gone.weakens, gone.price) if gone is not None else ("", None)
    cost = NEW_VOLUME + (BESIDE_PROVISIONER if _beside_provisioner(claim, listers(tried.cycle.view)) else 0)
    own = claim_key(claim)
    return Fix(
        "CreateVolume",
        (own, where),
        text,
        "operator",
        edits,
        cost,
        weakens,
        tuple(commands),
        own,
        where,
        price,
        needs_values=(f"{missing} of PersistentVolume {name}",),
        manifests=(manifest,),
    )


def _beside_provisioner(claim: PersistentVolumeClaim, storage: Listers) -> bool:
    """Whether volumes of the claim's class are made without anybody's doing."""
    made_by = storage.classes.get(claim_class(claim))
    return made_by is not None and made_by.provisioner not in ("", NO_PROVISIONER)


def _volume(tried: TriedNode, claim: PersistentVolumeClaim, name: str, storage: Listers) -> PersistentVolume:
    """A volume of the sort of the class's others: of the same driver, and reached by nodes of the same labels."""
    spec = claim.spec
    like = next(iter(storage.volumes_of_class.get(claim_class(claim), ClassVolumes()).volumes), None)
    driver = _driver(tried, claim, like)
    return PersistentVolume(
        ObjectMeta(name, labels=dict(spec.selector.match_labels) if spec.selector else {}),
        PersistentVolumeSpec(
            capacity={"storage": spec.resources.requests.get("storage", "1Gi")},
            access_modes=spec.access_modes,
            storage_class_name=claim_class(claim),
            volume_mode=spec.volume_mode,
            node_affinity=_reach(tried, like, storage_pools.topology_keys(tried, claim_class(claim)) if driver else ()),
            volume_attributes_class_name=spec.volume_attributes_class_name,
            csi=CSIPersistentVolumeSource(driver, name) if driver else None,
            local=like.spec.local if like else None,
            host_path=like.spec.host_path if like else None,
        ),
        PhaseStatus("Available"),
    )


def _driver(tried: TriedNode, claim: PersistentVolumeClaim, like: PersistentVolume | None) -> str:
    """Return the CSI driver of the class's other volumes, or of its provisioner; empty if it is not a CSI driver."""
    if like is not None:
        return like.spec.csi.driver if like.spec.csi else ""
    class_ = listers(tried.cycle.view).classes.get(claim_class(claim))
    drivers = {driver.metadata.name for driver in tried.cycle.view.cluster.csi_drivers}
    return class_.provisioner if class_ is not None and class_.provisioner in drivers else ""


def _reach(
    tried: TriedNode, like: PersistentVolume | None, topology_keys: tuple[str, ...]
) -> VolumeNodeAffinity | None:
    """Return the affinity for nodes with the node's labels by which such volumes are reached; None if no label decides.

    The labels are those of another volume's affinity; without another volume they are the driver's topology keys.
    """
    if tried.row is None:
        return None
    keys = set(topology_keys) if like is None else set()
    affinity = like.spec.node_affinity if like else None
    if affinity is not None and affinity.required is not None:
        terms = affinity.required.node_selector_terms
        keys = {expression.key for term in terms for expression in term.match_expressions}
    labels = tried.cycle.view.nodes.objects[tried.row].metadata.labels
    wanted = tuple(SelectorRequirement(key, "In", (labels[key],)) for key in sorted(keys & labels.keys()))
    return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(wanted),))) if wanted else None


def _where(volume: PersistentVolume) -> str:
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    wanted = [
        f"{expression.key}={(expression.values or ('',))[0]}" for term in terms for expression in term.match_expressions
    ]
    return ", ".join(wanted)


def _source(volume: PersistentVolume) -> tuple[JsonObject, str]:
    """Return the volume source with its unknown field left empty, and the path of that field in the object.

    The API server refuses a volume without a source, or with an empty field that is required, so that nobody creates
    the volume before the field is filled in.
    """
    spec = volume.spec
    if spec.csi is not None:
        return {"csi": {"driver": spec.csi.driver, "volumeHandle": ""}}, "spec.csi.volumeHandle"
    if spec.local is not None:
        return {"local": {"path": ""}}, "spec.local.path"
    if spec.host_path is not None:
        return {"hostPath": {"path": ""}}, "spec.hostPath.path"
    return {}, ANY_SOURCE


def _free_name(wanted: str, storage: Listers) -> str:
    names = (f"{wanted}{f'-{number}' if number else ''}" for number in range(len(storage.volumes) + 1))
    return next(name for name in names if name not in storage.volumes)
