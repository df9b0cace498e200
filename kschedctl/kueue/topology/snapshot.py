"""The free capacity of a flavor's topology, and the search for a placement of a Workload's pod sets.

Upstream: pkg/cache/scheduler/tas_flavor_snapshot.go, tas_flavor.go and scheduling_simulator_default.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kschedctl.api.node_selector import NodeSelectorError, compile_preferred_terms, compile_required_node_affinity
from kschedctl.api.objects import Node, PodSpec, Toleration
from kschedctl.api.queueing import KueuePodSet, SliceConstraint, TopologyRequest
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from kschedctl.kueue.amounts import Requests, saturate, sum_requests
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.topology.balanced import place_slices_evenly
from kschedctl.kueue.topology.domain_search import DomainSearch, PlacementError, PlacementRequest
from kschedctl.kueue.topology.tree import Counts, DomainCapacities, Indexes, TopologyTree, count_fitting_pods
from kschedctl.kueue.workloads import DomainCount, DomainRequests, TopologyPlacement

_ONE_POD = {"pods": 1}
AssumedUsage = dict[tuple[str, ...], Requests]
"""The usage of pod sets that were just placed, by the values of the domain."""


@dataclass(frozen=True, slots=True)
class PodSetPlacementRequest:
    """A pod set that needs a place in a topology."""

    pod_set: KueuePodSet
    pod_requests: Requests
    """The requests of one pod."""
    count: int
    flavor: str
    is_implied: bool
    """True if the pod set did not ask for a topology, but has only flavors with one."""

    @property
    def group(self) -> str | None:
        """The name shared by the pod sets that are placed together, or None."""
        request = self.pod_set.topology_request
        return None if request is None else request.pod_set_group_name


class _NodeMatches(NamedTuple):
    """The nodes that a pod's constraints allow, as arrays (leaves,) over the domains of the lowest level."""

    is_match: NDArray[np.bool_]
    """A mask of the domains that the pod may use."""
    affinity: NDArray[np.int64]
    """The score of the pod's preferred node affinity."""
    exclusions: Exclusions


class TopologyResult(NamedTuple):
    """The placement of a pod set, or why there is none."""

    flavor: str
    placement: TopologyPlacement | None
    failure: str = ""


@dataclass(slots=True)
class Exclusions:
    """The numbers of excluded nodes, by reason."""

    nodes: int = 0
    """The number of nodes that were looked at."""
    by_reason: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        if not self.by_reason:
            return ""
        reasons = sorted(f"{reason}: {count}" for reason, count in self.by_reason.items())
        return f". Total nodes: {self.nodes}; excluded: {', '.join(reasons)}"


class _DomainColumns(NamedTuple):
    """The requests of pods in topology domains, as columns."""

    domains: Sequence[DomainRequests]
    """The pods. Keeps them alive, since the columns are found by their identity."""
    leaves: Indexes
    """The indexes of the domains in the lowest level, each once."""
    amounts: Counts
    """The amounts that the pods use. Shape: resources x leaves."""


_MOST_EXACT = 2**46
"""The largest amount that can be added any realistic number of times without exceeding the limits of int64."""


