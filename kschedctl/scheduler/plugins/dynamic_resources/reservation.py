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
    """Return the pod's claims as they are after binding: allocated on the node and reserved for the pod.

    Allocated claims keep their allocation. A claim that gets no allocation is left out, for example the claim for
    extended resources if the node provides these resources without devices.
    """
    new_allocations = iter(evaluation.build_allocations(row))  # one for each unallocated claim, or none at all
    claims = []
    for claim in evaluation.claims.all:
        allocation = claim.status.allocation
        if allocation is None:
            new_allocation = next(new_allocations, None)
            if new_allocation is None:
                continue
            allocation = _add_share_ids(new_allocation, claim, evaluation.inventory)
        claims.append(_reserve_claim(_rename_extended_claim(claim, pod), allocation, pod))
    return claims


def _reserve_claim(claim: ResourceClaim, allocation: AllocationResult, pod: Pod) -> ResourceClaim:
    """Return the claim with the allocation, and with the pod added to its users unless it is already among them."""
    user = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
    users = claim.status.reserved_for
    if user not in users:
        users = (*users, user)
    return replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=users))


def _rename_extended_claim(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """Give the claim for the pod's extended resources its final name and annotation, if its name is still temporary.

    All other claims are returned unchanged. Unlike in upstream, the claim gets no owner. Here, one Pod object may
    represent several identical pods, and each of them would find the claim and use it.
    """
    if claim.metadata.name != IN_MEMORY_NAME:
        return claim
    name = f"{pod.metadata.name}-extended-resources"
    annotations = {EXTENDED_RESOURCE_ANNOTATION: "true"}
    return replace(claim, metadata=ObjectMeta(name, pod.metadata.namespace, annotations=annotations))


def _add_share_ids(allocation: AllocationResult, claim: ResourceClaim, inventory: Inventory) -> AllocationResult:
    """Return the allocation with a share ID for each device that can be allocated several times.

    An ID is made of the claim's name and the device's index in the allocation.
    """
    shareable = inventory.devices.shareable_devices
    if not shareable:
        return allocation
    results = list(allocation.devices.results)
    for i, result in enumerate(results):
        if (result.driver, result.pool, result.device) in shareable:
            results[i] = replace(result, share_id=f"{format_claim_key(claim)}/{i}")
    return replace(allocation, devices=replace(allocation.devices, results=tuple(results)))


def release_claims(claims: Iterable[ResourceClaim], deleted_pods: Set[User]) -> Iterator[ResourceClaim]:
    """Yield copies of the claims that were reserved for deleted pods, without these pods among their users.

    A claim that has no users left loses its allocation. A claim is not yielded if none of its users was deleted.

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
    """Return the pod's identity among a claim's users: its namespace and its UID, or its name if it has no UID."""
    return pod.metadata.namespace, pod.metadata.uid or pod.metadata.name
