"""The pods of a cluster by priority, as columns."""

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
    """The K tiers of the pods in a view, the highest first. ``values`` (K,): their priorities.

    ``of_info`` (T,) and ``of_pod`` (P,): the tier of each. ``running`` (P,): on a node, and not about to leave it.
    """

    def __init__(self, view: Fork) -> None:
        self.view, self.pods = view, view.pods
        used = np.bincount(self.pods.info, minlength=len(self.pods.infos)) > 0
        rising = np.unique(self.pods.priority[used])  # what is negated may be no int64 any more
        self.values = rising[::-1]
        self.of_info: Ints = (len(rising) - 1 - np.searchsorted(rising, self.pods.priority)).astype(np.int32)
        self.of_pod: Ints = self.of_info[self.pods.info]
        self.running: Bools = (view.node >= 0) & ~self.pods.terminating[self.pods.info]

    @cached_property
    def preempts(self) -> Bools:
        """(T,): may evict pods of lower tiers."""
        return self.pods.where(lambda info: info.spec.preemption_policy != "Never")

    @cached_property
    def of_jobs(self) -> Bools:
        """(T,): made by Jobs."""
        return self.pods.where(lambda info: find_owner(info.pod).kind in JOBS)

    @cached_property
    def user_facing(self) -> Bools:
        """(T,): behind a Service."""
        return np.array([bool(services) for services in self.services], np.bool_)

    @cached_property
    def services(self) -> list[tuple[str, ...]]:
        """Return the Services that select the pods of each distinct PodInfo (T,), as ``namespace/name``."""
        by_label: dict[tuple[str, str, str], list[Service]] = {}
        for service in self.view.cluster.services:
            if service.spec.selector:
                first = min(service.spec.selector.items())
                by_label.setdefault((service.metadata.namespace, *first), []).append(service)
        return [
            tuple(
                f"{info.namespace}/{service.metadata.name}"
                for label in info.labels.items()
                for service in by_label.get((info.namespace, *label), ())
                if service.spec.selector.items() <= info.labels.items()
            )
            for info in self.pods.infos
        ]

    def first(self, number: int) -> Position:
        """A pod of an info that pods have."""
        return Position(self._first[number])

    @cached_property
    def _first(self) -> dict[int, int]:
        numbers, positions = np.unique(self.pods.info, return_index=True)
        return dict(zip(numbers.tolist(), positions.tolist(), strict=True))

    @property
    def system(self) -> Bools:
        """(K,): above what users may give."""
        return self.values > HIGHEST_USER_PRIORITY

    @cached_property
    def names(self) -> list[str]:
        """The name of each tier: the classes by which its pods have it, else its value."""
        named: dict[int, dict[str, None]] = {}
        for tier, info in zip(self.of_info.tolist(), self.pods.infos, strict=True):
            if info.spec.priority_class_name:
                named.setdefault(tier, {})[info.spec.priority_class_name] = None
        return [", ".join(sorted(named.get(tier, ()))) or str(value) for tier, value in enumerate(self.values.tolist())]

    def pods_by_tier(self, chosen: Bools) -> list[int]:
        """(K,): how many of the pods chosen (P,) each has."""
        counts: list[int] = np.bincount(self.of_pod[chosen], minlength=len(self.values)).tolist()
        return counts

    def report(self) -> tuple[PriorityTier, ...]:
        """All tiers with their pods, nodes and requests."""
        bound = self.view.node >= 0
        pods, pending = self.pods_by_tier(bound), self.pods_by_tier(~bound)
        facing = self.pods_by_tier(bound & self.user_facing[self.pods.info])
        preempting = self.pods_by_tier(self.preempts[self.pods.info])
        width = max(len(self.view.nodes), 1)
        places = np.unique(self.of_pod[bound].astype(np.int64) * width + self.view.node[bound])
        nodes = np.bincount(places // width, minlength=len(self.values)).tolist()
        return tuple(
            PriorityTier(
                name=self.names[tier] if self.names[tier] != str(value) else "",
                priority=value,
                pods=pods[tier],
                pending=pending[tier],
                nodes=nodes[tier],
                user_facing=facing[tier],
                requests=self._requests(tier, bound),
                preempts=preempting[tier] > 0,
                system=bool(self.system[tier]),
            )
            for tier, value in enumerate(self.values.tolist())
        )

    def _requests(self, tier: int, bound: Bools) -> dict[str, int]:
        """What the pods of the tier that are on nodes request, by resource."""
        chosen = self.pods.info[bound & (self.of_pod == tier)]
        counts = np.bincount(chosen, minlength=len(self.pods.infos))
        totals = counts @ self.view.requests
        return {name: int(totals[column]) for name, column in self.view.resources.items() if totals[column]}
