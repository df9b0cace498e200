"""NodeResourceTopologyMatch: the kubelet must be able to satisfy a container's requests from one NUMA node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Rows, Scores
from kschedctl.api.gangs import find_coscheduling_gang
from kschedctl.api.resource_names import CPU, MEMORY, PODS, format_amounts_for_sentence, is_native
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework import Code, Peers, Reads, Rejection
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.plugins.helper.resource_allocation import DEFAULT_RESOURCES
from kschedctl.scheduler.scheduler_plugins import PlacedIsReserved
from kschedctl.scheduler.scheduler_plugins.effective_requests import (
    QualityOfService,
    Requests,
    compute_qos_class,
    parse_container_requests,
    sum_effective_requests,
)
from kschedctl.scheduler.scheduler_plugins.numa_cache import OverReserve
from kschedctl.scheduler.scheduler_plugins.numa_nodes import (
    KIND,
    NumaList,
    NumaNodes,
    build_numa_list,
    build_numa_nodes,
    is_affine,
)
from kschedctl.scheduler.scheduler_plugins.topology_match_args import (
    ENABLED,
    LEAST_NUMA_NODES,
    STRATEGIES,
    NodeResourceTopologyMatchArgs,
    score_containers,
    score_nodes_for_whole_pod,
    score_numa_nodes,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

EPHEMERAL = frozenset({"ephemeral-storage", "storage"})
"""Native resources that may exist without belonging to a NUMA node, as devices may."""
DISCARDED = "of nodes where pods wait for Permit are left out until these are bound, which is not replayed"
INVALID = "invalid node topology data"
ASSUMED_RESOURCES = frozenset({CPU, MEMORY, PODS, "ephemeral-storage"})
"""Resources that every node is assumed to have, even if it has an amount of 0."""


class NodeResourceTopologyMatch(PlacedIsReserved, DeclaredPlugin):
    """Plugin that rejects nodes whose kubelet could not satisfy the requests from a single NUMA node.

    It applies to nodes with the policy single-numa-node, by container or by pod. Available cpu and memory matter only
    to Guaranteed pods. The score of such a pod is the lowest score among the node's NUMA nodes, or it depends on how
    few NUMA nodes are needed. By default, there is no cache, so pods placed since a node's topology was last published
    do not count. If the plugin ignores nodes with reserved pods, answers are conditional while gangs are placed,
    because only pods that wait for Permit stay reserved.

    Upstream: pkg/noderesourcetopology/filter.go and score.go of kubernetes-sigs/scheduler-plugins.
    """

    name = "NodeResourceTopologyMatch"
    reads: Literal[Reads.NODES, Reads.PODS] = Reads.NODES
    peers = Peers.NONE
    kinds: ClassVar[tuple[str, ...]] = (KIND,)
    args_type = NodeResourceTopologyMatchArgs

    def __init__(self, args: NodeResourceTopologyMatchArgs) -> None:
        strategy = args.scoring_strategy
        self.strategy = strategy.type
        self.cache = OverReserve(self.name, args.cache) if args.uses_cache else None
        self.frees_victims = args.preemption_mode == ENABLED
        self.discards = args.discard_reserved_nodes
        self.reads = Reads.PODS if self.cache else Reads.NODES
        self.weights = {resource.name: resource.weight or 1 for resource in strategy.resources or DEFAULT_RESOURCES}

    @classmethod
    def make(cls, args: NodeResourceTopologyMatchArgs, gates: FeatureGates) -> Self:
        """Build the plugin for the profile's arguments."""
        return cls(args)

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        """Yield rejections of the nodes on which no single NUMA node satisfies a container or the whole pod.

        The node's topology manager decides whether containers or the pod are aligned. Nothing is yielded for a pod that
        does not need NUMA nodes. With the cache, nodes with pods of another scheduler that the topology does not count
        are rejected, too.
        """
        numa = self._get_numa_nodes(view)
        qos_class = compute_qos_class(info.pod)  # raises for invalid amounts, even if the pod needs no NUMA nodes
        if not self._needs_numa_nodes(info):
            return
        is_single = numa.single
        if self.cache:
            foreign = self.cache.compare_published_pods(view).nodes_with_foreign_pods
            yield Rejection(foreign, Code.UNSCHEDULABLE, INVALID)
            is_single = is_single & ~foreign

        # Reject nodes that align each container by itself, container by container.
        remaining = dict(numa.available)
        undecided = is_single & ~numa.by_pod
        for kind, requests in _list_container_demands(info):
            fits = _find_fitting_numa_nodes(requests, numa, remaining, view, qos_class)
            rejected = undecided & ~fits.any(axis=1)
            if rejected.any():
                undecided = undecided & ~rejected
                yield self._build_rejection(rejected, f"cannot align {kind}", requests, numa)
            if kind is ContainerKind.APP:  # upstream subtracts only what app containers take
                _subtract_requests(requests, fits, remaining, qos_class)

        # Reject nodes that align the pod as a whole.
        if numa.by_pod.any():
            requests = sum_effective_requests(info.pod)
            fits = _find_fitting_numa_nodes(requests, numa, numa.available, view, qos_class)
            rejected = is_single & numa.by_pod & ~fits.any(axis=1)
            yield self._build_rejection(rejected, "cannot align pod", requests, numa)

    def _build_rejection(self, rejected: Bools, reason: str, requests: Requests, numa: NumaNodes) -> Rejection:
        """Build a rejection whose fact compares the requests with the NUMA nodes."""
        return Rejection(rejected, Code.UNSCHEDULABLE, reason, partial(_describe_most_available, requests, numa))

    def score(self, info: PodInfo, view: Fork, state: None, rows: Rows) -> Scores:
        """Score the nodes in `rows` by the amounts that their NUMA nodes offer.

        Nodes without the policy single-numa-node score 0. If the pod is not Guaranteed, all nodes score the maximum.
        With LeastNUMANodes, nodes of any policy are scored by the number of NUMA nodes that the pod needs.
        """
        if compute_qos_class(info.pod) is not QualityOfService.GUARANTEED:
            return np.full(len(rows), MAX_NODE_SCORE, np.int64)
        if self.strategy == LEAST_NUMA_NODES:
            return self._score_by_numa_count(info, view, rows)

        # Score by the mean of the containers, or by the whole pod on nodes that align the pod.
        numa = self._get_numa_nodes(view)
        strategy = STRATEGIES[self.strategy]
        score_requests = partial(score_numa_nodes, strategy=strategy, numa=numa, rows=rows, weights=self.weights)
        scores_by_container = [score_requests(requests) for _, requests in _list_container_demands(info)]
        mean_scores = sum(scores_by_container, np.zeros(len(rows), np.int64)) // len(scores_by_container)
        pod_scores = score_requests(sum_effective_requests(info.pod))
        scores = np.where(numa.by_pod[rows], pod_scores, mean_scores)
        return np.where(numa.single[rows], scores, 0)

    def _score_by_numa_count(self, info: PodInfo, view: Fork, rows: Rows) -> Scores:
        """Score the nodes in `rows` higher if the pod needs fewer and closer NUMA nodes.

        A node without a topology scores 0.
        """
        numa = _get_cached_numa_list(view).subtract(self._get_reserved_amounts(view)).select_rows(rows)
        by_container = score_containers((requests for _, requests in _list_container_demands(info)), numa)
        scores = np.where(numa.by_pod, score_nodes_for_whole_pod(sum_effective_requests(info.pod), numa), by_container)
        return np.where(numa.has_topology, scores, 0)

    def _get_numa_nodes(self, view: Fork) -> NumaNodes:
        """Return the NUMA nodes without the amounts reserved in the cache."""
        return _get_cached_numa_nodes(view).subtract(self._get_reserved_amounts(view))

    def _get_reserved_amounts(self, view: Fork) -> Mapping[str, Amounts]:
        """Return the amounts (N,), by resource, that the cache subtracts from every NUMA node of a node."""
        return self.cache.sum_reserved_requests(view) if self.cache else {}

    def _needs_numa_nodes(self, info: PodInfo) -> bool:
        """Return whether the filter applies to the pod.

        The filter skips BestEffort pods that request only native resources.
        """
        if compute_qos_class(info.pod) is not QualityOfService.BEST_EFFORT:
            return True
        return not all(is_native(name) for demand in _list_container_demands(info) for name in demand.requests)

    def normalize(self, state: None, scores: Scores) -> Scores:
        """Return the scores unchanged."""
        return scores

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield NodeResourceTopologies, which may change any verdict."""
        yield Dependency(KIND, Effect.EITHER)

    def iter_unknowns(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """Yield an unknown for each effect on the pod that is not replayed.

        Such effects come from the contents of the cache, from amounts that preemption frees, and from pods that wait at
        Permit. Nothing is yielded if the pod does not need NUMA nodes.
        """
        if not self._needs_numa_nodes(info):
            return
        if self.cache:
            numa = _get_cached_numa_nodes(view)
            depends_on_amounts = numa.single & _depends_on_available_amounts(info, numa)
            scored_by_amounts = self._find_nodes_scored_by_amounts(info, view)
            if unknown := self.cache.find_unknown_cache_contents(view, depends_on_amounts, scored_by_amounts):
                yield unknown
            if self.frees_victims and (unknown := self.cache.find_preemption_unknown(info, view, depends_on_amounts)):
                yield unknown
        if self.discards and _can_any_pod_wait(view):
            yield Unknown(Dependency(KIND, Effect.EITHER), Gap(DISCARDED), self.name)

    def _find_nodes_scored_by_amounts(self, info: PodInfo, view: Fork) -> Bools:
        """Return a mask (N,) of the nodes on which the pod's score depends on the available amounts."""
        if compute_qos_class(info.pod) is not QualityOfService.GUARANTEED:
            return np.zeros(len(view.nodes), np.bool_)
        return (
            _get_cached_numa_list(view).has_topology
            if self.strategy == LEAST_NUMA_NODES
            else _get_cached_numa_nodes(view).single
        )

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod is retried.

        The events are deleted pods, new nodes, changed allocatable resources, and new or changed topologies.
        """
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint(NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        yield ClusterEventWithHint(KIND, ActionType.ADD | ActionType.UPDATE)


def _can_any_pod_wait(view: Fork) -> bool:
    """Return whether some pod without a node belongs to a gang and so may have to wait for Permit."""
    infos = np.unique(view.pods.info[view.node < 0]).tolist()
    return any(find_coscheduling_gang(view.pods.infos[number].pod) for number in infos)


def _get_cached_numa_nodes(view: Fork) -> NumaNodes:
    """Return the NUMA nodes of the nodes with the policy single-numa-node, from a cache if possible."""
    cache_key = KIND
    row_by_name = view.nodes.index
    return view.objects.index(
        cache_key, lambda topologies: build_numa_nodes(topologies, row_by_name), KIND, of=(view.nodes,)
    )


def _get_cached_numa_list(view: Fork) -> NumaList:
    """Return the NUMA nodes of all nodes, in the order in which they were published.

    The result is cached for views with the same topologies and nodes.
    """
    cache_key = (KIND, "list")
    row_by_name = view.nodes.index
    return view.objects.index(
        cache_key, lambda topologies: build_numa_list(topologies, row_by_name), KIND, of=(view.nodes,)
    )


def _depends_on_available_amounts(info: PodInfo, numa: NumaNodes) -> bool:
    """Return whether the pod's fit can depend on how much the NUMA nodes have available."""
    # Only Guaranteed pods get CPU, memory and huge pages (the affine resources) exclusively from a NUMA node. For other
    # pods, these resources only have to exist.
    is_guaranteed = compute_qos_class(info.pod) is QualityOfService.GUARANTEED
    for demand in _list_container_demands(info):
        for name, amount in demand.requests.items():
            if amount and name in numa.available and (is_guaranteed or not is_affine(name)):
                return True
    return False


