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
from kschedctl.fixes.ways.claims import (
    ClaimChange,
    Deletion,
    build_binding,
    plan_deletion,
    render_recreation,
    reset_claim,
)
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
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


def iter_volume_creation_fixes(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield the fix that creates a volume for the claim within the node's reach. The user completes the manifest.

    The volume has the name that the claim asks for, if any. If a volume of that name exists, the claim is recreated as
    well, unless its class provisions volumes. A claim that another change of the trial edits needs no such volume.
    """
    if ObjectKey.of(claim) in tried.trial.edits:
        return
    storage = get_listers(tried.cycle.view)
    requested_name = claim.spec.volume_name
    free_name = _find_free_name(f"{claim.metadata.name}-volume", storage)
    volume = _build_volume(
        tried, claim, requested_name if requested_name and requested_name not in storage.volumes else free_name, storage
    )
    key = ObjectKey.of(claim)
    name = volume.metadata.name
    if name == requested_name:
        bound_volume = bind_volume(volume, claim)
        is_bound = BIND_COMPLETED in claim.metadata.annotations
        edits = () if is_bound else (ObjectEdit(key, lambda known: bind_claim(known, name)),)
        if claim.status.phase == LOST:
            edits = (ObjectEdit(key, _mark_bound),)
        yield _build_creation_fix(
            tried, claim, volume, (*edits, ObjectEdit(ObjectKey.of(bound_volume), lambda _: bound_volume))
        )
        return
    bind, volume_edit = build_binding(claim, volume, storage)
    if not requested_name:
        yield _build_creation_fix(
            tried, claim, volume, (ObjectEdit(key, bind), volume_edit) if bind else (volume_edit,)
        )
    elif not _has_provisioner(claim, storage) and (deletion := plan_deletion(tried, claim)) is not None:
        yield _build_creation_fix(
            tried,
            claim,
            volume,
            (*deletion.edits, ObjectEdit(key, _build_reset_and_bind_change(bind)), volume_edit),
            deletion,
        )


def build_provisioner_wait_fix(tried: TriedNode, claim: PersistentVolumeClaim) -> Fix:
    """Build the fix that waits for the provisioner of the claim's class, assuming that it serves all nodes."""
    storage = get_listers(tried.cycle.view)
    provisioner = storage.classes[get_claim_class(claim)].provisioner
    volume = _build_volume(tried, claim, _find_free_name(f"{claim.metadata.name}-volume", storage), storage)
    source = volume.spec.csi or CSIPersistentVolumeSource(provisioner, volume.metadata.name)
    volume = replace(volume, spec=replace(volume.spec, csi=source, local=None, host_path=None))
    bind, volume_edit = build_binding(claim, volume, storage)
    key = ObjectKey.of(claim)
    edits = (ObjectEdit(key, bind), volume_edit) if bind else (volume_edit,)
    text = f"wait until {provisioner} has provisioned a volume for claim {format_claim_key(claim)}: see its events"
    command = kubectl.render_command("describe", *kubectl.build_object_arguments(key))
    return Fix(FixKind.WAIT, key, text, by="operator", edits=edits, cost=PROVISIONED, commands=(command,))


def _mark_bound(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim with phase Bound, which the volume controller sets once its volume exists again."""
    return replace(claim, status=PhaseStatus("Bound"))


def _build_reset_and_bind_change(bind: ClaimChange | None) -> ClaimChange:
    """Return a claim change that resets the claim and then binds it, if a binding is given."""
    return lambda known: bind(reset_claim(known)) if bind else reset_claim(known)


def _build_creation_fix(
    tried: TriedNode,
    claim: PersistentVolumeClaim,
    volume: PersistentVolume,
    edits: tuple[ObjectEdit, ...],
    deletion: Deletion | None = None,
) -> Fix:
    """Build the fix that creates the volume, and recreates the claim if its deletion is given."""
    name = volume.metadata.name
    size = str(claim.spec.resources.requests.get("storage", "any size"))
    where = _describe_reach(volume)
    reach = f" reachable from {where}" if where else ""
    text = f"create PersistentVolume {name} of {size}{reach} for claim {format_claim_key(claim)}"
    holder = {"claimRef": {"namespace": claim.metadata.namespace, "name": claim.metadata.name}}
    source, missing_field = _build_source(volume)
    base_manifest = kubectl.build_manifest(ObjectKey.of(volume), replace(volume, spec=replace(volume.spec, csi=None)))
    manifest = {**base_manifest, "spec": {**object_at(base_manifest, "spec"), **holder, **source}}
    commands: list[str] = []
    if deletion is not None:
        text += ", and recreate that"
        commands += [*deletion.preparation, render_recreation(claim, reset_claim(claim))]
    weakens, price = (deletion.weakens, deletion.price) if deletion is not None else ("", None)
    cost = NEW_VOLUME + (BESIDE_PROVISIONER if _has_provisioner(claim, get_listers(tried.cycle.view)) else 0)
    key_text = format_claim_key(claim)
    return Fix(
        FixKind.CREATE_VOLUME,
        (key_text, where),
        text,
        by="operator",
        edits=edits,
        cost=cost,
        weakens=weakens,
        commands=tuple(commands),
        variant_of=key_text,
        where=where,
        price=price,
        needs_values=(f"{missing_field} of PersistentVolume {name}",),
        manifests=(manifest,),
    )


def _has_provisioner(claim: PersistentVolumeClaim, storage: Listers) -> bool:
    """Return whether the claim's class provisions volumes."""
    storage_class = storage.classes.get(get_claim_class(claim))
    return storage_class is not None and storage_class.provisioner not in ("", NO_PROVISIONER)


def _build_volume(tried: TriedNode, claim: PersistentVolumeClaim, name: str, storage: Listers) -> PersistentVolume:
    """Build a volume for the claim like the other volumes of its class, with their driver and node affinity."""
    spec = claim.spec
    model_volume = next(iter(storage.volumes_of_class.get(get_claim_class(claim), ClassVolumes()).volumes), None)
    driver = _find_driver(tried, claim, model_volume)
    return PersistentVolume(
        ObjectMeta(name, labels=dict(spec.selector.match_labels) if spec.selector else {}),
        PersistentVolumeSpec(
            capacity={"storage": spec.resources.requests.get("storage", "1Gi")},
            access_modes=spec.access_modes,
            storage_class_name=get_claim_class(claim),
            volume_mode=spec.volume_mode,
            node_affinity=_build_affinity(
                tried, model_volume, storage_pools.get_topology_keys(tried, get_claim_class(claim)) if driver else ()
            ),
            volume_attributes_class_name=spec.volume_attributes_class_name,
            csi=CSIPersistentVolumeSource(driver, name) if driver else None,
            local=model_volume.spec.local if model_volume else None,
            host_path=model_volume.spec.host_path if model_volume else None,
        ),
        PhaseStatus("Available"),
    )


def _find_driver(tried: TriedNode, claim: PersistentVolumeClaim, model_volume: PersistentVolume | None) -> str:
    """Return the CSI driver of the class's other volumes or of its provisioner, or an empty string."""
    if model_volume is not None:
        return model_volume.spec.csi.driver if model_volume.spec.csi else ""
    class_ = get_listers(tried.cycle.view).classes.get(get_claim_class(claim))
    drivers = {driver.metadata.name for driver in tried.cycle.view.cluster.csi_drivers}
    return class_.provisioner if class_ is not None and class_.provisioner in drivers else ""


def _build_affinity(
    tried: TriedNode, model_volume: PersistentVolume | None, topology_keys: tuple[str, ...]
) -> VolumeNodeAffinity | None:
    """Build the node affinity of a new volume that the node can reach, or return None if no label decides.

    The affinity requires the node's values of some labels: those in the affinity of `model_volume` or, if that is None,
    the driver's topology keys.
    """
    if tried.row is None:
        return None
    keys = set(topology_keys) if model_volume is None else set()
    affinity = model_volume.spec.node_affinity if model_volume else None
    if affinity is not None and affinity.required is not None:
        terms = affinity.required.node_selector_terms
        keys = {expression.key for term in terms for expression in term.match_expressions}
    labels = tried.cycle.view.nodes.objects[tried.row].metadata.labels
    requirements = tuple(SelectorRequirement(key, "In", (labels[key],)) for key in sorted(keys & labels.keys()))
    return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(requirements),))) if requirements else None


def _describe_reach(volume: PersistentVolume) -> str:
    """Describe the labels that the volume's node affinity requires."""
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    requirements = [
        f"{expression.key}={(expression.values or ('',))[0]}" for term in terms for expression in term.match_expressions
    ]
    return ", ".join(requirements)


def _build_source(volume: PersistentVolume) -> tuple[JsonObject, str]:
    """Build the volume source with its unknown field left empty, and return it with that field's path.

    The API server rejects a volume without a source or with a required field that is empty, so nobody creates the
    volume before the field is filled in.
    """
    spec = volume.spec
    if spec.csi is not None:
        return {"csi": {"driver": spec.csi.driver, "volumeHandle": ""}}, "spec.csi.volumeHandle"
    if spec.local is not None:
        return {"local": {"path": ""}}, "spec.local.path"
    if spec.host_path is not None:
        return {"hostPath": {"path": ""}}, "spec.hostPath.path"
    return {}, ANY_SOURCE


def _find_free_name(prefix: str, storage: Listers) -> str:
    """Return the first unused volume name with this prefix."""
    names = (f"{prefix}{f'-{number}' if number else ''}" for number in range(len(storage.volumes) + 1))
    return next(name for name in names if name not in storage.volumes)
