"""CapacityScheduling: namespaces share the cluster by ElasticQuotas and borrow what other namespaces do not use.

Its preemption evicts less important pods of the same quota, or pods of quotas that borrow. Upstream:
pkg/capacityscheduling/capacity_scheduling.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Position
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.objects import Pod
from kschedctl.api.quantity import INT64_MAX
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.scheduler.engine.preemption.evaluator import NEVER, TERMINATING, Ineligible, PreemptionPlugin
from kschedctl.scheduler.engine.preemption.victims import compute_importance_order, find_pods_never_started
from kschedctl.scheduler.framework import Code, PreFilterResult, Status, require_state
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.scheduler_plugins import PlacedIsReserved
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, add_requests, sum_effective_requests
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import (
    KIND,
    Quota,
    QuotaUse,
    find_applicable_limits,
    find_exceeded_resource,
    index_quotas,
)
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

_NO_VICTIMS = "No victims found on node {} for preemptor pod {}"
_EXCEEDED = "global quota max exceeded"
_QUOTA_VICTIMS_SORTED_AGAIN = ByVersion(
    "order in which preemption victims are listed",
    (("", False), ("1.31", True)),
    "fefba224 of scheduler-plugins",
    bool_texts=("PodDisruptionBudget violations first, then by importance", "by importance only"),
)

NOT_PRE_FILTERED = "not eligible due to failed to read from cycleState"


class _QuotaClaim(NamedTuple):
    """Requests that a pod's PreFilter checks against the quotas."""

    pod_requests: Requests
    """The requests of the pod itself."""
    same_quota: Requests
    """The pod's requests plus those of nominated pods of its quota that go before it."""
    all_quotas: Requests
    """As ``same_quota``, plus the nominated pods of other quotas that use no more than their min."""


