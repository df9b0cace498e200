"""Node sampling: in a large cluster the scheduler stops searching once it has found enough feasible nodes.

Upstream: numFeasibleNodesToFind, findNodesThatFitPod and findNodesThatPassFilters in pkg/scheduler/schedule_one.go
(v1.36), with a parallelism of 1. With more, up to 15 more nodes are examined, in an undefined order.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.profile import ConfigurationLike, ProfileLike

LEAST_NODES, LEAST_PERCENTAGE = 100, 5
GOLDEN_RATIO = 0.6180339887498949
"""Multiples of this fraction are spread evenly between 0 and 1."""
NOWHERE: Rows = np.empty(0, np.int64)
LEFT_OUT_COUNT = ByVersion(
    "nodes that PreFilter plugins exclude shift the node at which the next search starts",
    (("", True), ("1.30.2", False)),
    "#125197, backported by #125306",
)


def count_nodes_to_find(percentage: int, nodes: int) -> int:
    """Return how many feasible nodes are enough in a cluster of `nodes` nodes.

    Percentage 0 adapts to the size of the cluster. Upstream: numFeasibleNodesToFind.

    >>> [count_nodes_to_find(0, nodes) for nodes in (99, 1000, 6000)], count_nodes_to_find(40, 6000)
    ([99, 420, 300], 2400)
    """
    if nodes < LEAST_NODES:
        return nodes
    return max(nodes * (percentage or compute_adaptive_percentage(nodes)) // 100, LEAST_NODES)


def compute_adaptive_percentage(nodes: int) -> int:
    """Return the percentage of nodes to search if percentageOfNodesToScore is not set.

    >>> compute_adaptive_percentage(100), compute_adaptive_percentage(5000), compute_adaptive_percentage(15000)
    (50, 10, 5)
    """
    return max(50 - nodes // 125, LEAST_PERCENTAGE)


class SearchTerms(NamedTuple):
    """The settings of a profile that determine how far a search for nodes goes."""

    percentage: int | None = None
    """The profile's own percentageOfNodesToScore."""
    scoring: bool = True
    """True if the profile has Score plugins."""
    counts_left_out: bool = False
    """True if nodes that PreFilter plugins left out count as examined."""
    extender_statuses: int = 0
    """Number of nodes that extenders gave a status before."""
    nodes: int | None = None
    """Number of nodes in the placement; None for all."""

    @classmethod
    def from_profile(cls, profile: ProfileLike, release: KubeVersion, extender_statuses: int = 0) -> SearchTerms:
        """Build the search terms of a profile in a version of kube-scheduler.

        `extender_statuses` is the number of nodes that extenders gave a status before.
        """
        percentage = profile.percentage_of_nodes_to_score
        return cls(
            percentage,
            scoring=bool(profile.plugins["score"]),
            counts_left_out=LEFT_OUT_COUNT.at(release),
            extender_statuses=extender_statuses,
        )


DEFAULT_TERMS = SearchTerms()


class NodeSearch(msgspec.Struct, frozen=True):
    """One search for feasible nodes."""

    start: int
    """Index at which the search began."""
    next: int
    """Index at which the next search begins."""
    feasible: Rows
    """Feasible rows in the order in which they were found."""
    examined: Bools
    """(N,): the rows that the search examined."""


class SampledFrom(msgspec.Struct, frozen=True):
    """The index at which the scheduler's next search begins, if it is known."""

    start: int | None = None

    def start_sampling(self, configuration: ConfigurationLike, nodes: int, seed: int = 0) -> Sampling:
        """Start the sampled searches of one run, with the settings of a configuration.

        If the start index is unknown, seed 0 starts at 0 and other seeds start elsewhere.
        """
        extended = any(extender.filter_verb or extender.prioritize_verb for extender in configuration.extenders)
        start = self.find_start_index(nodes, seed)
        return Sampling(configuration.percentage_of_nodes_to_score, start, extended=extended)

    def find_start_index(self, nodes: int, seed: int = 0) -> int:
        """Return the index at which the first search among `nodes` nodes begins.

        An unknown index is replaced by one that depends on the seed.

        >>> [SampledFrom().find_start_index(1000, seed) for seed in range(3)]
        [0, 618, 236]
        >>> SampledFrom(1007).find_start_index(1000, seed=2)
        7
        """
        if self.start is not None:
            return self.start % max(nodes, 1)
        return int(seed * GOLDEN_RATIO % 1 * nodes)


