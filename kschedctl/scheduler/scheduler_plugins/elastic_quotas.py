"""What namespaces with an ElasticQuota are guaranteed, may use at the most, and use.

Upstream: pkg/capacityscheduling/elasticquota.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from kschedctl.api.arrays import Counts
from kschedctl.api.objects import ElasticQuota, Resources
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import INT64_MAX, QuantityError
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kschedctl.errors import InputError
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, effective_requests
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import to_amounts

KIND = "ElasticQuota"
ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""The resources of which a quota that names others only allows nothing, and guarantees nothing."""


class Quota:
    """The ElasticQuota of a namespace. Raises InputError for an amount that is none."""

    def __init__(self, quota: ElasticQuota) -> None:
        self.namespace, self.name = quota.metadata.namespace, quota.metadata.name
        self.least = {} if quota.spec.min is None else self._amounts("min", quota.spec.min)
        self.most = None if quota.spec.max is None else self._amounts("max", quota.spec.max)

    def _amounts(self, field: str, resources: Resources) -> Requests:
        try:
            return to_amounts(parse_quantities(resources))
        except QuantityError as error:
            where = f"{KIND} {self.namespace}/{self.name}, spec.{field}"
            raise InputError(error.what, where=where, hint=error.hint) from None

    def over_max(self, used: Requests, more: Requests) -> str:
        """The first resource of which more than the most would be used; empty for none."""
        if self.most is None:
            return ""
        return exceeded(more, used, self.most, INT64_MAX)

    def over_min(self, used: Requests) -> bool:
        """Whether it uses more than it is guaranteed: it borrows from others."""
        return bool(exceeded(used, {}, self.least, 0))

    def over_min_with(self, used: Requests, more: Requests) -> bool:
        """Whether it would borrow, with more of what that names."""
        return bool(exceeded(more, used, self.least, 0))


def quotas_by_namespace(quotas: Iterable[ElasticQuota]) -> dict[str, Quota]:
    """The first of each namespace: there is to be only one."""
    by_namespace: dict[str, Quota] = {}
    for quota in quotas:
        by_namespace.setdefault(quota.metadata.namespace, Quota(quota))
    return by_namespace


def exceeded(some: Requests, others: Requests, limits: Requests, unnamed: int) -> str:
    """The first resource of which there is more than its limit together; empty for none."""
    counted = counted_limits(some, limits, unnamed).items()
    return next((name for name, limit in counted if some.get(name, 0) + others.get(name, 0) > limit), "")


def counted_limits(some: Requests, limits: Requests, unnamed: int) -> dict[str, int]:
    """The limits that count: of extended resources those that ``some`` names, ``unnamed`` where none is given."""
    extended = {name: limits.get(name, unnamed) for name in some if name not in ALWAYS}
    return {name: limits.get(name, 0) for name in ALWAYS} | extended


class QuotaUse:
    """What the pods on nodes use, by namespace, as they come and go."""

    def __init__(self, view: Fork, quotas: Mapping[str, Quota]) -> None:
        self.view, self.quotas = view, quotas

    def of(self, namespace: str) -> dict[str, int]:
        """In one namespace that has a quota."""
        return self._used(frozenset((namespace,)))

    def everywhere(self) -> dict[str, int]:
        """In all that have one."""
        return self._used(frozenset(self.quotas))

    @property
    def requests(self) -> dict[str, Counts]:
        """Resource -> (T,): what each info of a pod with a quota counts with."""
        return self._requests(frozenset(self.quotas))

    @property
    def numbers(self) -> Counts:
        """(T,): the quota of each info, by its place among all, -1 for none."""
        infos, numbers = self.view.pods.infos, {namespace: i for i, namespace in enumerate(self.quotas)}
        key = "quotas of infos", tuple(self.quotas)
        return self.view.memo(key, lambda: np.array([numbers.get(i.namespace, -1) for i in infos], np.int64))

    def number(self, namespace: str) -> int:
        """The place of a namespace's quota among all, -1 for none."""
        return list(self.quotas).index(namespace) if namespace in self.quotas else -1

    def _used(self, namespaces: frozenset[str]) -> dict[str, int]:
        weights = self._requests(namespaces).items()
        return {name: self._sum((QuotaUse, namespaces, name), by_info) for name, by_info in weights}

    def _requests(self, namespaces: frozenset[str]) -> dict[str, Counts]:
        return self.view.memo((QuotaUse, namespaces), lambda: self._weights(namespaces))

    def _sum(self, key: Hashable, weights: Counts) -> int:
        return int(self.view.tally(key, lambda: weights).sum())

    def _weights(self, namespaces: frozenset[str]) -> dict[str, Counts]:
        """Resource -> (T,): what each of the pods' infos counts with."""
        infos = self.view.pods.infos
        weights: dict[str, Counts] = {}
        for number, info in enumerate(infos):
            for name, amount in effective_requests(info.pod).items() if info.namespace in namespaces else ():
                weights.setdefault(name, np.zeros(len(infos), np.int64))[number] = amount
        return weights
