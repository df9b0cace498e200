"""PreFilter of DynamicResources: find the pod's claims, check them, and prepare their evaluation on all nodes.

With gate DRAWorkloadResourceClaims, the claims of the pod's PodGroup count as well. Upstream: PreFilter and
unreservePodGroupClaims in plugins/dynamicresources/dynamicresources.go, and NameFromPodGroup and IsReservedForPod in
staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/resourceclaim.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.node_selector import NodeSelectorError, compile_node_selector
from kschedctl.api.objects import DeviceRequest, Pod, PodGroup, PodGroupResourceClaim, PodSpec, ResourceClaim
from kschedctl.api.resource_names import is_dra_extended
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.extended_resources import IN_MEMORY_NAME, build_empty_claim, is_any_backed
from kschedctl.scheduler.plugins.dynamic_resources.claims import (
    NOT_CREATED_YET,
    NOT_FOUND,
    UNSUPPORTED,
    ClaimError,
    PodClaims,
    find_binding_failure,
    find_extended_resource_claim,
    find_pod_group_name,
    format_claim_key,
)
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import AllocatedClaim, Evaluation
from kschedctl.scheduler.plugins.dynamic_resources.facts import UnusableClaim
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory, get_inventory
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import match_node_selector
from kschedctl.snapshot.pod_info import PodInfo

_encode = msgspec.msgpack.Encoder(order="sorted").encode

HAS_ALTERNATIVES = ByVersion(
    "a request can list alternatives (firstAvailable)", (("", False), ("1.33", True)), "KEP 4816"
)


def list_pod_claims(info: PodInfo, view: Fork, features: Features) -> tuple[ResourceClaim, ...]:
    """Return the claims that the pod's spec references, in order. Raises ClaimError if one is missing or unusable."""
    return get_inventory(view, features).list_pod_claims(info)


class ExtendedResourceDemand(NamedTuple):
    """The extended resources that pods with equal specs request from devices."""

    resources: tuple[str, ...]
    """The names of the extended resources, empty if no DeviceClass backs one of them."""
    requested: bytes
    """The requests of each container, encoded for comparison."""


def prepare_evaluation(
    info: PodInfo, view: Fork, features: Features, filter_timeout: float, binding_timeout: float
) -> Evaluation | None:
    """Prepare the evaluation of the pod's claims on all nodes, or return None if the pod needs no devices.

    Timeouts are in seconds, and 0 means no timeout. Raises ClaimError if a claim, its device class or the pod's group
    is missing or unusable. Raises PluginError if upstream's plugin would fail.
    """
    inventory = get_inventory(view, features)
    pod_claims = inventory.list_pod_claims(info)
    if features.workload_claims:
        _check_group_exists(info.pod, inventory)

    # The numbers of the claims' specs, or None for allocated claims
    spec_numbers = tuple(
        [None if claim.status.allocation else inventory.get_claim_spec_id(claim) for claim in pod_claims]
    )
    compute_demand = partial(_check_classes_and_compute_demand, info, pod_claims, inventory)
    if info.alike is None:
        extended_demand = compute_demand()
    else:  # pods with equal specs, whose claims have equal specs, share the result
        extended_demand = inventory.facts.get_or_make((info.alike, spec_numbers), compute_demand)
    if not pod_claims and not extended_demand.resources:
        return None

    extended = _find_or_build_extended_claim(info.pod, inventory) if extended_demand.resources else None
    claims = PodClaims(pod_claims, extended)
    allocated_claims = {
        i: _build_allocated_claim(claim, inventory, binding_timeout)
        for i, claim in enumerate(claims.all)
        if claim.status.allocation
    }

    # Pods with equal claims share verdicts, except if a claim is allocated or its extended resource claim exists.
    sharing_key = None
    has_existing_extended_claim = extended is not None and extended.metadata.name != IN_MEMORY_NAME
    if not allocated_claims and not has_existing_extended_claim:
        sharing_key = spec_numbers, extended_demand, filter_timeout
    return Evaluation(
        inventory,
        info.pod,
        claims=claims,
        allocated_claims=allocated_claims,
        resources=extended_demand.resources,
        like=sharing_key,
        seconds=filter_timeout,
    )


