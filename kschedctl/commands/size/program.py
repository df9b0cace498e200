"""The packing program: groups of similar pods, their requests, and the shapes that take them, as numbers.

Relations between pods, such as spreading across zones, are left to the replays. `PlainPacking` finds node sets without
a solver: mostly nodes of one shape, and others for the pods that do not fit on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.resource_names import CPU, MEMORY, PODS
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.snapshot.pod_info import PodInfo

Table = npt.NDArray[np.float64]
IntTable = npt.NDArray[np.int64]
Counts = Mapping[str, int]
"""The number of nodes of each shape."""
ROUNDING_SHARE = 1e-7
"""The share of a bound that may be rounding."""
ROUNDING_ERROR = 1e-9
"""A sum that exceeds a whole number by less than this is that number."""
LEAST_COST = 1e-9
"""The cost that replaces 0, because costs are divisors."""
MAX_FILL_STEPS = 4
"""The largest number of pods per node for which fill steps are built, see `PackingProgram.fill_measures`."""
PER_POD_LABELS = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
)
"""Labels in which pods of one workload differ."""


class Cut(NamedTuple):
    """A condition that every set of nodes satisfies: the total worth of its nodes reaches a minimum."""

    worth: Table
    """The worth of a node of each shape, (S,)."""
    minimum: float
    """The worth that all nodes of a set must have together."""

    def find_satisfying_sets(self, nodes: Table) -> Bools:
        """Return a mask of the sets that satisfy the cut. The last axis of `nodes` counts nodes by shape, (..., S)."""
        is_enough: Bools = nodes @ self.worth >= self.minimum * (1 - ROUNDING_SHARE)
        return is_enough


class StartingSets(NamedTuple):
    """Sets of nodes from which the search starts, and bounds on all sets."""

    sets: list[Counts]
    """The sets, most promising first."""
    bound: float
    """A lower bound on the cost of any set."""
    cuts: Sequence[Cut] = ()
    """Conditions that every set satisfies."""


@dataclass(frozen=True, eq=False)
class PackingProgram:
    """The packing problem as arrays over G groups of equal pods, S shapes and R resources."""

    names: tuple[str, ...]
    """The names of the shapes, (S,)."""
    costs: Table
    """The cost of a node of each shape, (S,)."""
    offered: npt.NDArray[np.int64]
    """The amounts that a node offers to pods, (S, R)."""
    requested: npt.NDArray[np.int64]
    """The amounts that a pod requests, (G, R)."""
    takes: Bools
    """A mask (G, S): True if the node shape takes a pod of the group."""
    apart: Bools
    """A mask (G,) of the groups of which no two pods may share a node."""
    group_by_pod: Mapping[str, int]
    """The group of each pod."""
    always_requested: Sequence[int] = ()
    """The columns of the resources that every pod needs: cpu and memory."""

    @cached_property
    def pods(self) -> Table:
        """The number of pods of each group, (G,)."""
        return self.count_by_group(self.group_by_pod)

    def count_by_group(self, keys: Iterable[str]) -> Table:
        """Return how many of the pods with these keys are in each group, (G,)."""
        groups = [self.group_by_pod[key] for key in keys]
        return np.bincount(groups, minlength=len(self.requested)).astype(np.float64)

    def sum_requests(self, pods_by_group: Table) -> Table:
        """Return the total requests (R,) of `pods_by_group` (G,), the numbers of pods of each group."""
        return np.asarray(pods_by_group @ self.requested.astype(np.float64))

    def compute_cost(self, counts: Counts) -> float:
        """Return the cost of a set if each node is bought in the zone where it is cheapest."""
        return float(sum(self.costs[self.names.index(name)] * number for name, number in counts.items()))

    def with_slack(self, slack: float) -> PackingProgram:
        """Return a program whose nodes keep the share `slack` of their cpu and memory free."""
        return self.with_fill_levels(np.full(len(self.names), 1 - slack))

    def with_fill_levels(self, shares: Table) -> PackingProgram:
        """Return a program whose nodes offer only the share `shares` (S,) of their cpu and memory."""
        offered = self.offered.copy()
        offered[:, self.always_requested] = (offered[:, self.always_requested] * shares[:, None]).astype(np.int64)
        return replace(self, offered=offered)

    def build_request_cuts(self) -> list[Cut]:
        """Return a cut for each requested resource: a set must offer the total requests of all placeable pods."""
        requested = self.sum_requests(np.where(self.takes.any(axis=1), self.pods, 0.0))
        resources = np.flatnonzero(requested).tolist()
        return [Cut(self.offered[:, resource].astype(np.float64), float(requested[resource])) for resource in resources]

    def restrict_to_pods(self, takers_by_pod: Mapping[str, tuple[str, ...]]) -> PackingProgram:
        """Return a program for some waiting pods only.

        `takers_by_pod` maps the keys of these pods to the shapes that take them now.
        """
        # A new group has the pods of one old group that the same shapes take now. New groups are numbered in the order
        # in which their pods come.
        number_by_new_group: dict[tuple[int, tuple[str, ...]], int] = {}
        group_by_pod: dict[str, int] = {}
        for key, takers in takers_by_pod.items():
            new_group = (self.group_by_pod[key], takers)
            group_by_pod[key] = number_by_new_group.setdefault(new_group, len(number_by_new_group))

        old_groups = [old_group for old_group, _ in number_by_new_group]
        takes = np.array([np.isin(self.names, takers) for _, takers in number_by_new_group], np.bool_)
        return replace(
            self,
            requested=self.requested[old_groups],
            takes=takes,
            apart=self.apart[old_groups],
            group_by_pod=group_by_pod,
        )

    def select_preferred_shapes(self, names: Iterable[str]) -> Bools:
        """Return a mask (G, S) of the shapes that each group may use.

        These are the preferred shapes that take the group's pods. If there are none, all shapes that take them are
        used.
        """
        preferred: Bools = self.takes & np.asarray(np.isin(self.names, list(names)))
        has_preferred = np.asarray(preferred.any(axis=1))
        return np.where(has_preferred[:, None], preferred, self.takes)

    def find_undominated_shapes(self, takes: Bools) -> Bools:
        """Return a mask (S,) of the shapes that no other shape dominates.

        `takes` (G, S) says which shapes each group may use. A shape is dominated if another shape offers at least as
        much of each resource to at least the same groups, for the same or less money. Of equal shapes, only one is
        undominated.
        """
        is_undominated = np.ones(len(self.costs), np.bool_)
        for shape in np.argsort(-self.costs, kind="stable").tolist():
            dominates = is_undominated & (self.costs <= self.costs[shape])
            dominates &= (self.offered >= self.offered[shape]).all(axis=1)
            dominates &= (takes >= takes[:, [shape]]).all(axis=0)
            dominates[shape] = False
            is_undominated[shape] = not dominates.any()
        return is_undominated

    @cached_property
    def fill_measures(self) -> list[Table]:
        """The measures of how much of a node one pod fills, by group and shape, (G, S) each.

        In every measure, the sum over pods that fit on one node together is at most 1. For each resource, the first
        measure is the requested share. It is followed by the results of the dual feasible functions with numbers up to
        MAX_FILL_STEPS, which raise the share of pods of which only few fit on a node. A result that raises no share is
        left out.
        """
        measures = []
        for resource in np.flatnonzero(self.requested.any(axis=0)).tolist():
            requested = self.requested[:, resource, None]
            offered = np.maximum(self.offered[:, resource], 1)
            share = np.where(self.takes, np.minimum(requested / offered, 1.0), 0.0)
            measures.append(share)

            for k in range(1, MAX_FILL_STEPS + 1):
                fill = np.where(self.takes, _apply_dual_feasible_function(requested, offered, k), 0.0)
                if (fill > share).any():
                    measures.append(fill)
        return measures

    def count_minimum_nodes(self, pods_by_group: Table) -> npt.NDArray[np.int64]:
        """Return a lower bound, per shape (S,), on the nodes needed if the shape took every pod that it can take.

        `pods_by_group` (G,) are the numbers of pods of each group. The bound is at least 1 if the shape can take a pod.
        """
        pods_on_shape = self.takes * pods_by_group[:, None]
        minimum = np.zeros(len(self.names))

        # Each measure says how much of a node one pod fills, so its sum over all pods is a bound.
        for measure in self.fill_measures:
            minimum = np.maximum(minimum, (measure * pods_on_shape).sum(axis=0))

        # Pods of a group that may not share a node need a node each. Pods of other groups may join them.
        minimum = np.maximum(minimum, (self.apart[:, None] * pods_on_shape).max(axis=0, initial=0.0))

        needed: npt.NDArray[np.int64] = np.ceil(minimum - ROUNDING_ERROR).astype(np.int64)
        return np.maximum(needed, pods_on_shape.any(axis=0))


class _GroupKey(NamedTuple):
    """The properties that all pods of a group share."""

    requests: tuple[int, ...]
    """The requested amounts, (R,)."""
    takers: tuple[str, ...]
    """The shapes that take the pods."""
    exclusion_key: Hashable
    """The key of pods that must run on different nodes, or None."""


def build_program(
    view: Fork, row_by_shape: Mapping[str, int], costs: Mapping[str, float], takers: Mapping[str, tuple[str, ...]]
) -> PackingProgram:
    """Build the program from the pods in `takers`, which maps pod keys to the shapes that take the pod.

    `row_by_shape` gives the row of an empty node of each shape in `view`, and `costs` the cost of such a node.
    """
    names = tuple(row_by_shape)
    offered = np.maximum(view.allocatable - view.requested, 0)[list(row_by_shape.values())]
    groups, group_by_pod = _group_pods(view, takers)
    requested = np.array([group.requests for group in groups], np.int64).reshape(len(groups), view.requests.shape[1])
    requested[:, view.resources[PODS]] = 1

    # Takers include shapes that a pod may fit on only once other pods are there. The requests must fit all the same.
    is_taker = np.array([np.isin(names, group.takers) for group in groups], np.bool_).reshape(len(groups), len(names))
    fits_on_empty_node = (requested[:, None, :] <= offered[None, :, :]).all(axis=2)
    return PackingProgram(
        names,
        np.array([max(costs[name], LEAST_COST) for name in names]),
        offered=offered,
        requested=requested,
        takes=is_taker & fits_on_empty_node,
        apart=np.array([group.exclusion_key is not None for group in groups], np.bool_),
        group_by_pod=group_by_pod,
        always_requested=[view.resources[name] for name in (CPU, MEMORY)],
    )


def _group_pods(view: Fork, takers: Mapping[str, tuple[str, ...]]) -> tuple[list[_GroupKey], dict[str, int]]:
    """Group the pods in `takers` by requests, takers and exclusion key.

    Return the groups, and the number of each pod's group by the pod's key.
    """
    number_by_group: dict[_GroupKey, int] = {}
    group_by_pod: dict[str, int] = {}
    exclusion_keys = list(_iter_exclusion_keys(view))
    for key, pod_takers in takers.items():
        info_number = view.pods.get_info_number(view.pods.index[key])
        requests = tuple(view.requests[info_number].tolist())
        group = _GroupKey(requests, pod_takers, exclusion_keys[info_number])
        group_by_pod[key] = number_by_group.setdefault(group, len(number_by_group))
    return list(number_by_group), group_by_pod


def _iter_exclusion_keys(view: Fork) -> Iterator[Hashable]:
    """Yield a key, or None, for each PodInfo. Pods with the same key exclude each other from a node.

    Pods exclude each other because of host ports or because of anti-affinity to their own workload.
    """
    for info in view.pods.infos:
        labels = {key: value for key, value in info.labels.items() if key not in PER_POD_LABELS}
        if info.host_ports or _repels_own_workload(info, labels, view):
            ports = tuple(sorted(info.host_ports))
            yield (info.namespace, tuple(sorted(labels.items())), ports)
        else:
            yield None


def _repels_own_workload(info: PodInfo, labels: Mapping[str, str], view: Fork) -> bool:
    """Return whether the pod's required anti-affinity keeps other pods of its own workload off its node.

    `labels` are the pod's labels that all pods of the workload share. Terms that match the pod only by its other labels
    do not count.
    """
    hostname_terms = (term for term in info.required_anti_affinity if term.topology_key == HOSTNAME)
    namespace_labels = view.namespace_labels.get(info.namespace, {})
    return any(
        term.matches(info.namespace, labels, namespace_labels)
        and term.matches(info.namespace, info.labels, namespace_labels)
        for term in hostname_terms
    )


def _apply_dual_feasible_function(requested: IntTable, offered: IntTable, k: int) -> Table:
    """Return the share of a node that a pod fills according to the dual feasible function with number `k`.

    A share x counts as x if (k + 1) x is a whole number, and otherwise as floor((k + 1) x) / k. So if k + 1 pods do not
    fit on a node together, each of them fills 1 / k of it. `requested` (G, 1) and `offered` (S,) are amounts of one
    resource, and the result is (G, S).
    """
    whole, remainder = np.divmod((k + 1) * requested, offered)
    share = np.minimum(requested / offered, 1.0)
    return np.where(remainder == 0, share, np.minimum(whole / k, 1.0))


def format_counts(counts: Counts) -> str:
    """Format a set of nodes, sorted by shape, so that equal sets have equal texts."""
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))


MAX_MAIN_SHAPES = 8
"""The number of shapes tried as the main one."""
STEPS = 5
"""The number of steps of each resource's weight."""
WEIGHTED_RESOURCES = 3
"""The number of resources that are weighted against each other."""


