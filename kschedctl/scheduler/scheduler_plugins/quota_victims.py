"""Victims of CapacityScheduling: less important pods of the same quota, or pods of quotas that borrow.

Upstream: SelectVictimsOnNode in pkg/capacityscheduling/capacity_scheduling.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Position
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.api.quantity import INT64_MAX
from kschedctl.scheduler.engine.preemption.candidates import Positions
from kschedctl.scheduler.engine.preemption.victims import find_pods_never_started, order_by_importance
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, add_requests
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import Quota, QuotaUse, find_applicable_limits
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NO_VICTIMS = "No victims found on node {} for preemptor pod {}"
EXCEEDED = "global quota max exceeded"
QUOTA_VICTIMS_SORTED_AGAIN = ByVersion(
    "victims are sorted again by importance, not those first that violate a PDB",
    (("", False), ("1.31", True)),
    "fefba224 of scheduler-plugins",
)


class QuotaClaim(NamedTuple):
    """Requests that a pod's PreFilter checks against the quotas."""

    pod_requests: Requests
    """The requests of the pod itself."""
    same_quota: Requests
    """The pod's requests plus those of nominated pods of its quota that go before it."""
    all_quotas: Requests
    """As ``same_quota``, plus the nominated pods of other quotas that use no more than their min."""


