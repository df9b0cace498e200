"""Rejections of nodes without room for devices that stand for cpu, memory and other node resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

import numpy as np

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.objects import Device, NodeAllocatableResourceMapping, Pod, ResourceClaim
from kschedctl.api.pod_requests import Quantities, compute_pod_requests
from kschedctl.api.quantity import Quantity, parse
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.dynamic_resources.allocated import add_quantities
from kschedctl.scheduler.plugins.dynamic_resources.claims import format_claim_key, iter_pod_claims
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import DeviceVerdict, Evaluation
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocatedDevice, Allocation
from kschedctl.scheduler.plugins.helper.resource_allocation import Usage
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo, to_amounts

Rejections = list[tuple[Bools, DeviceVerdict]]
"""Masks of nodes (N,), each with the verdict for them."""


def list_shared_claim_rejections(evaluation: Evaluation, view: Fork, delta: Delta) -> Rejections:
    """Return the rejections of nodes on which another pod uses an allocated claim that provides node resources."""
    rejections: Rejections = []
    undecided = np.array([not outcome.settled for outcome in evaluation.outcomes], np.bool_)
    pod_uid = evaluation.pod.metadata.uid
    is_pod = view.pods.where(lambda info: info.pod.metadata.uid == pod_uid)
    for position, allocated in evaluation.allocated_claims.items():
        claim = evaluation.claims.all[position]
        uses_claim = _find_claim_users(claim, view)
        users = _count_by_node(uses_claim, view, delta)
        is_used_by_pod = _count_by_node(uses_claim & is_pod, view, delta) > 0
        available = undecided & ~allocated.unselected
        claim_label = f"node allocatable resource claim {claim.metadata.name}"
        shared = DeviceVerdict(Code.UNRESOLVABLE, f"{claim_label} shared by multiple pods")
        rejections.append((available & (users > 1), shared))
        used_by_other = DeviceVerdict(Code.UNRESOLVABLE, f"{claim_label} is already used by another pod")
        rejections.append((available & (users == 1) & ~is_used_by_pod, used_by_other))
    return rejections


def _find_claim_users(claim: ResourceClaim, view: Fork) -> Bools:
    """Return the mask of pod infos (I,) whose pods get node resources from the claim."""
    namespace, name = claim.metadata.namespace, claim.metadata.name
    return view.pods.where(lambda info: info.namespace == namespace and name in _list_claim_names(info.pod))


def _count_by_node(infos: Bools, view: Fork, delta: Delta) -> Counts:
    """Return the number of pods with the infos in the mask (I,) on each node (N,)."""
    return view.sum_by_node(infos.astype(np.int64)) + delta.count_changes(infos, len(view.nodes))


def _list_claim_names(pod: Pod) -> set[str]:
    """Return the names of the claims that provide node resources to the pod."""
    return {status.resource_claim_name for status in pod.status.node_allocatable_resource_claim_statuses}


def list_insufficiency_rejections(evaluation: Evaluation, info: PodInfo, view: Fork, delta: Delta) -> Rejections:
    """Return the rejections of nodes without room for the node resources of the devices allocated there."""
    rows_by_verdict: dict[int, list[int]] = {}  # by identity, since equivalent nodes share a verdict
    for row, outcome in enumerate(evaluation.outcomes):
        if outcome.searched and outcome.allocation is not None:
            rows_by_verdict.setdefault(id(outcome), []).append(row)
    usage = Usage(view, view.requested, view.requests, delta)
    rejections: Rejections = []
    for rows in rows_by_verdict.values():
        mask = np.zeros(len(view.nodes), np.bool_)
        mask[rows] = True
        shared_verdict = evaluation.outcomes[rows[0]]
        try:
            demand = _compute_demand(evaluation, info, shared_verdict.allocation or ())
        except _PodRejectedError as rejection:
            rejections.append((mask, rejection.outcome))
            continue
        for short, outcome in _list_resource_rejections(demand, usage):
            rejections.append((mask & short, outcome))
    return rejections


def _list_resource_rejections(demand: Quantities, usage: Usage) -> Rejections:
    """Return, for each resource, the rejections of the nodes that lack it.

    A node that could never provide the amount is unresolvable.
    """
    rejections: Rejections = []
    for name, amount in to_amounts(demand).items():
        if name.startswith(names.HUGE_PAGES_PREFIX) or (amount > 0 and not names.is_scalar(name)):
            offered, used = usage.column(name)
            short = amount > offered - used
            reason = f"Insufficient {name}"
            rejections.append((short & (amount > offered), DeviceVerdict(Code.UNRESOLVABLE, reason)))
            rejections.append((short & (amount <= offered), DeviceVerdict(Code.UNSCHEDULABLE, reason)))
    return rejections


class _PodRejectedError(Exception):
    """The error for a pod that fits no node with these devices."""

    def __init__(self, code: Code, reason: str) -> None:
        self.outcome = DeviceVerdict(code, reason)
        super().__init__(reason)


def _find_mapped_devices(evaluation: Evaluation) -> dict[tuple[str, str], Device]:
    """Return the devices that stand for node resources, by pool and name."""
    devices: dict[tuple[str, str], Device] = {}
    for indexed_slice in evaluation.inventory.slices:
        _, pool_name = indexed_slice.pool  # upstream forgets the driver
        for device in indexed_slice.devices:
            devices.setdefault((pool_name, device.device.name), device.device)
    return {key: device for key, device in devices.items() if device.node_allocatable_resource_mappings}


def _iter_claim_resources(
    evaluation: Evaluation, allocation: Allocation, mapped: Mapping[tuple[str, str], Device]
) -> Iterator[tuple[str, Quantities]]:
    """Yield the name of each claim whose new devices stand for node resources, with the total of these resources.

    Raises _PodRejectedError.
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
    """Yield each node resource that an allocated device stands for, with its amount. Raises _PodRejectedError."""
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
    """Return the amount of a node resource that a mapping yields, or None if none of its capacity is consumed.

    A mapping without a capacity yields its multiplier, and 0 without a multiplier.
    """
    multiplier = None if mapping.allocation_multiplier is None else parse(str(mapping.allocation_multiplier))
    if not mapping.capacity_key:
        return multiplier or parse("0")
    amount = consumed.get(mapping.capacity_key)
    if amount is None or multiplier is None:
        return amount
    return Quantity(amount.mantissa * multiplier.mantissa, amount.scale + multiplier.scale, amount.format, big=True)