@dataclass(frozen=True)
class PlainPacking:
    """The greedy packing of pods on nodes with numpy only."""

    def propose_starting_sets(self, program: PackingProgram) -> StartingSets:
        """Propose a set of mostly one shape for each undominated shape, and return the cheapest sets with bounds."""
        undominated = np.flatnonzero(program.find_undominated_shapes(program.takes)).tolist()
        proposed_sets = [self.pack(program, (program.names[shape],)) for shape in undominated]
        sets = {format_counts(counts): counts for counts in proposed_sets}
        cheapest = sorted(sets.values(), key=program.compute_cost)[:MAX_MAIN_SHAPES]
        return StartingSets(cheapest, self._compute_cost_bound(program), program.build_request_cuts())

    def pack(self, program: PackingProgram, preferred: Iterable[str]) -> Counts:
        """Return the number of nodes of each shape in a set for the program's pods.

        Pods that fit on a preferred shape get nodes of the preferred shapes. Pods that no shape takes are left out.
        """
        takes = program.select_preferred_shapes(preferred)
        has_pods = takes.any(axis=1) & (program.pods > 0)

        # Each group goes to the shape that would be cheapest if it took all of its pods alone.
        cost_if_alone = np.where(takes, program.count_minimum_nodes(program.pods) * program.costs, np.inf)
        best = cost_if_alone.argmin(axis=1)
        node_counts = np.zeros(len(program.names), np.int64)
        for shape in np.unique(best[has_pods]).tolist():
            shape_pods = np.where(has_pods & (best == shape), program.pods, 0.0)
            node_counts[shape] = max(int(program.count_minimum_nodes(shape_pods)[shape]), 1)
        return {name: number for name, number in zip(program.names, node_counts.tolist(), strict=True) if number}

    def _compute_cost_bound(self, program: PackingProgram) -> float:
        """Return a lower bound on the cost of any set that takes all placeable pods.

        It is the larger of two bounds: one from the total requests, and the cost of nodes for the pods that fit on only
        one shape.
        """
        pods = np.where(program.takes.any(axis=1), program.pods, 0.0)
        usable_shapes = program.takes[pods > 0].any(axis=0)
        if not usable_shapes.any():
            return 0.0
        request_bound = compute_lower_bound(
            program.sum_requests(pods), program.offered[usable_shapes].astype(np.float64), program.costs[usable_shapes]
        )
        return max(request_bound, self._compute_exclusive_cost(program, pods))

    def _compute_exclusive_cost(self, program: PackingProgram, pods: Table) -> float:
        """Return the cost of the nodes needed by pods that fit on only one shape.

        `pods` (G,) are the numbers of all pods.
        """
        is_exclusive = program.takes.sum(axis=1) == 1
        return float(program.count_minimum_nodes(np.where(is_exclusive, pods, 0.0)) @ program.costs)


