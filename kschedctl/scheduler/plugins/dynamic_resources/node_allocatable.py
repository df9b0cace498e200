"""Checks of the node's room for devices that stand for cpu, memory and other node resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

import numpy as np

from kschedctl.api import resource_names as names
from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Device, NodeAllocatableResourceMapping, Pod
from kschedctl.api.pod_requests import Quantities, compute_pod_requests
from kschedctl.api.quantity import Quantity, parse
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.dynamic_resources.claims import format_claim_key, iter_pod_claims
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import DeviceVerdict, Evaluation
from kschedctl.scheduler.plugins.dynamic_resources.requests import AllocatedDevice, Allocation
from kschedctl.scheduler.plugins.helper.resource_allocation import Usage
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo, to_amounts

Rejections = list[tuple[Bools, DeviceVerdict]]
"""Masks of nodes (N,), each with the verdict for them."""


def reject_shared_claims(evaluation: Evaluation, view: Fork, delta: Delta) -> Rejections:
    """Reject nodes on which another pod uses an allocated claim of this pod that provides node resources."""
    rejections: Rejections = []
    undecided = np.array([not outcome.settled for outcome in evaluation.outcomes], np.bool_)
    for position, held in evaluation.allocated_claims.items():
        claim = evaluation.claims.all[position]
        users, is_user = _count_users(view, delta, claim.metadata.namespace, claim.metadata.name, evaluation.pod)
        available = undecided & ~held.unselected
        claim_label = f"node allocatable resource claim {claim.metadata.name}"
        rejections.append(
            (available & (users > 1), DeviceVerdict(Code.UNRESOLVABLE, f"{claim_label} shared by multiple pods"))
        )
        another = DeviceVerdict(Code.UNRESOLVABLE, f"{claim_label} is already used by another pod")
        rejections.append((available & (users == 1) & ~is_user, another))
    return rejections


def _count_users(view: Fork, delta: Delta, namespace: str, name: str, pod: Pod) -> tuple[np.ndarray, Bools]:
    """Return the number of pods on each node (N,) that use the claim, and a mask (N,) of the nodes where this pod
    does.
    """
    pods = view.pods
    using = pods.where(lambda info: info.namespace == namespace and name in _list_claim_names(info.pod))
    itself = pods.where(lambda info: info.pod.metadata.uid == pod.metadata.uid)
    users = view.sum_by_node(using.astype(np.int64)) + delta.counts(using, len(view.nodes))
    both = using & itself
    return users, view.sum_by_node(both.astype(np.int64)) + delta.counts(both, len(view.nodes)) > 0


def _list_claim_names(pod: Pod) -> set[str]:
    """Return the names of the claims that provide node resources to the pod."""
    return {status.resource_claim_name for status in pod.status.node_allocatable_resource_claim_statuses}


def reject_insufficient_nodes(evaluation: Evaluation, info: PodInfo, view: Fork, delta: Delta) -> Rejections:
    """Reject feasible nodes without room for the node resources that the pod's devices consume."""
    by_outcome: dict[int, list[int]] = {}
    for row, outcome in enumerate(evaluation.outcomes):
        if outcome.searched and outcome.allocation is not None:
            by_outcome.setdefault(id(outcome), []).append(row)
    usage = Usage(view, view.requested, view.requests, delta)
    rejections: Rejections = []
    for rows in by_outcome.values():
        mask = np.zeros(len(view.nodes), np.bool_)
        mask[rows] = True
        try:
            demand = _compute_demand(evaluation, info, evaluation.outcomes[rows[0]].allocation or ())
        except _PodRejectedError as refusal:
            rejections.append((mask, refusal.outcome))
            continue
        rejections += ((mask & short, outcome) for short, outcome in _find_insufficient_resources(demand, usage))
    return rejections


