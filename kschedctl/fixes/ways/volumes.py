"""Fixes for claims whose volume is missing or out of the node's reach: other volumes, new ones, or another class."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints, Position
from kschedctl.api.copying import replace as copy_with
from kschedctl.api.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PhaseStatus,
    StorageClass,
    TopologySelectorTerm,
    TypedObjectReference,
)
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.fixes.ways import missing_objects, new_volumes
from kschedctl.fixes.ways.claims import (
    ClaimChange,
    adapt_claim_to_volume,
    build_claim_binding,
    find_claim,
    has_delayed_binding,
    iter_claim_recreation_fixes,
    iter_pod_claims,
    plan_volume_retention,
    reset_claim,
    with_class,
    with_size,
)
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.plugins.helper.volume_listers import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    format_claim_key,
    get_claim_class,
    get_listers,
    get_volume_class,
    iter_claim_volumes,
    parse_volume_storage,
    to_billionths,
)
from kschedctl.scheduler.plugins.volume_binding.binder import bind_claim, bind_volume
from kschedctl.scheduler.plugins.volume_binding.facts import (
    ClaimsUnbound,
    NotEnoughStorage,
    NoVolume,
    ProvisionedElsewhere,
    VolumeMissing,
    VolumeOutOfReach,
)
from kschedctl.scheduler.plugins.volume_binding.matching import is_reserved_for
from kschedctl.scheduler.plugins.volume_binding.plugin import VolumeBinding
from kschedctl.scheduler.plugins.volume_zone import VolumeInOtherZone, VolumeZone

FORGET_NODE, RELEASE, OTHER_VOLUME, OTHER_CLASS, WAIT, TOPOLOGY = 15, 25, 30, 32, 34, 40
"""The costs of the fixes."""
COST_PER_DIFFERENCE = 2
"""Added to the cost of a volume for each field of the claim that has to change."""
OTHER_CLASS_SURCHARGE = 4
"""Added to the cost of a volume of another class, so that a class that provisions volumes comes first."""
MOST_VOLUMES, MOST_CLASSES = 6, 5
"""The most volumes, and the most classes, that are proposed for one claim."""


def iter_volume_claim_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for the claim that makes VolumeBinding or VolumeZone reject the node or the pod.

    If several claims are unbound, only the first is fixed. A rejection without a fact means that a claim is missing or
    has lost its volume.
    """
    match rejection.fact:
        case ClaimsUnbound(claims=(first, *_)):
            claim = find_claim(trial_node, first.claim)
            if claim is not None:
                yield from _iter_immediate_claim_fixes(trial_node, claim)
                yield from iter_other_storage_fixes(trial_node, claim)
        case NoVolume(claim=name) | NotEnoughStorage(claim=name) | ProvisionedElsewhere(claim=name):
            claim = find_claim(trial_node, name)
            if claim is not None:
                yield from _iter_provisioning_fixes(trial_node, claim, rejection)
                yield from iter_other_storage_fixes(trial_node, claim)
        case VolumeMissing(claim=name) | VolumeOutOfReach(claim=name) | VolumeInOtherZone(claim=name):
            claim = find_claim(trial_node, name)
            if claim is not None:
                yield from iter_other_storage_fixes(trial_node, claim)
        case None:
            yield from missing_objects.iter_missing_or_lost_claim_fixes(trial_node)
            for claim in _find_claims_of_missing_volumes(trial_node)[:1]:
                yield from iter_other_storage_fixes(trial_node, claim)


def iter_other_storage_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that recreate a claim, or give it another volume, another class or a new volume.

    Fixes for a bound claim give up its data. Recreating a claim without a change helps only if its class delays
    binding.
    """
    if claim.spec.volume_name and has_delayed_binding(get_claim_class(claim), get_listers(trial_node.cycle.view)):
        text = ", so that its volume is found or provisioned where the pod can run"
        yield from iter_claim_recreation_fixes(
            trial_node, FixKind.REMAKE_CLAIM, claim, reset_claim, text=text, can_be_joined=False, cost=OTHER_VOLUME
        )
    yield from _iter_other_volume_fixes(trial_node, claim)
    yield from _iter_other_class_fixes(trial_node, claim)
    yield from new_volumes.iter_volume_creation_fixes(trial_node, claim)


def _find_claims_of_missing_volumes(trial_node: TrialNode) -> list[PersistentVolumeClaim]:
    """Return the pod's claims that name a volume that does not exist."""
    volumes = get_listers(trial_node.cycle.view).volumes
    claims = [
        pod_claim.claim
        for pod_claim in iter_pod_claims(trial_node)
        if pod_claim.claim is not None and pod_claim.claim.spec.volume_name
    ]
    return [claim for claim in claims if claim.spec.volume_name not in volumes]


