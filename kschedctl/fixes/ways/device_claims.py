"""Fixes for ResourceClaims of the pod that are missing, being deleted, or owned by another pod."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from difflib import get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ObjectMeta,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    Struct,
)
from kschedctl.api.ownership import find_controller
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.fixes.ways.missing_objects import NAME_CUTOFF, build_owner_reference
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey

CORRECT, GENERATE, CREATE, REMAKE = 10, 15, 20, 30
"""The costs of the fixes."""
MOST_CLASSES = 4
"""The most DeviceClasses that are proposed for a new claim."""
CREATION_KINDS = {
    "ResourceClaim": FixKind.CREATE_RESOURCE_CLAIM,
    "ResourceClaimTemplate": FixKind.CREATE_RESOURCE_CLAIM_TEMPLATE,
}
"""Kind of the created object -> the kind of the fix."""
REQUEST = "devices"
"""The name of the only request of a claim that is created."""
SpecChange = Callable[[DeviceClaim], DeviceClaim]
"""A change of the field `devices` in a claim's spec."""


def iter_resource_claim_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes for the pod's first ResourceClaim that is missing, being deleted, or owned by another pod."""
    for reference in trial_node.trial.pod.spec.resource_claims:
        fixes = list(_iter_claim_reference_fixes(trial_node, reference))
        if fixes:
            yield from fixes
            return


def _iter_claim_reference_fixes(trial_node: TrialNode, reference: PodResourceClaim) -> Iterator[Fix]:
    """Yield fixes for the claim to which one entry of the pod's spec.resourceClaims refers.

    There are none if the claim exists, is not being deleted, and belongs to the pod if it was generated.
    """
    pod = trial_node.trial.pod
    name = find_claim_name(pod, reference)
    template_name = reference.resource_claim_template_name
    if name is None:
        # The controller may have recorded in the pod's status that the reference needs no claim.
        if template_name is not None and not _is_recorded_in_status(pod, reference):
            yield from _iter_claim_generation_fixes(trial_node, reference, template_name)
        return

    claim = find_resource_claim(trial_node, name)
    if claim is None and template_name is not None:  # it was generated, but is gone
        yield from _iter_claim_generation_fixes(trial_node, reference, template_name)
    elif claim is None:
        yield from _iter_missing_claim_fixes(trial_node, reference, name)
    elif claim.metadata.deletion_timestamp is not None:
        text = f"recreate ResourceClaim {_format_claim_key(claim)}, which is being deleted"
        yield from _iter_resource_claim_recreation_fixes(trial_node, claim, text, _reset_claim)
    elif reference.resource_claim_name is None and not _is_owned_by(pod, claim):
        name_text = f"ResourceClaim {_format_claim_key(claim)}"
        text = f"delete {name_text}, which the pod does not own, so that the pod's own claim is created"
        yield from _iter_resource_claim_recreation_fixes(
            trial_node, claim, text, lambda current: _reset_claim(current, pod), price=Price.LOSS
        )


def find_claim_name(pod: Pod, reference: PodResourceClaim) -> str | None:
    """Return the name of the claim to which the reference refers.

    Return None if a claim generated from a template is not recorded in the pod's status, or is recorded as not needed.
    """
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    matching_statuses = (status for status in pod.status.resource_claim_statuses if status.name == reference.name)
    return next((status.resource_claim_name for status in matching_statuses), None)


def _is_recorded_in_status(pod: Pod, reference: PodResourceClaim) -> bool:
    """Return whether the pod's status has an entry for the reference, even one without a claim."""
    return any(status.name == reference.name for status in pod.status.resource_claim_statuses)


def find_resource_claim(trial_node: TrialNode, name: str) -> ResourceClaim | None:
    """Return the ResourceClaim of this name in the pod's namespace, or None."""
    namespace = trial_node.trial.pod.metadata.namespace
    claims = trial_node.cycle.view.cluster.list_in_namespace("resource_claims", namespace)
    return next((claim for claim in claims if claim.metadata.name == name), None)


def _format_claim_key(claim: ResourceClaim) -> str:
    """Return the claim's key, ``namespace/name``."""
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _is_owned_by(pod: Pod, claim: ResourceClaim) -> bool:
    """Return whether the pod is the controller of the claim."""
    controller = find_controller(claim.metadata)
    return controller is not None and controller.uid == pod.metadata.uid


