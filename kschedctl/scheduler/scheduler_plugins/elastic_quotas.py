"""ElasticQuotas: the guaranteed and the maximum resources of namespaces, and their use.

Upstream: pkg/capacityscheduling/elasticquota.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kschedctl.api.arrays import Counts
from kschedctl.api.objects import ElasticQuota, Resources
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import INT64_MAX, QuantityError
from kschedctl.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kschedctl.errors import InputError
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, sum_effective_requests
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import convert_to_amounts

KIND = "ElasticQuota"
ALWAYS_LIMITED = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources that are limited to 0 if a quota does not name them."""


class Quota:
    """The ElasticQuota of a namespace. Raises InputError for an invalid amount."""

    def __init__(self, quota: ElasticQuota) -> None:
        self.namespace, self.name = quota.metadata.namespace, quota.metadata.name
        self.min_amounts = {} if quota.spec.min is None else self._parse_amounts("min", quota.spec.min)
        self.max_amounts = None if quota.spec.max is None else self._parse_amounts("max", quota.spec.max)

    def _parse_amounts(self, field: str, resources: Resources) -> Requests:
        """Parse the amounts in a field of the spec. Raises InputError for an invalid amount."""
        try:
            return convert_to_amounts(parse_quantities(resources))
        except QuantityError as error:
            location = f"{KIND} {self.namespace}/{self.name}, spec.{field}"
            raise InputError(error.what, where=location, hint=error.hint) from None

    def find_resource_over_max(self, used: Requests, requests: Requests) -> str:
        """Return the first resource that exceeds the quota's max with these additional requests, or ""."""
        if self.max_amounts is None:
            return ""
        return find_exceeded_resource(requests, used, self.max_amounts, default_limit=INT64_MAX)

    def is_over_min(self, used: Requests) -> bool:
        """Return whether the namespace uses more than its min and so borrows from other quotas."""
        return bool(find_exceeded_resource(used, used={}, limits=self.min_amounts, default_limit=0))

    def would_be_over_min(self, used: Requests, requests: Requests) -> bool:
        """Return whether the namespace would use more than its min with additional requests."""
        return bool(find_exceeded_resource(requests, used, self.min_amounts, default_limit=0))


def index_quotas(quotas: Iterable[ElasticQuota]) -> dict[str, Quota]:
    """Index quotas by namespace. If a namespace has several quotas, only the first is used."""
    by_namespace: dict[str, Quota] = {}
    for quota in quotas:
        by_namespace.setdefault(quota.metadata.namespace, Quota(quota))
    return by_namespace


def find_exceeded_resource(requests: Requests, used: Requests, limits: Requests, default_limit: int) -> str:
    """Return the first resource for which requests plus usage exceed the limit, or "" if there is none.

    A native resource without a limit has the limit 0. Any other resource without a limit has `default_limit`.
    """
    for name, limit in find_applicable_limits(requests, limits, default_limit).items():
        if requests.get(name, 0) + used.get(name, 0) > limit:
            return name
    return ""


def find_applicable_limits(requests: Requests, limits: Requests, default_limit: int) -> dict[str, int]:
    """Return the limits of the native resources, and of the extended resources that are requested.

    Native resources without a limit get 0, and extended resources without a limit get ``default_limit``.
    """
    extended = {name: limits.get(name, default_limit) for name in requests if name not in ALWAYS_LIMITED}
    return {name: limits.get(name, 0) for name in ALWAYS_LIMITED} | extended


class QuotaUse:
    """The resources that pods on nodes use in each namespace, kept current as pods come and go."""

    def __init__(self, view: Fork, quotas: Mapping[str, Quota]) -> None:
        self.view, self.quotas = view, quotas

    def sum_namespace_requests(self, namespace: str) -> dict[str, int]:
        """Return, by resource, the total requests of the pods on nodes in one namespace that has a quota."""
        return self._sum_requests_in_namespaces(frozenset((namespace,)))

    def sum_all_requests(self) -> dict[str, int]:
        """Return, by resource, the total requests of the pods on nodes in all namespaces that have a quota."""
        return self._sum_requests_in_namespaces(frozenset(self.quotas))

    @property
    def requests(self) -> dict[str, Counts]:
        """The requests of each PodInfo, by resource.

        The requests are 0 if the namespace of the PodInfo has no quota.
        """
        return self._get_requests_by_info(frozenset(self.quotas))

    @property
    def quota_numbers(self) -> Counts:
        """The index in `quotas` of the quota of each PodInfo's namespace, or -1 if the namespace has no quota."""
        infos = self.view.pods.infos
        number_by_namespace = {namespace: number for number, namespace in enumerate(self.quotas)}
        key = "quotas of infos", tuple(self.quotas)
        return self.view.memo(
            key, lambda: np.array([number_by_namespace.get(info.namespace, -1) for info in infos], np.int64)
        )

    def find_quota_number(self, namespace: str) -> int:
        """Return the number of a namespace's quota in the order of `quotas`, or -1 if the namespace has none."""
        return list(self.quotas).index(namespace) if namespace in self.quotas else -1

    def _sum_requests_in_namespaces(self, namespaces: frozenset[str]) -> dict[str, int]:
        """Return, by resource, the total requests of the pods in these namespaces that are on nodes."""
        return {
            resource: self._sum_requests_on_nodes(namespaces, resource, requests_by_info)
            for resource, requests_by_info in self._get_requests_by_info(namespaces).items()
        }

    def _get_requests_by_info(self, namespaces: frozenset[str]) -> dict[str, Counts]:
        """Return, by resource, the cached requests of each PodInfo, or 0 outside these namespaces."""
        return self.view.memo((QuotaUse, namespaces), lambda: self._build_requests_by_info(namespaces))

    def _sum_requests_on_nodes(self, namespaces: frozenset[str], resource: str, requests_by_info: Counts) -> int:
        """Return the total requests for a resource of the pods in these namespaces that are on nodes.

        `requests_by_info` has the amount of each PodInfo, which is 0 in other namespaces.
        """
        # The view keeps the sums under this key, and updates them as pods move
        tally_key = (QuotaUse, namespaces, resource)
        requests_by_node = self.view.tally(tally_key, lambda: requests_by_info)
        return int(requests_by_node.sum())

    def _build_requests_by_info(self, namespaces: frozenset[str]) -> dict[str, Counts]:
        """Return, by resource, the requests of each PodInfo, which are 0 for PodInfos of other namespaces."""
        infos = self.view.pods.infos
        requests_by_resource: dict[str, Counts] = {}
        for number, info in enumerate(infos):
            if info.namespace not in namespaces:
                continue
            for name, amount in sum_effective_requests(info.pod).items():
                if name not in requests_by_resource:
                    requests_by_resource[name] = np.zeros(len(infos), np.int64)
                requests_by_resource[name][number] = amount
        return requests_by_resource
