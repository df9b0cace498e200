"""Devices that stand for cpu, memory and other node resources (gate DRANodeAllocatableResources): is there room?

Upstream: plugins/dynamicresources/nodeallocatabledynamicresources.go (v1.36).
"""

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
from kschedctl.scheduler.plugins.dynamic_resources.claims import key, pod_claims
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import DeviceVerdict, Evaluation
from kschedctl.scheduler.plugins.dynamic_resources.results import Allocation, Result
from kschedctl.scheduler.plugins.helper.resource_allocation import Usage
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo, to_amounts

Refusals = list[tuple[Bools, DeviceVerdict]]
"""Nodes (N,) and what is said of them."""


def shared_claims(evaluation: Evaluation, view: Fork, delta: Delta) -> Refusals:
    """Nodes where pods use an allocated claim of this pod that gives node resources: no two pods may share it."""
    refusals: Refusals = []
    looked_at = np.array([not outcome.settled for outcome in evaluation.outcomes], np.bool_)
    for position, held in evaluation.held.items():
        claim = evaluation.claims.all[position]
        users, is_user = _users(view, delta, claim.metadata.namespace, claim.metadata.name, evaluation.pod)
        available = looked_at & ~held.unselected
        where = f"node allocatable resource claim {claim.metadata.name}"
        refusals.append((available & (users > 1), DeviceVerdict(Code.UNRESOLVABLE, f"{where} shared by multiple pods")))
        another = DeviceVerdict(Code.UNRESOLVABLE, f"{where} is already used by another pod")
        refusals.append((available & (users == 1) & ~is_user, another))
    return refusals


def _users(view: Fork, delta: Delta, namespace: str, name: str, pod: Pod) -> tuple[np.ndarray, Bools]:
    """(N,) each: how many pods of a node use a claim, and whether this pod is one of them."""
    pods = view.pods
    using = pods.where(lambda info: info.namespace == namespace and name in _claims_of(info.pod))
    itself = pods.where(lambda info: info.pod.metadata.uid == pod.metadata.uid)
    users = view.sum_by_node(using.astype(np.int64)) + delta.counts(using, len(view.nodes))
    both = using & itself
    return users, view.sum_by_node(both.astype(np.int64)) + delta.counts(both, len(view.nodes)) > 0


def _claims_of(pod: Pod) -> set[str]:
    return {status.resource_claim_name for status in pod.status.node_allocatable_resource_claim_statuses}


def lacking(evaluation: Evaluation, info: PodInfo, view: Fork, delta: Delta) -> Refusals:
    """Nodes that pass otherwise and have no room for what the pod's devices take of node resources."""
    by_outcome: dict[int, list[int]] = {}
    for row, outcome in enumerate(evaluation.outcomes):
        if outcome.searched and outcome.allocation is not None:
            by_outcome.setdefault(id(outcome), []).append(row)
    usage = Usage(view, view.requested, view.requests, delta)
    refusals: Refusals = []
    for rows in by_outcome.values():
        mask = np.zeros(len(view.nodes), np.bool_)
        mask[rows] = True
        try:
            demand = _demand(evaluation, info, evaluation.outcomes[rows[0]].allocation or ())
        except _RefusedError as refusal:
            refusals.append((mask, refusal.outcome))
            continue
        refusals += ((mask & short, outcome) for short, outcome in _insufficient(demand, usage))
    return refusals


def _insufficient(demand: Quantities, usage: Usage) -> Refusals:
    refusals: Refusals = []
    for name, amount in to_amounts(demand).items():
        if name.startswith(names.HUGE_PAGES_PREFIX) or (amount > 0 and not names.is_scalar(name)):
            offered, used = usage.column(name)
            short, reason = amount > offered - used, f"Insufficient {name}"
            refusals.append((short & (amount > offered), DeviceVerdict(Code.UNRESOLVABLE, reason)))
            refusals.append((short & (amount <= offered), DeviceVerdict(Code.UNSCHEDULABLE, reason)))
    return refusals