def _compute_demand(evaluation: Evaluation, info: PodInfo, allocation: Allocation) -> Quantities:
    """Return the pod's requests including its devices, or nothing if no device stands for node resources.

    Raises _PodRejectedError if no container uses a claim with such a device, and if the requests of the pod level are
    smaller than those of its containers and devices.
    """
    pod = evaluation.pod
    mapped = _find_mapped_devices(evaluation)
    device_ids = [result.device.id for results in allocation for result in results]
    if not any((pool, device) in mapped for _, pool, device in device_ids):
        return {}

    claim_resources = sorted(_iter_claim_resources(evaluation, allocation, mapped), key=itemgetter(0))
    _check_referenced(evaluation, [name for name, _ in claim_resources])

    options = info.options._replace(use_status=False)
    device_amounts = [amounts for _, amounts in claim_resources]
    demand = compute_pod_requests(pod, options, device_amounts)
    if options.pod_level and pod.spec.resources is not None and pod.spec.resources.requests:
        parts = compute_pod_requests(pod, options._replace(pod_level=False), device_amounts)
        for name in sorted(demand):
            if name in parts and parts[name] > demand[name]:
                problem = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
                raise _PodRejectedError(Code.UNRESOLVABLE, f"pod level request for {name} {problem}")
    return demand


def _check_referenced(evaluation: Evaluation, claim_names: Iterable[str]) -> None:
    """Raise _PodRejectedError if one of the named claims is used by no container."""
    pod, inventory = evaluation.pod, evaluation.inventory
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    referenced = {claim.name for container in containers for claim in container.resources.claims}
    claims = iter_pod_claims(pod, inventory.claims, inventory.features)
    used = {claim.metadata.name for name, claim in claims if name in referenced}
    for name in claim_names:
        if name not in used:
            problem = "node-allocatable resource claim not referenced by any container within the pod"
            raise _PodRejectedError(Code.UNRESOLVABLE, f"claim {name}: {problem}")
