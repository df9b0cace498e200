"""The pod's ResourceClaims: those that are not there, or not its own; and claims made anew, as what they ask stays."""

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
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.fixes.ways.missing_objects import NEAR, owned_by
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey

CORRECT, GENERATE, CREATE, REMAKE = 10, 15, 20, 30
MOST = 4
REQUEST = "devices"
"""The name of the only request of a claim that is created."""
SpecChange = Callable[[DeviceClaim], DeviceClaim]


def claims(tried: TriedNode) -> Iterator[Fix]:
    """The first of the pod's claims that is not there, not made yet, going, or another's."""
    for reference in tried.trial.pod.spec.resource_claims:
        fixes = list(_of_reference(tried, reference))
        if fixes:
            yield from fixes
            return


def _of_reference(tried: TriedNode, reference: PodResourceClaim) -> Iterator[Fix]:
    name = named(tried.trial.pod, reference)
    if name is None:
        if reference.resource_claim_template_name is not None and not _settled(tried.trial.pod, reference):
            yield from _generated(tried, reference, reference.resource_claim_template_name)
        return
    claim = found(tried, name)
    if claim is None and reference.resource_claim_template_name is not None:
        yield from _generated(tried, reference, reference.resource_claim_template_name)
    elif claim is None:
        yield from _missing(tried, reference, name)
    elif claim.metadata.deletion_timestamp is not None:
        text = f"recreate ResourceClaim {_key(claim)}, which is being deleted"
        yield from _again(tried, claim, text, _as_new)
    elif reference.resource_claim_name is None and not _own(tried.trial.pod, claim):
        pod = tried.trial.pod
        text = (
            f"delete ResourceClaim {_key(claim)}, which is not the pod's, so that one of its own is made in its place"
        )
        yield from _again(tried, claim, text, lambda known: _as_new(known, pod), Price.LOSS)


def named(pod: Pod, reference: PodResourceClaim) -> str | None:
    """The name of a claim of the pod, None where there is none, or none yet."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    made = (status for status in pod.status.resource_claim_statuses if status.name == reference.name)
    return next((status.resource_claim_name for status in made), None)


def _settled(pod: Pod, reference: PodResourceClaim) -> bool:
    """Whether it was decided that no claim is made for the reference."""
    return any(status.name == reference.name for status in pod.status.resource_claim_statuses)


def found(tried: TriedNode, name: str) -> ResourceClaim | None:
    """The claim of that name in the pod's namespace."""
    namespace = tried.trial.pod.metadata.namespace
    known = tried.cycle.view.cluster.in_namespace("resource_claims", namespace)
    return next((claim for claim in known if claim.metadata.name == name), None)


