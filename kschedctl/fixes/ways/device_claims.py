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
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.missing_objects import NEAR, build_owner_reference
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey

CORRECT, GENERATE, CREATE, REMAKE = 10, 15, 20, 30
MOST = 4
CREATION_KINDS = {
    "ResourceClaim": FixKind.CREATE_RESOURCE_CLAIM,
    "ResourceClaimTemplate": FixKind.CREATE_RESOURCE_CLAIM_TEMPLATE,
}
REQUEST = "devices"
"""The name of the only request of a claim that is created."""
SpecChange = Callable[[DeviceClaim], DeviceClaim]


def claims(tried: TriedNode) -> Iterator[Fix]:
    """Yield fixes for the first of the pod's claims that is missing, being deleted, or owned by another pod."""
    for reference in tried.trial.pod.spec.resource_claims:
        fixes = list(_fix_reference(tried, reference))
        if fixes:
            yield from fixes
            return


def _fix_reference(tried: TriedNode, reference: PodResourceClaim) -> Iterator[Fix]:
    """Yield fixes for the claim that the reference in the pod stands for."""
    name = find_claim_name(tried.trial.pod, reference)
    if name is None:
        if reference.resource_claim_template_name is not None and not _is_decided(tried.trial.pod, reference):
            yield from _fix_missing_generation(tried, reference, reference.resource_claim_template_name)
        return
    claim = find_claim(tried, name)
    if claim is None and reference.resource_claim_template_name is not None:
        yield from _fix_missing_generation(tried, reference, reference.resource_claim_template_name)
    elif claim is None:
        yield from _fix_missing_claim(tried, reference, name)
    elif claim.metadata.deletion_timestamp is not None:
        text = f"recreate ResourceClaim {_key(claim)}, which is being deleted"
        yield from _recreate_claim(tried, claim, text, _reset_claim)
    elif reference.resource_claim_name is None and not _is_owned_by(tried.trial.pod, claim):
        pod = tried.trial.pod
        text = (
            f"delete ResourceClaim {_key(claim)}, which is not the pod's, so that one of its own is made in its place"
        )
        yield from _recreate_claim(tried, claim, text, lambda known: _reset_claim(known, pod), Price.LOSS)


def find_claim_name(pod: Pod, reference: PodResourceClaim) -> str | None:
    """Return the name of the claim behind a reference, or None if no claim was generated."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    made = (status for status in pod.status.resource_claim_statuses if status.name == reference.name)
    return next((status.resource_claim_name for status in made), None)


def _is_decided(pod: Pod, reference: PodResourceClaim) -> bool:
    """Return whether the pod's status already says which claim, if any, the reference has."""
    return any(status.name == reference.name for status in pod.status.resource_claim_statuses)


def find_claim(tried: TriedNode, name: str) -> ResourceClaim | None:
    """Return the claim of that name in the pod's namespace, or None."""
    namespace = tried.trial.pod.metadata.namespace
    known = tried.cycle.view.cluster.in_namespace("resource_claims", namespace)
    return next((claim for claim in known if claim.metadata.name == name), None)


