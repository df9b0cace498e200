"""Updates of ResourceClaims when a pod is bound and when pods are deleted."""

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
from kschedctl.scheduler.plugins.dynamic_resources.claims import EXTENDED_RESOURCE_ANNOTATION, format_claim_key

if TYPE_CHECKING:
    from kschedctl.scheduler.plugins.dynamic_resources.evaluation import Evaluation
    from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory

User = tuple[str, str]
"""Namespace, and UID or else name."""


def reserve_claims(evaluation: Evaluation, pod: Pod, row: int) -> list[ResourceClaim]:
    """Return the pod's claims with their allocations on the node, reserved for the pod."""
    allocations = iter(evaluation.build_allocations(row))
    claims = []
    for claim in evaluation.claims.all:
        allocation = claim.status.allocation
        if allocation is None and (new := next(allocations, None)) is not None:
            allocation = _add_share_ids(new, claim, evaluation.inventory)
        if allocation is not None:
            claims.append(_reserve_claim(_name_extended_claim(claim, pod), allocation, pod))
    return claims


def _reserve_claim(claim: ResourceClaim, allocation: AllocationResult, pod: Pod) -> ResourceClaim:
    """Return the claim with its allocation, reserved for the pod."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    users = claim.status.reserved_for
    users = users if user in users else (*users, user)
    return replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=users))


def _name_extended_claim(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """Give the claim for extended resources its final name. Other claims are returned unchanged.

    The claim gets no owner, since one pod stands for all pods that are alike, and none may find the claim of another.
    """
    if claim.metadata.name != IN_MEMORY_NAME:
        return claim
    name = f"{pod.metadata.name}-extended-resources"
    annotations = {EXTENDED_RESOURCE_ANNOTATION: "true"}
    return replace(claim, metadata=ObjectMeta(name, pod.metadata.namespace, annotations=annotations))


def _add_share_ids(allocation: AllocationResult, claim: ResourceClaim, inventory: Inventory) -> AllocationResult:
    """Give an ID to each share of a device that can be allocated several times."""
    shared = inventory.devices.shareable
    if not shared:
        return allocation
    results = tuple(
        replace(r, share_id=f"{format_claim_key(claim)}/{i}") if (r.driver, r.pool, r.device) in shared else r
        for i, r in enumerate(allocation.devices.results)
    )
    return replace(allocation, devices=replace(allocation.devices, results=results))


def release_claims(claims: Iterable[ResourceClaim], deleted_pods: Set[User]) -> Iterator[ResourceClaim]:
    """Yield the claims of deleted pods without these pods. Claims without users lose their allocation.

    Upstream: pkg/controller/resourceclaim/controller.go.
    """
    for claim in claims:
        remaining_users = tuple(
            user
            for user in claim.status.reserved_for
            if (claim.metadata.namespace, user.uid or user.name) not in deleted_pods
        )
        if len(remaining_users) == len(claim.status.reserved_for):
            continue
        allocation = claim.status.allocation if remaining_users else None
        yield replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=remaining_users))


def get_pod_user(pod: Pod) -> User:
    """Return the key by which claims identify the pod."""
    return pod.metadata.namespace, pod.metadata.uid or pod.metadata.name