# -- claims that do not exist ----------------------------------------------------------------------------------------


def _iter_missing_claim_fixes(trial_node: TrialNode, reference: PodResourceClaim, name: str) -> Iterator[Fix]:
    """Yield fixes for a reference to a claim that does not exist.

    Fixes that use an existing claim with a similar name come first. Then come fixes that create the claim with a
    request for one device, one fix for each of the first `MOST_CLASSES` DeviceClasses.
    """
    pod, cluster = trial_node.trial.pod, trial_node.cycle.view.cluster
    namespace = pod.metadata.namespace
    names = [claim.metadata.name for claim in cluster.list_in_namespace("resource_claims", namespace)]
    for similar_name in get_close_matches(name, names, n=2, cutoff=NAME_CUTOFF):
        text = f"use ResourceClaim {similar_name} instead of {name}, which does not exist"
        edits = build_pod_edits(pod, _build_claim_reference_change(reference.name, similar_name))
        yield Fix(
            kind=FixKind.CORRECT_CLAIM, target=(name, similar_name), text=text, by="author", edits=edits, cost=CORRECT
        )
    for rank, class_ in enumerate(cluster.device_classes[:MOST_CLASSES]):
        new_claim = ResourceClaim(ObjectMeta(name, namespace), _build_single_device_spec(class_.metadata.name))
        key = ObjectKey.of(new_claim)
        edits = (ObjectEdit.create(new_claim),)
        yield _build_claim_creation_fix(key, new_claim, class_.metadata.name, edits, cost=CREATE + rank)


def _build_claim_creation_fix(
    key: ObjectKey, new_object: Struct, device_class: str, edits: tuple[ObjectEdit, ...], cost: int
) -> Fix:
    """Build the fix that creates a ResourceClaim or ResourceClaimTemplate for one device of the class.

    `edits` create the object with this key, and `cost` ranks the fix.
    """
    text = f"create {key} for one device of class {device_class}"
    commands = (kubectl.render_apply(kubectl.build_manifest(key, new_object)),)
    kind = CREATION_KINDS[key.kind]
    where = f"class {device_class}"
    return Fix(
        kind=kind,
        target=(key, device_class),
        text=text,
        by="author",
        edits=edits,
        cost=cost,
        commands=commands,
        variant_of=key,
        where=where,
    )


def _build_single_device_spec(device_class: str) -> ResourceClaimSpec:
    """Return a claim spec that requests one device of the class."""
    exactly = ExactDeviceRequest(device_class, allocation_mode="ExactCount", count=1)
    return ResourceClaimSpec(DeviceClaim((DeviceRequest(REQUEST, exactly),)))


def _build_claim_reference_change(reference: str, claim_name: str) -> Callable[[Pod], Pod]:
    """Return a function that makes the pod's reference of this name refer to another claim."""

    def change(pod: Pod) -> Pod:
        """Return the pod with the changed reference."""
        claims = tuple(
            replace(claim, resource_claim_name=claim_name) if claim.name == reference else claim
            for claim in pod.spec.resource_claims
        )
        return replace(pod, spec=replace(pod.spec, resource_claims=claims))

    return change


