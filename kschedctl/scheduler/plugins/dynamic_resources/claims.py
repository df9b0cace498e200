"""Lookup of a pod's ResourceClaims, and checks of whether the pod can use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import (
    Condition,
    Pod,
    PodResourceClaim,
    ResourceClaim,
)
from kschedctl.api.ownership import find_controller
from kschedctl.api.times import parse_microseconds
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.plugins.helper.device_features import Features

EXTENDED_RESOURCE_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
ALL = "All"
"""The allocation mode of requests for all devices."""
NOT_CREATED_YET = "ResourceClaim not created yet"
CANNOT_ALLOCATE = "cannot allocate all claims"
NOT_AVAILABLE = "resourceclaim not available on the node"
NOT_FOUND = 'could not find ResourceClaim "{}"'
UNSUPPORTED = "none of the supported fields are set"


NOT_OWNER = ByVersion(
    "message for a claim that was created for another pod",
    (
        ("", "ResourceClaim {} was not created for pod {} (pod is not owner)"),
        ("1.36", "ResourceClaim {} was not created for Pod {} (Pod is not owner)"),
    ),
)


class ClaimError(Exception):
    """The error for a pod that cannot be scheduled with its claims as they are. ``str()`` is upstream's wording."""


class PodClaims:
    """The claims of a pod in order, followed by the claim for extended resources if there is one."""

    def __init__(self, own_claims: tuple[ResourceClaim, ...], extended: ResourceClaim | None = None) -> None:
        self.own_claims = own_claims
        """The claims that the pod's spec references."""
        self.extended = extended
        """The claim for extended resources, or None."""
        self.all = own_claims if extended is None else (*own_claims, extended)
        """The claims that the spec references, followed by `extended`."""

    @property
    def to_allocate(self) -> tuple[ResourceClaim, ...]:
        """The claims without an allocation."""
        return tuple(claim for claim in self.all if claim.status.allocation is None)


def format_claim_key(claim: ResourceClaim) -> str:
    """Return the claim's ``namespace/name``, or its name alone if it has no namespace."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    return f"{namespace}/{name}" if namespace else name


def iter_pod_claims(
    pod: Pod, claims: Mapping[str, ResourceClaim], features: Features
) -> Iterator[tuple[str, ResourceClaim]]:
    """Yield the claims that the pod's spec references, each with its name in the pod.

    References that need no claim are left out. Raises ClaimError if a claim is missing, is being deleted, or was
    generated for another pod. With DRAWorkloadResourceClaims, a claim may also have been generated for the pod's group.
    """
    namespace = pod.metadata.namespace
    for reference in pod.spec.resource_claims:
        name = find_claim_name(pod, reference)
        if name is None:
            continue
        claim = claims.get(f"{namespace}/{name}")
        if claim is None:
            raise ClaimError(NOT_FOUND.format(f"{namespace}/{name}"))
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        is_generated = reference.resource_claim_name is None
        if is_generated:
            _check_owner(pod, claim, features)
        yield reference.name, claim


def find_claim_name(pod: Pod, reference: PodResourceClaim) -> str | None:
    """Return the name of the claim that a reference in the pod's spec stands for.

    The name of a generated claim comes from the pod's status, where it is None if no claim was needed. Raises
    ClaimError if the claim is not created yet, or if the reference names neither a claim nor a template.
    """
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    if reference.resource_claim_template_name is None:
        raise ClaimError(f'pod "{pod.key}", spec.resourceClaim "{reference.name}": {UNSUPPORTED}')
    for status in pod.status.resource_claim_statuses:
        if status.name == reference.name:
            return status.resource_claim_name
    raise ClaimError(f'pod "{pod.key}": {NOT_CREATED_YET}')


def _check_owner(pod: Pod, claim: ResourceClaim, features: Features) -> None:
    """Raise ClaimError unless the claim is owned by the pod or, with DRAWorkloadResourceClaims, by the pod's group."""
    controller = find_controller(claim.metadata)
    if controller is not None and controller.uid == pod.metadata.uid:
        return
    group = find_pod_group_name(pod)
    if features.workload_claims and group:
        if controller and (controller.kind, controller.name) == ("PodGroup", group):
            return
        cause = f"neither Pod nor PodGroup {group} is the owner"
        raise ClaimError(f"ResourceClaim {format_claim_key(claim)} was not created for Pod {pod.key} ({cause})")
    raise ClaimError(NOT_OWNER.at(features.release).format(format_claim_key(claim), pod.key))


