"""The claims of PodGroups (gate DRAWorkloadResourceClaims) and whether their reservations can be given up.

Upstream: unreservePodGroupClaims in plugins/dynamicresources/dynamicresources.go and NameFromPodGroup, IsReservedForPod
in staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod, PodGroup, PodGroupResourceClaim, ResourceClaim
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.dynamic_resources.claims import (
    NOT_CREATED_YET,
    NOT_FOUND,
    UNSUPPORTED,
    ClaimError,
    find_pod_group_name,
)
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.snapshot.fork import Fork

SCHEDULING_GROUP = "scheduling.k8s.io"


def find_group(pod: Pod, inventory: Inventory) -> PodGroup | None:
    """Return the PodGroup of the pod, or None if the pod is in no group.

    Raises ClaimError if the group does not exist.
    """
    name = find_pod_group_name(pod)
    if name is None:
        return None
    for group in inventory.pod_groups:
        if (group.metadata.namespace, group.metadata.name) == (pod.metadata.namespace, name):
            return group
    raise ClaimError(f'podgroup.{SCHEDULING_GROUP} "{name}" not found')


def can_unreserve_claims(pod: Pod, inventory: Inventory, view: Fork) -> bool:
    """Return whether a claim is reserved for the pod's group although no pod of the group has a node.

    Raises ClaimError, and PluginError if a claim of the group does not exist.
    """
    group = find_group(pod, inventory)
    if group is None:
        return False
    members = view.pods.where(
        lambda info: (
            info.namespace == pod.metadata.namespace and find_pod_group_name(info.pod) == find_pod_group_name(pod)
        )
    )
    if (members[view.pods.info] & (view.node >= 0)).any():
        return False
    return any(claim.status.allocation and _is_reserved(claim, pod) for claim in _iter_claims(group, inventory))


def _iter_claims(group: PodGroup, inventory: Inventory) -> Iterator[ResourceClaim]:
    """Yield the claims of the group. Raises PluginError if one does not exist."""
    for reference in group.spec.resource_claims:
        name = _find_claim_name(group, reference)
        if name is None:
            continue
        claim = inventory.claims.get(f"{group.metadata.namespace}/{name}")
        if claim is None:
            raise PluginError(NOT_FOUND.format(f"{group.metadata.namespace}/{name}"))
        if reference.resource_claim_name is not None or _is_owner(group, claim):
            yield claim


def _find_claim_name(group: PodGroup, reference: PodGroupResourceClaim) -> str | None:
    """Return the name of the group's claim, or None if none was needed. Raises PluginError."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    where = f"PodGroup {group.metadata.namespace}/{group.metadata.name}"
    if reference.resource_claim_template_name is None:
        raise PluginError(f"{where}, spec.resourceClaim {reference.name}: {UNSUPPORTED}")
    for status in group.status.resource_claim_statuses:
        if status.name == reference.name:
            return status.resource_claim_name
    raise PluginError(f"{where}: {NOT_CREATED_YET}")


def _is_owner(group: PodGroup, claim: ResourceClaim) -> bool:
    """Return whether the group is the controller of the claim."""
    return any(owner.controller and owner.uid == group.metadata.uid for owner in claim.metadata.owner_references)


def _is_reserved(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the claim is reserved for the pod or its group."""
    group = (SCHEDULING_GROUP, "podgroups", find_pod_group_name(pod))
    users = claim.status.reserved_for
    return any(user.uid == pod.metadata.uid or (user.api_group, user.resource, user.name) == group for user in users)