def _iter_claim_generation_fixes(
    trial_node: TrialNode, reference: PodResourceClaim, template_name: str
) -> Iterator[Fix]:
    """Yield the fix that lets the controller generate the claim from its template, or fixes for a missing template.

    If the template is missing, fixes that use a template with a similar name come first. Then come fixes that create
    the template with a request for one device, one fix for each of the first `MOST_CLASSES` DeviceClasses.
    """
    pod, cluster = trial_node.trial.pod, trial_node.cycle.view.cluster
    namespace = pod.metadata.namespace
    templates = {
        template.metadata.name: template
        for template in cluster.list_in_namespace("resource_claim_templates", namespace)
    }
    if template_name in templates:
        controller = "the resourceclaim controller of kube-controller-manager"
        yield Fix(
            kind=FixKind.GENERATE_RESOURCE_CLAIM,
            target=(template_name, reference.name),
            text=f"let {controller} create the claim from template {template_name}",
            by="operator",
            edits=_build_claim_creation_edits(pod, reference, templates[template_name].spec.spec),
            cost=GENERATE,
        )
        return

    for similar_name in get_close_matches(template_name, templates, n=2, cutoff=NAME_CUTOFF):
        text = f"use ResourceClaimTemplate {similar_name} instead of {template_name}, which does not exist"
        edits = _build_claim_creation_edits(pod, reference, templates[similar_name].spec.spec, similar_name)
        yield Fix(
            kind=FixKind.CORRECT_CLAIM,
            target=(template_name, similar_name),
            text=text,
            by="author",
            edits=edits,
            cost=CORRECT,
        )
    for rank, class_ in enumerate(cluster.device_classes[:MOST_CLASSES]):
        spec = _build_single_device_spec(class_.metadata.name)
        new_template = ResourceClaimTemplate(ObjectMeta(template_name, namespace), ResourceClaimTemplateSpec(spec=spec))
        key = ObjectKey.of(new_template)
        template_edit = ObjectEdit.create(new_template)
        edits = (template_edit, *_build_claim_creation_edits(pod, reference, spec))
        yield _build_claim_creation_fix(key, new_template, class_.metadata.name, edits, CREATE + rank)


def _build_claim_creation_edits(
    pod: Pod, reference: PodResourceClaim, spec: ResourceClaimSpec, template: str | None = None
) -> tuple[ObjectEdit, ...]:
    """Return the edits that create the pod's claim with a spec and record its name in the pod's status.

    If `template` is given, the pod's reference is also changed to name this template.
    """
    name = f"{pod.metadata.name}-{reference.name}"
    claim = ResourceClaim(
        ObjectMeta(name, pod.metadata.namespace, owner_references=(build_owner_reference(pod),)), spec
    )

    def change(current: Pod) -> Pod:
        """Return the pod with the claim's name in its status."""
        other_statuses = (status for status in current.status.resource_claim_statuses if status.name != reference.name)
        statuses = (*other_statuses, PodResourceClaimStatus(reference.name, name))
        claims = tuple(
            replace(resource_claim, resource_claim_template_name=template)
            if template and resource_claim.name == reference.name
            else resource_claim
            for resource_claim in current.spec.resource_claims
        )
        status = replace(current.status, resource_claim_statuses=statuses)
        return replace(current, spec=replace(current.spec, resource_claims=claims), status=status)

    return (ObjectEdit.create(claim), *build_pod_edits(pod, change))


# -- claims to recreate ----------------------------------------------------------------------------------------------


def _reset_claim(claim: ResourceClaim, owner: Pod | None = None) -> ResourceClaim:
    """Return the claim as if it were just created and not allocated. If `owner` is given, it becomes the controller."""
    owners = (build_owner_reference(owner),) if owner else claim.metadata.owner_references
    meta = replace(claim.metadata, uid="", deletion_timestamp=None, owner_references=owners)
    return replace(claim, metadata=meta, status=ResourceClaimStatus())


def is_used_by_others(trial_node: TrialNode, claim: ResourceClaim) -> bool:
    """Return whether pods other than the target pod have reserved the claim, which keeps it from being deleted."""
    return any(user.uid != trial_node.trial.pod.metadata.uid for user in claim.status.reserved_for)


def _iter_resource_claim_recreation_fixes(
    trial_node: TrialNode,
    claim: ResourceClaim,
    text: str,
    change: Callable[[ResourceClaim], ResourceClaim],
    price: Price | None = None,
) -> Iterator[Fix]:
    """Yield the fix that deletes the claim and recreates it with the change, unless other pods use it.

    `text` describes the fix, and `price` is None for the usual price of its kind. A generated claim is recreated by its
    controller, any other claim by a command.
    """
    if is_used_by_others(trial_node, claim):
        return
    key = ObjectKey.of(claim)
    edits = (ObjectEdit(key, change),)
    is_generated = find_controller(claim.metadata) is not None
    creation_commands = () if is_generated else (kubectl.render_apply(kubectl.build_manifest(key, claim)),)
    commands = (kubectl.render_delete(key), *creation_commands)
    weakens = f"ResourceClaim {_format_claim_key(claim)} loses its devices" if claim.status.allocation else ""
    yield Fix(
        kind=FixKind.REMAKE_RESOURCE_CLAIM,
        target=key,
        text=text,
        by="operator",
        edits=edits,
        cost=REMAKE,
        weakens=weakens,
        commands=commands,
        price=price,
    )


