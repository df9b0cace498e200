"""Fixes that raise a quota of the ClusterQueue by exactly what the Workload lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import ClusterQueue
from kschedctl.fixes.kueue.changes import AdmissionProposal, ObjectPatch, apply_operations, build_operation
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.queueing.kueue.amounts import UNLIMITED, FlavorResource, Usage, format_amount, subtract_amounts
from kschedctl.queueing.kueue.cluster_queues import CachedQueue, ResourceGroup
from kschedctl.queueing.kueue.workloads import WorkloadInfo
from kschedctl.replay.kubectl import Operation

_MOST_FLAVORS, _MOST_RAISES = 3, 3
_PODS = "pods"


class _QuotaField(NamedTuple):
    """A field of a quota that a fix raises."""

    name: str
    kind: str
    price: Price


_NOMINAL = _QuotaField("nominalQuota", "quota", Price.ROOM)
_BORROWING = _QuotaField("borrowingLimit", "borrowing", Price.ROOM)


def search_quota_raises(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial]]:
    """Yield the raises of a quota with which the Workload is admitted, for the flavor with the smallest shortage.

    A raise of the borrowing limit comes before one of the nominal quota. Flavors with a larger shortage are only
    tried if neither helps.
    """
    for rank in range(_MOST_FLAVORS):
        shortages = _find_shortages(trials, trials.baseline, rank)
        if not shortages:
            return
        has_raise = False
        for field in (_BORROWING, _NOMINAL):
            result = _raise_until_admitted(trials, field, shortages)
            if result is not None:
                has_raise = True
                yield result
        if has_raise:
            return


def _raise_until_admitted(
    trials: AdmissionTrials, field: _QuotaField, shortages: Usage
) -> tuple[AdmissionProposal, AdmissionTrial] | None:
    """Raise the quotas by the shortages, and by what other Workloads then take before the Workload.

    Return the proposal with its trial, or None if a few such raises do not help or the field cannot be raised.
    """
    total = dict(shortages)
    for _ in range(_MOST_RAISES):
        proposal = _build_proposal(trials, field, total)
        trial = trials.run(proposal) if proposal is not None else None
        if proposal is None or trial is None:
            return None
        if trials.is_admitted(trial):
            return proposal, trial
        more = _find_shortages_in_flavors(trials, trial, {key.flavor for key in total})
        if not more:
            return None
        for key, amount in more.items():
            total[key] = total.get(key, 0) + amount
    return None


def _find_cached_queue(trials: AdmissionTrials, trial: AdmissionTrial) -> tuple[CachedQueue, WorkloadInfo] | None:
    """Return the Workload's ClusterQueue after the last cycle and the Workload's requests, or None without a queue."""
    queues = trial.replay.queues
    workload = queues.store.workloads[trials.key]
    name, exists = queues.find_queue_name(workload)
    if not exists:
        return None
    return trial.replay.cache.queues[name], queues.get_workload_info(workload)


def _find_shortages(trials: AdmissionTrials, trial: AdmissionTrial, rank: int) -> Usage:
    """Return the shortages of one flavor of each resource group. Rank 0 is the flavor with the smallest shortage.

    The result is empty if nothing is short, if there is no such flavor, or if no group covers a resource.
    """
    found = _find_cached_queue(trials, trial)
    if found is None:
        return {}
    queue, info = found
    requested = {name for pod_set in info.pod_sets for name, amount in pod_set.requests.items() if amount}
    if any(queue.settings.find_group(resource) is None for resource in requested):
        return {}
    shortages: Usage = {}
    has_rank = False
    for group in queue.settings.groups:
        requests = _sum_requests(info, group)
        options = [_compute_shortages(queue, flavor, requests) for flavor in group.flavors]
        options.sort(key=lambda option: sum(amount / requests[key.resource] for key, amount in option.items()))
        if options and requests:
            has_rank = has_rank or rank < len(options)
            shortages |= options[min(rank, len(options) - 1)]
    return shortages if has_rank else {}


def _find_shortages_in_flavors(trials: AdmissionTrials, trial: AdmissionTrial, flavors: set[str]) -> Usage:
    """Return the shortages in these flavors after the last cycle of a trial."""
    found = _find_cached_queue(trials, trial)
    if found is None:
        return {}
    queue, info = found
    shortages: Usage = {}
    for group in queue.settings.groups:
        requests = _sum_requests(info, group)
        for flavor in group.flavors:
            if flavor in flavors:
                shortages |= _compute_shortages(queue, flavor, requests)
    return shortages


def _sum_requests(info: WorkloadInfo, group: ResourceGroup) -> dict[str, int]:
    """Return what all pod sets request of the resources of a group."""
    total: dict[str, int] = {}
    for pod_set in info.pod_sets:
        requests = {**pod_set.requests, _PODS: pod_set.count}
        for resource in group.resources & requests.keys():
            total[resource] = total.get(resource, 0) + requests[resource]
    return {resource: amount for resource, amount in total.items() if amount > 0}


def _compute_shortages(queue: CachedQueue, flavor: str, requests: Mapping[str, int]) -> Usage:
    """Return how much of each resource is short in a flavor, without resources for which no raise would be enough."""
    shortages = {}
    for resource, amount in requests.items():
        key = FlavorResource(flavor, resource)
        shortage = subtract_amounts(amount, queue.node.compute_available(key))
        if 0 < shortage < UNLIMITED:
            shortages[key] = shortage
    return shortages


def _build_proposal(trials: AdmissionTrials, field: _QuotaField, raises: Usage) -> AdmissionProposal | None:
    """Build the proposal that raises quotas of the ClusterQueue, or None if one of them has no such field."""
    found = _find_cached_queue(trials, trials.baseline)
    if found is None:
        return None
    cached, _ = found
    queue = next(queue for queue in trials.cluster.cluster_queues if queue.metadata.name == cached.name)
    operations, phrases = [], []
    for key, amount in raises.items():
        path = _find_quota_path(queue, key)
        quota = cached.node.get_quota(key)
        current = quota.nominal if field is _NOMINAL else quota.borrowing_limit
        if not path or current is None or (field is _BORROWING and cached.node.parent is None):
            return None
        before, after = format_amount(key.resource, current), format_amount(key.resource, current + amount)
        operations.append(build_operation(f"{path}/{field.name}", after))
        phrases.append(f"of {key.resource} in flavor {key.flavor} from {before} to {after}")
    summary = f"raise {field.name} {' and '.join(phrases)} in ClusterQueue {cached.name}"
    return _build_queue_proposal(queue, summary, field, operations)


def _build_queue_proposal(
    queue: ClusterQueue, summary: str, field: _QuotaField, operations: list[Operation]
) -> AdmissionProposal:
    """Build the proposal that patches a ClusterQueue."""
    patch = ObjectPatch(Owner("ClusterQueue", "", queue.metadata.name), tuple(operations))
    edits = (("ClusterQueue", apply_operations(queue, operations)),)
    return AdmissionProposal(summary, field.kind, field.price, "operator", (patch,), edits)


def _find_quota_path(queue: ClusterQueue, key: FlavorResource) -> str:
    """Return the JSON pointer of a quota, or "" if the ClusterQueue has no such quota."""
    for group_index, group in enumerate(queue.spec.resource_groups):
        for flavor_index, flavor in enumerate(group.flavors):
            for index, resource in enumerate(flavor.resources):
                if (flavor.name, resource.name) == key:
                    return f"/spec/resourceGroups/{group_index}/flavors/{flavor_index}/resources/{index}"
    return ""
