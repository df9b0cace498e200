"""The priority tiers of a cluster's pods, as arrays."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Position
from kschedctl.api.objects import Service
from kschedctl.api.ownership import find_owner
from kschedctl.api.priority import HIGHEST_USER_PRIORITY
from kschedctl.commands.audit.priorities.report import PriorityTier
from kschedctl.snapshot.fork import Fork

JOBS = ("Job", "CronJob")


class Tiers:
    """The K tiers of the pods in a view, one for each priority in use, the highest first."""

    def __init__(self, view: Fork) -> None:
        self.view, self.pods = view, view.pods
        is_used = np.bincount(self.pods.info, minlength=len(self.pods.infos)) > 0
        # searched in ascending order, since the negative of the lowest priority is no int64
        ascending = np.unique(self.pods.priority[is_used])
        self.priorities = ascending[::-1]
        """The priority of each tier, shape (K,)."""
        self.tier_by_info: Ints = (len(ascending) - 1 - np.searchsorted(ascending, self.pods.priority)).astype(np.int32)
        """The tier of the pods with each PodInfo, shape (T,)."""
        self.tier_by_pod: Ints = self.tier_by_info[self.pods.info]
        """The tier of each pod, shape (P,)."""
        self.running: Bools = view.mask_placed() & ~self.pods.terminating[self.pods.info]
        """A mask (P,) of the pods that are on a node and not terminating."""

    @cached_property
    def allowed_to_preempt(self) -> Bools:
        """A mask (T,) of the PodInfos whose pods may preempt others."""
        return self.pods.where(lambda info: info.spec.preemption_policy != "Never")

    @cached_property
    def owned_by_job(self) -> Bools:
        """A mask (T,) of the PodInfos whose pods belong to Jobs."""
        return self.pods.where(lambda info: find_owner(info.pod).kind in JOBS)

    @cached_property
    def behind_service(self) -> Bools:
        """A mask (T,) of the PodInfos whose pods are behind a Service."""
        return np.array([bool(services) for services in self.services], np.bool_)

    @cached_property
    def services(self) -> list[tuple[str, ...]]:
        """The Services that select the pods of each PodInfo, as `namespace/name`, length T."""
        # Index the Services by one label of their selector, so that few of them are compared with each PodInfo.
        services_by_label: dict[tuple[str, str, str], list[Service]] = {}
        for service in self.view.cluster.services:
            if service.spec.selector:
                key, value = min(service.spec.selector.items())
                services_by_label.setdefault((service.metadata.namespace, key, value), []).append(service)

        services = []
        for info in self.pods.infos:
            names = []
            for key, value in info.labels.items():
                for service in services_by_label.get((info.namespace, key, value), ()):
                    if service.spec.selector.items() <= info.labels.items():
                        names.append(f"{info.namespace}/{service.metadata.name}")
            services.append(tuple(names))
        return services

    def find_pod_with_info(self, number: int) -> Position:
        """Return the position of the first pod with a PodInfo."""
        return Position(self._first_position_by_info[number])

    @cached_property
    def _first_position_by_info(self) -> dict[int, int]:
        """The position of the first pod with each PodInfo that pods have."""
        numbers, positions = np.unique(self.pods.info, return_index=True)
        return dict(zip(numbers.tolist(), positions.tolist(), strict=True))

    @property
    def above_user_priorities(self) -> Bools:
        """A mask (K,) of the tiers above the priorities that users may set."""
        return self.priorities > HIGHEST_USER_PRIORITY

    @cached_property
    def names(self) -> list[str]:
        """The name of each tier: the PriorityClasses of its pods, or the priority's value if no pod has a class."""
        classes_by_tier: dict[int, dict[str, None]] = {}
        for tier, info in zip(self.tier_by_info.tolist(), self.pods.infos, strict=True):
            if info.spec.priority_class_name:
                classes_by_tier.setdefault(tier, {})[info.spec.priority_class_name] = None
        return [
            ", ".join(sorted(classes_by_tier.get(tier, ()))) or str(value)
            for tier, value in enumerate(self.priorities.tolist())
        ]

    def count_pods_by_tier(self, is_selected: Bools) -> list[int]:
        """Return how many of the selected pods (P,) each tier has, length K."""
        counts: list[int] = np.bincount(self.tier_by_pod[is_selected], minlength=len(self.priorities)).tolist()
        return counts

    def build_reports(self) -> tuple[PriorityTier, ...]:
        """Build a report about each tier: its numbers of pods and nodes, its requests, and whether it preempts."""
        is_bound = self.view.mask_placed()
        pods = self.count_pods_by_tier(is_bound)
        pending = self.count_pods_by_tier(~is_bound)
        user_facing = self.count_pods_by_tier(is_bound & self.behind_service[self.pods.info])
        preempting = self.count_pods_by_tier(self.allowed_to_preempt[self.pods.info])
        nodes = self._count_nodes_by_tier(is_bound)
        return tuple(
            PriorityTier(
                name=self.names[tier] if self.names[tier] != str(value) else "",
                priority=value,
                pods=pods[tier],
                pending=pending[tier],
                nodes=nodes[tier],
                user_facing=user_facing[tier],
                requests=self._sum_requests_of_tier(tier, is_bound),
                preempts=preempting[tier] > 0,
                system=bool(self.above_user_priorities[tier]),
            )
            for tier, value in enumerate(self.priorities.tolist())
        )

    def _count_nodes_by_tier(self, is_bound: Bools) -> list[int]:
        """Return for each tier the number of nodes on which it has pods. `is_bound` is the mask of pods on nodes."""
        # Encode each pair of a tier and a node as tier * node_count + node, to count every pair once.
        node_count = max(len(self.view.nodes), 1)
        tiers = self.tier_by_pod[is_bound].astype(np.int64)
        distinct_pairs = np.unique(tiers * node_count + self.view.node[is_bound])
        tier_by_pair = distinct_pairs // node_count
        counts: list[int] = np.bincount(tier_by_pair, minlength=len(self.priorities)).tolist()
        return counts

    def _sum_requests_of_tier(self, tier: int, is_bound: Bools) -> dict[str, int]:
        """Return the total requests of the tier's pods on nodes, by resource.

        Resources that no pod requests are left out.
        """
        infos = self.pods.info[is_bound & (self.tier_by_pod == tier)]
        pods_by_info = np.bincount(infos, minlength=len(self.pods.infos))
        totals = pods_by_info @ self.view.requests
        return {name: int(totals[column]) for name, column in self.view.resources.items() if totals[column]}
