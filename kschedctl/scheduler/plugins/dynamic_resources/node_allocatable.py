"""Rejections of nodes without room for devices that stand for cpu, memory and other node resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

import numpy as np

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import Device, NodeAllocatableResourceMapping, Pod, ResourceClaim
from kschedctl.api.pod_requests import Quantities, compute_pod_requests
from kschedctl.api.quantity import Quantity, parse_quantity
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.dynamic_resources.allocated import add_quantities
from kschedctl.scheduler.plugins.dynamic_resources.claims import format_claim_key, iter_pod_claims
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import DeviceVerdict, Evaluation
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocatedDevice, Allocation
from kschedctl.scheduler.plugins.helper.resource_allocation import Usage
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo, convert_to_amounts

Rejections = list[tuple[Bools, DeviceVerdict]]
"""Masks of nodes (N,), each with the verdict for them."""


def list_shared_claim_rejections(evaluation: Evaluation, view: Fork, delta: Delta) -> Rejections:
    """Return the rejections of nodes on which another pod uses one of the pod's allocated claims for node resources.

    A claim that provides node resources cannot be shared. There are two rejections per claim: of nodes with several
    pods that use it, and of nodes with one other pod that uses it. Nodes that the claim's allocation excludes are left
    out.
    """
    rejections: Rejections = []
    undecided = np.array([not outcome.decided_before_claims for outcome in evaluation.outcomes], np.bool_)
    pod_uid = evaluation.pod.metadata.uid
    is_own_info = view.pods.where(lambda info: info.pod.metadata.uid == pod_uid)
    for position, allocated in evaluation.allocated_claims.items():
        claim = evaluation.claims.all[position]
        info_uses_claim = _find_infos_using_claim(claim, view)
        users = _count_pods_by_node(info_uses_claim, view, delta)
        is_used_by_pod = _count_pods_by_node(info_uses_claim & is_own_info, view, delta) > 0
        available = undecided & ~allocated.unselected
        claim_label = f"node allocatable resource claim {claim.metadata.name}"
        shared = DeviceVerdict(Code.UNRESOLVABLE, f"{claim_label} shared by multiple pods")
        rejections.append((available & (users > 1), shared))
        used_by_other = DeviceVerdict(Code.UNRESOLVABLE, f"{claim_label} is already used by another pod")
        rejections.append((available & (users == 1) & ~is_used_by_pod, used_by_other))
    return rejections


def _find_infos_using_claim(claim: ResourceClaim, view: Fork) -> Bools:
    """Return the mask of pod infos (I,) whose pods get node resources from the claim."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    return view.pods.where(lambda info: info.namespace == namespace and name in _list_claim_names(info.pod))


def _count_pods_by_node(infos: Bools, view: Fork, delta: Delta) -> Counts:
    """Return how many pods on each node (N,) have one of the infos in the mask (I,), after the hypothetical changes."""
    return view.sum_by_node(infos.astype(np.int64)) + delta.count_changes(infos, len(view.nodes))


def _list_claim_names(pod: Pod) -> set[str]:
    """Return the names of the claims that provide node resources to the pod, as its status records."""
    return {status.resource_claim_name for status in pod.status.node_allocatable_resource_claim_statuses}


def list_missing_resource_rejections(evaluation: Evaluation, info: PodInfo, view: Fork, delta: Delta) -> Rejections:
    """Return the rejections of nodes that have devices for the pod but lack the node resources behind them.

    Each missing resource yields one rejection, so a node may be in several. If the pod's demand cannot be computed for
    some devices, all nodes with these devices are rejected for that reason.
    """
    rows_by_verdict: dict[int, list[int]] = {}  # by identity, since equivalent nodes share a verdict
    for row, outcome in enumerate(evaluation.outcomes):
        if outcome.searched and outcome.allocation is not None:
            rows_by_verdict.setdefault(id(outcome), []).append(row)

    usage = Usage(view, view.requested, view.requests, delta)
    rejections: Rejections = []
    for rows in rows_by_verdict.values():
        has_verdict = np.zeros(len(view.nodes), np.bool_)
        has_verdict[rows] = True
        first_row = rows[0]
        shared_verdict = evaluation.outcomes[first_row]
        try:
            demand = _compute_requests_with_devices(evaluation, info, shared_verdict.allocation or ())
        except _PodRejectedError as rejection:
            rejections.append((has_verdict, rejection.outcome))
            continue
        for lacks_resource, outcome in _list_resource_rejections(demand, usage):
            rejections.append((has_verdict & lacks_resource, outcome))
    return rejections


