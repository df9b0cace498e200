"""Fixes for volume claims and StorageClasses that are missing, and for claims that belong to another pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.fixes.ways.claims import (
    PodClaim,
    adapt_claim_to_volume,
    build_claim_binding,
    has_delayed_binding,
    iter_claim_recreation_fixes,
    iter_deleted_claim_fixes,
    iter_pod_claims,
    plan_claim_deletion,
    reset_claim,
    with_class,
)
from kschedctl.fixes.ways.new_volumes import LOST, iter_volume_creation_fixes
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.helper.volume_listers import (
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    format_claim_key,
    get_claim_class,
    get_listers,
    parse_volume_storage,
    require_owner,
    to_billionths,
)
from kschedctl.text.counts import join_words

CORRECT, CREATE, CREATE_CLASS, REMAKE = 10, 20, 25, 30
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
UNKNOWN_SIZE = "1Gi"
"""The size of a new claim if nothing says how much it should hold."""
MOST_PROPOSED = 4
"""The most classes, or volumes, that are proposed for one claim."""
NAME_CUTOFF = 0.75
"""The least similarity of two names at which one is taken for a misspelling of the other."""


def iter_missing_or_lost_claim_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes for the pod's first volume claim that is missing, being deleted, lost, or owned by another pod.

    Nothing is yielded if all claims are fine.
    """
    for pod_claim in iter_pod_claims(trial_node):
        claim = pod_claim.claim
        if claim is None:
            yield from _iter_missing_claim_fixes(trial_node, pod_claim)
            return
        if claim.metadata.deletion_timestamp is not None or claim.status.phase == LOST:
            yield from _iter_lost_or_deleted_claim_fixes(trial_node, claim)
            return
        if pod_claim.ephemeral and not _is_claim_owned_by(trial_node.trial.pod, claim):
            yield from _iter_foreign_claim_fixes(trial_node, claim, pod_claim)
            return


# -- claims ----------------------------------------------------------------------------------------------------------


def _iter_missing_claim_fixes(trial_node: TrialNode, pod_claim: PodClaim) -> Iterator[Fix]:
    """Yield fixes for a claim that does not exist.

    For an ephemeral volume, the fix lets the controller create the claim. Otherwise the fixes use an existing claim
    with a similar name, or create the claim for an available volume or with a StorageClass.
    """
    if pod_claim.ephemeral:
        yield from _iter_ephemeral_claim_fixes(trial_node, pod_claim)
        return
    names = [claim.metadata.name for claim in _list_claims_in_namespace(trial_node)]
    for similar_name in get_close_matches(pod_claim.claim_name, names, n=2, cutoff=NAME_CUTOFF):
        text = f"use claim {similar_name} instead of {pod_claim.claim_name}, which does not exist"
        edits = build_pod_edits(trial_node.trial.pod, _build_claim_name_change(pod_claim.claim_name, similar_name))
        yield Fix(
            kind=FixKind.CORRECT_CLAIM,
            target=(pod_claim.claim_name, similar_name),
            text=text,
            by="author",
            edits=edits,
            cost=CORRECT,
        )
    meta = ObjectMeta(pod_claim.claim_name, trial_node.trial.pod.metadata.namespace)
    spec = PersistentVolumeClaimSpec(("ReadWriteOnce",), resources=_build_storage_request(UNKNOWN_SIZE))
    claim = PersistentVolumeClaim(meta, spec, PhaseStatus("Pending"))
    yield from _iter_claim_creation_fixes_by_volume(trial_node, claim)
    yield from _iter_claim_creation_fixes_by_class(trial_node, claim)


def _build_storage_request(size: str) -> VolumeResourceRequirements:
    """Return the claim's resources field that requests storage of this size."""
    return VolumeResourceRequirements({"storage": size})


def _list_claims_in_namespace(trial_node: TrialNode) -> list[PersistentVolumeClaim]:
    """Return all PersistentVolumeClaims in the target pod's namespace."""
    namespace = trial_node.trial.pod.metadata.namespace
    claims = get_listers(trial_node.cycle.view).claims
    return [claim for (claim_namespace, _), claim in claims.items() if claim_namespace == namespace]


def _build_claim_name_change(old_name: str, new_name: str) -> Callable[[Pod], Pod]:
    """Return a function that replaces one claim name with another in all volumes of a pod."""

    def change(pod: Pod) -> Pod:
        """Return the pod with the other claim."""
        volumes = tuple(
            replace(volume, persistent_volume_claim=replace(volume.persistent_volume_claim, claim_name=new_name))
            if volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == old_name
            else volume
            for volume in pod.spec.volumes
        )
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    return change