class ContainerKind(StrEnum):
    """The kinds of containers, as upstream's messages name them."""

    INIT = "init container"
    SIDECAR = "sidecar container"
    APP = "container"


class ContainerDemand(NamedTuple):
    """The requests of one container."""

    kind: ContainerKind
    requests: Requests


def _list_container_demands(info: PodInfo) -> list[ContainerDemand]:
    """Return the requests of each container, init containers first."""
    demands = []
    for container in info.spec.init_containers:
        kind = ContainerKind.SIDECAR if container.restart_policy == "Always" else ContainerKind.INIT
        demands.append(ContainerDemand(kind, parse_container_requests(info.pod, container)))
    for container in info.spec.containers:
        demands.append(ContainerDemand(ContainerKind.APP, parse_container_requests(info.pod, container)))
    return demands


def _find_fitting_numa_nodes(
    requests: Requests, numa: NumaNodes, remaining: Mapping[str, Amounts], view: Fork, qos_class: QualityOfService
) -> Bools:
    """Return a mask of the NUMA nodes that satisfy all requests, with a row per node and a column per NUMA node.

    The amounts in `remaining` replace the amounts that the NUMA nodes report. A NUMA node satisfies a request if it has
    the amount, with two exceptions. If the pod is not Guaranteed, a resource that NUMA nodes share among pods only has
    to exist. A storage or non-native resource that no NUMA node of the node has belongs to the node as a whole. In any
    case, the node itself must offer the resource.
    """
    fits = np.ones((len(view.nodes), numa.width), np.bool_)
    for resource, amount in requests.items():
        if not amount:
            continue
        available = remaining.get(resource, numa.get_available_amounts(resource))
        exists = available >= 0
        if qos_class is not QualityOfService.GUARANTEED and is_affine(resource):
            satisfies = exists  # the pod shares the resource, so the available amount does not matter
        else:
            satisfies = exists & (available >= amount)
        if resource in EPHEMERAL or not is_native(resource):
            belongs_to_whole_node = ~exists.any(axis=1, keepdims=True)
            satisfies = satisfies | belongs_to_whole_node
        node_has_resource = _find_nodes_with_resource(resource, view)[:, None]
        fits &= satisfies & node_has_resource
    return fits


