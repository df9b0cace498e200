"""What is reserved for a pod with its node: volumes for its claims and devices for its resource claims.

Upstream: Reserve of the plugins VolumeBinding and DynamicResources (v1.36). A claim that is to be provisioned is marked
with the selected node, as upstream does; the volume that a driver would make is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.objects import (
    AllocationResult,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PhaseStatus,
    Pod,
    ResourceClaim,
    ResourceClaimConsumerReference,
    Struct,
    TypedObjectReference,
)
from kschedctl.scheduler.cycle import FrameworkLike
from kschedctl.scheduler.dynamic_resources.claims import EXTENDED_RESOURCE_ANNOTATION, key
from kschedctl.scheduler.dynamic_resources.evaluation import Evaluation
from kschedctl.scheduler.dynamic_resources.extended_resources import IN_MEMORY_NAME, backed, backing_classes
from kschedctl.scheduler.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources import DynamicResources
from kschedctl.scheduler.plugins.volume_binding import BindingState, VolumeBinding
from kschedctl.scheduler.volumes.listers import BIND_COMPLETED, SELECTED_NODE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


def uses_claims(info: PodInfo, view: Fork) -> bool:
    """Whether the pod has volumes or devices that are claimed."""
    spec = info.spec
    if spec.resource_claims or any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes):
        return True
    classes = backing_classes(view.objects)
    return bool(classes) and backed(info.incoming_requests, classes)


def reserve(framework: FrameworkLike, info: PodInfo, pod: Pod, view: Fork, row: int) -> None:
    """Write into the view's cluster what the plugins of a profile reserve for a pod on a node. Raises PluginError."""
    changed: dict[str, list[Struct]] = {}
    for plugin in framework.at("filter"):
        match plugin:
            case VolumeBinding():
                state = plugin.pre_filter(info, view).state
                if state is not None:
                    changed |= _bind_volumes(state, view, row)
            case DynamicResources():
                evaluation = plugin.pre_filter(info, view).state
                if evaluation is not None:
                    changed |= _allocate(evaluation, pod, row)
    if changed:
        view.objects.replace(changed)


# -- volumes ------------------------------------------------------------------------------------------------------


def _bind_volumes(state: BindingState, view: Fork, row: int) -> dict[str, list[Struct]]:
    claims: list[Struct] = []
    volumes: list[Struct] = []
    for claim, volume in state.volumes.bound_on(row):
        claims.append(_bound(claim, volume.metadata.name))
        volumes.append(_taken(volume, claim))
    node = view.nodes.names[row]
    claims += (_marked(claim, SELECTED_NODE, node) for claim in state.volumes.provisioned_on(row))
    found = {"PersistentVolumeClaim": claims, "PersistentVolume": volumes}
    return {kind: objects for kind, objects in found.items() if objects}


def _bound(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    marked = _marked(claim, BIND_COMPLETED, "yes")
    return replace(marked, spec=replace(claim.spec, volume_name=volume), status=PhaseStatus("Bound"))


def _marked(claim: PersistentVolumeClaim, annotation: str, value: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, annotation: value}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _taken(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    meta = claim.metadata
    reference = TypedObjectReference(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return replace(volume, spec=replace(volume.spec, claim_ref=reference), status=PhaseStatus("Bound"))


# -- devices ------------------------------------------------------------------------------------------------------


def _allocate(evaluation: Evaluation, pod: Pod, row: int) -> dict[str, list[Struct]]:
    """The pod's claims with their devices, and with the pod among those that they are reserved for."""
    found = iter(evaluation.allocations(row))
    claims: list[Struct] = []
    for claim in evaluation.claims.all:
        allocation = claim.status.allocation
        if allocation is None and (new := next(found, None)) is not None:
            allocation = _with_shares(new, claim, evaluation.inventory)
        if allocation is not None:
            claims.append(_reserved(_named(claim, pod), allocation, pod))
    return {"ResourceClaim": claims} if claims else {}


def _reserved(claim: ResourceClaim, allocation: AllocationResult, pod: Pod) -> ResourceClaim:
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    users = claim.status.reserved_for
    users = users if user in users else (*users, user)
    return replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=users))


def _named(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim for extended resources is written once the pod has a node."""
    if claim.metadata.name != IN_MEMORY_NAME:
        return claim
    meta = pod.metadata
    owner = OwnerReference("Pod", meta.name, "v1", meta.uid, controller=True)
    annotations = {EXTENDED_RESOURCE_ANNOTATION: "true"}
    name = f"{meta.name}-extended-resources"
    return replace(claim, metadata=ObjectMeta(name, meta.namespace, annotations=annotations, owner_references=(owner,)))


def _with_shares(allocation: AllocationResult, claim: ResourceClaim, inventory: Inventory) -> AllocationResult:
    """Each share of a device that may be allocated several times gets the ID that makes it one."""
    shared = inventory.devices.shareable
    results = tuple(
        replace(r, share_id=f"{key(claim)}/{i}") if (r.driver, r.pool, r.device) in shared else r
        for i, r in enumerate(allocation.devices.results)
    )
    return replace(allocation, devices=replace(allocation.devices, results=results))


# -- release ------------------------------------------------------------------------------------------------------


def release(view: Fork, positions: Sequence[int]) -> None:
    """Give back the devices of claims that only these pods, which are gone, had in use."""
    users = {view.pods.objects[p].metadata.uid or view.pods.objects[p].metadata.name for p in positions}
    freed = list(_freed(view.objects.of("ResourceClaim"), users))
    if freed:
        view.objects.replace({"ResourceClaim": freed})


def _freed(claims: Sequence[ResourceClaim], gone: set[str]) -> Iterator[ResourceClaim]:
    for claim in claims:
        left = tuple(user for user in claim.status.reserved_for if (user.uid or user.name) not in gone)
        if len(left) == len(claim.status.reserved_for):
            continue
        allocation = claim.status.allocation if left else None
        yield replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=left))