class _QuotaVictims:
    """Selection of the pods that CapacityScheduling may evict for a pod.

    If the pod's quota would use more than its min, the victims are less important pods of the same quota. Otherwise,
    other quotas have borrowed from it. The victims are then pods of quotas that use more than their min, as long as
    they do. A pod without a quota may evict less important pods without a quota.
    """

    filters_decide = False

    def __init__(self, info: PodInfo, view: Fork, use: QuotaUse, claim: _QuotaClaim) -> None:
        self.info, self.view, self.use, self.claim = info, view, use, claim
        self.quota: Quota | None = use.quotas.get(info.namespace)

    @property
    def is_borrowing(self) -> bool:
        """True if the pod's quota would use more than its min if the pod were scheduled. False without a quota."""
        quota = self.quota
        return quota is not None and quota.would_be_over_min(
            self.use.sum_namespace_requests(quota.namespace), self.claim.same_quota
        )

    def find_potential_victims(self, nodes: Bools) -> Positions:
        """Return the pods on the nodes of a mask (N,) that may be evicted, sorted by node and importance.

        If the pod's quota stays within its min, these are pods of other quotas that borrow. If it borrows, these are
        pods of the same quota with a lower priority. If the pod has no quota, these are lower-priority pods without a
        quota.
        """
        view, pods = self.view, self.view.pods
        quota_numbers = self.use.quota_numbers
        own_number = self.use.find_quota_number(self.info.namespace)
        evicts_borrowers = self.quota is not None and not self.is_borrowing
        if evicts_borrowers:
            is_evictable_info = (quota_numbers >= 0) & (quota_numbers != own_number)
        else:
            is_evictable_info = (quota_numbers == own_number) & (pods.priority < self.info.priority)

        potential = np.flatnonzero(is_evictable_info[pods.info] & (view.node >= 0) & nodes[view.node])
        if evicts_borrowers:
            potential = potential[self._mask_evictable_borrowers(potential)]
        return potential[compute_importance_order(view, potential, self._build_arrival_keys(potential))]

    def could_be_victim(self, position: Position) -> bool:
        """Return whether a pod could be one of this pod's victims.

        A terminating pod that could be a victim counts as freeing resources for this pod. If both pods have the same
        quota, or both have none, the other pod needs a lower priority. If they have different quotas, only the other
        pod's quota may borrow. If only one of them has a quota, return False.
        """
        info: PodInfo = self.view.pods.get_info(position)
        quota = self.use.quotas.get(info.namespace)
        if self.quota is quota:  # both pods have the same quota, or both have none
            return info.priority < self.info.priority
        if self.quota is None or quota is None:
            return False
        return not self.is_borrowing and quota.is_over_min(self.use.sum_namespace_requests(quota.namespace))

    def _build_arrival_keys(self, pods: Positions) -> Positions:
        """Return, for each pod, a key that orders pods of equal importance by their arrival.

        Upstream sorts twice, first with the least important pod first, which reverses the order of equal pods.
        """
        arrival = self.view.arrivals.place[pods]
        return np.where(find_pods_never_started(self.view, pods), arrival, -arrival)

    def _mask_evictable_borrowers(self, pods: Positions) -> Bools:
        """Return a mask over `pods` of the pods that can be evicted while their quota still exceeds its min.

        Each node is considered separately. On a node, the quota's least important pods are evicted first, until the
        quota is back within its min. The quota's other pods on the node cannot be evicted.
        """
        view, quotas = self.view, self.use.quotas
        infos = view.pods.info[pods]
        rows = view.node[pods]
        quota_numbers = self.use.quota_numbers[infos]

        # Sort by node and quota, and within these in the order of eviction: low priority and late start first.
        keys = (  # np.lexsort sorts by the last key first
            self._build_arrival_keys(pods),
            -view.pods.start[pods],
            view.pods.get_priorities(pods),
            quota_numbers,
            rows,
        )
        order = np.lexsort(keys)
        sorted_quotas, sorted_rows = quota_numbers[order], rows[order]

        # Find, for each pod, where its group of pods of one node and one quota starts.
        starts_group = np.ones(len(pods), np.bool_)
        starts_group[1:] = (np.diff(sorted_rows) != 0) | (np.diff(sorted_quotas) != 0)
        group_start = np.maximum.accumulate(np.where(starts_group, np.arange(len(pods)), 0))

        # A pod can be evicted if its quota still borrows some resource after the evictions before it on the node.
        usage_and_min = [
            (self.use.sum_namespace_requests(namespace), quota.min_amounts) for namespace, quota in quotas.items()
        ]
        still_borrows = np.zeros(len(pods), np.bool_)
        for resource, requests in self.use.requests.items():
            borrowed = np.array([usage.get(resource, 0) - minimum.get(resource, 0) for usage, minimum in usage_and_min])
            requested = requests[infos[order]]
            requested_before = np.cumsum(requested) - requested
            evicted_before = requested_before - requested_before[group_start]  # only in the pod's group
            still_borrows |= borrowed[sorted_quotas] > evicted_before

        # Undo the sorting.
        can_be_evicted = np.empty(len(pods), np.bool_)
        can_be_evicted[order] = still_borrows
        return can_be_evicted

    def find_rejected_nodes(self, pods: Positions) -> tuple[str, Bools] | None:
        """Return upstream's message and a mask (N,) of the nodes where quotas are exceeded even without the victims.

        Return None if the pod's namespace has no quota.
        """
        if self.quota is None:
            return None
        pod_requests = self.claim.pod_requests
        over_quota = self._find_nodes_over_quota(
            self.quota, removed=pods, same_quota=pod_requests, all_quotas=pod_requests
        )
        return _EXCEEDED, over_quota

    def find_nodes_requiring_eviction(self, pods: Positions, removed: Bools) -> Bools | None:
        """Return a mask (N,) of the nodes on which the quotas are exceeded if only the `removed` pods are gone.

        Return None if the pod's namespace has no quota.
        """
        if self.quota is None:
            return None
        return self._find_nodes_over_quota(self.quota, pods[removed], self.claim.same_quota, self.claim.all_quotas)

    def _find_nodes_over_quota(
        self, quota: Quota, removed: Positions, same_quota: Requests, all_quotas: Requests
    ) -> Bools:
        """Return a mask (N,) of the nodes on which quotas stay exceeded even if the `removed` pods are evicted there.

        The usage of the pod's quota must not exceed the quota's max. The usage of all quotas together must not exceed
        the sum of their mins. `same_quota` and `all_quotas` are the requests to add to these two usages.
        """
        view = self.view
        quota_numbers = self.use.quota_numbers[view.pods.info[removed]]
        removed_of_quota = removed[quota_numbers == self.use.find_quota_number(quota.namespace)]

        # The max of the pod's quota, if it has any.
        is_over_max = np.zeros(len(view.nodes), np.bool_)
        if quota.max_amounts is not None:
            used = self.use.sum_namespace_requests(quota.namespace)
            is_over_max = self._find_nodes_over_limits(
                add_requests(used, same_quota),
                self._sum_requests_by_node(removed_of_quota),
                find_applicable_limits(same_quota, quota.max_amounts, default_limit=INT64_MAX),
            )

        # The sum of all mins.
        total_min = add_requests(*(quota.min_amounts for quota in self.use.quotas.values()))
        used_by_all = add_requests(self.use.sum_all_requests(), all_quotas)
        min_limits = find_applicable_limits(used_by_all, total_min, default_limit=0)
        is_over_min = self._find_nodes_over_limits(used_by_all, self._sum_requests_by_node(removed), min_limits)
        return is_over_max | is_over_min

    def _sum_requests_by_node(self, pods: Positions) -> dict[str, Amounts]:
        """Return, by resource, the total requests (N,) of these pods on each node."""
        view = self.view
        sums = {}
        for name, amounts in self.use.requests.items():
            sums[name] = np.zeros(len(view.nodes), np.int64)
            np.add.at(sums[name], view.node[pods], amounts[view.pods.info[pods]])
        return sums

    def _find_nodes_over_limits(
        self, used: Requests, removed: Mapping[str, Amounts], limits: Mapping[str, int]
    ) -> Bools:
        """Return a mask (N,) of the nodes on which usage minus the removed amounts still exceeds a limit.

        `removed` has the amounts (N,) by resource. Only resources with a limit are compared.
        """
        over = np.zeros(len(self.view.nodes), np.bool_)
        for name, limit in limits.items():
            over |= used.get(name, 0) - removed.get(name, 0) > limit
        return over

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        """Yield upstream's message for each node without victims, with the count 1.

        The message names the node, so all messages differ.
        """
        names, pod = self.view.nodes.names, self.info.pod.metadata.name
        return ((_NO_VICTIMS.format(names[row], pod), 1) for row in rows.tolist())

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        """Return whether this release sorts the victims again by importance."""
        return _QUOTA_VICTIMS_SORTED_AGAIN.at(release)