def compute_lower_bound(requested: Table, offered: Table, costs: Table) -> float:
    """Return a lower bound on the cost of nodes, or fractions of nodes, that offer the total requests (R,).

    `offered` (S, R) and `costs` (S,) are what a node of each shape offers and costs. By weak duality of linear
    programs, every weighting of the resources proves a bound: the weighted requests, divided by the most that a unit of
    money buys. The best bound of several weightings is returned.
    """
    is_requested = requested > 0
    positive_requests = requested[is_requested]
    offered_of_requested = np.maximum(offered[:, is_requested], 0)
    best_bound = 0.0
    for weights in _iter_resource_weights(len(positive_requests)):
        weight_per_unit = weights / positive_requests  # all requests for a resource together have its weight
        bought_per_cost = (offered_of_requested @ weight_per_unit) / costs
        if bought_per_cost.max(initial=0) > 0:
            best_bound = max(best_bound, float(weights.sum() / bought_per_cost.max()))
    return best_bound


def _iter_resource_weights(resources: int) -> Iterable[Table]:
    """Yield weights (R,) for this number of resources: each resource alone, and combinations of the first few."""
    yield from np.eye(resources)
    combined = min(resources, WEIGHTED_RESOURCES)
    for levels in product(range(STEPS), repeat=combined):
        if any(levels):
            weights = np.zeros(resources)
            weights[:combined] = levels
            yield weights