# -- existing volumes ------------------------------------------------------------------------------------------------


def _iter_other_volume_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that give the claim a free or released volume, the most suitable volume first.

    A volume that was released by another claim is used only if it has the claim's class.
    """
    for volume in _rank_volumes(trial_node, claim):
        if volume.spec.claim_ref is None:
            yield from _iter_volume_use_fixes(trial_node, claim, volume)
        elif get_volume_class(volume) == get_claim_class(claim):
            yield _build_volume_reservation_fix(trial_node, claim, volume)


def _rank_volumes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
    """Return at most `MOST_VOLUMES` available volumes for the claim, the most suitable first.

    Volumes that the node reaches come first, then those that need the fewest changes, then the smallest. Volumes that
    are being deleted are left out.
    """
    available_volumes = [
        volume
        for volume in get_listers(trial_node.cycle.view).volumes.values()
        if volume.metadata.deletion_timestamp is None and _is_volume_available(trial_node, volume)
    ]
    by_suitability = sorted(available_volumes, key=lambda volume: _build_rank_key(volume, trial_node, claim))
    return by_suitability[:MOST_VOLUMES]


def _build_rank_key(
    volume: PersistentVolume, trial_node: TrialNode, claim: PersistentVolumeClaim
) -> tuple[bool, int, int, str]:
    """Return the key that sorts volumes by how suitable they are for the claim, the most suitable first.

    A volume with a claim needs one change more than its differences from the claim: it must be released.
    """
    reachable_rows = get_listers(trial_node.cycle.view).topology.find_reachable_rows(volume.spec.node_affinity)
    is_reachable = trial_node.row is None or trial_node.row in reachable_rows
    change_count = len(adapt_claim_to_volume(claim, volume).differences)
    if volume.spec.claim_ref is not None:
        change_count += 1
    size = to_billionths(parse_volume_storage(volume))
    return not is_reachable, change_count, size, volume.metadata.name


def _is_volume_available(trial_node: TrialNode, volume: PersistentVolume) -> bool:
    """Return whether no claim uses the volume.

    A volume is available if it was never bound, if its claim is gone or was recreated, or if its phase is Released or
    Failed.
    """
    claim_ref = volume.spec.claim_ref
    if claim_ref is None:
        return volume.status.phase == "Available"
    claim = find_claim(trial_node, f"{claim_ref.namespace}/{claim_ref.name}")
    # A claim with another UID was recreated under the same name.
    is_claim_gone = claim is None or claim_ref.uid not in ("", claim.metadata.uid)
    return is_claim_gone or volume.status.phase in ("Released", "Failed")


def _iter_volume_use_fixes(
    trial_node: TrialNode, claim: PersistentVolumeClaim, volume: PersistentVolume
) -> Iterator[Fix]:
    """Yield the fix that binds a free volume to the claim.

    The claim is recreated if it does not match the volume or already names another one. No fix is needed for a matching
    volume if the claim's class delays binding, since the scheduler then finds the volume.
    """
    adapted_claim, differences = adapt_claim_to_volume(claim, volume)
    # `bind` is None if the class delays binding, so that the scheduler binds the claim.
    bind, volume_edit = build_claim_binding(adapted_claim, volume, get_listers(trial_node.cycle.view))
    if not differences and not claim.spec.volume_name:
        if bind is not None:
            yield _build_volume_binding_fix(claim, volume, _build_binding_edits(claim, volume))
        return

    def change(current: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return the claim reset and adapted to the volume."""
        new_claim = adapt_claim_to_volume(reset_claim(current), volume).claim
        return bind(new_claim) if bind else new_claim

    name = volume.metadata.name
    # If the scheduler binds the claim, it may choose another volume like this one
    text = f" for volume {name}" if bind else f", so that it matches free volumes such as {name}"
    if differences:
        text += f": {', '.join(differences)}"
    cost = OTHER_VOLUME + COST_PER_DIFFERENCE * len(differences)
    if get_volume_class(volume) != get_claim_class(claim):
        cost += OTHER_CLASS_SURCHARGE
    extra_edits = (volume_edit,) if bind else ()
    yield from iter_claim_recreation_fixes(
        trial_node,
        FixKind.OTHER_VOLUME,
        claim,
        change,
        text=text,
        can_be_joined=bind is not None,
        cost=cost,
        target=name,
        extra_edits=extra_edits,
        where=name,
        volume_to_find=None if bind else volume,
    )