class CapacityScheduling(PlacedIsReserved, PreemptionPlugin[_QuotaClaim, None]):
    """Plugin that rejects a pod if its namespace's ElasticQuota or the sum of all quotas would be exceeded.

    The namespace may not use more than the max of its quota, and all namespaces together may not use more than the sum
    of the mins. Pods of namespaces without a quota pass. If other namespaces borrow from the min of a pod's quota, the
    pod may preempt their pods regardless of priority.

    Upstream: pkg/capacityscheduling/capacity_scheduling.go of kubernetes-sigs/scheduler-plugins.
    """

    name = "CapacityScheduling"
    fixes = "elastic_quotas"
    changed = (_QUOTA_VICTIMS_SORTED_AGAIN,)
    kinds: ClassVar[tuple[str, ...]] = (KIND, "PodDisruptionBudget")
    by_priority = False

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[_QuotaClaim]:
        """Reject the pod if it would exceed the max of its namespace's quota or the sum of all quotas' mins.

        Requests of nominated pods are added to the usage. A pod in a namespace without a quota passes. The state has
        the requests that were checked.
        """
        use = find_quota_use(view)
        requests = sum_effective_requests(info.pod)
        quota = use.quotas.get(info.namespace)
        if quota is None:
            return PreFilterResult(state=_QuotaClaim(requests, same_quota=requests, all_quotas=requests))
        same_quota, other_quotas = _find_nominated_requests(info, view, use)
        claim = _QuotaClaim(
            requests,
            same_quota=add_requests(*same_quota, requests),
            all_quotas=add_requests(*same_quota, *other_quotas, requests),
        )

        # Check the namespace's own max.
        used_by_namespace = use.sum_namespace_requests(info.namespace)
        if resource := quota.find_resource_over_max(used_by_namespace, claim.same_quota):
            limit_name = f"the max of {quota.name}"
            max_amounts = quota.max_amounts or {}
            fact = _describe_excess(resource, used_by_namespace, claim.same_quota, limit_name, max_amounts)
            return _build_rejection(info, claim, f"ElasticQuota {quota.namespace} is more than Max", fact)

        # Check the sum of the mins, which all namespaces share.
        used_by_all = use.sum_all_requests()
        total_min = add_requests(*(quota.min_amounts for quota in use.quotas.values()))
        if resource := find_exceeded_resource(
            add_requests(used_by_all, claim.all_quotas), used={}, limits=total_min, default_limit=0
        ):
            limit_name = "the sum of the mins of all quotas"
            fact = _describe_excess(resource, used_by_all, claim.all_quotas, limit_name, total_min)
            return _build_rejection(info, claim, "total ElasticQuota used is more than min", fact)
        return PreFilterResult(state=claim)

    def find_ineligibility(self, cycle: Cycle) -> Ineligible | None:
        """Return the reason why the pod may not preempt, or None if it may.

        The pod may not preempt if its preemptionPolicy is Never, or if this plugin's PreFilter did not run. The pod
        must also wait while terminating pods on its nominated node will free resources for it.
        """
        pod, view = cycle.info.pod, cycle.view
        if pod.spec.preemption_policy == "Never":
            return Ineligible(NEVER)
        if self.name not in cycle.pre_filter.reached:
            return Ineligible(NOT_PRE_FILTERED)

        # Wait for pods that are terminating on the nominated node already.
        row = view.nodes.index.get(pod.status.nominated_node_name)
        if row is None or cycle.get_node_status(row).code is Code.UNRESOLVABLE:
            return None
        selection = self.build_selection(cycle)
        objects = view.pods.objects
        terminating = [p for p in view.pods_on(row) if objects[p].metadata.deletion_timestamp is not None]
        leaving = tuple(position for position in terminating if selection.could_be_victim(position))
        return Ineligible(TERMINATING, leaving) if leaving else None

    def build_selection(self, cycle: Cycle) -> _QuotaVictims:
        """Build the selection of the pods that may be evicted for this pod.

        Raises PluginError if PreFilter did not run.
        """
        claim = require_state(cycle.pre_filter.find_state(CapacityScheduling), NOT_PRE_FILTERED)
        return _QuotaVictims(cycle.info, cycle.view, find_quota_use(cycle.view), claim)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield the kinds whose unread objects could change the answer.

        ElasticQuotas may change any verdict. PodDisruptionBudgets may change the victims.
        """
        yield Dependency(KIND, Effect.EITHER)
        yield Dependency("PodDisruptionBudget", Effect.VICTIMS)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod is retried: deleted pods and any change of an ElasticQuota."""
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint(KIND, ActionType.ALL)


