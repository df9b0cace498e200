"""Helpers for fixes that change, recreate or delete PersistentVolumeClaims without losing their data.

Most of these fixes recreate a claim, because most of its fields are immutable. A claim used by a pod on a node stays in
Terminating until that pod is gone, so it is not deleted. For other claims, the volume's reclaim policy is set to Retain
first. Reference: Persistent Volumes, "Reclaiming" and "Storage Object in Use Protection"; Change the Reclaim Policy of
a PersistentVolume (k8s.io/docs).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.labels import SelectorError, selector_from_api
from kschedctl.api.objects import EphemeralVolumeSource, PersistentVolume, PersistentVolumeClaim, PhaseStatus, Pod
from kschedctl.api.ownership import find_controller, find_owner
from kschedctl.fixes.trial.changes import ClaimRecreation, Fix, ObjectEdit, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.plugins.helper.volume_listers import (
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
BINDING_ANNOTATIONS = (BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE)
"""The annotations that the binding of a claim leaves on it."""
ClaimChange = Callable[[PersistentVolumeClaim], PersistentVolumeClaim]
"""Maps a claim to the changed claim."""


class PodClaim(NamedTuple):
    """A volume of the pod that refers to a PersistentVolumeClaim."""

    volume_name: str
    """The name of the volume in the pod."""
    claim_name: str
    ephemeral: bool
    """True if the claim is created for the pod from an ephemeral volume."""
    claim: PersistentVolumeClaim | None
    """The claim, or None if it does not exist."""


def iter_pod_claims(trial_node: TrialNode) -> Iterator[PodClaim]:
    """Yield a PodClaim for each volume of the target pod that refers to a claim, in the order of the volumes."""
    pod = trial_node.trial.pod
    claims = get_listers(trial_node.cycle.view).claims
    for volume, name, ephemeral in iter_claim_volumes(pod):
        yield PodClaim(volume.name, name, ephemeral, claims.get((pod.metadata.namespace, name)))


def find_claim(trial_node: TrialNode, key: str) -> PersistentVolumeClaim | None:
    """Return the PersistentVolumeClaim with the key ``namespace/name``, or None if it does not exist."""
    namespace, _, name = key.partition("/")
    return get_listers(trial_node.cycle.view).claims.get((namespace, name))


def reset_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim as if it were new: pending, unbound, and without a UID.

    Reserved volumes refer to the old UID.
    """
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key not in BINDING_ANNOTATIONS}
    meta = replace(claim.metadata, uid="", annotations=annotations, deletion_timestamp=None)
    return replace(claim, metadata=meta, spec=replace(claim.spec, volume_name=""), status=PhaseStatus("Pending"))


def has_delayed_binding(class_name: str, storage: Listers) -> bool:
    """Return whether the class binds a claim only after a pod that uses it was scheduled.

    Return False for an unknown class.
    """
    storage_class = storage.classes.get(class_name)
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def with_class(claim: PersistentVolumeClaim, class_name: str) -> PersistentVolumeClaim:
    """Return the claim with another StorageClass in its spec, and without the old annotation for the class."""
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key != BETA_STORAGE_CLASS}
    spec = replace(claim.spec, storage_class_name=class_name)
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations), spec=spec)


def with_size(claim: PersistentVolumeClaim, size: str) -> PersistentVolumeClaim:
    """Return the claim with another requested size."""
    resources = replace(claim.spec.resources, requests={**claim.spec.resources.requests, "storage": size})
    return replace(claim, spec=replace(claim.spec, resources=resources))


class AdaptedClaim(NamedTuple):
    """A claim that was changed so that a volume satisfies it."""

    claim: PersistentVolumeClaim
    differences: tuple[str, ...]
    """A description of each change."""