def _key(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def _own(pod: Pod, claim: ResourceClaim) -> bool:
    controller = find_controller(claim.metadata)
    return controller is not None and controller.uid == pod.metadata.uid


# -- claims that are not there ---------------------------------------------------------------------------------------


def _missing(tried: TriedNode, reference: PodResourceClaim, name: str) -> Iterator[Fix]:
    """Another that is meant, or the claim, for one device of each class."""
    pod, cluster = tried.trial.pod, tried.cycle.view.cluster
    namespace = pod.metadata.namespace
    names = [claim.metadata.name for claim in cluster.in_namespace("resource_claims", namespace)]
    for right in get_close_matches(name, names, n=2, cutoff=NEAR):
        text = f"use ResourceClaim {right} instead of {name}, which does not exist"
        edits = on_pod(pod, _with_claim(reference.name, right))
        yield Fix("CorrectClaim", (name, right), text, "author", edits, CORRECT)
    for place, class_ in enumerate(cluster.device_classes[:MOST]):
        new = ResourceClaim(ObjectMeta(name, namespace), _one_of(class_.metadata.name))
        key = ObjectKey.of(new)
        yield _creation(key, new, class_.metadata.name, (ObjectEdit(key, _creating(new)),), CREATE + place)


def _creating(new: Struct) -> Callable[[object], Struct]:
    return lambda _: new


def _creation(key: ObjectKey, new: Struct, device_class: str, edits: tuple[ObjectEdit, ...], cost: int) -> Fix:
    text = f"create {key} for one device of class {device_class}"
    commands = (kubectl.render_apply(kubectl.build_manifest(key, new)),)
    kind, where = f"Create{key.kind}", f"class {device_class}"
    return Fix(kind, (key, device_class), text, "author", edits, cost, "", commands, key, where)


def _one_of(device_class: str) -> ResourceClaimSpec:
    exactly = ExactDeviceRequest(device_class, allocation_mode="ExactCount", count=1)
    return ResourceClaimSpec(DeviceClaim((DeviceRequest(REQUEST, exactly),)))


def _with_claim(reference: str, right: str) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        claims = tuple(
            replace(claim, resource_claim_name=right) if claim.name == reference else claim
            for claim in pod.spec.resource_claims
        )
        return replace(pod, spec=replace(pod.spec, resource_claims=claims))

    return change


def _generated(tried: TriedNode, reference: PodResourceClaim, template: str) -> Iterator[Fix]:
    """The claim that the controller makes of a template; where there is no such template, that first."""
    pod, cluster = tried.trial.pod, tried.cycle.view.cluster
    namespace = pod.metadata.namespace
    known = {
        template.metadata.name: template for template in cluster.in_namespace("resource_claim_templates", namespace)
    }
    if template in known:
        text = f"let the resourceclaim controller of kube-controller-manager make the claim of template {template}"
        edits = _generation(pod, reference, known[template].spec.spec)
        yield Fix("GenerateResourceClaim", (template, reference.name), text, "operator", edits, GENERATE)
        return
    for right in get_close_matches(template, known, n=2, cutoff=NEAR):
        text = f"use ResourceClaimTemplate {right} instead of {template}, which does not exist"
        edits = _generation(pod, reference, known[right].spec.spec, right)
        yield Fix("CorrectClaim", (template, right), text, "author", edits, CORRECT)
    for place, class_ in enumerate(cluster.device_classes[:MOST]):
        spec = _one_of(class_.metadata.name)
        new = ResourceClaimTemplate(ObjectMeta(template, namespace), ResourceClaimTemplateSpec(spec=spec))
        key = ObjectKey.of(new)
        edits = (ObjectEdit(key, _creating(new)), *_generation(pod, reference, spec))
        yield _creation(key, new, class_.metadata.name, edits, CREATE + place)


def _generation(
    pod: Pod, reference: PodResourceClaim, spec: ResourceClaimSpec, template: str | None = None
) -> tuple[ObjectEdit, ...]:
    """The pod's own claim, and the pod that knows its name; of another ``template``, if one is given."""
    name = f"{pod.metadata.name}-{reference.name}"
    claim = ResourceClaim(ObjectMeta(name, pod.metadata.namespace, owner_references=(owned_by(pod),)), spec)

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


def _as_new(claim: ResourceClaim, owner: Pod | None = None) -> ResourceClaim:
    """The claim just created, with nothing allocated; of an ``owner`` if one is given."""
    owners = (owned_by(owner),) if owner else claim.metadata.owner_references
    meta = replace(claim.metadata, uid="", deletion_timestamp=None, owner_references=owners)
    return replace(claim, metadata=meta, status=ResourceClaimStatus())


def used_by_others(tried: TriedNode, claim: ResourceClaim) -> bool:
    """Whether other pods have its devices: a claim that is deleted then stays until they are gone."""
    return any(user.uid != tried.trial.pod.metadata.uid for user in claim.status.reserved_for)


def _again(
    tried: TriedNode,
    claim: ResourceClaim,
    text: str,
    change: Callable[[ResourceClaim], ResourceClaim],
    price: Price | None = None,
) -> Iterator[Fix]:
    if used_by_others(tried, claim):
        return
    key = ObjectKey.of(claim)
    edits, made = (ObjectEdit(key, change),), find_controller(claim.metadata) is not None
    again = () if made else (kubectl.render_apply(kubectl.build_manifest(key, claim)),)
    commands = (kubectl.render_delete(key), *again)
    weakens = f"ResourceClaim {_key(claim)} gives its devices back" if claim.status.allocation else ""
    yield Fix("RemakeResourceClaim", key, text, "operator", edits, REMAKE, weakens, commands, price=price)


def asking(
    tried: TriedNode,
    claim: ResourceClaim,
    change: SpecChange,
    *,
    kind: str,
    target: Hashable,
    what: str,
    cost: int,
    weakens: str = "",
    where: str = "",
    price: Price | None = None,
) -> Fix:
    """A claim that asks for something else, and so the template that it was made of, if it was."""
    key = ObjectKey.of(claim)

    def anew(known: ResourceClaim) -> ResourceClaim:
        new = _as_new(known)
        return replace(new, spec=replace(new.spec, devices=change(new.spec.devices)))

    def in_template(known: ResourceClaimTemplate) -> ResourceClaimTemplate:
        inner = replace(known.spec.spec, devices=change(known.spec.spec.devices))
        return replace(known, spec=replace(known.spec, spec=inner))

    name = _template_of(tried.trial.pod, claim)
    edits: tuple[ObjectEdit, ...] = (ObjectEdit(key, anew),)
    lines: tuple[str, ...] = (kubectl.render_recreate(key, claim, anew(claim)),)
    text = f"recreate ResourceClaim {_key(claim)}{what}"
    if name is not None:
        own, template = ObjectKey("ResourceClaimTemplate", key.namespace, name), _template(tried, name)
        new = ResourceClaimTemplate(ObjectMeta(name, key.namespace), ResourceClaimTemplateSpec(spec=anew(claim).spec))
        made = kubectl.render_recreate(own, template, in_template(template)) if template else None
        edits = (ObjectEdit(own, in_template if template else _creating(new)), *edits)
        lines = (made or kubectl.render_apply(kubectl.build_manifest(own, new)), kubectl.render_delete(key))
        text = f"{f'recreate {own} and' if template else f'create {own} and recreate'} the pod's claim{what}"
    return Fix(kind, (key, target), text, "author", edits, cost, weakens, lines, key if where else None, where, price)


def recreation(claim: ResourceClaim) -> str:
    """The claim as it is created; one that was made for a pod, its controller makes again."""
    key = ObjectKey.of(claim)
    return (
        kubectl.render_delete(key) if find_controller(claim.metadata) else kubectl.render_recreate_with_patch(key, {})
    )


def _template_of(pod: Pod, claim: ResourceClaim) -> str | None:
    """The name of the template of which a claim of the pod was made."""
    names = (
        reference.resource_claim_template_name
        for reference in pod.spec.resource_claims
        if named(pod, reference) == claim.metadata.name
    )
    return next(names, None)


def _template(tried: TriedNode, name: str) -> ResourceClaimTemplate | None:
    known = tried.cycle.view.cluster.in_namespace("resource_claim_templates", tried.trial.pod.metadata.namespace)
    return next((template for template in known if template.metadata.name == name), None)