def find_quota_use(view: Fork) -> QuotaUse:
    """Return the quota usage of all namespaces that have an ElasticQuota."""
    return QuotaUse(view, view.objects.index(KIND, index_quotas, KIND))


def _build_rejection(info: PodInfo, claim: _QuotaClaim, cause: str, fact: str) -> PreFilterResult[_QuotaClaim]:
    """Build a PreFilter result that rejects the pod for this cause. `fact` tells users the amounts."""
    reason = f"Pod {info.namespace}/{info.pod.metadata.name} is rejected in PreFilter because {cause}"
    return PreFilterResult(Status(Code.UNSCHEDULABLE, (reason,)), state=claim, fact=fact)


def _find_nominated_requests(info: PodInfo, view: Fork, use: QuotaUse) -> tuple[list[Requests], list[Requests]]:
    """Return the requests of nominated pods, separately for the pod's quota and for other quotas.

    A pod of the same quota is included if it has at least the pod's priority. A pod of another quota is included if
    that quota is within its min. Pods without a quota, pods that have a node, and the pod itself are left out.
    """
    same_quota: list[Requests] = []
    other_quotas: list[Requests] = []
    is_within_min: dict[str, bool] = {}
    _, nominated_positions = view.nominations
    for position in nominated_positions.tolist():
        pod: Pod = view.pods.objects[position]
        quota: Quota | None = use.quotas.get(pod.metadata.namespace)
        if quota is None or view.node[position] >= 0 or is_same_pod(pod, info.pod):
            continue
        if quota.namespace == info.namespace:
            if (pod.spec.priority or 0) >= info.priority:
                same_quota.append(sum_effective_requests(pod))
            continue

        if quota.namespace not in is_within_min:
            is_within_min[quota.namespace] = not quota.is_over_min(use.sum_namespace_requests(quota.namespace))
        if is_within_min[quota.namespace]:
            other_quotas.append(sum_effective_requests(pod))
    return same_quota, other_quotas


def _describe_excess(resource: str, used: Requests, requested: Requests, limit_name: str, limits: Requests) -> str:
    """Describe the used and the requested amount of a resource, which together exceed a limit, for users."""
    amount, limit = used.get(resource, 0), limits.get(resource, 0)
    return f"{resource}: {amount} used + {requested.get(resource, 0)} requested exceeds {limit_name}, {limit}"