def adapt_claim_to_volume(claim: PersistentVolumeClaim, volume: PersistentVolume) -> AdaptedClaim:
    """Return the claim, changed so that the volume satisfies it, and a description of each change."""
    adapted = claim
    differences = []
    class_name = get_volume_class(volume)
    size = claim.spec.resources.requests.get("storage")

    # Class and size
    if get_claim_class(claim) != class_name:
        adapted = with_class(adapted, class_name)
        differences.append(f"class {class_name}" if class_name else "no class")
    if to_billionths(parse_volume_storage(volume)) < to_billionths(parse_requested_storage(claim)):
        volume_size = str(volume.spec.capacity.get("storage", "0"))
        adapted = with_size(adapted, volume_size)
        differences.append(f"{volume_size} instead of {size}")

    # Access modes, volume mode, selector and VolumeAttributesClass
    spec = adapted.spec
    volume_modes = volume.spec.access_modes
    if not set(spec.access_modes) <= set(volume_modes):
        common_modes = tuple(mode for mode in spec.access_modes if mode in volume_modes)
        spec = replace(spec, access_modes=common_modes or volume_modes)
        differences.append(f"{'+'.join(spec.access_modes)} instead of {'+'.join(claim.spec.access_modes)}")
    if (spec.volume_mode or "Filesystem") != (volume.spec.volume_mode or "Filesystem"):
        spec = replace(spec, volume_mode=volume.spec.volume_mode)
        differences.append(f"volumeMode {volume.spec.volume_mode or 'Filesystem'}")
    if not _matches_claim_selector(claim, volume):
        spec = replace(spec, selector=None)
        differences.append("no selector")
    if (spec.volume_attributes_class_name or "") != (volume.spec.volume_attributes_class_name or ""):
        spec = replace(spec, volume_attributes_class_name=volume.spec.volume_attributes_class_name)
        differences.append(f"VolumeAttributesClass {volume.spec.volume_attributes_class_name or 'none'}")
    return AdaptedClaim(replace(adapted, spec=spec), tuple(differences))


def describe_lost_storage(claim: PersistentVolumeClaim, new_claim: PersistentVolumeClaim) -> str:
    """Say what share of the requested storage the new claim provides, or return "" if it provides all of it."""
    requested, remaining = (to_billionths(parse_requested_storage(version)) for version in (claim, new_claim))
    if remaining >= requested:
        return ""
    percent = 100 * remaining // requested
    share = f"{percent}%" if percent else "less than 1%"
    return f"the pod gets only {share} of the storage that it requests"