def _list_resource_rejections(demand: Quantities, usage: Usage) -> Rejections:
    """Return the rejections of the nodes that lack a demanded resource, two for each resource.

    A node that would lack the amount even if it were empty is Unresolvable. A node that would have it if it were empty
    is Unschedulable. Extended resources are left out. A demand of zero is left out as well, except for huge pages.
    Upstream: nodeFitsResources.
    """
    rejections: Rejections = []
    for name, amount in convert_to_amounts(demand).items():
        # As in upstream, a demand of no huge pages is rejected by nodes whose huge pages are overcommitted
        is_huge_pages = name.startswith(names.HUGE_PAGES_PREFIX)
        is_native_demand = amount > 0 and not names.is_scalar(name)
        if not is_huge_pages and not is_native_demand:
            continue
        offered, used = usage.get_column(name)
        is_short = amount > offered - used
        is_too_small = amount > offered  # even without any pods
        reason = f"Insufficient {name}"
        rejections.append((is_short & is_too_small, DeviceVerdict(Code.UNRESOLVABLE, reason)))
        rejections.append((is_short & ~is_too_small, DeviceVerdict(Code.UNSCHEDULABLE, reason)))
    return rejections


class _PodRejectedError(Exception):
    """The error for a pod that fits no node with these devices."""

    def __init__(self, code: Code, reason: str) -> None:
        self.outcome = DeviceVerdict(code, reason)
        super().__init__(reason)


def _find_mapped_devices(evaluation: Evaluation) -> dict[tuple[str, str], Device]:
    """Return the devices that stand for node resources, by the names of their pool and device.

    As in upstream, only the first of several devices with the same names is used, even if their drivers differ.
    """
    devices: dict[tuple[str, str], Device] = {}
    for indexed_slice in evaluation.inventory.slices:
        _driver, pool_name = indexed_slice.pool  # upstream's key lacks the driver
        for device in indexed_slice.devices:
            devices.setdefault((pool_name, device.device.name), device.device)
    return {key: device for key, device in devices.items() if device.node_allocatable_resource_mappings}


def _iter_claim_resources(
    evaluation: Evaluation, allocation: Allocation, mapped: Mapping[tuple[str, str], Device]
) -> Iterator[tuple[str, Quantities]]:
    """Yield the name of each claim whose newly allocated devices stand for node resources, with the total amounts.

    `mapped` has the devices that stand for node resources, by the names of their pool and device. Raises
    _PodRejectedError if a device has no consumed capacity for its mapping.
    """
    for claim, results in zip(evaluation.claims.to_allocate, allocation, strict=True):
        total: Quantities = {}
        for result in results:
            _, pool_name, device_name = result.device.id
            device = mapped.get((pool_name, device_name))
            if device is not None:
                add_quantities(total, dict(_iter_device_resources(device, result, format_claim_key(claim))))
        if total:
            yield claim.metadata.name, total