class QuotaVictims:
    """Selection of the pods that CapacityScheduling may evict for a pod.

    If the pod's quota would use more than its min, the victims are less important pods of the same quota. Otherwise,
    other quotas have borrowed from it. The victims are then pods of quotas that use more than their min, as long as
    they do. A pod without a quota may evict less important pods without a quota.
    """

    filters_decide = False

    def __init__(self, info: PodInfo, view: Fork, use: QuotaUse, claim: QuotaClaim) -> None:
        self.info, self.view, self.use, self.claim = info, view, use, claim
        self.quota: Quota | None = use.quotas.get(info.namespace)

    @property
    def is_borrowing(self) -> bool:
        """Whether the pod's quota would use more than its min if the pod were scheduled."""
        quota = self.quota
        return quota is not None and quota.would_be_over_min(
            self.use.sum_namespace(quota.namespace), self.claim.same_quota
        )

    def find_potential_victims(self, nodes: Bools) -> Positions:
        """Return the pods on the nodes of a mask (N,) that may be evicted, sorted by node and importance."""
        view, pods = self.view, self.view.pods
        quota_numbers = self.use.quota_numbers
        own_number = self.use.find_quota_number(self.info.namespace)
        evicts_borrowers = self.quota is not None and not self.is_borrowing
        if evicts_borrowers:
            is_evictable = (quota_numbers >= 0) & (quota_numbers != own_number)
        else:
            is_evictable = (quota_numbers == own_number) & (pods.priority < self.info.priority)

        potential = np.flatnonzero(is_evictable[pods.info] & (view.node >= 0) & nodes[view.node])
        if evicts_borrowers:
            potential = potential[self._find_borrowing_pods(potential)]
        return potential[order_by_importance(view, potential, self._build_arrival_keys(potential))]

    def makes_room(self, position: Position) -> bool:
        """Return whether a terminating pod counts as freeing resources for this pod.

        It does if it could be one of this pod's victims.
        """
        info: PodInfo = self.view.pods.infos[self.view.pods.info[position]]
        quota = self.use.quotas.get(info.namespace)
        if self.quota is None or quota is None:
            return self.quota is quota and info.priority < self.info.priority
        if quota is self.quota:
            return info.priority < self.info.priority
        return not self.is_borrowing and quota.is_over_min(self.use.sum_namespace(quota.namespace))

    def _build_arrival_keys(self, pods: Positions) -> Positions:
        """Return, for each pod, a key that orders pods of equal importance by their arrival.

        Upstream sorts twice, first with the least important pod first, which reverses the order of equal pods.
        """
        arrival = self.view.arrivals.place[pods]
        return np.where(find_pods_never_started(self.view, pods), arrival, -arrival)

    def _find_borrowing_pods(self, pods: Positions) -> Bools:
        """Return a mask over `pods` of the pods that can be evicted before their quota is back within its min.

        On each node, the least important pods are evicted first.
        """
        view, quotas = self.view, self.use.quotas
        info = view.pods.info[pods]
        node = view.node[pods]
        quota_number = self.use.quota_numbers[info]

        # Sort by node and quota, and within these in the order of eviction: low priority and late start first.
        order = np.lexsort(
            (self._build_arrival_keys(pods), -view.pods.start[pods], view.pods.priority[info], quota_number, node)
        )
        quota_of_ordered = quota_number[order]
        node_of_ordered = node[order]
        starts_group = np.ones(len(pods), np.bool_)
        starts_group[1:] = (np.diff(node_of_ordered) != 0) | (np.diff(quota_of_ordered) != 0)
        group_start = np.maximum.accumulate(np.where(starts_group, np.arange(len(pods)), 0))

        # A pod can be evicted if its quota still borrows some resource after the evictions before it on the node.
        usage_and_min = [(self.use.sum_namespace(namespace), quota.min_amounts) for namespace, quota in quotas.items()]
        still_borrows = np.zeros(len(pods), np.bool_)
        for resource, requests in self.use.requests.items():
            borrowed = np.array([usage.get(resource, 0) - minimum.get(resource, 0) for usage, minimum in usage_and_min])
            requested = requests[info[order]]
            requested_before = np.cumsum(requested) - requested
            evicted_before = requested_before - requested_before[group_start]
            still_borrows |= borrowed[quota_of_ordered] > evicted_before
        can_be_evicted = np.empty(len(pods), np.bool_)
        can_be_evicted[order] = still_borrows
        return can_be_evicted

    def find_rejected_nodes(self, pods: Positions) -> tuple[str, Bools] | None:
        """Return upstream's message and a mask (N,) of the nodes where quotas are exceeded even without the victims.

        Return None if the pod's namespace has no quota.
        """
        if self.quota is None:
            return None
        return EXCEEDED, self._find_nodes_over_quota(self.quota, pods, self.claim.pod_requests, self.claim.pod_requests)

    def find_nodes_to_evict_again(self, pods: Positions, removed: Bools) -> Bools | None:
        """Return a mask (N,) of the nodes on which the quotas are exceeded if only the `removed` pods are gone.

        Return None if the pod's namespace has no quota.
        """
        if self.quota is None:
            return None
        return self._find_nodes_over_quota(self.quota, pods[removed], self.claim.same_quota, self.claim.all_quotas)

    def _find_nodes_over_quota(
        self, quota: Quota, removed: Positions, same_quota: Requests, all_quotas: Requests
    ) -> Bools:
        """Return a mask (N,) of the nodes on which evicting the victims does not bring the quotas within their limits.

        The limits are the max of the pod's quota, and the sum of all mins for all quotas together.
        """
        view = self.view
        quota_numbers = self.use.quota_numbers[view.pods.info[removed]]
        removed_of_quota = removed[quota_numbers == self.use.find_quota_number(quota.namespace)]

        # The max of the pod's quota, if it has any.
        over = np.zeros(len(view.nodes), np.bool_)
        if quota.max_amounts is not None:
            used = self.use.sum_namespace(quota.namespace)
            over |= self._find_nodes_over_limits(
                add_requests(used, same_quota),
                self._sum_requests_by_node(removed_of_quota),
                find_applicable_limits(same_quota, quota.max_amounts, INT64_MAX),
            )

        # The sum of all mins.
        total_min = add_requests(*(quota.min_amounts for quota in self.use.quotas.values()))
        used_by_all = add_requests(self.use.sum_all_namespaces(), all_quotas)
        return over | self._find_nodes_over_limits(
            used_by_all, self._sum_requests_by_node(removed), find_applicable_limits(used_by_all, total_min, 0)
        )

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
        """Return a mask (N,) of the nodes on which usage minus the removed amounts (N,) still exceeds a limit."""
        over = np.zeros(len(self.view.nodes), np.bool_)
        for name, limit in limits.items():
            over |= used.get(name, 0) - removed.get(name, 0) > limit
        return over

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        """Yield upstream's message for each node without victims, with the count 1.

        The message names the node, so all messages differ.
        """
        names, pod = self.view.nodes.names, self.info.pod.metadata.name
        return ((NO_VICTIMS.format(names[row], pod), 1) for row in rows.tolist())

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        """Return whether this release sorts the victims again by importance."""
        return QUOTA_VICTIMS_SORTED_AGAIN.at(release)