def _matches_claim_selector(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return whether the volume matches the claim's selector, if any. An invalid selector matches no volume."""
    if claim.spec.selector is None:
        return True
    try:
        selector = selector_from_api(claim.spec.selector)
    except SelectorError:
        return False
    return selector.matches(volume.metadata.labels)


def build_claim_binding(
    claim: PersistentVolumeClaim, volume: PersistentVolume, storage: Listers
) -> tuple[ClaimChange | None, ObjectEdit]:
    """Return the change of the claim and the edit of the volume that bind them to each other.

    If the claim's class delays binding, there is no change of the claim (None) and the edit only makes the volume
    available. The scheduler then binds them.
    """

    def make_volume_available(existing: PersistentVolume | None) -> PersistentVolume:
        """Return the volume, which may not exist yet, without its reservation."""
        base_volume = existing or volume
        return replace(base_volume, spec=replace(base_volume.spec, claim_ref=None), status=PhaseStatus("Available"))

    def bind_to_claim(existing: PersistentVolume | None) -> PersistentVolume:
        """Return the volume bound to the claim."""
        return bind_volume(make_volume_available(existing), claim)

    def bind_to_volume(existing: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return the claim bound to the volume."""
        return bind_claim(existing, volume.metadata.name)

    key = ObjectKey.of(volume)
    if has_delayed_binding(get_claim_class(claim), storage):
        return None, ObjectEdit(key, make_volume_available)
    return bind_to_volume, ObjectEdit(key, bind_to_claim)


def iter_claim_recreation_fixes(
    trial_node: TrialNode,
    kind: FixKind,
    claim: PersistentVolumeClaim,
    change: ClaimChange,
    *,
    text: str,
    can_be_joined: bool = True,
    cost: int,
    target: Hashable = "",
    extra_edits: Sequence[ObjectEdit] = (),
    where: str = "",
    volume_to_find: PersistentVolume | None = None,
) -> Iterator[Fix]:
    """Yield the fix that deletes a claim and creates it again with the change, unless a running pod uses the claim.

    The spec of a StatefulSet's claim cannot be changed, because the StatefulSet creates the claim from its template. If
    the claim belongs to an ephemeral volume, the pod's template is changed as well.

    `text` continues the sentence "recreate claim …". `can_be_joined` is False for a clause after a comma, which cannot
    be joined with other changes by "and". With `where`, fixes of the same claim count as variants.
    `volume_to_find` is the volume that the text names and that the fix leaves to the scheduler.
    """
    pod = trial_node.trial.pod
    new_claim = change(claim)
    deletion = plan_claim_deletion(trial_node, claim)
    is_ephemeral = find_controller(claim.metadata) is not None
    is_in_stateful_set = is_from_claim_template(pod, claim)
    keeps_spec = reset_claim(new_claim).spec == reset_claim(claim).spec
    if deletion is None or (is_in_stateful_set and not keeps_spec):
        return

    smaller = describe_lost_storage(claim, new_claim)
    recreation: ClaimRecreation | None = None
    edits = (*deletion.edits, ObjectEdit(ObjectKey.of(claim), change), *extra_edits)
    if is_ephemeral and not keeps_spec:
        # The claim is created again with the pod, whose template changes.
        commands = deletion.preparation
        change_template = _build_ephemeral_spec_change(claim.metadata.name, reset_claim(new_claim))
        edits = (*edits, *build_pod_edits(pod, change_template))
    elif is_ephemeral or is_in_stateful_set:
        commands = deletion.commands  # a controller creates the claim again
    else:
        commands = (*deletion.preparation, render_volume_claim_recreation(claim, build_claim_to_apply(new_claim)))
        recreation = ClaimRecreation(ObjectKey.of(claim), deletion.preparation, text, can_be_joined)

    name = format_claim_key(claim)
    yield Fix(
        kind=kind,
        target=(name, target),
        text=f"recreate claim {name}{text}",
        by="author",
        edits=edits,
        cost=cost,
        weakens="; ".join(filter(None, (deletion.weakens, smaller))),
        commands=commands,
        variant_of=name if where else None,
        where=where,
        price=Price.GUARANTEE if smaller and deletion.price is None else deletion.price,
        recreation=recreation,
        volume_to_find=volume_to_find,
    )


def render_volume_claim_recreation(claim: PersistentVolumeClaim, new_claim: PersistentVolumeClaim) -> str:
    """Return the command that deletes the claim and creates it as `new_claim`.

    The command reads the claim from the cluster and patches it. This keeps fields that kschedctl does not know, such as
    the data source. A claim that is being deleted may be gone by then, so the command for it contains the whole claim.
    """
    key = ObjectKey.of(claim)
    if claim.metadata.deletion_timestamp is not None:
        return kubectl.render_forced_replace(key, new_claim)
    return kubectl.render_recreate(key, claim, new_claim)


def iter_deleted_claim_fixes(trial_node: TrialNode, claim: PersistentVolumeClaim, cost: int) -> Iterator[Fix]:
    """Yield the fix that recreates a claim that is being deleted, bound to the same volume.

    The volume is retained, and then its reference to the old claim's UID is cleared. There is no fix if the volume is
    gone, if a running pod uses the claim, or if a controller creates the claim. `cost` ranks the fix. Reference:
    Persistent Volumes, "Reserving a PersistentVolume" (k8s.io/docs).
    """
    name = claim.spec.volume_name
    volume = get_listers(trial_node.cycle.view).volumes.get(name)
    deletion = plan_claim_deletion(trial_node, claim)
    if volume is None or deletion is None:
        return
    if find_controller(claim.metadata) or is_from_claim_template(trial_node.trial.pod, claim):
        return

    def build_new_claim(current: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Return the claim reset and bound to its volume."""
        return bind_claim(reset_claim(current), name)

    key, volume_key = ObjectKey.of(claim), ObjectKey.of(volume)
    edits = (
        *deletion.edits,
        ObjectEdit(key, build_new_claim),
        ObjectEdit(volume_key, lambda current: bind_volume(current, build_new_claim(claim))),
    )
    clear_reservation = kubectl.render_patch(volume_key, {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}})
    recreate_command = kubectl.render_forced_replace(key, build_claim_to_apply(claim))
    commands = (*deletion.preparation, recreate_command, clear_reservation)
    text = f"recreate claim {format_claim_key(claim)}, which is being deleted, for volume {name}, which holds its data"
    yield Fix(
        kind=FixKind.REMAKE_CLAIM,
        target=(key, name),
        text=text,
        by="author",
        edits=edits,
        cost=cost,
        commands=commands,
        price=Price.ROOM,
    )


def _build_ephemeral_spec_change(claim_name: str, claim: PersistentVolumeClaim) -> Callable[[Pod], Pod]:
    """Return a function that gives a pod's ephemeral volume the spec of `claim`. `claim_name` identifies the volume."""

    def change(pod: Pod) -> Pod:
        """Return the pod with the changed volume."""
        volumes = tuple(
            replace(volume, ephemeral=_replace_claim_template_spec(volume.ephemeral, claim))
            if volume.ephemeral and f"{pod.metadata.name}-{volume.name}" == claim_name
            else volume
            for volume in pod.spec.volumes
        )
        return replace(pod, spec=replace(pod.spec, volumes=volumes))

    return change


def _replace_claim_template_spec(source: EphemeralVolumeSource, claim: PersistentVolumeClaim) -> EphemeralVolumeSource:
    """Return the ephemeral volume source with the claim's spec in its template, or as it is if it has no template."""
    template = source.volume_claim_template
    if template is None:
        return source
    return replace(source, volume_claim_template=replace(template, spec=claim.spec))


def build_claim_to_apply(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim as it is to be created: reset as if it were new, but still naming its volume."""
    return replace(reset_claim(claim), spec=claim.spec)


RETAIN = "Retain"


class Deletion(NamedTuple):
    """The steps that delete a claim but keep its data."""

    commands: tuple[str, ...]
    """The commands in order, the last of which deletes the claim."""
    edits: tuple[ObjectEdit, ...] = ()
    """The edits of other objects."""
    weakens: str = ""
    """The data that the new claim lacks and where they stay, as a clause; empty if there are none."""
    price: Price | None = None
    """The price of that loss; None if nothing is lost."""

    @property
    def preparation(self) -> tuple[str, ...]:
        """The commands to run before the claim is deleted."""
        return self.commands[:-1]


def plan_claim_deletion(trial_node: TrialNode, claim: PersistentVolumeClaim) -> Deletion | None:
    """Return the steps to delete the claim but keep its data, or None if a running pod uses the claim.

    The reclaim policy of a bound volume is set to Retain first. The loss says which volume keeps the data. If that
    volume was not read, only the claim is deleted.
    """
    if is_claim_in_use(trial_node, claim):
        return None
    delete_command = kubectl.render_delete(ObjectKey.of(claim))
    name = claim.spec.volume_name
    if not name:
        return Deletion((delete_command,))
    volume = get_listers(trial_node.cycle.view).volumes.get(name)
    if volume is None:
        loss = f"no record remains that the data of claim {format_claim_key(claim)} are on volume {name}"
        return Deletion((delete_command,), weakens=loss, price=Price.LOSS)
    commands, edits = plan_volume_retention(volume)
    loss = f"the pod starts without the data of claim {format_claim_key(claim)}, which stays on volume {name}"
    policy = volume.spec.persistent_volume_reclaim_policy
    if policy == RETAIN:
        policy_text = f"reclaim policy {RETAIN}"
    else:
        policy_text = f"reclaim policy {policy or 'unknown'}, so set it to {RETAIN} first"
    return Deletion((*commands, delete_command), edits, weakens=f"{loss} ({policy_text})", price=Price.LOSS)


def plan_volume_retention(volume: PersistentVolume) -> tuple[tuple[str, ...], tuple[ObjectEdit, ...]]:
    """Return the commands and edits that set a volume's reclaim policy to Retain, so that its data outlive its claim.

    Both are empty if the policy is Retain already.
    """
    if volume.spec.persistent_volume_reclaim_policy == RETAIN:
        return (), ()
    key = ObjectKey.of(volume)
    command = kubectl.render_patch(key, {"spec": {"persistentVolumeReclaimPolicy": RETAIN}})
    return (command,), (ObjectEdit(key, _with_retain_policy),)


def _with_retain_policy(volume: PersistentVolume) -> PersistentVolume:
    """Return the volume with reclaim policy Retain."""
    return replace(volume, spec=replace(volume.spec, persistent_volume_reclaim_policy=RETAIN))


def is_claim_in_use(trial_node: TrialNode, claim: PersistentVolumeClaim) -> bool:
    """Return whether a pod on a node uses the claim, which protects the claim from deletion.

    Pods that the trial deletes do not count.
    """
    pods = trial_node.trial.scheduler.cluster.pods
    name = claim.metadata.name
    namespace = claim.metadata.namespace
    deleted_keys = {key for key, edit in trial_node.trial.edits.items() if edit.after is None}

    def may_use(template: Pod) -> bool:
        """Return whether pods of the template may use the claim."""
        return template.metadata.namespace == namespace and any(iter_claim_volumes(template))

    def uses_claim(pod: Pod) -> bool:
        """Return whether the pod is on a node and uses the claim."""
        is_on_node = bool(pod.spec.node_name) and ObjectKey.of(pod) not in deleted_keys
        return is_on_node and any(volume.claim_name == name for volume in iter_claim_volumes(pod))

    return any(uses_claim(pods[row]) for row in pods.find_rows(may_use).tolist())


def is_from_claim_template(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Return whether the pod's StatefulSet creates the claim from one of its claim templates, judging by its name."""
    return find_owner(pod).kind == "StatefulSet" and claim.metadata.name.endswith(f"-{pod.metadata.name}")