def find_pod_group_name(pod: Pod) -> str | None:
    """Return the name of the pod's PodGroup, or None if the pod is in no group."""
    return pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else None


def find_extended_resource_claim(pod: Pod, claims: Mapping[str, ResourceClaim]) -> ResourceClaim | None:
    """Return the claim for extended resources that an earlier scheduling attempt created for the pod, or None."""
    for claim in claims.values():
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_ANNOTATION) != "true":
            continue
        for owner in claim.metadata.owner_references:
            if owner.controller and (owner.name, owner.uid) == (pod.metadata.name, pod.metadata.uid):
                return claim
    return None


def can_be_deallocated(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the claim can lose its allocation because no other pod than `pod` uses it."""
    users = claim.status.reserved_for
    return not users or (len(users) == 1 and users[0].uid == pod.metadata.uid)


def find_binding_failure(claim: ResourceClaim, timeout: float, now: datetime) -> str:
    """Return why the claim's devices will not become ready, or an empty string if they are ready or still may be.

    A device fails if it reports a failure condition, or if it is not ready ``timeout`` seconds after the allocation. As
    in upstream, the check stops at the first device that is not ready, ignoring failure conditions of later devices.
    Raises InputError for an invalid allocation time.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return ""
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        device = (result.driver, result.pool, result.device)
        status = next((s for s in claim.status.devices if (s.driver, s.pool, s.device) == device), None)
        conditions = status.conditions if status is not None else ()
        for failure_condition in result.binding_failure_conditions:
            if _is_condition_true(conditions, failure_condition):
                return f"device {'/'.join(device)} reports {failure_condition}"
        is_ready = all(_is_condition_true(conditions, condition) for condition in result.binding_conditions)
        if not is_ready:
            return _describe_timeout(claim, allocation.allocation_timestamp, timeout, now)
    return ""


def _describe_timeout(claim: ResourceClaim, allocated_at: str | None, timeout: float, now: datetime) -> str:
    """Return a message if devices allocated at `allocated_at` are overdue at `now`, otherwise an empty string.

    ``timeout`` is in seconds. Without an allocation time, devices are never overdue. Raises InputError for an invalid
    allocation time.
    """
    if not allocated_at:
        return ""
    waited = now.timestamp() - _parse_allocation_time(claim, allocated_at)
    return f"waited longer than {timeout:g} s for its devices to become ready" if waited > timeout else ""


def _parse_allocation_time(claim: ResourceClaim, timestamp: str) -> float:
    """Parse the claim's allocation timestamp into seconds since the epoch. Raises InputError if it is invalid."""
    try:
        return parse_microseconds(timestamp) / 10**6
    except InputError as error:
        location = f"ResourceClaim {format_claim_key(claim)}, status.allocation.allocationTimestamp"
        raise InputError(error.what, where=location, hint=error.hint) from None


def _is_condition_true(conditions: tuple[Condition, ...], condition_type: str) -> bool:
    """Return whether the condition of this type is among the conditions and has the status True."""
    return any(condition.type == condition_type and condition.status == "True" for condition in conditions)


def find_claim_rejected_nodes(cycle: Cycle, plugin_name: str) -> Bools:
    """Return a mask (N,) of the nodes that the plugin rejected because an allocated claim cannot be used there.

    Upstream remembers the claims that block the pod only for these nodes. Nodes that the cycle did not consider, or
    that an earlier plugin rejected, are left out.
    """
    unavailable: Bools = np.zeros_like(cycle.considered)
    for plugin, verdict, reported in cycle.filter.iter_reported_verdicts():
        if plugin != plugin_name:
            continue
        for rejection in verdict.rejections:
            if rejection.reason == NOT_AVAILABLE:
                unavailable |= rejection.mask & reported & cycle.considered
    return unavailable