class TopologySnapshot:
    """The capacity of a flavor's topology during a cycle. All ClusterQueues with the flavor share it."""

    def __init__(
        self, tree: TopologyTree, free: Counts, tolerations: Sequence[Toleration], gates: FeatureGates
    ) -> None:
        """Create the snapshot of a topology that no Workload uses yet.

        ``free`` is the capacity that pods outside Kueue leave free, as an array (resources, leaves). ``tolerations``
        are those that the flavor adds to its pods.
        """
        self.tree = tree
        self.gates = gates
        self._tolerations = tuple(tolerations)
        """The tolerations that the flavor gives to its pods."""
        self._rows = {resource: row for row, resource in enumerate(tree.resources)}
        self._free = free
        self._usage = np.zeros_like(tree.capacity)
        """The amounts that Workloads use. Shape: resources x leaves."""
        self._columns: dict[int, _DomainColumns] = {}
        """The columns of pods in domains, by the identity of their list."""
        self._has_huge_amounts = False
        """True if an amount was added that may exceed the limits of int64."""
        self._matches: dict[bytes, _NodeMatches] = {}
        """The matches of pods that were looked at, by the constraints of the pod."""

    def change_usage(self, domains: Sequence[DomainRequests], sign: int) -> None:
        """Add pods' requests to the usage of their domains, or subtract them if ``sign`` is -1.

        Domains outside the topology are ignored. ``domains`` must not change afterwards, because the sums are cached by
        the identity of the sequence.
        """
        columns = self._columns.get(id(domains))
        if columns is None:
            columns = self._sum_requests_by_leaf(domains)  # may set `_has_huge_amounts`
            self._columns[id(domains)] = columns
        if not self._has_huge_amounts:
            self._usage[:, columns.leaves] += sign * columns.amounts
            return

        # As in upstream, each addition of huge amounts is checked against the limits of int64
        for domain in domains:
            leaf = self.tree.leaf_indexes.get(domain.values)
            if leaf is not None:
                requests = sum_requests([domain.pod_requests, _ONE_POD])
                self._add_requests(self._usage, leaf, requests, sign * domain.count)

    def _sum_requests_by_leaf(self, domains: Sequence[DomainRequests]) -> _DomainColumns:
        """Sum the requests of pods by leaf domain, with one column for each leaf and one row for each resource.

        The number of pods is also one of the resources. Domains and resources that the tree lacks are left out. If a
        sum may exceed int64, ``_has_huge_amounts`` is set and empty columns are returned.
        """
        by_leaf: dict[int, list[int]] = {}
        for domain in domains:
            leaf = self.tree.leaf_indexes.get(domain.values)
            if leaf is None:
                continue
            amounts = by_leaf.setdefault(leaf, [0] * len(self._rows))
            for resource, amount in sum_requests([domain.pod_requests, _ONE_POD]).items():
                row = self._rows.get(resource)
                if row is not None:
                    amounts[row] += amount * domain.count

        largest = max((abs(amount) for amounts in by_leaf.values() for amount in amounts), default=0)
        if largest > _MOST_EXACT:
            self._has_huge_amounts = True
            return _DomainColumns(domains, np.zeros(0, np.int64), np.zeros((len(self._rows), 0), np.int64))
        leaves = np.array(list(by_leaf), np.int64)
        amounts_by_leaf = np.array(list(by_leaf.values()), np.int64)
        amounts_by_leaf = amounts_by_leaf.reshape(len(by_leaf), len(self._rows))  # also without any leaf
        return _DomainColumns(domains, leaves, amounts_by_leaf.T)

    def _add_requests(self, amounts: Counts, leaf: int, requests: Mapping[str, int], count: int) -> None:
        """Add ``count`` times the requests to the column of one leaf in ``amounts``, within the limits of int64.

        Resources that the topology does not have are ignored.
        """
        for resource, amount in requests.items():
            row = self._rows.get(resource)
            if row is not None:
                amounts[row, leaf] = saturate(int(amounts[row, leaf]) + amount * count)

    def has_room_for(self, domains: Iterable[DomainRequests]) -> bool:
        """Return whether each domain exists and has enough free capacity for the pods assigned to it."""
        for domain in domains:
            leaf = self.tree.leaf_indexes.get(domain.values)
            if leaf is None:
                return False

            # The free amounts of the leaf, as arrays of length 1
            remaining = self._free[:, leaf] - self._usage[:, leaf]
            capacity = {resource: remaining[row : row + 1] for resource, row in self._rows.items()}
            if int(count_fitting_pods(domain.pod_requests, capacity, 1)[0]) < domain.count:
                return False
        return True

    def has_requested_levels(self, request: TopologyRequest) -> bool:
        """Return whether the topology has all levels that a request names. A request without a level has none."""
        slice_keys = [constraint.topology for constraint in list_slice_constraints(request)]
        return all(self.tree.find_level(key) is not None for key in [self.find_level_key(request), *slice_keys])

    def find_level_key(self, request: TopologyRequest | None) -> str | None:
        """Return the node label of the level at which all pods should share a domain.

        If only slices are requested, it is the highest level. For an unconstrained request, it is the lowest level.
        Return None if no topology is requested.
        """
        if request is None:
            return None
        if request.required is not None:
            return request.required
        if request.preferred is not None:
            return request.preferred
        if list_slice_constraints(request):
            return self.tree.keys[0]
        return self.tree.keys[-1] if request.unconstrained else None

    def place_pod_sets(
        self, requests: Sequence[PodSetPlacementRequest], assumed: AssumedUsage, *, assume_empty: bool
    ) -> dict[str, TopologyResult]:
        """Find a placement for each pod set, and return the results by pod set name.

        Pod sets in the same group are placed together. The search stops at the first group without a placement.
        ``assumed`` is the usage of the Workload's pod sets that were placed before, and new placements are added to it.
        With ``assume_empty``, the usage of other Workloads is ignored.
        """
        # A pod set without a group is a group of one, whose key is its index
        groups: dict[str, list[PodSetPlacementRequest]] = {}
        for index, request in enumerate(requests):
            groups.setdefault(str(index) if request.group is None else request.group, []).append(request)

        results: dict[str, TopologyResult] = {}
        for group in groups.values():
            leader, workers = _split_leader_and_workers(group)
            try:
                placements = self._place_group(workers, leader, assumed, assume_empty=assume_empty)
            except PlacementError as error:
                for request in group:
                    results[request.pod_set.name] = TopologyResult(request.flavor, placement=None, failure=str(error))
                return results

            for request in group:
                placement = placements.get(request.pod_set.name)
                results[request.pod_set.name] = TopologyResult(request.flavor, placement)
                if placement is not None:
                    _assume_placement(assumed, placement, request.pod_requests)
        return results

    def _place_group(
        self,
        workers: PodSetPlacementRequest,
        leader: PodSetPlacementRequest | None,
        assumed: AssumedUsage,
        *,
        assume_empty: bool,
    ) -> dict[str, TopologyPlacement]:
        """Find placements for the workers and for the leader, if any, and return them by pod set name.

        Raises PlacementError if there is no placement.
        """
        request = self._build_placement_request(workers, has_leader=leader is not None)
        exclusions = Exclusions()  # filled while the fitting pods are counted
        capacities = self._count_fitting_pods(workers, leader, assumed, exclusions, assume_empty=assume_empty)
        capacities.sum_up_levels(
            request.slice_size, request.slice_level, inner_sizes=request.inner_sizes, needs_leader=leader is not None
        )
        worker_domains, leader_domains = place_pods(capacities, request, self.gates, str(exclusions))
        placements = {workers.pod_set.name: self._build_placement(worker_domains)}
        if leader is not None:
            placements[leader.pod_set.name] = self._build_placement(leader_domains)
        return placements

    def _build_placement(self, domains: Mapping[int, int]) -> TopologyPlacement:
        """Build the placement from the number of pods per domain index in the lowest level.

        If the domains are nodes, the hostname is enough to identify them.
        """
        skipped = len(self.tree.keys) - 1 if self.tree.has_node_level else 0
        values = self.tree.levels[-1].values
        return TopologyPlacement(
            self.tree.keys[skipped:],
            tuple(DomainCount(values[index][skipped:], domains[index]) for index in sorted(domains)),
        )

    def _build_placement_request(self, workers: PodSetPlacementRequest, *, has_leader: bool) -> PlacementRequest:
        """Build the request to place a pod set from the levels and slices that it names.

        Raises PlacementError if a level or the slice size is missing, if a level does not exist, or if a level or size
        contradicts another one.
        """
        request = workers.pod_set.topology_request
        constraints = list_slice_constraints(request)
        slice_size = constraints[0].size if constraints else 1
        if slice_size <= 0:
            raise PlacementError("slice topology requested, but slice size not provided")

        # The level whose domain all pods should share
        lowest_key = self.tree.keys[-1]
        key = self.find_level_key(request) or (lowest_key if workers.is_implied else None)
        if key is None:
            raise PlacementError("topology level not specified")
        level = self.tree.find_level(key)
        if level is None:
            raise PlacementError(f"no requested topology level: {key}")

        # The level whose domain each slice must share. Without slices, each pod is a slice of the lowest level
        slice_key = constraints[0].topology if constraints else lowest_key
        slice_level = self.tree.find_level(slice_key)
        if slice_level is None:
            raise PlacementError(f"no requested topology level for slices: {slice_key}")
        if level > slice_level:
            raise PlacementError(f"podset slice topology {slice_key} is above the podset topology {key}")
        inner_sizes = self._compute_inner_slice_sizes(constraints, slice_size, slice_level)

        is_required = request is not None and request.required is not None
        is_unconstrained = workers.is_implied or (request is not None and _allows_several_domains(request))
        return PlacementRequest(
            topology=self.tree.name,
            count=workers.count,
            leaders=int(has_leader),
            level=level,
            slice_level=slice_level,
            slice_size=slice_size,
            inner_sizes=inner_sizes,
            constraints=constraints if inner_sizes else (),
            is_required=is_required,
            is_unconstrained=is_unconstrained,
        )

    def _compute_inner_slice_sizes(
        self, constraints: Sequence[SliceConstraint], slice_size: int, slice_level: int
    ) -> dict[int, int]:
        """Return the size of the slices inside the outermost slices, by level.

        A level between two constraints has the size of the lower constraint. Raises PlacementError if a level does not
        exist or is not below the previous level, or if a size does not divide the enclosing slice's size.
        """
        sizes: dict[int, int] = {}
        outer_size, outer_level = slice_size, slice_level
        for constraint in constraints[1:]:
            level = self.tree.find_level(constraint.topology)
            if level is None:
                raise PlacementError(f"no requested topology level for additional slice layer: {constraint.topology}")
            if level <= outer_level:
                raise PlacementError(
                    f"additional slice layer topology {constraint.topology} must be at a lower level than "
                    f"{self.tree.keys[outer_level]}"
                )
            if outer_size % constraint.size != 0:
                raise PlacementError(
                    f"additional slice layer size {constraint.size} must evenly divide parent layer size {outer_size}"
                )
            sizes |= dict.fromkeys(range(outer_level + 1, level + 1), constraint.size)
            outer_size, outer_level = constraint.size, level
        return sizes

    def _count_fitting_pods(
        self,
        workers: PodSetPlacementRequest,
        leader: PodSetPlacementRequest | None,
        assumed: AssumedUsage,
        exclusions: Exclusions,
        *,
        assume_empty: bool,
    ) -> DomainCapacities:
        """Count how many workers fit into each domain of the lowest level, without and with a leader there.

        The counts of the other levels stay 0. The reasons why nodes cannot be used are added to ``exclusions``.
        """
        # The pod's constraints on nodes. The result is cached, so its exclusions are copied before more are added
        matches = self._get_node_matches(workers.pod_set.template.spec)
        exclusions.nodes = matches.exclusions.nodes
        exclusions.by_reason = Counter(matches.exclusions.by_reason)

        # The workers that fit without a leader
        capacity = self._compute_remaining_capacity(assumed, assume_empty=assume_empty)
        size = len(self.tree.levels[-1].values)
        requests = sum_requests([workers.pod_requests, _ONE_POD])
        pods = count_fitting_pods(requests, capacity, size)
        self._count_resource_exclusions(requests, capacity, matches.is_match & (pods == 0), exclusions)
        capacities = DomainCapacities(self.tree)
        capacities.pods[-1] = np.where(matches.is_match, pods, 0)
        capacities.affinity[-1] = matches.affinity
        if leader is None:
            capacities.pods_with_leader[-1] = capacities.pods[-1].copy()
            return capacities

        # The workers that fit beside a leader
        leader_requests = sum_requests([leader.pod_requests, _ONE_POD])
        fits_leader = count_fitting_pods(leader_requests, capacity, size) > 0
        beside_leader = {
            resource: np.where(fits_leader, free - leader_requests.get(resource, 0), free)
            for resource, free in capacity.items()
        }
        pods_with_leader = count_fitting_pods(requests, beside_leader, size)
        capacities.leaders[-1] = np.where(matches.is_match & fits_leader, 1, 0)
        capacities.pods_with_leader[-1] = np.where(matches.is_match, pods_with_leader, 0)
        return capacities

    def _compute_remaining_capacity(self, assumed: AssumedUsage, *, assume_empty: bool) -> dict[str, Counts]:
        """Return each leaf's free capacity minus the assumed usage, as an array (leaves,) for each resource.

        The usage of Workloads is subtracted as well, unless ``assume_empty`` is set.
        """
        remaining = self._free.copy() if assume_empty else self._free - self._usage
        for values, assumed_requests in assumed.items():
            leaf = self.tree.leaf_indexes.get(values)
            if leaf is not None:
                self._add_requests(remaining, leaf, assumed_requests, count=-1)
        return {resource: remaining[row] for resource, row in self._rows.items()}

    def _count_resource_exclusions(
        self, requests: Requests, capacity: Mapping[str, Counts], is_full: NDArray[np.bool_], exclusions: Exclusions
    ) -> None:
        """Add the full leaves to the exclusions, by the resource that they lack.

        ``is_full`` is a mask of the leaves. A leaf that lacks several resources counts for the first of them in
        alphabetical order.
        """
        without_reason = is_full  # full leaves for which no resource is known yet to be short
        for resource in sorted(requests):
            if requests[resource] == 0:
                continue
            free = capacity.get(resource)
            is_short = without_reason
            if free is not None:
                is_short = without_reason & (np.maximum(free, 0) < requests[resource])
            if is_short.any():
                exclusions.by_reason[f'resource "{resource}"'] += int(is_short.sum())
            without_reason = without_reason & ~is_short

    def _get_node_matches(self, spec: PodSpec) -> _NodeMatches:
        """Return which leaves a pod may use, their affinity scores, and why the other leaves are excluded.

        Pods with the same constraints share a cached result.
        """
        key = _build_match_key(spec)
        if key not in self._matches:
            self._matches[key] = self._compute_node_matches(spec)
        return self._matches[key]

    def _compute_node_matches(self, spec: PodSpec) -> _NodeMatches:
        """Check the taints, node selector and affinity of the pod against each leaf, and score its preferred affinity.

        If the domains of the lowest level are not nodes, the pod may use all of them. Without the gate
        TASRespectNodeAffinityPreferred, all scores are 0.
        """
        nodes = self.tree.leaf_nodes
        exclusions = Exclusions(len(nodes))
        is_match = np.ones(len(nodes), dtype=np.bool_)
        affinity = np.zeros(len(nodes), dtype=np.int64)
        if not self.tree.has_node_level:
            return _NodeMatches(is_match, affinity, exclusions)

        tolerations = (*spec.tolerations, *self._tolerations)
        for index, node in enumerate(nodes):
            reason = _find_exclusion_reason(node, spec, tolerations)
            if reason is not None:
                is_match[index] = False
                exclusions.by_reason[reason] += 1
            elif Gate.TAS_RESPECT_PREFERRED_AFFINITY in self.gates:
                affinity[index] = _score_preferred_affinity(spec, node)
        return _NodeMatches(is_match, affinity, exclusions)