def build_spec_change_fix(
    trial_node: TrialNode,
    claim: ResourceClaim,
    change: SpecChange,
    *,
    kind: FixKind,
    target: Hashable,
    text_end: str,
    cost: int,
    weakens: str = "",
    where: str = "",
    price: Price | None = None,
) -> Fix:
    """Build the fix that recreates a claim with another spec.

    If the claim was generated, its template is changed as well. A template that no longer exists is created again.
    `text_end` ends the sentence "recreate ResourceClaim …". If `where` is not empty, fixes of the same claim count as
    variants. `price` is None for the usual price of the kind of fix.
    """
    key = ObjectKey.of(claim)

    def recreate_with_change(current: ResourceClaim) -> ResourceClaim:
        """Return the claim reset and with the changed spec."""
        new = _reset_claim(current)
        return replace(new, spec=replace(new.spec, devices=change(new.spec.devices)))

    def change_template(current: ResourceClaimTemplate) -> ResourceClaimTemplate:
        """Return the template with the changed claim spec."""
        inner = replace(current.spec.spec, devices=change(current.spec.spec.devices))
        return replace(current, spec=replace(current.spec, spec=inner))

    new_claim = recreate_with_change(claim)
    edits: tuple[ObjectEdit, ...] = (ObjectEdit(key, recreate_with_change),)

    # The claim is written by hand, generated from a template, or generated from a template that is gone.
    template_name = _find_claim_template_name(trial_node.trial.pod, claim)
    template = _find_claim_template(trial_node, template_name) if template_name is not None else None
    commands: tuple[str, ...]
    if template_name is None:
        commands = (kubectl.render_recreate(key, claim, new_claim),)
        text = f"recreate ResourceClaim {_format_claim_key(claim)}{text_end}"
    elif template is not None:
        template_key = ObjectKey.of(template)
        edits = (ObjectEdit(template_key, change_template), *edits)
        recreate_template = kubectl.render_recreate(template_key, template, change_template(template))
        commands = (recreate_template, kubectl.render_delete(key))
        text = f"recreate {template_key} and the pod's claim{text_end}"
    else:
        new_template = ResourceClaimTemplate(
            ObjectMeta(template_name, key.namespace), ResourceClaimTemplateSpec(spec=new_claim.spec)
        )
        template_key = ObjectKey.of(new_template)
        edits = (ObjectEdit.create(new_template), *edits)
        create_template = kubectl.render_apply(kubectl.build_manifest(template_key, new_template))
        commands = (create_template, kubectl.render_delete(key))
        text = f"create {template_key} and recreate the pod's claim{text_end}"

    return Fix(
        kind=kind,
        target=(key, target),
        text=text,
        by="author",
        edits=edits,
        cost=cost,
        weakens=weakens,
        commands=commands,
        variant_of=key if where else None,
        where=where,
        price=price,
    )


def render_claim_recreation(claim: ResourceClaim) -> str:
    """Return the command that recreates the claim unchanged.

    If a controller recreates it, the command only deletes it.
    """
    key = ObjectKey.of(claim)
    if find_controller(claim.metadata):
        return kubectl.render_delete(key)
    return kubectl.render_recreate_with_patch(key, change={})


def _find_claim_template_name(pod: Pod, claim: ResourceClaim) -> str | None:
    """Return the name of the template from which the pod's claim was generated, or None if it was not generated."""
    names = (
        reference.resource_claim_template_name
        for reference in pod.spec.resource_claims
        if find_claim_name(pod, reference) == claim.metadata.name
    )
    return next(names, None)


def _find_claim_template(trial_node: TrialNode, name: str) -> ResourceClaimTemplate | None:
    """Return the ResourceClaimTemplate of this name in the pod's namespace, or None."""
    templates = trial_node.cycle.view.cluster.list_in_namespace(
        "resource_claim_templates", trial_node.trial.pod.metadata.namespace
    )
    return next((template for template in templates if template.metadata.name == name), None)
