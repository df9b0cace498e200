"""Sampling: in a big cluster the scheduler stops looking once it has found enough nodes, and goes on from there.

Upstream: numFeasibleNodesToFind, findNodesThatFitPod and findNodesThatPassFilters in pkg/scheduler/schedule_one.go
(v1.36), as it is with a parallelism of 1; with more, up to 15 nodes more are looked at, which ones is not defined.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import msgspec
import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.profile import ConfigurationLike, ProfileLike

LEAST_NODES, LEAST_PERCENTAGE = 100, 5
GOLDEN_RATIO = 0.6180339887498949
NOWHERE: Rows = np.empty(0, np.int64)
LEFT_OUT_COUNT = ByVersion(
    "whether nodes that PreFilter plugins left out move the start of the next search",
    (("", True), ("1.30.2", False)),
    "#125197, brought back by #125306",
)


def feasible_nodes_to_find(percentage: int, nodes: int) -> int:
    """How many nodes that fit are enough, of so many; percentage 0 adapts to the size of the cluster.

    >>> [feasible_nodes_to_find(0, nodes) for nodes in (99, 1000, 6000)], feasible_nodes_to_find(40, 6000)
    ([99, 420, 300], 2400)
    """
    if nodes < LEAST_NODES:
        return nodes
    return max(nodes * (percentage or adaptive_percentage(nodes)) // 100, LEAST_NODES)


def adaptive_percentage(nodes: int) -> int:
    """The percentage where none is set.

    >>> adaptive_percentage(100), adaptive_percentage(5000), adaptive_percentage(15000)
    (50, 10, 5)
    """
    return max(50 - nodes // 125, LEAST_PERCENTAGE)


class Terms(NamedTuple):
    """How a profile has nodes searched.

    ``percentage``: its own percentageOfNodesToScore; ``scoring``: its plugins score nodes; ``counts_left_out``: the
    nodes that PreFilter plugins left out count as looked at. ``spoken_of``: how many nodes extenders spoke of before.
    ``nodes``: how many there are, where these are not all.
    """

    percentage: int | None = None
    scoring: bool = True
    counts_left_out: bool = False
    spoken_of: int = 0
    nodes: int | None = None

    @classmethod
    def of(cls, profile: ProfileLike, release: KubeVersion, spoken_of: int = 0) -> Terms:
        """The terms on which a Profile samples nodes in a version."""
        own = profile.percentage_of_nodes_to_score
        return cls(own, bool(profile.plugins["score"]), LEFT_OUT_COUNT.at(release), spoken_of)


USUAL = Terms()


class NodeSearch(msgspec.Struct, frozen=True):
    """One search for nodes: it began at index ``start``, the next one begins at ``next``.

    ``found``: the rows that fit, in the order found; ``examined`` (N,): those and the rows that refused the pod, as far
    as the search went.
    """

    start: int
    next: int
    found: Rows
    examined: Bools


class SampledFrom(msgspec.Struct, frozen=True):
    """The part of the nodes at which the scheduler looks, from an index on; None where its own is not known."""

    start: int | None = None

    def begin(self, configuration: ConfigurationLike, nodes: int, seed: int = 0) -> Sampling:
        """The searches of one run with a SchedulerConfiguration.

        Where the start is not known it is 0, and for other seeds elsewhere.
        """
        extended = any(extender.filter_verb or extender.prioritize_verb for extender in configuration.extenders)
        return Sampling(configuration.percentage_of_nodes_to_score, self.index(nodes, seed), extended)

    def index(self, nodes: int, seed: int = 0) -> int:
        """Where the first search begins, of so many nodes.

        >>> [SampledFrom().index(1000, seed) for seed in range(3)], SampledFrom(1007).index(1000, 2)
        ([0, 618, 236], 7)
        """
        return int(seed * GOLDEN_RATIO % 1 * nodes) if self.start is None else self.start % max(nodes, 1)


class SearchOptions(TypedDict):
    """How nodes are searched: what all studies take that place pods."""

    seed: int
    sampling: SampledFrom | None
    call_extender: CallExtender | None


class Sampling:
    """Where the scheduler goes on; ``percentage`` is percentageOfNodesToScore of the configuration.

    ``extended``: an extender filters or scores nodes.
    """

    def __init__(self, percentage: int = 0, start: int = 0, extended: bool = False) -> None:
        self.percentage, self.start, self.extended = percentage, start, extended

    def enough(self, nodes: int, terms: Terms) -> int:
        """How many of so many nodes are enough that fit, where scores decide among them."""
        return feasible_nodes_to_find(self.percentage if terms.percentage is None else terms.percentage, nodes)

    def wanted(self, nodes: int, terms: Terms) -> int:
        """How many of so many nodes are enough that fit; one where nothing scores them."""
        return self.enough(nodes, terms) if terms.scoring or self.extended else 1

    def search(
        self,
        refused: Bools,
        offered: Rows,
        terms: Terms = USUAL,
        failed: Bools | None = None,
        promised: int | None = None,
    ) -> NodeSearch:
        """Look among the rows ``offered`` for enough that are not ``refused`` (N,); the next search starts behind them.

        ``offered`` are all rows unless PreFilter left some only, whose order upstream leaves open. The search ends
        where a plugin ``failed`` (N,). ``promised``: the row of the pod's nominated node, which was asked before.
        """
        start, nodes = self.start, len(offered)
        wanted = self.wanted(nodes, terms)
        order = np.roll(offered, -(start % nodes)) if nodes else offered
        fitting = np.flatnonzero(~refused[order])
        end = int(fitting[wanted]) if len(fitting) > wanted else nodes
        failures = np.flatnonzero(failed[order[:end]]) if failed is not None else NOWHERE
        end = int(failures[0]) + 1 if len(failures) else end
        examined = np.zeros(len(refused), np.bool_)
        examined[order[:end]] = True
        if promised is not None and refused[promised] and (failed is None or not failed[promised]):
            examined[promised] = True
        left_out = int((~examined).sum()) - (nodes - end) if terms.counts_left_out else 0
        processed = int(examined.sum()) + left_out + terms.spoken_of - bool(len(failures))
        self.start = (start + processed) % max(len(refused) if terms.nodes is None else terms.nodes, 1)
        return NodeSearch(start, self.start, order[fitting[fitting < end][:wanted]], examined)