def _assume_placement(assumed: AssumedUsage, placement: TopologyPlacement, pod_requests: Requests) -> None:
    """Add the requests of placed pods to the assumed usage of their domains."""
    requests_per_pod = sum_requests([pod_requests, _ONE_POD])
    for domain in placement.domains:
        requests = {name: saturate(amount * domain.count) for name, amount in requests_per_pod.items()}
        assumed[domain.values] = sum_requests([assumed.get(domain.values, {}), requests])


def _build_match_key(spec: PodSpec) -> bytes:
    """Build the cache key of a pod: its tolerations, node selector and affinity."""
    return repr((spec.tolerations, sorted(spec.node_selector.items()), spec.affinity)).encode()


def _find_exclusion_reason(node: Node, spec: PodSpec, tolerations: Sequence[Toleration]) -> str | None:
    """Return the reason why a pod may not use a node, or None if it may.

    The reason is a taint, the node selector or the affinity.
    """
    taint = find_untolerated_taint(node.spec.taints, tolerations, HARD_EFFECTS, comparison_operators=True)
    if taint is not None:
        return f'taint "{taint}"'
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return "nodeSelector"
    is_allowed = compile_required_node_affinity(spec).allows(node.metadata.labels, node.metadata.name)
    return None if is_allowed else "affinity"


