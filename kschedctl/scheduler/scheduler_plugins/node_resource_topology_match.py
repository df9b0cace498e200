"""NodeResourceTopologyMatch: nodes on which the kubelet can take all that a container asks for from one NUMA node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Rows, Scores
from kschedctl.api.gangs import find_coscheduling_gang
from kschedctl.api.resource_names import CPU, MEMORY, PODS, format_amount, is_native
from kschedctl.cluster import Gap
from kschedctl.scheduler.framework import Code, Peers, Reads, Rejection
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.scheduler.plugins.helper.scoring_strategy import DEFAULT_RESOURCES
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, container_requests, effective_requests
from kschedctl.scheduler.scheduler_plugins.least_numa import score_of_containers, score_of_pod
from kschedctl.scheduler.scheduler_plugins.numa_cache import OverReserve
from kschedctl.scheduler.scheduler_plugins.numa_nodes import KIND, NumaList, NumaNodes, is_affine, numa_list, numa_nodes
from kschedctl.scheduler.scheduler_plugins.numa_scores import STRATEGIES, score_of
from kschedctl.scheduler.scheduler_plugins.placed_is_reserved import PlacedIsReserved
from kschedctl.scheduler.scheduler_plugins.quality_of_service import QualityOfService, quality_of_service
from kschedctl.scheduler.scheduler_plugins.topology_match_args import (
    ENABLED,
    LEAST_NUMA_NODES,
    NodeResourceTopologyMatchArgs,
)
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

EPHEMERAL = frozenset({"ephemeral-storage", "storage"})
"""Native resources that may be there without belonging to a NUMA node; devices may too."""
DISCARDED = "of nodes where pods wait for Permit are left out until these are bound, which is not replayed"
INVALID = "invalid node topology data"
OF_EVERY_NODE = frozenset({CPU, MEMORY, PODS, "ephemeral-storage"})
"""What a node is taken to have, be it none of it."""


class NodeResourceTopologyMatch(PlacedIsReserved, DeclaredPlugin):
    """Refuses nodes with the policy single-numa-node where a container, or the pod, finds no NUMA node with enough.

    What of cpu and memory is available matters to Guaranteed pods alone. Of them the scores tell how much of a NUMA
    node would be left, by the worst that fits, or from how few NUMA nodes they would get all. Without a cache, as by
    default, what pods take that were placed just now does not count until their node publishes it. Nodes that are
    left out while pods are reserved there are those of pods that wait for Permit, as placed ones are bound at once; as
    long as gangs are placed the answer is conditional.

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
        self.cache = OverReserve(self.name, args.cache) if args.over_reserves else None
        self.frees_victims = args.preemption_mode == ENABLED
        self.discards = args.discard_reserved_nodes
        self.reads = Reads.PODS if self.cache else Reads.NODES
        self.weights = {resource.name: resource.weight or 1 for resource in strategy.resources or DEFAULT_RESOURCES}

    @classmethod
    def make(cls, args: NodeResourceTopologyMatchArgs, gates: FeatureGates) -> Self:
        return cls(args)

    def filter(self, info: PodInfo, view: Fork, state: None, delta: Delta) -> Iterator[Rejection]:
        numa, quality = self._numa(view), quality_of_service(info.pod)
        if not self._is_asked(info):
            return
        remaining = dict(numa.available)
        single = numa.single
        if self.cache:
            foreign = self.cache.published(view).foreign
            yield Rejection(foreign, Code.UNSCHEDULABLE, INVALID)
            single = single & ~foreign
        by_container = single & ~numa.by_pod
        for kind, requests in _container_demands(info):
            fits = _fitting(requests, numa, remaining, view, quality)
            rejected = by_container & ~fits.any(axis=1)
            if rejected.any():
                by_container = by_container & ~rejected
                yield self._rejection(rejected, f"cannot align {kind}", requests, numa)
            if kind is ContainerKind.APP:  # upstream subtracts only what app containers take
                _take(requests, fits, remaining, quality)
        if numa.by_pod.any():
            requests = effective_requests(info.pod)
            fits = _fitting(requests, numa, numa.available, view, quality)
            yield self._rejection(single & numa.by_pod & ~fits.any(axis=1), "cannot align pod", requests, numa)

    def _rejection(self, refused: Bools, reason: str, requests: Requests, numa: NumaNodes) -> Rejection:
        return Rejection(refused, Code.UNSCHEDULABLE, reason, partial(_most_available, requests, numa))

    def score(self, info: PodInfo, view: Fork, state: None, rows: Rows) -> Scores:
        if quality_of_service(info.pod) is not QualityOfService.GUARANTEED:
            return np.full(len(rows), MAX_NODE_SCORE, np.int64)
        if self.strategy == LEAST_NUMA_NODES:
            return self._by_count(info, view, rows)
        numa, strategy = self._numa(view), STRATEGIES[self.strategy]
        of = partial(score_of, strategy=strategy, numa=numa, rows=rows, weights=self.weights)
        containers = [of(requests) for _, requests in _container_demands(info)]
        by_container = sum(containers, np.zeros(len(rows), np.int64)) // len(containers)
        scores = np.where(numa.by_pod[rows], of(effective_requests(info.pod)), by_container)
        return np.where(numa.single[rows], scores, 0)

    def _by_count(self, info: PodInfo, view: Fork, rows: Rows) -> Scores:
        """(F,): the fewer NUMA nodes are needed, and the nearer they are, the better."""
        numa = _numa_list(view).less(self._reserved(view)).taken(rows)
        by_container = score_of_containers((requests for _, requests in _container_demands(info)), numa)
        scores = np.where(numa.by_pod, score_of_pod(effective_requests(info.pod), numa), by_container)
        return np.where(numa.known, scores, 0)

    def _numa(self, view: Fork) -> NumaNodes:
        return _numa_nodes(view).less(self._reserved(view))

    def _reserved(self, view: Fork) -> Mapping[str, Amounts]:
        """Resource -> (N,): what a cache takes from all NUMA nodes of a node."""
        return self.cache.reserved(view) if self.cache else {}

    def _is_asked(self, info: PodInfo) -> bool:
        """Whether NUMA nodes matter to the pod at all."""
        if quality_of_service(info.pod) is not QualityOfService.BEST_EFFORT:
            return True
        return not all(is_native(name) for demand in _container_demands(info) for name in demand.requests)

    def normalize(self, state: None, scores: Scores) -> Scores:
        return scores

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        yield Dependency(KIND, Effect.EITHER)

    def doubts(self, info: PodInfo, view: Fork) -> Iterator[Unknown]:
        """What a cache holds, and where pods are reserved but not bound yet."""
        if not self._is_asked(info):
            return
        if self.cache:
            numa = _numa_nodes(view)
            decided = numa.single & _hangs_on_amounts(info, numa)
            yield from self.cache.doubts(view, decided, self._scored(info, view))
            if self.frees_victims:
                yield from self.cache.doubts_of_preemption(info, view, decided)
        if self.discards and _any_gang_waits(view):
            yield Unknown(Dependency(KIND, Effect.EITHER), Gap(DISCARDED), self.name)

    def _scored(self, info: PodInfo, view: Fork) -> Bools:
        """(N,): where the pod's score hangs on what is available."""
        if quality_of_service(info.pod) is not QualityOfService.GUARANTEED:
            return np.zeros(len(view.nodes), np.bool_)
        return _numa_list(view).known if self.strategy == LEAST_NUMA_NODES else _numa_nodes(view).single

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint(NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        yield ClusterEventWithHint(KIND, ActionType.ADD | ActionType.UPDATE)


def _any_gang_waits(view: Fork) -> bool:
    """Whether a pod without a node may have to wait for Permit on the one that it gets."""
    infos = np.unique(view.pods.info[view.node < 0]).tolist()
    return any(find_coscheduling_gang(view.pods.infos[number].pod) for number in infos)


def _numa_nodes(view: Fork) -> NumaNodes:
    index = view.nodes.index
    return view.objects.index(KIND, lambda topologies: numa_nodes(topologies, index), KIND, of=(view.nodes,))


def _numa_list(view: Fork) -> NumaList:
    index = view.nodes.index
    return view.objects.index((KIND, "list"), lambda topologies: numa_list(topologies, index), KIND, of=(view.nodes,))


def _hangs_on_amounts(info: PodInfo, numa: NumaNodes) -> bool:
    """Whether it matters to the pod how much NUMA nodes have left, not only what they have at all."""
    shares = quality_of_service(info.pod) is not QualityOfService.GUARANTEED
    requested = {name for demand in _container_demands(info) for name, amount in demand.requests.items() if amount}
    return any(name in numa.available and not (shares and is_affine(name)) for name in requested)


class ContainerKind(StrEnum):
    """The kinds of containers, as upstream's messages name them."""

    INIT = "init container"
    SIDECAR = "sidecar container"
    APP = "container"


class ContainerDemand(NamedTuple):
    """The requests of one container."""

    kind: ContainerKind
    requests: Requests


def _container_demands(info: PodInfo) -> list[ContainerDemand]:
    """Return the requests of each container, init containers first."""
    demands = []
    for container in info.spec.init_containers:
        kind = ContainerKind.SIDECAR if container.restart_policy == "Always" else ContainerKind.INIT
        demands.append(ContainerDemand(kind, container_requests(info.pod, container)))
    for container in info.spec.containers:
        demands.append(ContainerDemand(ContainerKind.APP, container_requests(info.pod, container)))
    return demands


def _fitting(
    requests: Requests, numa: NumaNodes, left: Mapping[str, Amounts], view: Fork, quality: QualityOfService
) -> Bools:
    """(N, Z): the NUMA nodes with as much of everything."""
    fits = np.ones((len(view.nodes), numa.width), np.bool_)
    for resource, amount in requests.items():
        if not amount:
            continue
        available = left.get(resource, numa.of(resource))
        has = available >= 0
        shared = quality is not QualityOfService.GUARANTEED and is_affine(resource)
        enough = has & (shared | (available >= amount))
        if resource in EPHEMERAL or not is_native(resource):
            enough |= ~has.any(axis=1, keepdims=True)
        fits &= enough & _offered(resource, view)[:, None]
    return fits


def _offered(resource: str, view: Fork) -> Bools:
    """(N,): the nodes that have the resource at all."""
    column = view.resources.get(resource)
    if resource in OF_EVERY_NODE:
        return np.ones(len(view.nodes), np.bool_)
    return np.zeros(len(view.nodes), np.bool_) if column is None else view.allocatable[:, column] > 0


def _take(requests: Requests, fits: Bools, left: dict[str, Amounts], quality: QualityOfService) -> None:
    """Containers that follow find less in the first NUMA node that fits, which is the one that kubelets choose."""
    rows = np.flatnonzero(fits.any(axis=1))
    first = fits[rows].argmax(axis=1)
    for resource, amount in requests.items():
        if resource not in left or (quality is not QualityOfService.GUARANTEED and is_affine(resource)):
            continue
        after = left[resource].copy()
        taken = after[rows, first]
        after[rows, first] = np.where(taken >= 0, taken - amount, taken)
        left[resource] = after


def _most_available(requests: Requests, numa: NumaNodes, row: int) -> str:
    """What is asked for, and the most of it that a NUMA node had before."""
    amounts = []
    for resource, amount in requests.items():
        if (most := int(numa.of(resource)[row].max())) >= 0:
            amounts.append(f"{format_amount(resource, amount)} of {format_amount(resource, most)} {resource}")
    return f"asked for, and the most that a NUMA node has: {', '.join(amounts)}" if amounts else ""