def _check_classes_and_compute_demand(
    info: PodInfo, pod_claims: Iterable[ResourceClaim], inventory: Inventory
) -> ExtendedResourceDemand:
    """Check the device classes of unallocated claims, and return the extended resources that the pod requests.

    The demand is empty if no DeviceClass backs a requested resource. Raises ClaimError if a device class does not
    exist, and PluginError for a request that is not supported.
    """
    for claim in pod_claims:
        if claim.status.allocation is None:
            _check_classes(claim, inventory)

    classes = inventory.classes_by_resource
    requests: Mapping[str, int] = {}
    if not _list_requested_resources(info.spec).isdisjoint(classes):
        requests = _compute_spec_requests(info)
    if not is_any_backed(requests, classes):
        return ExtendedResourceDemand(resources=(), requested=b"")

    resources = tuple([name for name, amount in requests.items() if amount and is_dra_extended(name)])
    containers = [
        (c.name, c.restart_policy, c.resources.requests) for c in (*info.spec.init_containers, *info.spec.containers)
    ]
    return ExtendedResourceDemand(resources, requested=_encode(containers))


def _find_or_build_extended_claim(pod: Pod, inventory: Inventory) -> ResourceClaim:
    """Return the claim for extended resources that an earlier attempt created for the pod, or build an empty one."""
    return find_extended_resource_claim(pod, inventory.claims) or build_empty_claim(pod)


def _list_requested_resources(spec: PodSpec) -> set[str]:
    """Return the names of the resources in the pod's requests: of containers, of the pod level and of the overhead."""
    requests = {name for c in (*spec.init_containers, *spec.containers) for name in c.resources.requests}
    return requests.union(spec.overhead, spec.resources.requests if spec.resources else ())


def _compute_spec_requests(info: PodInfo) -> dict[str, int]:
    """Compute the pod's requests by resource from its spec, including pod-level requests but ignoring its status."""
    return info.compute_amounts(info.options._replace(use_status=False, pod_level=True, dra_node_allocatable=False))


def _build_allocated_claim(claim: ResourceClaim, inventory: Inventory, timeout: float) -> AllocatedClaim:
    """Build the record of an allocated claim and of the nodes on which it cannot be used.

    If the claim's devices fail or do not become ready within `timeout` seconds, these are all nodes. Raises PluginError
    if the allocation's node selector is invalid.
    """
    unselected = _find_nodes_outside_allocation(claim, inventory)
    failure = find_binding_failure(claim, timeout, datetime.now(UTC)) if inventory.features.binding_conditions else ""
    is_unusable_everywhere = bool(failure)
    return AllocatedClaim(
        unselected,
        unavailable=unselected | is_unusable_everywhere,
        why=UnusableClaim(format_claim_key(claim), failure),
    )


def _check_classes(claim: ResourceClaim, inventory: Inventory) -> None:
    """Raise ClaimError if a device class of the claim does not exist, and PluginError if a request has no class.

    ClaimError is also raised for a request of an unknown or disabled type.
    """
    for request in claim.spec.devices.requests:
        for name, class_name in _iter_requests_with_class(claim, request, inventory.features):
            if not class_name:
                raise PluginError(f"request {name}: unsupported request type")
            if class_name not in inventory.classes:
                raise ClaimError(f"request {name}: device class {class_name} does not exist")


def _find_nodes_outside_allocation(claim: ResourceClaim, inventory: Inventory) -> Bools:
    """Return a mask (N,) of the nodes that the node selector of the claim's allocation excludes.

    If there is no allocation or no selector, no node is excluded. Raises PluginError if the selector is invalid.
    """
    selector = claim.status.allocation.node_selector if claim.status.allocation else None
    if selector is None:
        return np.zeros(len(inventory.nodes), np.bool_)
    compiled = compile_node_selector(selector)
    try:
        compiled.raise_errors()
    except NodeSelectorError as error:
        raise PluginError(str(error)) from None
    return ~match_node_selector(inventory.nodes, compiled)


