"""Fixes for claims whose volume is missing or out of the node's reach: other volumes, new ones, or another class."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints
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
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.fixes.ways import missing_objects, new_volumes, storage_pools
from kschedctl.fixes.ways.claims import (
    ClaimChange,
    adapt_to_volume,
    build_binding,
    find_claim,
    has_delayed_binding,
    iter_pod_claims,
    recreate_claim,
    reset_claim,
    with_class,
    with_size,
)
from kschedctl.fixes.ways.deleted_claims import retain_volume
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    format_claim_key,
    get_claim_class,
    get_listers,
    get_volume_class,
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
OF_ANOTHER_CLASS = 4
"""Added to the cost of a volume of another class, so that a class that makes a volume for the claim comes first."""
MOST_VOLUMES, MOST_CLASSES = 6, 5


def fix_claims(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes for the claim for which VolumeBinding or VolumeZone rejects the node or the pod."""
    match refusal.fact:
        case ClaimsUnbound(claims=(first, *_)):
            claim = find_claim(tried, first.claim)
            if claim is not None:
                yield from _fix_immediate_claim(tried, claim)
                yield from other_storage(tried, claim)
        case NoVolume(claim=name) | NotEnoughStorage(claim=name) | ProvisionedElsewhere(claim=name):
            claim = find_claim(tried, name)
            if claim is not None:
                yield from _fix_provisioning(tried, claim, refusal)
                yield from other_storage(tried, claim)
        case VolumeMissing(claim=name):
            claim = find_claim(tried, name)
            if claim is not None:
                yield from other_storage(tried, claim)
        case VolumeOutOfReach(claim=name) | VolumeInOtherZone(claim=name):
            claim = find_claim(tried, name)
            if claim is not None:
                yield from other_storage(tried, claim)
        case None:
            yield from missing_objects.fix_claims(tried)
            for claim in _find_lost_claims(tried)[:1]:
                yield from other_storage(tried, claim)