def _find_insufficient_resources(demand: Quantities, usage: Usage) -> Rejections:
    """Return, for each resource, a rejection of the nodes that lack it.

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
        for device in indexed_slice.devices:
            devices.setdefault(
                (indexed_slice.pool[1], device.device.name), device.device
            )  # upstream forgets the driver
    return {name: device for name, device in devices.items() if device.node_allocatable_resource_mappings}


def _iter_claim_resources(
    evaluation: Evaluation, allocation: Allocation, mapped: Mapping[tuple[str, str], Device]
) -> Iterator[tuple[str, Quantities]]:
    """Yield the name and the node resources of each claim whose new devices provide some.

    Raises _PodRejectedError.
    """
    for claim, results in zip(evaluation.claims.to_allocate, allocation, strict=True):
        total: Quantities = {}
        for result in results:
            device = mapped.get(result.device.id[1:])
            for name, amount in _iter_device_resources(device, result, format_claim_key(claim)) if device else ():
                total[name] = total[name].add(amount) if name in total else amount
        if total:
            yield claim.metadata.name, total


def _iter_device_resources(device: Device, result: AllocatedDevice, claim: str) -> Iterator[tuple[str, Quantity]]:
    """Yield the node resources that an allocated device provides. Raises _PodRejectedError."""
    for name, mapping in device.node_allocatable_resource_mappings.items():
        quantity = _compute_mapped_amount(mapping, result.consumed if result.shared else None, name, device.name, claim)
        if quantity is not None:
            yield name, quantity


def _compute_mapped_amount(
    mapping: NodeAllocatableResourceMapping, consumed: Mapping[str, Quantity] | None, name: str, device: str, claim: str
) -> Quantity | None:
    """Return the amount of a node resource that a mapping yields, or None if none of its capacity is consumed.

    Raises _PodRejectedError if the mapping needs consumed capacity and there is none.
    """
    multiplier = None if mapping.allocation_multiplier is None else parse(str(mapping.allocation_multiplier))
    if not mapping.capacity_key:
        return multiplier or parse("0")
    if not consumed:
        raise _PodRejectedError(
            Code.ERROR,
            f"claim {claim}, device {device}: ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' "
            f"is set in NodeAllocatableResourceMappings for resource {name}",
        )
    amount = consumed.get(mapping.capacity_key)
    if amount is None or multiplier is None:
        return amount
    return Quantity(amount.mantissa * multiplier.mantissa, amount.scale + multiplier.scale, amount.format, big=True)


def _compute_demand(evaluation: Evaluation, info: PodInfo, allocation: Allocation) -> Quantities:
    """Return the pod's requests including its devices, or nothing if no device stands for node resources.

    If a device does, all requests are checked again. Raises _PodRejectedError.
    """
    pod = evaluation.pod
    mapped = _find_mapped_devices(evaluation)
    if not any(result.device.id[1:] in mapped for results in allocation for result in results):
        return {}
    claim_resources = sorted(_iter_claim_resources(evaluation, allocation, mapped), key=itemgetter(0))
    _check_referenced(evaluation, [name for name, _ in claim_resources])
    options = info.options._replace(use_status=False)
    from_devices = [amounts for _, amounts in claim_resources]
    demand = compute_pod_requests(pod, options, from_devices)
    parts = compute_pod_requests(pod, options._replace(pod_level=False), from_devices)
    if options.pod_level and pod.spec.resources is not None and pod.spec.resources.requests:
        for name in sorted(demand):
            if name in parts and parts[name] > demand[name]:
                problem = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
                raise _PodRejectedError(Code.UNRESOLVABLE, f"pod level request for {name} {problem}")
    return demand


def _check_referenced(evaluation: Evaluation, claim_names: Iterable[str]) -> None:
    """Raise _PodRejectedError if no container uses one of the named claims."""
    pod, inventory = evaluation.pod, evaluation.inventory
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    referenced = {claim.name for container in containers for claim in container.resources.claims}
    claims = iter_pod_claims(pod, inventory.claims, inventory.features)
    used = {claim.metadata.name for name, claim in claims if name in referenced}
    for name in claim_names:
        if name not in used:
            problem = "node-allocatable resource claim not referenced by any container within the pod"
            raise _PodRejectedError(Code.UNRESOLVABLE, f"claim {name}: {problem}")