def _find_nodes_with_resource(resource: str, view: Fork) -> Bools:
    """Return a mask (N,) of the nodes that have the resource. Every node has the ASSUMED_RESOURCES."""
    if resource in ASSUMED_RESOURCES:
        return np.ones(len(view.nodes), np.bool_)
    column = view.resources.get(resource)
    if column is None:
        return np.zeros(len(view.nodes), np.bool_)
    return view.allocatable[:, column] > 0


def _subtract_requests(
    requests: Requests, fits: Bools, remaining: dict[str, Amounts], qos_class: QualityOfService
) -> None:
    """Subtract the requests from the first fitting NUMA node of each node, as the kubelet does.

    `fits` is a mask (nodes, NUMA nodes). The arrays in `remaining` are replaced. Resources that the pod shares with
    other pods are not subtracted.
    """
    rows = np.flatnonzero(fits.any(axis=1))
    first = fits[rows].argmax(axis=1)
    for resource, amount in requests.items():
        if resource not in remaining or (qos_class is not QualityOfService.GUARANTEED and is_affine(resource)):
            continue
        amounts = remaining[resource].copy()
        available = amounts[rows, first]
        amounts[rows, first] = np.where(available >= 0, available - amount, available)
        remaining[resource] = amounts


def _describe_most_available(requests: Requests, numa: NumaNodes, row: int) -> str:
    """Describe each request and the largest amount that a single NUMA node of the node at `row` offers.

    Resources that no NUMA node has are left out. Return "" if no resource remains.
    """
    comparisons = []
    for resource, amount in requests.items():
        max_available = int(numa.get_available_amounts(resource)[row].max())
        if max_available >= 0:  # -1 if no NUMA node has the resource
            (requested, available), unit = format_amounts_for_sentence(resource, amount, max_available)
            comparisons.append(f"{requested} of {available} {unit}")
    if not comparisons:
        return ""
    return f"requested, compared with the most that one NUMA node has free: {', '.join(comparisons)}"