def _score_preferred_affinity(spec: PodSpec, node: Node) -> int:
    """Add up the weights of the pod's preferred node affinity terms that the node matches.

    The score is 0 if the pod has no preferred terms or one of them is invalid.
    """
    affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    try:
        return compile_preferred_terms(terms).score(node.metadata.labels, node.metadata.name)
    except NodeSelectorError:
        return 0


def _split_leader_and_workers(
    group: Sequence[PodSetPlacementRequest],
) -> tuple[PodSetPlacementRequest | None, PodSetPlacementRequest]:
    """Return the leader and the workers of a group of one or two pod sets. A single pod set has no leader.

    The leader is the smaller pod set or, if both have the same size, the second one.
    """
    if len(group) == 1:
        return None, group[0]
    first, second = group[0], group[1]
    if second.count > first.count:
        return first, second
    return second, first


def _allows_several_domains(request: TopologyRequest) -> bool:
    """Return whether the request is unconstrained, or only slices but not all pods have to share a domain."""
    names_level = bool(request.required or request.preferred)
    return bool(request.unconstrained) or (bool(list_slice_constraints(request)) and not names_level)


def list_slice_constraints(request: TopologyRequest | None) -> tuple[SliceConstraint, ...]:
    """Return the levels at which the pods of each slice must share a domain, with the slice sizes, widest level first.

    Return () if the request has no slices. A missing size counts as 0, which no placement accepts.
    """
    if request is None:
        return ()
    if request.podset_slice_required_topology_constraints:
        return request.podset_slice_required_topology_constraints
    if request.pod_set_slice_required_topology is None:
        return ()
    return (SliceConstraint(request.pod_set_slice_required_topology, request.pod_set_slice_size or 0),)


