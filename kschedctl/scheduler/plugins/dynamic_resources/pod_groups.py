"""Claims of PodGroups (gate DRAWorkloadResourceClaims): the pod's group, and its reservations that could be given up.

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
    pod_group,
)
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.snapshot.fork import Fork

SCHEDULING_GROUP = "scheduling.k8s.io"


def group_of(pod: Pod, inventory: Inventory) -> PodGroup | None:
    """The pod's group, None for a pod without one. Raises ClaimError when it does not exist."""
    name = pod_group(pod)
    if name is None:
        return None
    for group in inventory.pod_groups:
        if (group.metadata.namespace, group.metadata.name) == (pod.metadata.namespace, name):
            return group
    raise ClaimError(f'podgroup.{SCHEDULING_GROUP} "{name}" not found')


def can_be_unreserved(pod: Pod, inventory: Inventory, view: Fork) -> bool:
    """Whether some claim is reserved for the pod's group while no pod of the group has a node.

    Raises ClaimError, and PluginError for a claim of the group that is not there.
    """
    group = group_of(pod, inventory)
    if group is None:
        return False
    members = view.pods.where(
        lambda info: info.namespace == pod.metadata.namespace and pod_group(info.pod) == pod_group(pod)
    )
    if (members[view.pods.info] & (view.node >= 0)).any():
        return False
    return any(claim.status.allocation and _is_reserved(claim, pod) for claim in _claims(group, inventory))


def _claims(group: PodGroup, inventory: Inventory) -> Iterator[ResourceClaim]:
    for reference in group.spec.resource_claims:
        name = _claim_name(group, reference)
        if name is None:
            continue
        claim = inventory.claims.get(f"{group.metadata.namespace}/{name}")
        if claim is None:
            raise PluginError(NOT_FOUND.format(f"{group.metadata.namespace}/{name}"))
        if reference.resource_claim_name is not None or _is_owner(group, claim):
            yield claim


def _claim_name(group: PodGroup, reference: PodGroupResourceClaim) -> str | None:
    """The name of a claim of the group, None for one that was not needed. Raises PluginError."""
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
    return any(owner.controller and owner.uid == group.metadata.uid for owner in claim.metadata.owner_references)


def _is_reserved(claim: ResourceClaim, pod: Pod) -> bool:
    group = (SCHEDULING_GROUP, "podgroups", pod_group(pod))
    users = claim.status.reserved_for
    return any(user.uid == pod.metadata.uid or (user.api_group, user.resource, user.name) == group for user in users)