def _iter_claim_creation_fixes_by_class(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that create the claim with a class that provisions volumes and delays binding.

    There is one fix for each of the first `MOST_PROPOSED` classes, starting with the default class.
    """
    storage = get_listers(trial_node.cycle.view)
    provisioning_classes = [
        storage_class
        for name, storage_class in storage.classes.items()
        if has_delayed_binding(name, storage) and storage_class.provisioner != NO_PROVISIONER
    ]

    def build_sort_key(storage_class: StorageClass) -> tuple[bool, str]:
        """Return the sort key of the class."""
        is_default = storage_class.metadata.annotations.get(DEFAULT_CLASS) == "true"
        return not is_default, storage_class.metadata.name

    provisioning_classes.sort(key=build_sort_key)
    for rank, class_ in enumerate(provisioning_classes[:MOST_PROPOSED]):
        name = class_.metadata.name
        new_claim = with_class(claim, name)
        key = ObjectKey.of(new_claim)
        text = (
            f"create claim {format_claim_key(new_claim)} of class {name} ({UNKNOWN_SIZE}, or as much as the pod needs)"
        )
        commands = (kubectl.render_apply(kubectl.build_manifest(key, new_claim)),)
        edits = (_build_claim_creation_edit(new_claim),)
        yield Fix(
            kind=FixKind.CREATE_CLAIM,
            target=(key, name),
            text=text,
            by="author",
            edits=edits,
            cost=CREATE + rank,
            commands=commands,
            variant_of=key,
            where=f"class {name}",
        )


def _iter_claim_creation_fixes_by_volume(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that create the claim so that it is bound to an available volume, the smallest volume first.

    There is one fix for each of the first `MOST_PROPOSED` volumes. The claim gets the volume's size and class.
    """
    storage = get_listers(trial_node.cycle.view)
    available_volumes = [
        volume
        for volume in storage.volumes.values()
        if volume.spec.claim_ref is None and volume.status.phase == "Available"
    ]
    available_volumes.sort(key=lambda volume: (_measure_volume_size(volume), volume.metadata.name))
    for rank, volume in enumerate(available_volumes[:MOST_PROPOSED]):
        name = volume.metadata.name
        size = str(volume.spec.capacity.get("storage", "0"))
        sized_claim = replace(claim, spec=replace(claim.spec, resources=_build_storage_request(size)))
        new_claim = adapt_claim_to_volume(sized_claim, volume).claim
        bind, volume_edit = build_claim_binding(new_claim, volume, storage)
        key = ObjectKey.of(new_claim)
        class_name = get_claim_class(new_claim) or "none"
        text = f"create claim {format_claim_key(new_claim)} of {size}, class {class_name}, for volume {name}"
        claim_to_apply = replace(new_claim, spec=replace(new_claim.spec, volume_name=name))
        commands = (kubectl.render_apply(kubectl.build_manifest(key, claim_to_apply)),)
        edits: tuple[ObjectEdit, ...]
        if bind is None:
            edits = (_build_claim_creation_edit(new_claim),)  # the claim is bound once a pod uses it
        else:
            edits = (_build_claim_creation_edit(bind(new_claim)), volume_edit)
        yield Fix(
            kind=FixKind.CREATE_CLAIM,
            target=(key, name),
            text=text,
            by="author",
            edits=edits,
            cost=CREATE + MOST_PROPOSED + rank,
            commands=commands,
            variant_of=key,
            where=f"volume {name}",
        )


def _measure_volume_size(volume: PersistentVolume) -> int:
    """Return the volume's size in billionths of a byte."""
    return to_billionths(parse_volume_storage(volume))


def _build_claim_creation_edit(new_claim: PersistentVolumeClaim) -> ObjectEdit:
    """Return the edit that creates the claim."""
    return ObjectEdit.create(new_claim)


def _iter_lost_or_deleted_claim_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that recreate a claim that is lost or being deleted.

    For a lost claim, the fix may recreate the volume instead.
    """
    is_lost = claim.status.phase == LOST
    if is_lost:
        yield from iter_volume_creation_fixes(trial_node, claim)
    yield from iter_deleted_claim_fixes(trial_node, claim, REMAKE)
    reason = "whose volume is gone" if is_lost else "which is being deleted"
    yield from iter_claim_recreation_fixes(
        trial_node, FixKind.REMAKE_CLAIM, claim, reset_claim, text=f", {reason}", can_be_joined=False, cost=REMAKE
    )


# -- claims of ephemeral volumes -------------------------------------------------------------------------------------


def _is_claim_owned_by(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return whether the ephemeral volume's claim belongs to the pod."""
    try:
        require_owner(pod, claim)
    except PluginError:
        return False
    return True


def _iter_ephemeral_claim_fixes(trial_node: TrialNode, pod_claim: PodClaim) -> Iterator[Fix]:
    """Yield the fix that lets the ephemeral volume controller create the claim of an ephemeral volume.

    Nothing is yielded if the volume has no claim template.
    """
    spec = _find_ephemeral_claim_spec(trial_node, pod_claim)
    if spec is None:
        return
    pod = trial_node.trial.pod
    new_claim = PersistentVolumeClaim(
        ObjectMeta(pod_claim.claim_name, pod.metadata.namespace, owner_references=(build_owner_reference(pod),)),
        spec,
        PhaseStatus("Pending"),
    )
    text = f"let the ephemeral volume controller of kube-controller-manager create claim {format_claim_key(new_claim)}"
    yield Fix(
        kind=FixKind.CREATE_CLAIM,
        target=ObjectKey.of(new_claim),
        text=text,
        by="operator",
        edits=(_build_claim_creation_edit(new_claim),),
        cost=CREATE,
    )


def _iter_foreign_claim_fixes(
    trial_node: TrialNode, claim: PersistentVolumeClaim, pod_claim: PodClaim
) -> Iterator[Fix]:
    """Yield the fix that deletes a claim of another owner, to make way for the pod's own claim of the same name.

    There is no fix if a running pod uses the claim.
    """
    deletion = plan_claim_deletion(trial_node, claim)
    if deletion is None:  # a running pod uses the claim
        return

    # The controller of ephemeral volumes creates the pod's claim once the other one is deleted
    spec = _find_ephemeral_claim_spec(trial_node, pod_claim) or claim.spec
    pod = trial_node.trial.pod

    def replace_by_own_claim(current: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return the claim that the controller creates for the pod."""
        new = reset_claim(current)
        meta = replace(new.metadata, owner_references=(build_owner_reference(pod),))
        return replace(new, metadata=meta, spec=replace(spec, volume_name=""))

    key = ObjectKey.of(claim)
    text = f"delete claim {format_claim_key(claim)}, which the pod does not own, so that the pod's own claim is created"
    weakens = deletion.weakens or f"claim {format_claim_key(claim)} is deleted"
    edits = (*deletion.edits, ObjectEdit(key, replace_by_own_claim))
    yield Fix(
        kind=FixKind.REMAKE_CLAIM,
        target=key,
        text=text,
        by="operator",
        edits=edits,
        cost=REMAKE,
        weakens=weakens,
        commands=deletion.commands,
        price=Price.LOSS,
    )


def _find_ephemeral_claim_spec(trial_node: TrialNode, pod_claim: PodClaim) -> PersistentVolumeClaimSpec | None:
    """Return the claim spec in the template of the pod's ephemeral volume, or None if the volume has no template."""
    volumes = trial_node.trial.pod.spec.volumes
    source = next(volume.ephemeral for volume in volumes if volume.name == pod_claim.volume_name)
    if source is None or source.volume_claim_template is None:
        return None
    return source.volume_claim_template.spec


def build_owner_reference(pod: Pod) -> OwnerReference:
    """Return a reference to the pod as the owner and controller."""
    return OwnerReference("Pod", pod.metadata.name, "v1", pod.metadata.uid, controller=True)


# -- classes ---------------------------------------------------------------------------------------------------------


def iter_missing_storage_class_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes for a claim whose StorageClass does not exist.

    Fixes that recreate the claim with a class of a similar name come first. If the claim names a class, fixes that
    create this class follow. Each copies an existing class that delays binding. There is one copy for each of the first
    `MOST_PROPOSED` provisioners.
    """
    classes = get_listers(trial_node.cycle.view).classes
    name = get_claim_class(claim)
    uncorrected_names = []  # names that only the author of the manifest can write instead
    for similar_name in get_close_matches(name, classes, n=2, cutoff=NAME_CUTOFF):
        text = f" with class {similar_name} instead of {name}, which does not exist"
        change = build_class_change(similar_name)
        recreations = tuple(
            iter_claim_recreation_fixes(
                trial_node, FixKind.CORRECT_STORAGE_CLASS, claim, change, text=text, cost=CORRECT, target=similar_name
            )
        )
        yield from recreations
        if not recreations:
            uncorrected_names.append(similar_name)
    if not name:
        return
    delayed_classes = [class_ for class_ in classes.values() if class_.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER]
    models = {class_.provisioner: class_ for class_ in delayed_classes if class_.provisioner != NO_PROVISIONER}
    for model in list(models.values())[:MOST_PROPOSED]:
        yield _build_storage_class_copy_fix(model, name, uncorrected_names)


def build_class_change(class_name: str) -> Callable[[PersistentVolumeClaim], PersistentVolumeClaim]:
    """Return a function that sets a claim's StorageClass, and resets the claim so that it is bound again."""
    return lambda current: with_class(reset_claim(current), class_name)


def _build_storage_class_copy_fix(model: StorageClass, name: str, similar_names: Sequence[str]) -> Fix:
    """Build the fix that creates a StorageClass of this name as a copy of the model.

    If existing classes have similar names, the fix says to check first that the name is no misspelling of them.
    """
    new_class = replace(model, metadata=ObjectMeta(name))
    model_name = model.metadata.name
    similar = join_words(similar_names, "or")
    unless = f", unless this is a misspelling of {similar}," if similar else ","
    text = (
        f"create StorageClass {name}{unless} like {model_name} (provisioner {model.provisioner}, WaitForFirstConsumer)"
    )
    commands = (kubectl.render_copy(ObjectKey.of(model), name),)
    edits = (ObjectEdit.create(new_class),)
    return Fix(
        kind=FixKind.CREATE_STORAGE_CLASS,
        target=(name, model_name),
        text=text,
        by="operator",
        edits=edits,
        cost=CREATE_CLASS,
        commands=commands,
        variant_of=name,
        where=f"like {model_name}",
        check_first=f"if {name} is a misspelling, set storageClassName: {similar} instead" if similar else "",
    )