def other_storage(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """A claim's other volumes and classes, and new volumes: with the volume that it has, what is on it is given up."""
    if claim.spec.volume_name and has_delayed_binding(get_claim_class(claim), get_listers(tried.cycle.view)):
        text = ", so that a volume is found or made where the pod goes"
        yield from recreate_claim(tried, FixKind.REMAKE_CLAIM, claim, reset_claim, text=text, cost=OTHER_VOLUME)
    yield from _use_other_volumes(tried, claim)
    yield from _use_other_classes(tried, claim)
    yield from new_volumes.create_volume(tried, claim)


def _find_lost_claims(tried: TriedNode) -> list[PersistentVolumeClaim]:
    """Return the pod's claims that are bound to volumes that do not exist."""
    known = get_listers(tried.cycle.view).volumes
    claims = [
        pod_claim.claim
        for pod_claim in iter_pod_claims(tried)
        if pod_claim.claim is not None and pod_claim.claim.spec.volume_name
    ]
    return [claim for claim in claims if claim.spec.volume_name not in known]


# -- volumes that are there ------------------------------------------------------------------------------------------


def _use_other_volumes(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes that use free or released volumes, the most similar first."""
    for volume in _rank_volumes(tried, claim):
        if volume.spec.claim_ref is None:
            yield from _use_volume(tried, claim, volume)
        elif get_volume_class(volume) == get_claim_class(claim):
            yield _release_volume(tried, claim, volume)


def _rank_volumes(tried: TriedNode, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
    """Return available volumes: reachable ones first, then those with the fewest differences, then the smallest."""
    storage = get_listers(tried.cycle.view)
    ranked = []
    for volume in storage.volumes.values():
        if volume.metadata.deletion_timestamp is not None or not _is_available(tried, volume):
            continue
        rows = storage.topology.find_reachable_rows(volume.spec.node_affinity)
        near = tried.row is None or tried.row in rows
        differences = len(adapt_to_volume(claim, volume)[1]) + (volume.spec.claim_ref is not None)
        ranked.append(
            (not near, differences, to_billionths(parse_volume_storage(volume)), volume.metadata.name, volume)
        )
    return [ranked_volume[-1] for ranked_volume in sorted(ranked)[:MOST_VOLUMES]]


def _is_available(tried: TriedNode, volume: PersistentVolume) -> bool:
    """Return whether the volume is free, or its claim is gone."""
    holder = volume.spec.claim_ref
    if holder is None:
        return volume.status.phase == "Available"
    claim = find_claim(tried, f"{holder.namespace}/{holder.name}")
    gone = claim is None or (bool(holder.uid) and holder.uid != claim.metadata.uid)
    return gone or volume.status.phase in ("Released", "Failed")


def _use_volume(tried: TriedNode, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Iterator[Fix]:
    """Yield the fix that recreates the claim to match the volume, or binds the volume to it."""
    fitting, differences = adapt_to_volume(claim, volume)
    bind, taken = build_binding(fitting, volume, get_listers(tried.cycle.view))
    if not differences and not claim.spec.volume_name:
        if bind is not None:
            yield _bind_volume(claim, volume, _binding(claim, volume))
        return

    def change(known: PersistentVolumeClaim) -> PersistentVolumeClaim:
        new = adapt_to_volume(reset_claim(known), volume)[0]
        return bind(new) if bind else new

    text = f" for volume {volume.metadata.name}{': ' * bool(differences)}{', '.join(differences)}"
    cost = (
        OTHER_VOLUME
        + 2 * len(differences)
        + (OF_ANOTHER_CLASS if get_volume_class(volume) != get_claim_class(claim) else 0)
    )
    more, name = (taken,) if bind else (), volume.metadata.name
    yield from recreate_claim(
        tried, FixKind.OTHER_VOLUME, claim, change, text=text, cost=cost, target=name, more_edits=more, where=name
    )


def _binding(claim: PersistentVolumeClaim, volume: PersistentVolume) -> tuple[ObjectEdit, ...]:
    name = volume.metadata.name
    return (
        ObjectEdit(ObjectKey.of(claim), lambda known: bind_claim(known, name)),
        ObjectEdit(ObjectKey.of(volume), lambda known: bind_volume(known, claim)),
    )


def _bind_volume(claim: PersistentVolumeClaim, volume: PersistentVolume, edits: tuple[ObjectEdit, ...]) -> Fix:
    """Build the fix that reserves a suitable free volume for the claim."""
    name, meta = volume.metadata.name, claim.metadata
    reference = {"spec": {"claimRef": {"namespace": meta.namespace, "name": meta.name}}}
    commands = (kubectl.render_patch(ObjectKey.of(volume), reference),)
    text = f"bind volume {name} to claim {format_claim_key(claim)}"
    return Fix(
        FixKind.BIND_VOLUME,
        (name, format_claim_key(claim)),
        text,
        "operator",
        edits,
        RELEASE,
        "",
        commands,
        format_claim_key(claim),
        name,
    )


def _release_volume(tried: TriedNode, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Fix:
    """Build the fix that reserves the volume of a deleted claim for this one."""
    key, name, own = ObjectKey.of(volume), volume.metadata.name, format_claim_key(claim)
    before = f"{holder.namespace}/{holder.name}" if (holder := volume.spec.claim_ref) else ""
    bind, taken = build_binding(claim, volume, get_listers(tried.cycle.view))
    kept, edits = retain_volume(volume)
    edits = (
        (*edits, ObjectEdit(ObjectKey.of(claim), bind), taken)
        if bind
        else (*edits, ObjectEdit(key, _reserve_for(claim)))
    )
    reference = {
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": None,
        "resourceVersion": None,
    }
    commands = (*kept, kubectl.render_patch(key, {"spec": {"claimRef": reference}}))
    text = f"release volume {name}, whose claim {before} is gone, for claim {own}"
    weakens, price = f"what claim {before} left on volume {name} is handed over, and may be overwritten", None
    if before == own:
        text, weakens, price = (
            f"give claim {own} back volume {name}, which it had before it was recreated",
            "",
            Price.ROOM,
        )
    return Fix(
        FixKind.RELEASE_VOLUME, (name, own), text, "operator", edits, RELEASE, weakens, commands, own, name, price=price
    )


def _reserve_for(claim: PersistentVolumeClaim) -> Callable[[PersistentVolume], PersistentVolume]:
    """Return a change that reserves the volume for the claim."""
    reference = TypedObjectReference(name=claim.metadata.name, namespace=claim.metadata.namespace)

    def change(volume: PersistentVolume) -> PersistentVolume:
        return replace(volume, spec=replace(volume.spec, claim_ref=reference), status=PhaseStatus("Available"))

    return change


# -- classes ---------------------------------------------------------------------------------------------------------


def _use_other_classes(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield the claim recreated for a class whose volumes are made where the pod goes.

    That is a correction if the claim names a class that does not exist.
    """
    storage = get_listers(tried.cycle.view)
    named = get_claim_class(claim)
    is_missing = bool(named) and named not in storage.classes
    makes = [
        name
        for name, class_ in sorted(storage.classes.items())
        if _makes(class_) and has_delayed_binding(name, storage)
    ]
    for name in [name for name in makes if name != named][:MOST_CLASSES]:
        text = f" with class {name} instead of {named or 'none'}{', which does not exist' * is_missing}"
        for fix in recreate_claim(
            tried,
            FixKind.OTHER_STORAGE_CLASS,
            claim,
            _of_class(name),
            text=text,
            cost=OTHER_CLASS,
            target=name,
            where=name,
        ):
            yield copy_with(fix, price=Price.CORRECTION) if is_missing and fix.price is None else fix


def _of_class(name: str) -> ClaimChange:
    return lambda known: with_class(reset_claim(known), name)


def _makes(class_: StorageClass) -> bool:
    return class_.provisioner not in ("", NO_PROVISIONER)


def _fix_immediate_claim(tried: TriedNode, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Yield fixes for an unbound claim with immediate binding: bind, wait, or change its class."""
    name, volume = get_claim_class(claim), get_listers(tried.cycle.view).volumes.get(claim.spec.volume_name)
    class_ = get_listers(tried.cycle.view).classes.get(name)
    if volume is not None and (volume.spec.claim_ref is None or is_reserved_for(volume, claim)):
        yield _bind_volume(claim, volume, _binding(claim, volume))
    elif class_ is None:
        yield from missing_objects.fix_storage_class(tried, claim)
    elif _makes(class_) and class_.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        yield new_volumes.await_provisioner(tried, claim)
        text = f"recreate StorageClass {name} with volumeBindingMode WaitForFirstConsumer"
        yield _class_anew(FixKind.WAIT_FOR_FIRST_CONSUMER, class_, text, _waiting, WAIT)


def _waiting(class_: StorageClass) -> StorageClass:
    return replace(class_, volume_binding_mode=WAIT_FOR_FIRST_CONSUMER)


def _class_anew(
    kind: FixKind, class_: StorageClass, text: str, change: Callable[[StorageClass], StorageClass], cost: int
) -> Fix:
    """A class in another form: its fields are fixed once it is there."""
    key = ObjectKey.of(class_)
    commands = (kubectl.render_recreate(key, class_, change(class_)),)
    return Fix(kind, class_.metadata.name, text, "operator", (ObjectEdit(key, change),), cost, "", commands)


# -- claims that wait for the pod ------------------------------------------------------------------------------------


def _fix_provisioning(tried: TriedNode, claim: PersistentVolumeClaim, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes for what keeps a volume from being provisioned for the node."""
    match refusal.fact:
        case ProvisionedElsewhere(node=node):
            yield _forget_selected_node(claim, node)
        case NoVolume(provisions=True):
            class_ = get_listers(tried.cycle.view).classes.get(get_claim_class(claim))
            if class_ is not None:
                yield _allow_topology(tried, class_)
        case NotEnoughStorage() as fact:
            yield from storage_pools.ignore_capacity(tried, fact)
            yield storage_pools.add_storage(tried, claim, fact)
            if fact.largest:
                size = fact.largest_size
                text = f" with {size} instead of {fact.size}"
                yield from recreate_claim(
                    tried, FixKind.SMALLER_CLAIM, claim, _of_size(size), text=text, cost=OTHER_VOLUME, target=size
                )


def _of_size(size: str) -> ClaimChange:
    return lambda known: with_size(reset_claim(known), size)


def _forget_selected_node(claim: PersistentVolumeClaim, node: str) -> Fix:
    """Build the fix that removes the claim's selected-node annotation."""

    def change(known: PersistentVolumeClaim) -> PersistentVolumeClaim:
        annotations = {key: value for key, value in known.metadata.annotations.items() if key != SELECTED_NODE}
        return replace(known, metadata=replace(known.metadata, annotations=annotations))

    key = ObjectKey.of(claim)
    text = f"do not have the volume of claim {format_claim_key(claim)} made for node {node}"
    commands = (kubectl.render_annotate(key, f"{SELECTED_NODE}-"),)
    return Fix(
        FixKind.FORGET_SELECTED_NODE, key, text, "operator", (ObjectEdit(key, change),), FORGET_NODE, commands=commands
    )


def _allow_topology(tried: TriedNode, class_: StorageClass) -> Fix:
    """Build the fix that adds the node's topology to those that the class allows."""
    labels = tried.cycle.view.nodes.objects[tried.at].metadata.labels
    first = class_.allowed_topologies[0].match_label_expressions if class_.allowed_topologies else ()
    own = tuple(
        replace(requirement, values=(labels[requirement.key],)) for requirement in first if requirement.key in labels
    )
    known = bool(own) and len(own) == len(first)
    terms = (*class_.allowed_topologies, TopologySelectorTerm(own)) if known else ()
    where = ", ".join(f"{requirement.key}={requirement.values[0]}" for requirement in own) if known else "every node"
    name = class_.metadata.name
    text = f"recreate StorageClass {name}, so that its volumes are made for {where} too"
    return _class_anew(
        FixKind.ALLOW_TOPOLOGY,
        class_,
        text,
        lambda storage_class: replace(storage_class, allowed_topologies=terms),
        TOPOLOGY,
    )


def _columns(cycle: Cycle) -> Iterator[Ints]:
    """Yield (N,) columns: the claims that conflict on each node, and which claims find a volume there."""
    state = cycle.pre_filter.find_state(VolumeBinding)
    if state is None:
        return
    volumes = state.volumes
    yield from (volumes.node_conflict, volumes.bind_conflict, volumes.not_enough_space, volumes.missing)
    yield from ((binding.chosen >= 0).astype(np.int32) for binding in volumes.bindings)


REMEDIES = {
    VolumeBinding: PluginRemedies((fix_claims,), clears_with="volume", columns=_columns),
    VolumeZone: PluginRemedies((fix_claims,), clears_with="volume"),
}