def _iter_requests_with_class(
    claim: ResourceClaim, request: DeviceRequest, features: Features
) -> Iterator[tuple[str, str]]:
    """Yield the name and the device class name of a request, or of each of its alternatives.

    The class name is empty for a request with alternatives if the version does not support them. Raises ClaimError if
    the request is neither exact nor has alternatives, or if alternatives are disabled.
    """
    if request.exactly is not None:
        yield request.name, request.exactly.device_class_name
        return
    if not HAS_ALTERNATIVES.at(features.release):
        yield request.name, ""
        return
    location = f"resource claim {format_claim_key(claim)}, request {request.name}"
    if not request.first_available:
        raise ClaimError(f"{location}: unknown request type")
    if not features.prioritized_list:
        raise ClaimError(f"{location}: has subrequests, but the DRAPrioritizedList feature is disabled")
    for alternative in request.first_available:
        yield f"{request.name}/{alternative.name}", alternative.device_class_name


SCHEDULING_API_GROUP = "scheduling.k8s.io"


def _check_group_exists(pod: Pod, inventory: Inventory) -> None:
    """Raise ClaimError if the pod is in a group that does not exist."""
    find_pod_group(pod, inventory)


def find_pod_group(pod: Pod, inventory: Inventory) -> PodGroup | None:
    """Return the PodGroup of the pod, or None if the pod is in no group.

    Raises ClaimError if the group does not exist.
    """
    name = find_pod_group_name(pod)
    if name is None:
        return None
    for group in inventory.pod_groups:
        if (group.metadata.namespace, group.metadata.name) == (pod.metadata.namespace, name):
            return group
    raise ClaimError(f'podgroup.{SCHEDULING_API_GROUP} "{name}" not found')


def can_unreserve_claims(pod: Pod, inventory: Inventory, view: Fork) -> bool:
    """Return whether upstream would unreserve claims of the pod's group.

    No pod of the group may have a node, and an allocated claim of the group must be reserved for the pod or the group.
    Raises ClaimError if the group does not exist, and PluginError if a claim of the group is missing or unsupported.
    """
    group = find_pod_group(pod, inventory)
    if group is None:
        return False
    namespace, group_name = group.metadata.namespace, group.metadata.name
    is_member_info = view.pods.where(
        lambda info: info.namespace == namespace and find_pod_group_name(info.pod) == group_name
    )
    is_member = is_member_info[view.pods.info]
    has_node = view.node >= 0
    if (is_member & has_node).any():
        return False
    return any(
        claim.status.allocation and _is_reserved_for_pod_or_group(claim, pod)
        for claim in _iter_group_claims(group, inventory)
    )


def _iter_group_claims(group: PodGroup, inventory: Inventory) -> Iterator[ResourceClaim]:
    """Yield the claims that the group references. A generated claim is left out unless the group controls it.

    Raises PluginError if a claim is missing or unsupported.
    """
    for reference in group.spec.resource_claims:
        name = _find_group_claim_name(group, reference)
        if name is None:
            continue
        claim = inventory.claims.get(f"{group.metadata.namespace}/{name}")
        if claim is None:
            raise PluginError(NOT_FOUND.format(f"{group.metadata.namespace}/{name}"))
        is_generated = reference.resource_claim_name is None
        if not is_generated or _is_controller(group, claim):
            yield claim


def _find_group_claim_name(group: PodGroup, reference: PodGroupResourceClaim) -> str | None:
    """Return the name of the claim that a reference in the group's spec stands for.

    The name of a generated claim comes from the group's status, where it is None if no claim was needed. Raises
    PluginError if the claim is not created yet, or if the reference names neither a claim nor a template.
    """
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    location = f"PodGroup {group.metadata.namespace}/{group.metadata.name}"
    if reference.resource_claim_template_name is None:
        raise PluginError(f"{location}, spec.resourceClaim {reference.name}: {UNSUPPORTED}")
    for status in group.status.resource_claim_statuses:
        if status.name == reference.name:
            return status.resource_claim_name
    raise PluginError(f"{location}: {NOT_CREATED_YET}")


def _is_controller(group: PodGroup, claim: ResourceClaim) -> bool:
    """Return whether the group is the controller of the claim."""
    return any(owner.controller and owner.uid == group.metadata.uid for owner in claim.metadata.owner_references)


def _is_reserved_for_pod_or_group(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the claim is reserved for the pod or for the pod's group."""
    pod_group = (SCHEDULING_API_GROUP, "podgroups", find_pod_group_name(pod))
    return any(
        user.uid == pod.metadata.uid or (user.api_group, user.resource, user.name) == pod_group
        for user in claim.status.reserved_for
    )