class SearchOptions(TypedDict):
    """The options shared by all commands that place pods."""

    seed: int
    sampling: SampledFrom | None
    call_extender: CallExtender | None


class Sampling:
    """The sampling of nodes: the percentage of nodes to score, and the node at which the next search starts."""

    def __init__(self, percentage: int = 0, start: int = 0, extended: bool = False) -> None:
        self.percentage, self.start, self.extended = percentage, start, extended

    def count_nodes_needed_for_scoring(self, nodes: int, terms: SearchTerms) -> int:
        """Return the number of feasible nodes after which the search ends if plugins or extenders score them."""
        percentage = self.percentage if terms.percentage is None else terms.percentage
        return count_nodes_to_find(percentage, nodes)

    def count_nodes_needed(self, nodes: int, terms: SearchTerms) -> int:
        """Return the number of feasible nodes after which the search ends, which is 1 if nothing scores them."""
        return self.count_nodes_needed_for_scoring(nodes, terms) if terms.scoring or self.extended else 1

    def search_nodes(
        self,
        rejected: Bools,
        offered: Rows,
        terms: SearchTerms = DEFAULT_TERMS,
        failed: Bools | None = None,
        nominated_row: int | None = None,
    ) -> NodeSearch:
        """Return the nodes that kube-scheduler finds feasible, and advance the start of the next search.

        `rejected` (N,) marks nodes that are not feasible. `offered` has all rows unless PreFilter restricted them.
        Upstream leaves the order of restricted rows undefined. `terms` says how many feasible nodes are enough and
        which other nodes count as processed. The search ends early at a node that is marked in `failed` (N,), because a
        plugin failed there. `nominated_row` is the row of the pod's nominated node, which was examined before.
        """
        # Sort the nodes from the start index on.
        start = self.start
        node_count = len(offered)
        order = np.roll(offered, -(start % node_count)) if node_count else offered

        # Find how many nodes are examined. Like upstream, the search ends before the first feasible node too many.
        needed = self.count_nodes_needed(node_count, terms)
        feasible_places = np.flatnonzero(~rejected[order])
        examined_count = node_count
        if len(feasible_places) > needed:
            examined_count = int(feasible_places[needed])

        # A node on which a plugin fails is the last node that is examined.
        failed_places = NOWHERE if failed is None else np.flatnonzero(failed[order[:examined_count]])
        has_failed = bool(len(failed_places))
        if has_failed:
            examined_count = int(failed_places[0]) + 1

        # The nominated node was examined, too, if a plugin rejected it without failing there.
        examined = np.zeros(len(rejected), np.bool_)
        examined[order[:examined_count]] = True
        if nominated_row is not None:
            has_nominated_failed = failed is not None and bool(failed[nominated_row])
            examined[nominated_row] |= rejected[nominated_row] and not has_nominated_failed

        # Move the start index by the number of nodes with a result.
        with_result = _count_nodes_with_result(examined, node_count - examined_count, terms, has_failed=has_failed)
        known_nodes = len(rejected) if terms.nodes is None else terms.nodes
        self.start = (start + with_result) % max(known_nodes, 1)

        sampled_places = feasible_places[feasible_places < examined_count][:needed]
        return NodeSearch(start, self.start, order[sampled_places], examined)


def _count_nodes_with_result(examined: Bools, not_reached: int, terms: SearchTerms, *, has_failed: bool) -> int:
    """Return the number of nodes that have a result after a search, by which upstream moves its start index.

    `examined` (N,) marks the examined nodes. Nodes that PreFilter left out count as well in some versions, and so do
    nodes to which extenders gave a status. `not_reached` is the number of offered nodes that the search did not reach.
    Set `has_failed` if a plugin failed on the last examined node, which then has no result.
    """
    with_result = int(examined.sum())
    if has_failed:
        with_result -= 1
    if terms.counts_left_out:
        not_examined = int((~examined).sum())
        left_out_by_pre_filter = not_examined - not_reached
        with_result += left_out_by_pre_filter
    return with_result + terms.extender_statuses