class _RefusedError(Exception):
    """The pod fits no node with these devices."""

    def __init__(self, code: Code, reason: str) -> None:
        self.outcome = DeviceVerdict(code, reason)
        super().__init__(reason)


def _mapped_devices(evaluation: Evaluation) -> dict[tuple[str, str], Device]:
    """The devices that stand for node resources, by pool and name."""
    devices: dict[tuple[str, str], Device] = {}
    for piece in evaluation.inventory.slices:
        for device in piece.devices:
            devices.setdefault((piece.pool[1], device.device.name), device.device)  # upstream forgets the driver
    return {name: device for name, device in devices.items() if device.node_allocatable_resource_mappings}


def _given_by_claims(
    evaluation: Evaluation, allocation: Allocation, mapped: Mapping[tuple[str, str], Device]
) -> Iterator[tuple[str, Quantities]]:
    """Name, and what its new devices amount to, of each claim that gives node resources. Raises _RefusedError."""
    for claim, results in zip(evaluation.claims.to_allocate, allocation, strict=True):
        total: Quantities = {}
        for result in results:
            device = mapped.get(result.device.id[1:])
            for name, more in _given(device, result, key(claim)) if device else ():
                total[name] = total[name].add(more) if name in total else more
        if total:
            yield claim.metadata.name, total


def _given(device: Device, result: Result, claim: str) -> Iterator[tuple[str, Quantity]]:
    for name, mapping in device.node_allocatable_resource_mappings.items():
        quantity = _mapped(mapping, result.consumed if result.shared else None, name, device.name, claim)
        if quantity is not None:
            yield name, quantity


def _mapped(
    mapping: NodeAllocatableResourceMapping, consumed: Mapping[str, Quantity] | None, name: str, device: str, claim: str
) -> Quantity | None:
    multiplier = None if mapping.allocation_multiplier is None else parse(str(mapping.allocation_multiplier))
    if not mapping.capacity_key:
        return multiplier or parse("0")
    if not consumed:
        raise _RefusedError(
            Code.ERROR,
            f"claim {claim}, device {device}: ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' "
            f"is set in NodeAllocatableResourceMappings for resource {name}",
        )
    amount = consumed.get(mapping.capacity_key)
    if amount is None or multiplier is None:
        return amount
    return Quantity(amount.mantissa * multiplier.mantissa, amount.scale + multiplier.scale, amount.format, big=True)


def _demand(evaluation: Evaluation, info: PodInfo, allocation: Allocation) -> Quantities:
    """What the pod requests with these devices; nothing if none stands for node resources. Raises _RefusedError.

    All requests are looked at again as soon as one does, even one that gives nothing here.
    """
    pod, mapped = evaluation.pod, _mapped_devices(evaluation)
    if not any(result.device.id[1:] in mapped for results in allocation for result in results):
        return {}
    given = sorted(_given_by_claims(evaluation, allocation, mapped), key=itemgetter(0))
    _check_referenced(evaluation, [name for name, _ in given])
    options, from_devices = info.options._replace(use_status=False), [amounts for _, amounts in given]
    demand = compute_pod_requests(pod, options, from_devices)
    parts = compute_pod_requests(pod, options._replace(pod_level=False), from_devices)
    if options.pod_level and pod.spec.resources is not None and pod.spec.resources.requests:
        for name in sorted(demand):
            if name in parts and parts[name] > demand[name]:
                what = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
                raise _RefusedError(Code.UNRESOLVABLE, f"pod level request for {name} {what}")
    return demand


def _check_referenced(evaluation: Evaluation, giving: Iterable[str]) -> None:
    """Some container must use each of these claims. Raises _RefusedError."""
    pod, inventory = evaluation.pod, evaluation.inventory
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    referenced = {claim.name for container in containers for claim in container.resources.claims}
    claims = pod_claims(pod, inventory.claims, inventory.features)
    used = {claim.metadata.name for name, claim in claims if name in referenced}
    for name in giving:
        if name not in used:
            what = "node-allocatable resource claim not referenced by any container within the pod"
            raise _RefusedError(Code.UNRESOLVABLE, f"claim {name}: {what}")