def _build_binding_edits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> tuple[ObjectEdit, ...]:
    """Return the edits that bind the claim to the volume and the volume to the claim."""
    name = volume.metadata.name
    return (
        ObjectEdit(ObjectKey.of(claim), lambda current: bind_claim(current, name)),
        ObjectEdit(ObjectKey.of(volume), lambda current: bind_volume(current, claim)),
    )


def _build_volume_binding_fix(
    claim: PersistentVolumeClaim, volume: PersistentVolume, edits: tuple[ObjectEdit, ...]
) -> Fix:
    """Build the fix that reserves a free volume for the claim, by setting the volume's claimRef."""
    name, meta = volume.metadata.name, claim.metadata
    reference = {"spec": {"claimRef": {"namespace": meta.namespace, "name": meta.name}}}
    commands = (kubectl.render_patch(ObjectKey.of(volume), reference),)
    text = f"bind volume {name} to claim {format_claim_key(claim)}"
    return Fix(
        kind=FixKind.BIND_VOLUME,
        target=(name, format_claim_key(claim)),
        text=text,
        by="operator",
        edits=edits,
        cost=RELEASE,
        commands=commands,
        variant_of=format_claim_key(claim),
        where=name,
    )


def _build_volume_reservation_fix(trial_node: TrialNode, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Fix:
    """Build the fix that reserves a released volume for this claim.

    The volume belonged to a deleted claim, whose data this claim gets. If the deleted claim had the same name, this
    claim is its successor, and nothing is lost.
    """
    key = ObjectKey.of(volume)
    name = volume.metadata.name
    claim_key_text = format_claim_key(claim)
    claim_ref = volume.spec.claim_ref
    old_claim_key = f"{claim_ref.namespace}/{claim_ref.name}" if claim_ref else ""

    # If the class delays binding, `bind` is None: the volume is only reserved, and the scheduler binds the claim.
    bind, volume_edit = build_claim_binding(claim, volume, get_listers(trial_node.cycle.view))
    retain_commands, retain_edits = plan_volume_retention(volume)
    if bind is None:
        edits = (*retain_edits, ObjectEdit(key, _build_reservation_change(claim)))
    else:
        edits = (*retain_edits, ObjectEdit(ObjectKey.of(claim), bind), volume_edit)

    reference = {
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": None,
        "resourceVersion": None,
    }
    commands = (*retain_commands, kubectl.render_patch(key, {"spec": {"claimRef": reference}}))
    price: Price | None
    if old_claim_key == claim_key_text:
        text = f"give claim {claim_key_text} back volume {name}, which it had before it was recreated"
        weakens = ""
        price = Price.ROOM
    else:
        text = f"reserve volume {name}, whose claim {old_claim_key} is gone, for claim {claim_key_text}"
        weakens = f"the data of claim {old_claim_key} on volume {name} are handed over and may be overwritten"
        price = None  # that of the kind of fix
    return Fix(
        kind=FixKind.RELEASE_VOLUME,
        target=(name, claim_key_text),
        text=text,
        by="operator",
        edits=edits,
        cost=RELEASE,
        weakens=weakens,
        commands=commands,
        variant_of=claim_key_text,
        where=name,
        price=price,
    )


def _build_reservation_change(claim: PersistentVolumeClaim) -> Callable[[PersistentVolume], PersistentVolume]:
    """Return a function that reserves a volume for the claim and marks the volume as available."""
    reference = TypedObjectReference(name=claim.metadata.name, namespace=claim.metadata.namespace)

    def change(volume: PersistentVolume) -> PersistentVolume:
        """Return the volume with the reservation."""
        return replace(volume, spec=replace(volume.spec, claim_ref=reference), status=PhaseStatus("Available"))

    return change


# -- classes ---------------------------------------------------------------------------------------------------------


def _iter_other_class_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that recreate the claim with another class. That class provisions volumes where the pod is placed.

    At most `MOST_CLASSES` classes are proposed. The fixes count as corrections if the claim's current class does not
    exist.
    """
    storage = get_listers(trial_node.cycle.view)
    own_class = get_claim_class(claim)
    is_missing = bool(own_class) and own_class not in storage.classes
    provisioning_classes = [
        name
        for name, class_ in sorted(storage.classes.items())
        if _provisions_volumes(class_) and has_delayed_binding(name, storage)
    ]
    other_classes = [name for name in provisioning_classes if name != own_class]
    for name in other_classes[:MOST_CLASSES]:
        text = f" with class {name} instead of {own_class or 'none'}"
        if is_missing:
            text += ", which does not exist"
        for fix in iter_claim_recreation_fixes(
            trial_node,
            FixKind.OTHER_STORAGE_CLASS,
            claim,
            _build_class_change(name),
            text=text,
            cost=OTHER_CLASS,
            target=name,
            where=name,
        ):
            is_correction = is_missing and fix.price is None
            yield copy_with(fix, price=Price.CORRECTION) if is_correction else fix


def _build_class_change(name: str) -> ClaimChange:
    """Return a function that sets a claim's StorageClass, and resets the claim so that it is bound again."""
    return lambda current: with_class(reset_claim(current), name)


def _provisions_volumes(class_: StorageClass) -> bool:
    """Return whether the StorageClass has a provisioner, so that volumes are created for its claims."""
    return class_.provisioner not in ("", NO_PROVISIONER)


def _iter_immediate_claim_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes for an unbound claim with immediate binding.

    If the claim names a volume that is free or reserved for it, the fix binds the two. If its class is missing, the
    class is created or corrected. If its class provisions volumes, one fix waits for the provisioner, and another makes
    the class delay binding.
    """
    name = get_claim_class(claim)
    volume = get_listers(trial_node.cycle.view).volumes.get(claim.spec.volume_name)
    class_ = get_listers(trial_node.cycle.view).classes.get(name)
    if volume is not None and (volume.spec.claim_ref is None or is_reserved_for(volume, claim)):
        yield _build_volume_binding_fix(claim, volume, _build_binding_edits(claim, volume))
    elif class_ is None:
        yield from missing_objects.iter_missing_storage_class_fixes(trial_node, claim)
    elif _provisions_volumes(class_) and class_.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        yield new_volumes.build_provisioner_wait_fix(trial_node, claim)
        text = f"recreate StorageClass {name} with volumeBindingMode WaitForFirstConsumer"
        yield _build_class_recreation_fix(FixKind.WAIT_FOR_FIRST_CONSUMER, class_, text, _delay_binding, WAIT)


def _delay_binding(class_: StorageClass) -> StorageClass:
    """Return the class with binding mode WaitForFirstConsumer."""
    return replace(class_, volume_binding_mode=WAIT_FOR_FIRST_CONSUMER)


def _build_class_recreation_fix(
    kind: FixKind, class_: StorageClass, text: str, change: Callable[[StorageClass], StorageClass], cost: int
) -> Fix:
    """Build the fix that deletes a StorageClass and creates it with a change, since its fields are immutable.

    `text` describes the fix, and `cost` ranks it.
    """
    key = ObjectKey.of(class_)
    commands = (kubectl.render_recreate(key, class_, change(class_)),)
    return Fix(
        kind=kind,
        target=class_.metadata.name,
        text=text,
        by="operator",
        edits=(ObjectEdit(key, change),),
        cost=cost,
        commands=commands,
    )


# -- claims that wait for the pod ------------------------------------------------------------------------------------


def _iter_provisioning_fixes(
    trial_node: TrialNode, claim: PersistentVolumeClaim, rejection: NodeRejection
) -> Iterator[Fix]:
    """Yield fixes for a claim whose volume cannot be provisioned for the node.

    Another node may have been selected for the claim, its class may not allow the node's topology, or the driver's
    storage capacity may not be enough. There are no fixes for other rejections. The selected node stays selected if the
    volume is provisioned for another pod that has a node.
    """
    match rejection.fact:
        case ProvisionedElsewhere(node=node):
            if not _has_placed_user(trial_node, claim):
                yield _build_selected_node_removal_fix(claim, node)
        case NoVolume(provisions=True):
            class_ = get_listers(trial_node.cycle.view).classes.get(get_claim_class(claim))
            if class_ is not None:
                yield _build_allowed_topology_fix(trial_node, class_)
        case NotEnoughStorage() as fact:
            yield from new_volumes.iter_fixes_ignoring_capacity(trial_node, fact)
            yield new_volumes.build_storage_capacity_fix(trial_node, claim, fact)
            if fact.largest:
                size = fact.largest_size
                text = f" with {size} instead of {fact.size}"
                yield from iter_claim_recreation_fixes(
                    trial_node,
                    FixKind.SMALLER_CLAIM,
                    claim,
                    _build_size_change(size),
                    text=text,
                    cost=OTHER_VOLUME,
                    target=size,
                )


def _has_placed_user(trial_node: TrialNode, claim: PersistentVolumeClaim) -> bool:
    """Return whether a pod that has a node in the replay uses the claim."""
    view = trial_node.cycle.view
    name, namespace = claim.metadata.name, claim.metadata.namespace
    may_use_claim = view.pods.where(lambda info: info.namespace == namespace)[view.pods.info]
    users = (
        position
        for position in map(Position, np.flatnonzero(may_use_claim).tolist())
        if any(volume.claim_name == name for volume in iter_claim_volumes(view.pods.objects[position]))
    )
    return any(view.has_node(position) for position in users)


def _build_size_change(size: str) -> ClaimChange:
    """Return a function that sets a claim's size, and resets the claim so that it is bound again."""
    return lambda current: with_size(reset_claim(current), size)


def _build_selected_node_removal_fix(claim: PersistentVolumeClaim, node: str) -> Fix:
    """Build the fix that removes the annotation that selects `node` for provisioning the claim's volume."""

    def change(current: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return the claim without the annotation."""
        annotations = {key: value for key, value in current.metadata.annotations.items() if key != SELECTED_NODE}
        return replace(current, metadata=replace(current.metadata, annotations=annotations))

    key = ObjectKey.of(claim)
    text = f"do not provision the volume of claim {format_claim_key(claim)} for node {node}"
    commands = (kubectl.render_annotate(key, f"{SELECTED_NODE}-"),)
    return Fix(
        kind=FixKind.FORGET_SELECTED_NODE,
        target=key,
        text=text,
        by="operator",
        edits=(ObjectEdit(key, change),),
        cost=FORGET_NODE,
        commands=commands,
    )


def _build_allowed_topology_fix(trial_node: TrialNode, class_: StorageClass) -> Fix:
    """Build the fix that adds the node's topology to the topologies that the class allows.

    If the node lacks one of the labels by which the class restricts topologies, the class allows all nodes instead.
    """
    labels = trial_node.cycle.view.nodes.objects[trial_node.known_row].metadata.labels
    first_requirements = class_.allowed_topologies[0].match_label_expressions if class_.allowed_topologies else ()
    node_requirements = tuple(
        replace(requirement, values=(labels[requirement.key],))
        for requirement in first_requirements
        if requirement.key in labels
    )
    is_complete = bool(node_requirements) and len(node_requirements) == len(first_requirements)
    terms: tuple[TopologySelectorTerm, ...]
    if is_complete:
        terms = (*class_.allowed_topologies, TopologySelectorTerm(node_requirements))
        where = ", ".join(f"{requirement.key}={requirement.values[0]}" for requirement in node_requirements)
    else:
        terms = ()
        where = "every node"
    text = f"recreate StorageClass {class_.metadata.name}, so that its volumes are also provisioned for {where}"
    return _build_class_recreation_fix(
        FixKind.ALLOW_TOPOLOGY,
        class_,
        text,
        change=lambda storage_class: replace(storage_class, allowed_topologies=terms),
        cost=TOPOLOGY,
    )


def _iter_claim_columns(cycle: Cycle) -> Iterator[Ints]:
    """Yield columns (N,) of values that differ between nodes if their conflicts with the pod's claims differ.

    Further columns say for each claim whether it finds a volume. There are no columns if VolumeBinding has no state in
    this cycle.
    """
    state = cycle.pre_filter.find_state(VolumeBinding)
    if state is None:
        return
    volumes = state.volumes
    yield from (volumes.node_conflict, volumes.bind_conflict, volumes.not_enough_space, volumes.missing)
    for binding in volumes.bindings:
        yield (binding.chosen >= 0).astype(np.int32)


REMEDIES = {
    VolumeBinding: PluginRemedies((iter_volume_claim_fixes,), clears_with="volume", columns=_iter_claim_columns),
    VolumeZone: PluginRemedies((iter_volume_claim_fixes,), clears_with="volume"),
}
