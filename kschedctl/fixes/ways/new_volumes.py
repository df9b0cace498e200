"""Fixes that create a PersistentVolume for a claim."""

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
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways import storage_pools
from kschedctl.fixes.ways.claims import ClaimChange, build_binding, render_recreation, reset_claim
from kschedctl.fixes.ways.deleted_claims import Deletion, plan_deletion
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    ClassVolumes,
    Listers,
    format_claim_key,
    get_claim_class,
    get_listers,
)
from kschedctl.scheduler.plugins.volume_binding.binder import bind_claim, bind_volume

PROVISIONED, NEW_VOLUME, BESIDE_PROVISIONER = 5, 36, 30
"""The cost of a volume that is on its way and of a new one, and what is added where the class makes volumes itself."""
LOST = "Lost"
"""The phase of a claim whose volume is gone."""
ANY_SOURCE = "the volume source (spec.csi, spec.nfs, …)"
"""Names what a volume lacks if nothing in the cluster says by what kind of storage it is backed."""


def create_volume(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield the fix that creates a volume for the claim within the node's reach, which the user has to complete.

    The volume has the name that the claim asks for, if any. If a volume of that name exists, the claim is recreated as
    well, unless its class provisions volumes. A claim that another change of the trial recreates needs no such volume.
    """
    if ObjectKey.of(claim) in tried.trial.edits:
        return
    storage, named = get_listers(tried.cycle.view), claim.spec.volume_name
    free = _find_free_name(f"{claim.metadata.name}-volume", storage)
    volume = _build_volume(tried, claim, named if named and named not in storage.volumes else free, storage)
    key, name = ObjectKey.of(claim), volume.metadata.name
    if name == named:
        made = bind_volume(volume, claim)
        bound = BIND_COMPLETED in claim.metadata.annotations
        edits = () if bound else (ObjectEdit(key, lambda known: bind_claim(known, name)),)
        if claim.status.phase == LOST:
            edits = (ObjectEdit(key, _mark_bound),)
        yield _build_fix(tried, claim, volume, (*edits, ObjectEdit(ObjectKey.of(made), lambda _: made)))
        return
    bind, there = build_binding(claim, volume, storage)
    if not named:
        yield _build_fix(tried, claim, volume, (ObjectEdit(key, bind), there) if bind else (there,))
    elif not _has_provisioner(claim, storage) and (gone := plan_deletion(tried, claim)) is not None:
        yield _build_fix(tried, claim, volume, (*gone.edits, ObjectEdit(key, _reset_and_bind(bind)), there), gone)


def await_provisioner(tried: TriedNode, claim: PersistentVolumeClaim) -> Fix:
    """Build the fix that waits for the provisioner of the claim's class, taken to serve all nodes."""
    storage = get_listers(tried.cycle.view)
    provisioner = storage.classes[get_claim_class(claim)].provisioner
    volume = _build_volume(tried, claim, _find_free_name(f"{claim.metadata.name}-volume", storage), storage)
    source = volume.spec.csi or CSIPersistentVolumeSource(provisioner, volume.metadata.name)
    volume = replace(volume, spec=replace(volume.spec, csi=source, local=None, host_path=None))
    bind, there = build_binding(claim, volume, storage)
    key = ObjectKey.of(claim)
    edits = (ObjectEdit(key, bind), there) if bind else (there,)
    text = f"wait until {provisioner} has provisioned a volume for claim {format_claim_key(claim)}: see its events"
    command = kubectl.render_command("describe", *kubectl.object_arguments(key))
    return Fix(FixKind.WAIT, key, text, "operator", edits, PROVISIONED, commands=(command,))


def _mark_bound(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim as the volume controller marks it once its volume exists again."""
    return replace(claim, status=PhaseStatus("Bound"))


def _reset_and_bind(bind: ClaimChange | None) -> ClaimChange:
    """Return a change that resets the claim and binds it, if a binding is given."""
    return lambda known: bind(reset_claim(known)) if bind else reset_claim(known)


def _build_fix(
    tried: TriedNode,
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    edits: tuple[ObjectEdit, ...],
    gone: Deletion | None = None,
) -> Fix:
    """Build the fix that creates the volume, and recreates the claim if a deletion is given."""
    name = volume.metadata.name
    size = str(claim.spec.resources.requests.get("storage", "any size"))
    where = _describe_reach(volume)
    reach = f" reachable from {where}" if where else ""
    text = f"create PersistentVolume {name} of {size}{reach} for claim {format_claim_key(claim)}"
    holder = {"claimRef": {"namespace": claim.metadata.namespace, "name": claim.metadata.name}}
    source, missing = _build_source(volume)
    plain = kubectl.build_manifest(ObjectKey.of(volume), replace(volume, spec=replace(volume.spec, csi=None)))
    manifest = {**plain, "spec": {**object_at(plain, "spec"), **holder, **source}}
    commands: list[str] = []
    if gone is not None:
        text += ", and recreate that"
        commands += [*gone.preparation, render_recreation(claim, reset_claim(claim))]
    weakens, price = (gone.weakens, gone.price) if gone is not None else ("", None)
    cost = NEW_VOLUME + (BESIDE_PROVISIONER if _has_provisioner(claim, get_listers(tried.cycle.view)) else 0)
    own = format_claim_key(claim)
    return Fix(
        FixKind.CREATE_VOLUME,
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


def _has_provisioner(claim: PersistentVolumeClaim, storage: Listers) -> bool:
    """Return whether the claim's class provisions volumes."""
    made_by = storage.classes.get(get_claim_class(claim))
    return made_by is not None and made_by.provisioner not in ("", NO_PROVISIONER)


def _build_volume(tried: TriedNode, claim: PersistentVolumeClaim, name: str, storage: Listers) -> PersistentVolume:
    """Return a volume like the others of the claim's class, with their driver and node affinity."""
    spec = claim.spec
    like = next(iter(storage.volumes_of_class.get(get_claim_class(claim), ClassVolumes()).volumes), None)
    driver = _find_driver(tried, claim, like)
    return PersistentVolume(
        ObjectMeta(name, labels=dict(spec.selector.match_labels) if spec.selector else {}),
        PersistentVolumeSpec(
            capacity={"storage": spec.resources.requests.get("storage", "1Gi")},
            access_modes=spec.access_modes,
            storage_class_name=get_claim_class(claim),
            volume_mode=spec.volume_mode,
            node_affinity=_build_affinity(
                tried, like, storage_pools.get_topology_keys(tried, get_claim_class(claim)) if driver else ()
            ),
            volume_attributes_class_name=spec.volume_attributes_class_name,
            csi=CSIPersistentVolumeSource(driver, name) if driver else None,
            local=like.spec.local if like else None,
            host_path=like.spec.host_path if like else None,
        ),
        PhaseStatus("Available"),
    )


def _find_driver(tried: TriedNode, claim: PersistentVolumeClaim, like: PersistentVolume | None) -> str:
    """Return the CSI driver of the class's other volumes, or of its provisioner; empty if it is not a CSI driver."""
    if like is not None:
        return like.spec.csi.driver if like.spec.csi else ""
    class_ = get_listers(tried.cycle.view).classes.get(get_claim_class(claim))
    drivers = {driver.metadata.name for driver in tried.cycle.view.cluster.csi_drivers}
    return class_.provisioner if class_ is not None and class_.provisioner in drivers else ""


def _build_affinity(
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


def _describe_reach(volume: PersistentVolume) -> str:
    """Return the labels that the volume's node affinity requires, as text."""
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    wanted = [
        f"{expression.key}={(expression.values or ('',))[0]}" for term in terms for expression in term.match_expressions
    ]
    return ", ".join(wanted)


def _build_source(volume: PersistentVolume) -> tuple[JsonObject, str]:
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


def _find_free_name(wanted: str, storage: Listers) -> str:
    """Return the first unused volume name that starts with the wanted one."""
    names = (f"{wanted}{f'-{number}' if number else ''}" for number in range(len(storage.volumes) + 1))
    return next(name for name in names if name not in storage.volumes)
