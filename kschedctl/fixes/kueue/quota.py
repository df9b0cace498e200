"""Fixes that raise a quota of the ClusterQueue by exactly what the Workload lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import ClusterQueue
from kschedctl.fixes.kueue.changes import AdmissionProposal, ObjectPatch, apply_operations, build_operation
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.kueue.amounts import UNLIMITED, FlavorResource, Usage, format_amount, subtract_amounts
from kschedctl.kueue.cluster_queues import CachedQueue, ResourceGroup
from kschedctl.kueue.workloads import WorkloadInfo
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
    """Yield proposals to raise a quota so that the Workload is admitted, with their trials.

    The flavor with the smallest shortage is tried first, with a higher borrowing limit and then with a higher nominal
    quota. Flavors with a larger shortage are tried only if neither helps.
    """
    for rank in range(_MOST_FLAVORS):
        shortages = _find_flavor_shortages(trials, trials.baseline, rank)
        if not shortages:
            return
        results = [_raise_quotas_until_admitted(trials, field, shortages) for field in (_BORROWING, _NOMINAL)]
        working_raises = [result for result in results if result is not None]
        if working_raises:
            yield from working_raises
            return


def _raise_quotas_until_admitted(
    trials: AdmissionTrials, field: _QuotaField, shortages: Usage
) -> tuple[AdmissionProposal, AdmissionTrial] | None:
    """Raise the quotas by the shortages, and raise them further if other Workloads take the additional quota.

    Return the proposal with its trial. Return None if `_MOST_RAISES` raises do not help, if the field cannot be raised,
    or if there were too many replays.
    """
    raises = dict(shortages)
    for _ in range(_MOST_RAISES):
        proposal = _build_quota_raise_proposal(trials, field, raises)
        trial = trials.replay_proposal(proposal) if proposal is not None else None
        if proposal is None or trial is None:
            return None
        if trials.is_admitted(trial):
            return proposal, trial
        remaining_shortages = _find_shortages_in_flavors(trials, trial, {key.flavor for key in raises})
        if not remaining_shortages:
            return None
        for key, amount in remaining_shortages.items():
            raises[key] = raises.get(key, 0) + amount
    return None


def _find_queue_and_requests(trials: AdmissionTrials, trial: AdmissionTrial) -> tuple[CachedQueue, WorkloadInfo] | None:
    """Return the Workload's ClusterQueue as it is after the trial's last cycle, and the Workload's requests.

    The result is None if the Workload's queue does not exist.
    """
    queues = trial.replay.queues
    workload = queues.store.workloads[trials.key]
    name, exists = queues.find_cluster_queue_name(workload)
    if not exists:
        return None
    return trial.replay.cache.queues[name], queues.get_workload_info(workload)


def _find_flavor_shortages(trials: AdmissionTrials, trial: AdmissionTrial, rank: int) -> Usage:
    """Return what the Workload lacks in one flavor of each resource group.

    The flavors of a group are ordered by their shortage. Rank 0 is the flavor with the smallest shortage, rank 1 the
    next. A group with fewer flavors contributes its last flavor. The result is empty if every group has fewer flavors,
    if a requested resource belongs to no group, or if the Workload has no ClusterQueue.
    """
    queue_and_info = _find_queue_and_requests(trials, trial)
    if queue_and_info is None:
        return {}
    queue, info = queue_and_info
    requested = {name for pod_set in info.pod_sets for name, amount in pod_set.requests.items() if amount}
    if any(queue.settings.find_resource_group(resource) is None for resource in requested):
        return {}

    ranked_by_group = [_rank_flavors_by_shortage(queue, info, group) for group in queue.settings.groups]
    most_flavors = max(map(len, ranked_by_group), default=0)
    if rank >= most_flavors:
        return {}
    shortages: Usage = {}
    for ranked_shortages in ranked_by_group:
        if ranked_shortages:
            shortages |= ranked_shortages[min(rank, len(ranked_shortages) - 1)]
    return shortages


def _rank_flavors_by_shortage(queue: CachedQueue, info: WorkloadInfo, group: ResourceGroup) -> list[Usage]:
    """Return the Workload's shortages in each flavor of the group, the smallest first.

    Flavors are compared by the sum of the missing shares of the requests. Return [] if nothing of the group is
    requested.
    """
    requests = _sum_group_requests(info, group)
    if not requests:
        return []

    def sum_short_shares(shortages: Usage) -> float:
        """Return the sum of the shares of the requests that are short."""
        return sum(amount / requests[key.resource] for key, amount in shortages.items())

    return sorted((_compute_shortages(queue, flavor, requests) for flavor in group.flavors), key=sum_short_shares)


def _find_shortages_in_flavors(trials: AdmissionTrials, trial: AdmissionTrial, flavors: set[str]) -> Usage:
    """Return the Workload's shortages in these flavors after the last cycle of a trial.

    Return {} if the trial has no ClusterQueue for the Workload.
    """
    queue_and_info = _find_queue_and_requests(trials, trial)
    if queue_and_info is None:
        return {}
    queue, info = queue_and_info
    shortages: Usage = {}
    for group in queue.settings.groups:
        requests = _sum_group_requests(info, group)
        for flavor in group.flavors:
            if flavor in flavors:
                shortages |= _compute_shortages(queue, flavor, requests)
    return shortages


def _sum_group_requests(info: WorkloadInfo, group: ResourceGroup) -> dict[str, int]:
    """Sum the requests of all pod sets for each resource of a group, without resources that are not requested.

    Pods count as the resource "pods".
    """
    total: dict[str, int] = {}
    for pod_set in info.pod_sets:
        requests = {**pod_set.requests, _PODS: pod_set.count}
        for resource in group.resources & requests.keys():
            total[resource] = total.get(resource, 0) + requests[resource]
    return {resource: amount for resource, amount in total.items() if amount > 0}


def _compute_shortages(queue: CachedQueue, flavor: str, requests: Mapping[str, int]) -> Usage:
    """Return how much of each requested resource is missing in a flavor.

    Resources are left out if nothing is missing, or if no raise would be enough.
    """
    shortages = {}
    for resource, amount in requests.items():
        key = FlavorResource(flavor, resource)
        shortage = subtract_amounts(amount, queue.node.compute_available_quota(key))
        # An unlimited shortage, as of a request beyond int64, cannot be covered by any amount of quota.
        can_be_covered = shortage < UNLIMITED
        if shortage > 0 and can_be_covered:
            shortages[key] = shortage
    return shortages


def _build_quota_raise_proposal(trials: AdmissionTrials, field: _QuotaField, raises: Usage) -> AdmissionProposal | None:
    """Build the proposal that raises a field of the ClusterQueue's quotas by these amounts.

    Return None if the queue does not exist or if one of the quotas does not have the field. Also return None for a
    borrowing limit if the queue has no cohort.
    """
    queue_and_info = _find_queue_and_requests(trials, trials.baseline)
    if queue_and_info is None:
        return None
    cached, _info = queue_and_info
    queue = next(queue for queue in trials.cluster.cluster_queues if queue.metadata.name == cached.name)
    operations: list[Operation] = []
    amount_texts = []
    for key, amount in raises.items():
        path = _find_quota_path(queue, key)
        quota = cached.node.get_quota(key)
        current = quota.nominal if field is _NOMINAL else quota.borrowing_limit
        cannot_borrow = field is _BORROWING and cached.node.parent is None
        if not path or current is None or cannot_borrow:
            return None
        before, after = format_amount(key.resource, current), format_amount(key.resource, current + amount)
        operations.append(build_operation(f"{path}/{field.name}", after))
        amount_texts.append(f"of {key.resource} in flavor {key.flavor} from {before} to {after}")
    summary = f"raise {field.name} {' and '.join(amount_texts)} in ClusterQueue {cached.name}"
    return _build_queue_proposal(queue, summary, field, operations)


def _build_queue_proposal(
    queue: ClusterQueue, summary: str, field: _QuotaField, operations: list[Operation]
) -> AdmissionProposal:
    """Build the proposal to patch a ClusterQueue with operations that raise the field of its quotas."""
    patch = ObjectPatch(Owner("ClusterQueue", "", queue.metadata.name), tuple(operations))
    edits = (("ClusterQueue", apply_operations(queue, operations)),)
    return AdmissionProposal(summary, field.kind, field.price, by="operator", patches=(patch,), edits=edits)


def _find_quota_path(queue: ClusterQueue, key: FlavorResource) -> str:
    """Return the JSON pointer of the entry that has a ClusterQueue's quota for a flavor and resource.

    The entry also has the limits of borrowing and lending. Return "" if the ClusterQueue has no quota for the pair.
    """
    for group_index, group in enumerate(queue.spec.resource_groups):
        for flavor_index, flavor in enumerate(group.flavors):
            for index, resource in enumerate(flavor.resources):
                if (flavor.name, resource.name) == key:
                    return f"/spec/resourceGroups/{group_index}/flavors/{flavor_index}/resources/{index}"
    return ""