def _iter_device_resources(device: Device, result: AllocatedDevice, claim: str) -> Iterator[tuple[str, Quantity]]:
    """Yield each node resource that an allocated device of the claim stands for, with its amount.

    Resources without an amount are left out. Raises _PodRejectedError if the resource depends on a capacity, but no
    capacity of the device is consumed.
    """
    consumed = result.consumed if result.shared else None
    for name, mapping in device.node_allocatable_resource_mappings.items():
        if mapping.capacity_key and not consumed:
            raise _PodRejectedError(
                Code.ERROR,
                f"claim {claim}, device {device.name}: ConsumedCapacity is nil, but Capacity key "
                f"'{mapping.capacity_key}' is set in NodeAllocatableResourceMappings for resource {name}",
            )
        quantity = _compute_mapped_amount(mapping, consumed or {})
        if quantity is not None:
            yield name, quantity


def _compute_mapped_amount(
    mapping: NodeAllocatableResourceMapping, consumed: Mapping[str, Quantity]
) -> Quantity | None:
    """Return the amount of a node resource that an allocated device provides.

    The amount is the consumed amount of the mapping's capacity times its multiplier, which is 1 by default. Return None
    if the device's claim does not consume this capacity. If the mapping has no capacity, the amount is the multiplier,
    which then is 0 by default.
    """
    multiplier = None if mapping.allocation_multiplier is None else parse_quantity(str(mapping.allocation_multiplier))
    if not mapping.capacity_key:
        return multiplier or parse_quantity("0")
    amount = consumed.get(mapping.capacity_key)
    if amount is None or multiplier is None:
        return amount
    return Quantity(amount.mantissa * multiplier.mantissa, amount.scale + multiplier.scale, amount.format, big=True)


def _compute_requests_with_devices(evaluation: Evaluation, info: PodInfo, allocation: Allocation) -> Quantities:
    """Return what the pod needs from the node: its requests and the node resources behind its allocated devices.

    Return {} if none of the devices stands for node resources. Raises _PodRejectedError if no container uses a claim
    with such a device, or if the pod-level requests are too small for the containers and devices.
    """
    pod = evaluation.pod
    mapped = _find_mapped_devices(evaluation)
    device_ids = [result.device.id for results in allocation for result in results]
    allocates_mapped_device = any((pool, device) in mapped for _driver, pool, device in device_ids)
    if not allocates_mapped_device:
        return {}

    claim_resources = sorted(_iter_claim_resources(evaluation, allocation, mapped), key=itemgetter(0))
    _check_claims_are_used(evaluation, [name for name, _ in claim_resources])

    options = info.options._replace(use_status=False)  # the pod has not started, so its status has no amounts
    device_amounts = [amounts for _, amounts in claim_resources]
    requests = compute_pod_requests(pod, options, device_amounts)
    # Pod-level requests replace the containers' requests, so they must cover the containers and devices.
    if options.pod_level and pod.spec.resources is not None and pod.spec.resources.requests:
        container_requests = compute_pod_requests(pod, options._replace(pod_level=False), device_amounts)
        _check_pod_level_requests(requests, container_requests)
    return requests


def _check_pod_level_requests(requests: Quantities, container_requests: Quantities) -> None:
    """Raise _PodRejectedError for the first resource of which the containers and devices need more than `requests`."""
    for name in sorted(requests):
        if name in container_requests and container_requests[name] > requests[name]:
            problem = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
            raise _PodRejectedError(Code.UNRESOLVABLE, f"pod level request for {name} {problem}")


def _check_claims_are_used(evaluation: Evaluation, claim_names: Iterable[str]) -> None:
    """Raise _PodRejectedError for the first of the named claims that no container uses."""
    pod, inventory = evaluation.pod, evaluation.inventory
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    used_references = {claim.name for container in containers for claim in container.resources.claims}
    pod_claims = iter_pod_claims(pod, inventory.claims, inventory.features)
    used_claim_names = {claim.metadata.name for reference, claim in pod_claims if reference in used_references}
    for name in claim_names:
        if name not in used_claim_names:
            problem = "node-allocatable resource claim not referenced by any container within the pod"
            raise _PodRejectedError(Code.UNRESOLVABLE, f"claim {name}: {problem}")
