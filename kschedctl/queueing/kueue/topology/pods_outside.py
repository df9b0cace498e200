"""The room that pods outside Kueue's topology-aware scheduling take in a topology.

Upstream: pkg/cache/scheduler/tas_non_tas_usage_cache.go.
"""

from __future__ import annotations

import numpy as np

from kschedctl.api.objects import Pod
from kschedctl.api.pod_table import PodTable
from kschedctl.api.quantity import INT64_MAX, INT64_MIN
from kschedctl.queueing.kueue.amounts import Requests, sum_requests
from kschedctl.queueing.kueue.pod_requests import compute_requests
from kschedctl.queueing.kueue.topology.tree import Counts, TopologyTree

_PLACED_LABEL = "kueue.x-k8s.io/tas"
"""The label of pods that Kueue assigned to a topology domain. Their Workloads count their room."""


class PodsOutside:
    """The pods on nodes to which Kueue assigned no topology domain, as columns."""

    def __init__(self, pods: PodTable) -> None:
        """Compute the requests of each template of pods on nodes. Raises QuantityError if a request is malformed."""
        self._pods = pods
        has_node = np.array([bool(node) for node in pods.node.values], np.bool_)
        bound_templates = set(pods.template[has_node[pods.node.codes]].tolist()) if len(pods) else set()
        self._requests: list[Requests | None] = [
            sum_requests([compute_requests(template.spec), {"pods": 1}])
            if number in bound_templates and _is_outside(template)
            else None
            for number, template in enumerate(pods.templates)
        ]
        """What a pod of each template requests, or None if such pods take no room."""

    def compute_free_capacity(self, tree: TopologyTree) -> Counts:
        """Return a topology's capacity minus the requests of these pods, as an array (resources, leaves)."""
        pods = self._pods
        if not len(pods):
            return tree.capacity

        # The leaf of each pod, and the pods that take room in the topology
        leaf_by_node = np.array([tree.leaf_of_node.get(node, -1) for node in pods.node.values], np.int64)
        leaves = leaf_by_node[pods.node.codes]
        takes_room = np.array([requests is not None for requests in self._requests], np.bool_)
        rows = np.flatnonzero((leaves >= 0) & takes_room[pods.template])

        # Amounts by resource and template. If their sum could exceed int64, Python's unlimited integers are used
        amounts = [[(requests or {}).get(resource, 0) for requests in self._requests] for resource in tree.resources]
        largest = max((abs(amount) for of_resource in amounts for amount in of_resource), default=0)
        dtype = np.int64 if largest * len(rows) <= INT64_MAX // 2 else np.object_
        used = np.zeros(tree.capacity.shape, dtype)
        for of_resource, by_template in zip(used, amounts, strict=True):
            np.add.at(of_resource, leaves[rows], np.array(by_template, dtype)[pods.template[rows]])

        free = tree.capacity.astype(np.object_) - used
        limited: Counts = np.clip(free, INT64_MIN, INT64_MAX).astype(np.int64)
        return limited


def _is_outside(template: Pod) -> bool:
    """Return whether the pods of a template still run and were not assigned to a topology domain by Kueue."""
    return not template.terminated and _PLACED_LABEL not in template.metadata.labels