def place_pods(
    capacities: DomainCapacities, request: PlacementRequest, gates: FeatureGates, exclusions: str
) -> tuple[dict[int, int], dict[int, int]]:
    """Distribute the pods of a request among domains of the lowest level.

    Return the numbers of workers and of leaders, each by domain index. The capacities are changed in place. Raises
    PlacementError if the pods do not fit. ``exclusions`` is appended to its message.
    """
    # Choose the level and its domains, which balanced placement may have filled already
    is_level_preferred = not (request.is_required or request.is_unconstrained)
    balanced = None
    if is_level_preferred and Gate.TAS_BALANCED_PLACEMENT in gates:
        balanced = place_slices_evenly(capacities, request, gates)
    if balanced is None:
        search = DomainSearch(capacities, request, gates, exclusions)
        level, domains = search.choose_level_and_domains(request.level)
    else:
        capacities, level, domains = balanced
        search = DomainSearch(capacities, request, gates, exclusions)

    # Go down to the level of slices with whole slices, choosing among the children of all domains. As in upstream, an
    # even distribution goes down among the children of each domain instead.
    domains = search.distribute_pods(level, domains, request.count, request.leaders, request.slice_size, by_slices=True)
    last_level = len(capacities.tree.levels) - 1
    while balanced is None and level < min(last_level, request.slice_level):
        children = search.sort_domains(level + 1, capacities.list_children(level, domains))
        level += 1
        domains = search.distribute_pods(
            level, children, request.count, request.leaders, request.slice_size, by_slices=True
        )

    # Go down to the lowest level, choosing among the children of each domain separately
    while level < last_level:
        domains = _distribute_to_children(search, level, domains)
        level += 1

    # Only domains that got pods are part of the placement
    lowest = capacities.at_level(last_level)
    workers = {domain: int(lowest.pods[domain]) for domain in domains if lowest.pods[domain] > 0}
    leaders: dict[int, int] = {}
    if request.leaders:
        leaders = {domain: int(lowest.leaders[domain]) for domain in domains if lowest.leaders[domain] > 0}
    return workers, leaders


def _distribute_to_children(search: DomainSearch, level: int, domains: Sequence[int]) -> list[int]:
    """Distribute each domain's pods among its children, in slices that must not be split at this level.

    Return the children that get pods.
    """
    capacities, request = search.capacities, search.request
    here = capacities.at_level(level)
    below = capacities.at_level(level + 1)

    # Below the level of slices, only the slices within slices have to stay together
    size = request.slice_size
    if level >= request.slice_level:
        size = request.inner_sizes.get(level + 1, 1)

    chosen: list[int] = []
    for domain in domains:
        children = search.sort_domains(level + 1, capacities.get_children(level, domain))
        if size > 1:  # the slices counted so far may have another size
            below.slices[children] = below.pods[children] // size
            below.slices_with_leader[children] = below.pods_with_leader[children] // size
        chosen += search.distribute_pods(
            level + 1,
            children,
            count=int(here.pods[domain]),
            leaders=int(here.leaders[domain]),
            slice_size=size,
            by_slices=size > 1,
        )
    return chosen
