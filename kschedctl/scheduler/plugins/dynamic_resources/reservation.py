"""Resource claims as they are once a pod has its devices, and once pods are gone that had some.

Upstream: Reserve and PreBind in plugins/dynamicresources/dynamicresources.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kschedctl.api.objects import (
    AllocationResult,
    ObjectMeta,
    Pod,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kschedctl.scheduler.framework.extended_resources import IN_MEMORY_NAME
from kschedctl.scheduler.plugins.dynamic_resources.claims import EXTENDED_RESOURCE_ANNOTATION, key

if TYPE_CHECKING:
    from kschedctl.scheduler.plugins.dynamic_resources.evaluation import Evaluation
    from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory

User = tuple[str, str]
"""Namespace, and UID or else name."""


def reserved_claims(evaluation: Evaluation, pod: Pod, row: int) -> list[ResourceClaim]:
    """The pod's claims with their devices, and with the pod among those that they are reserved for."""
    allocations = iter(evaluation.allocations(row))
    claims = []
    for claim in evaluation.claims.all:
        allocation = claim.status.allocation
        if allocation is None and (new := next(allocations, None)) is not None:
            allocation = _with_shares(new, claim, evaluation.inventory)
        if allocation is not None:
            claims.append(_reserved(_named(claim, pod), allocation, pod))
    return claims


def _reserved(claim: ResourceClaim, allocation: AllocationResult, pod: Pod) -> ResourceClaim:
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    users = claim.status.reserved_for
    users = users if user in users else (*users, user)
    return replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=users))


def _named(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim for extended resources is written once the pod has a node.

    It names no owner: pods that are alike are asked about through one of them, and none may find another's claim.
    """
    if claim.metadata.name != IN_MEMORY_NAME:
        return claim
    name, annotations = f"{pod.metadata.name}-extended-resources", {EXTENDED_RESOURCE_ANNOTATION: "true"}
    return replace(claim, metadata=ObjectMeta(name, pod.metadata.namespace, annotations=annotations))


def _with_shares(allocation: AllocationResult, claim: ResourceClaim, inventory: Inventory) -> AllocationResult:
    """Each share of a device that may be allocated several times gets the ID that makes it one."""
    shared = inventory.devices.shareable
    if not shared:
        return allocation
    results = tuple(
        replace(r, share_id=f"{key(claim)}/{i}") if (r.driver, r.pool, r.device) in shared else r
        for i, r in enumerate(allocation.devices.results)
    )
    return replace(allocation, devices=replace(allocation.devices, results=results))


def released_claims(claims: Iterable[ResourceClaim], gone: Set[User]) -> Iterator[ResourceClaim]:
    """The claims that pods used which are gone; one that nobody uses any more gives its devices back.

    Upstream: pkg/controller/resourceclaim/controller.go.
    """
    for claim in claims:
        left = tuple(
            user for user in claim.status.reserved_for if (claim.metadata.namespace, user.uid or user.name) not in gone
        )
        if len(left) == len(claim.status.reserved_for):
            continue
        allocation = claim.status.allocation if left else None
        yield replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=left))


def user_of(pod: Pod) -> User:
    """How claims tell pods apart."""
    return pod.metadata.namespace, pod.metadata.uid or pod.metadata.name