def _key(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _is_owned_by(pod: Pod, claim: ResourceClaim) -> bool:
    """Return whether the pod is the controller of the claim."""
    controller = find_controller(claim.metadata)
    return controller is not None and controller.uid == pod.metadata.uid


# -- claims that are not there ---------------------------------------------------------------------------------------


def _fix_missing_claim(tried: TriedNode, reference: PodResourceClaim, name: str) -> Iterator[Fix]:
    """Yield fixes that use a claim with a similar name, or create the claim for one device of a class."""
    pod, cluster = tried.trial.pod, tried.cycle.view.cluster
    namespace = pod.metadata.namespace
    names = [claim.metadata.name for claim in cluster.in_namespace("resource_claims", namespace)]
    for right in get_close_matches(name, names, n=2, cutoff=NEAR):
        text = f"use ResourceClaim {right} instead of {name}, which does not exist"
        edits = on_pod(pod, _with_claim(reference.name, right))
        yield Fix(FixKind.CORRECT_CLAIM, (name, right), text, "author", edits, CORRECT)
    for place, class_ in enumerate(cluster.device_classes[:MOST]):
        new = ResourceClaim(ObjectMeta(name, namespace), _request_one_device(class_.metadata.name))
        key = ObjectKey.of(new)
        yield _create_object(key, new, class_.metadata.name, (ObjectEdit(key, _creating(new)),), CREATE + place)


def _creating(new: Struct) -> Callable[[object], Struct]:
    return lambda _: new


def _create_object(key: ObjectKey, new: Struct, device_class: str, edits: tuple[ObjectEdit, ...], cost: int) -> Fix:
    """Build the fix that creates a claim or template for one device of the class."""
    text = f"create {key} for one device of class {device_class}"
    commands = (kubectl.render_apply(kubectl.build_manifest(key, new)),)
    kind, where = CREATION_KINDS[key.kind], f"class {device_class}"
    return Fix(kind, (key, device_class), text, "author", edits, cost, "", commands, key, where)


def _request_one_device(device_class: str) -> ResourceClaimSpec:
    """Return a claim spec that requests one device of the class."""
    exactly = ExactDeviceRequest(device_class, allocation_mode="ExactCount", count=1)
    return ResourceClaimSpec(DeviceClaim((DeviceRequest(REQUEST, exactly),)))


def _with_claim(reference: str, right: str) -> Callable[[Pod], Pod]:
    """Return a change that makes the pod's reference use another claim."""

    def change(pod: Pod) -> Pod:
        claims = tuple(
            replace(claim, resource_claim_name=right) if claim.name == reference else claim
            for claim in pod.spec.resource_claims
        )
        return replace(pod, spec=replace(pod.spec, resource_claims=claims))

    return change


def _fix_missing_generation(tried: TriedNode, reference: PodResourceClaim, template: str) -> Iterator[Fix]:
    """Yield the fix that generates the claim from its template, or fixes for a template that does not exist."""
    pod, cluster = tried.trial.pod, tried.cycle.view.cluster
    namespace = pod.metadata.namespace
    known = {
        template.metadata.name: template for template in cluster.in_namespace("resource_claim_templates", namespace)
    }
    if template in known:
        text = f"let the resourceclaim controller of kube-controller-manager make the claim of template {template}"
        edits = _generate_claim(pod, reference, known[template].spec.spec)
        yield Fix(FixKind.GENERATE_RESOURCE_CLAIM, (template, reference.name), text, "operator", edits, GENERATE)
        return
    for right in get_close_matches(template, known, n=2, cutoff=NEAR):
        text = f"use ResourceClaimTemplate {right} instead of {template}, which does not exist"
        edits = _generate_claim(pod, reference, known[right].spec.spec, right)
        yield Fix(FixKind.CORRECT_CLAIM, (template, right), text, "author", edits, CORRECT)
    for place, class_ in enumerate(cluster.device_classes[:MOST]):
        spec = _request_one_device(class_.metadata.name)
        new = ResourceClaimTemplate(ObjectMeta(template, namespace), ResourceClaimTemplateSpec(spec=spec))
        key = ObjectKey.of(new)
        edits = (ObjectEdit(key, _creating(new)), *_generate_claim(pod, reference, spec))
        yield _create_object(key, new, class_.metadata.name, edits, CREATE + place)


def _generate_claim(
    pod: Pod, reference: PodResourceClaim, spec: ResourceClaimSpec, template: str | None = None
) -> tuple[ObjectEdit, ...]:
    """Return the edits that create the pod's claim and record its name in the pod's status."""
    name = f"{pod.metadata.name}-{reference.name}"
    claim = ResourceClaim(
        ObjectMeta(name, pod.metadata.namespace, owner_references=(build_owner_reference(pod),)), spec
    )

    def change(known: Pod) -> Pod:
        others = (status for status in known.status.resource_claim_statuses if status.name != reference.name)
        statuses = (*others, PodResourceClaimStatus(reference.name, name))
        claims = tuple(
            replace(resource_claim, resource_claim_template_name=template)
            if template and resource_claim.name == reference.name
            else resource_claim
            for resource_claim in known.spec.resource_claims
        )
        status = replace(known.status, resource_claim_statuses=statuses)
        return replace(known, spec=replace(known.spec, resource_claims=claims), status=status)

    return ObjectEdit(ObjectKey.of(claim), lambda _: claim), *on_pod(pod, change)


# -- claims made anew ------------------------------------------------------------------------------------------------


def _reset_claim(claim: ResourceClaim, owner: Pod | None = None) -> ResourceClaim:
    """Return the claim as if just created, without an allocation; with `owner` as its controller, if given."""
    owners = (build_owner_reference(owner),) if owner else claim.metadata.owner_references
    meta = replace(claim.metadata, uid="", deletion_timestamp=None, owner_references=owners)
    return replace(claim, metadata=meta, status=ResourceClaimStatus())


def is_used_by_others(tried: TriedNode, claim: ResourceClaim) -> bool:
    """Return whether other pods have reserved the claim, so that it stays until they are gone."""
    return any(user.uid != tried.trial.pod.metadata.uid for user in claim.status.reserved_for)


def _recreate_claim(
    tried: TriedNode,
    claim: ResourceClaim,
    text: str,
    change: Callable[[ResourceClaim], ResourceClaim],
    price: Price | None = None,
) -> Iterator[Fix]:
    """Yield the fix that recreates the claim, unless other pods use it."""
    if is_used_by_others(tried, claim):
        return
    key = ObjectKey.of(claim)
    edits, made = (ObjectEdit(key, change),), find_controller(claim.metadata) is not None
    again = () if made else (kubectl.render_apply(kubectl.build_manifest(key, claim)),)
    commands = (kubectl.render_delete(key), *again)
    weakens = f"ResourceClaim {_key(claim)} gives its devices back" if claim.status.allocation else ""
    yield Fix(FixKind.REMAKE_RESOURCE_CLAIM, key, text, "operator", edits, REMAKE, weakens, commands, price=price)


def change_claim_spec(
    tried: TriedNode,
    claim: ResourceClaim,
    change: SpecChange,
    *,
    kind: FixKind,
    target: Hashable,
    what: str,
    cost: int,
    weakens: str = "",
    where: str = "",
    price: Price | None = None,
) -> Fix:
    """Build the fix that recreates the claim, and its template if it has one, with another spec."""
    key = ObjectKey.of(claim)

    def anew(known: ResourceClaim) -> ResourceClaim:
        new = _reset_claim(known)
        return replace(new, spec=replace(new.spec, devices=change(new.spec.devices)))

    def in_template(known: ResourceClaimTemplate) -> ResourceClaimTemplate:
        inner = replace(known.spec.spec, devices=change(known.spec.spec.devices))
        return replace(known, spec=replace(known.spec, spec=inner))

    name = _find_template_name(tried.trial.pod, claim)
    edits: tuple[ObjectEdit, ...] = (ObjectEdit(key, anew),)
    lines: tuple[str, ...] = (kubectl.render_recreate(key, claim, anew(claim)),)
    text = f"recreate ResourceClaim {_key(claim)}{what}"
    if name is not None:
        own, template = ObjectKey("ResourceClaimTemplate", key.namespace, name), _find_template(tried, name)
        new = ResourceClaimTemplate(ObjectMeta(name, key.namespace), ResourceClaimTemplateSpec(spec=anew(claim).spec))
        made = kubectl.render_recreate(own, template, in_template(template)) if template else None
        edits = (ObjectEdit(own, in_template if template else _creating(new)), *edits)
        lines = (made or kubectl.render_apply(kubectl.build_manifest(own, new)), kubectl.render_delete(key))
        text = f"{f'recreate {own} and' if template else f'create {own} and recreate'} the pod's claim{what}"
    return Fix(kind, (key, target), text, "author", edits, cost, weakens, lines, key if where else None, where, price)


def render_recreation(claim: ResourceClaim) -> str:
    """Return the command that recreates the claim; deletion suffices if a controller recreates it."""
    key = ObjectKey.of(claim)
    return (
        kubectl.render_delete(key) if find_controller(claim.metadata) else kubectl.render_recreate_with_patch(key, {})
    )


def _find_template_name(pod: Pod, claim: ResourceClaim) -> str | None:
    """Return the name of the template from which a claim of the pod was generated, or None."""
    names = (
        reference.resource_claim_template_name
        for reference in pod.spec.resource_claims
        if find_claim_name(pod, reference) == claim.metadata.name
    )
    return next(names, None)


def _find_template(tried: TriedNode, name: str) -> ResourceClaimTemplate | None:
    """Return the ResourceClaimTemplate of that name in the pod's namespace, or None."""
    known = tried.cycle.view.cluster.in_namespace("resource_claim_templates", tried.trial.pod.metadata.namespace)
    return next((template for template in known if template.metadata.name == name), None)
