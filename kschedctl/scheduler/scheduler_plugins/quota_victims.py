"""Whom CapacityScheduling would evict: pods of the same quota that matter less, or pods of quotas that borrow.

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
from kschedctl.scheduler.engine.preemption.victims import find_never_started, sort_by_importance
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, added
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import Quota, QuotaUse, counted_limits
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NO_VICTIMS = "No victims found on node {} for preemptor pod {}"
EXCEEDED = "global quota max exceeded"
QUOTA_VICTIMS_SORTED_AGAIN = ByVersion(
    "whether victims are sorted again by importance, not those first that break a budget",
    (("", False), ("1.31", True)),
    "fefba224 of scheduler-plugins",
)


class QuotaClaim(NamedTuple):
    """What a pod counts with: its ``own`` requests; with those of nominated pods of its quota before which it must
    wait, ``ours``; and with those of nominated pods of other quotas that use no more than their min, ``everyone``."""

    own: Requests
    ours: Requests
    everyone: Requests


class QuotaVictims:
    """For a pod with a quota that would use more than its min, less important pods of the quota.

    While it stays within its min others use what is its own: then pods of quotas that use more than their min, as long
    as these do. For a pod without a quota less important ones without one.
    """

    filters_decide = False

    def __init__(self, info: PodInfo, view: Fork, use: QuotaUse, claim: QuotaClaim) -> None:
        self.info, self.view, self.use, self.claim = info, view, use, claim
        self.quota: Quota | None = use.quotas.get(info.namespace)

    @property
    def borrows(self) -> bool:
        """Whether its quota would use more than its min, with the pod."""
        quota = self.quota
        return quota is not None and quota.over_min_with(self.use.of(quota.namespace), self.claim.ours)

    def find_potential(self, nodes: Bools) -> Positions:
        view, pods = self.view, self.view.pods
        number, lower = self.use.numbers, pods.priority < self.info.priority
        own = self.use.number(self.info.namespace)
        among_borrowers = self.quota is not None and not self.borrows
        may = (number >= 0) & (number != own) if among_borrowers else (number == own) & lower
        pod = np.flatnonzero(may[pods.info] & (view.node >= 0) & nodes[view.node])
        pod = pod[self._borrowing(pod)] if among_borrowers else pod
        return pod[sort_by_importance(view, pod, self._came(pod))]

    def makes_room(self, position: Position) -> bool:
        """Whether a pod that goes leaves room to this one."""
        info: PodInfo = self.view.pods.infos[self.view.pods.info[position]]
        quota = self.use.quotas.get(info.namespace)
        if self.quota is None or quota is None:
            return self.quota is quota and info.priority < self.info.priority
        if quota is self.quota:
            return info.priority < self.info.priority
        return not self.borrows and quota.over_min(self.use.of(quota.namespace))

    def _came(self, pods: Positions) -> Positions:
        """(V,): upstream sorts twice, first the least important first, which turns round pods that are equal."""
        came = self.view.arrivals.place[pods]
        return np.where(find_never_started(self.view, pods), came, -came)

    def _borrowing(self, pods: Positions) -> Bools:
        """(V,): the pods that go while their quota uses more than its min; on each node the least important first."""
        view, quotas = self.view, self.use.quotas
        info, node = view.pods.info[pods], view.node[pods]
        number = self.use.numbers[info]
        order = np.lexsort((self._came(pods), -view.pods.start[pods], view.pods.priority[info], number, node))
        place = (node.astype(np.int64) * len(quotas) + number)[order]
        first = np.searchsorted(place, place)
        used = [(self.use.of(namespace), quota.least) for namespace, quota in quotas.items()]
        over = np.zeros(len(pods), np.bool_)
        for name, amounts in self.use.requests.items():
            borrowed = np.array([taken.get(name, 0) - least.get(name, 0) for taken, least in used])
            amount = amounts[info[order]]
            before = np.cumsum(amount) - amount
            over |= borrowed[number[order]] > before - before[first]
        borrowing = np.empty(len(pods), np.bool_)
        borrowing[order] = over
        return borrowing

    def find_rejected(self, pods: Positions) -> tuple[str, Bools] | None:
        if self.quota is None:
            return None
        return EXCEEDED, self._over(self.quota, pods, self.claim.own, self.claim.own)

    def find_exceeded(self, pods: Positions, gone: Bools) -> Bools | None:
        if self.quota is None:
            return None
        return self._over(self.quota, pods[gone], self.claim.ours, self.claim.everyone)

    def _over(self, quota: Quota, gone: Positions, ours: Requests, everyone: Requests) -> Bools:
        """(N,): where the quota uses more than its max, or all of them more than their mins, without these pods."""
        view, number = self.view, self.use.numbers
        mine = gone[number[view.pods.info[gone]] == self.use.number(quota.namespace)]
        over = np.zeros(len(view.nodes), np.bool_)
        if quota.most is not None:
            used = self.use.of(quota.namespace)
            over |= self._beyond(added(used, ours), self._by_node(mine), counted_limits(ours, quota.most, INT64_MAX))
        least = added(*(quota.least for quota in self.use.quotas.values()))
        used = added(self.use.everywhere(), everyone)
        return over | self._beyond(used, self._by_node(gone), counted_limits(used, least, 0))

    def _by_node(self, pods: Positions) -> dict[str, Amounts]:
        """Resource -> (N,): what these pods use on each node."""
        view, sums = self.view, {}
        for name, amounts in self.use.requests.items():
            sums[name] = np.zeros(len(view.nodes), np.int64)
            np.add.at(sums[name], view.node[pods], amounts[view.pods.info[pods]])
        return sums

    def _beyond(self, used: Requests, gone: Mapping[str, Amounts], limits: Mapping[str, int]) -> Bools:
        over = np.zeros(len(self.view.nodes), np.bool_)
        for name, limit in limits.items():
            over |= used.get(name, 0) - gone.get(name, 0) > limit
        return over

    def iter_no_victims_messages(self, rows: Positions) -> Iterator[tuple[str, int]]:
        names, pod = self.view.nodes.names, self.info.pod.metadata.name
        return ((NO_VICTIMS.format(names[row], pod), 1) for row in rows.tolist())

    def sorts_by_importance(self, release: KubeVersion) -> bool:
        return QUOTA_VICTIMS_SORTED_AGAIN.at(release)
