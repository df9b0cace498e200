"""The cluster as the autoscaler simulates it: nodes and pods are added and removed, and pods go where filters let them.

Upstream: simulator/clustersnapshot and its predicate/plugin_runner.go (1.36). The filters are those of the scheduler's
default profile. Nothing is scored, preempted or reserved, and nominations do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import NO_ROW, Bools, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.defaults import DEFAULT_SCHEDULER_NAME
from kschedctl.api.objects import Node
from kschedctl.api.workloads import made_again
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import Filtering, FilterOutcome
from kschedctl.scheduler.engine.pre_filter import PreFilterOutcome, run_pre_filter, selected_by_name
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NO_NOMINATIONS = np.zeros(0, np.int64)

OTHER_NODES = "the pod asks for other nodes by name"


class FilterRejection(NamedTuple):
    """The plugin that rejects a pod on a node, with its reasons; none if PreFilter merely names other nodes."""

    plugin: str
    reasons: tuple[str, ...]


class SearchOrder:
    """The position where the last search for a node ended. The next search begins after it, even if changes were
    undone.
    """

    def __init__(self) -> None:
        self.last = 0


class ClusterSnapshot:
    """Some of the nodes of a ``universe`` in iteration order, and the pods on them.

    ``order`` holds the rows of the nodes that exist among all that may exist. Positions are those of the universe's
    pods.
    """

    def __init__(self, universe: Fork, framework: Framework, order: Sequence[Row], searches: SearchOrder) -> None:
        self.universe, self.framework, self.searches = universe, framework, searches
        self.order = list(order)
        self._on: dict[Row, tuple[Position, ...]] = {}
        self._ordered: np.ndarray | None = None
        self._view: tuple[Fork, np.ndarray] | None = None
        self._incoming: dict[int, PodInfo] = {}
        self._asked: tuple[tuple[int, int], PreFilterOutcome, FilterOutcome | None] | None = None

    @classmethod
    def from_cluster(cls, cluster: Cluster, existing: Iterable[str]) -> ClusterSnapshot:
        """Build the snapshot of a cluster with all nodes that may exist, of which ``existing`` do, in order."""
        scheduler = Scheduler(replace(cluster, configuration=None))
        framework = scheduler.framework(DEFAULT_SCHEDULER_NAME)
        assert framework is not None
        view = scheduler.view.with_changes(replace(cluster, nodes=()))  # nobody asks these for nodes
        return cls(view, framework, [Row(view.nodes.index[name]) for name in existing], SearchOrder())

    def fork(self) -> ClusterSnapshot:
        """Return a copy that shares only the position where searches begin."""
        other = ClusterSnapshot(self.universe.fork(), self.framework, self.order, self.searches)
        other._incoming, other._on = self._incoming, dict(self._on)
        return other

    # -- nodes -------------------------------------------------------------------------------------------------------

    def add_node(self, row: Row) -> None:
        """Let a node exist, after all others."""
        self.order.append(row)
        self._view = self._ordered = None

    def remove_node(self, row: Row) -> None:
        """Let an empty node no longer exist."""
        self.order.remove(row)
        self._view = self._ordered = None

    def with_node(self, row: Row, node: Node) -> ClusterSnapshot:
        """Return a fork in which a node is replaced."""
        other = self.fork()
        other.universe = other.universe.with_changes(other.universe.cluster, {row: node})
        return other

    def create_like(self, row: Row, nodes: Sequence[Node]) -> list[Row]:
        """Create new nodes like that of a row, and return their rows. They do not exist yet."""
        known = len(self.universe.nodes)
        self.universe = self.universe.with_changes(self.universe.cluster, more=[(row, node) for node in nodes])
        self._view = None
        return [Row(known + i) for i in range(len(nodes))]

    # -- pods --------------------------------------------------------------------------------------------------------

    def put_pod(self, position: Position, row: Row) -> None:
        """Put a pod on a node without filters."""
        self.universe.assume(position, row)
        self._on[row] = (*self._on.get(row, ()), position)
        if self._view is not None:
            view, rows = self._view
            if rows[row] >= 0:
                view.assume(position, Row(int(rows[row])))

    def take_pod(self, position: Position) -> Row:
        """Take a pod off its node, and return the row of that node."""
        row = Row(int(self.universe.node[position]))
        self._on[row] = tuple(other for other in self._on[row] if other != position)
        self.universe.forget(position)
        if self._view is not None and self._view[0].node[position] >= 0:
            self._view[0].forget(position)
        return row

    def clone_pods(self, positions: Iterable[Position]) -> list[Position]:
        """Return copies of these pods without a node."""
        self._view = None
        return [copy for position in positions for copy in self.universe.clone(position, 1)]

    def pods_on(self, row: Row) -> tuple[Position, ...]:
        """Return the pods on a node in order of arrival."""
        return self._on.get(row, ())

    def set_arrival_order(self, positions: Iterable[Position]) -> None:
        """Set the order in which pods arrived on their nodes. All others arrived after them."""
        node = self.universe.node.tolist()
        on: dict[Row, list[Position]] = {}
        for position in dict.fromkeys((*positions, *range(len(node)))):
            if node[position] >= 0:
                on.setdefault(Row(node[position]), []).append(Position(position))
        self._on = {row: tuple(here) for row, here in on.items()}

    def put_back(self, row: Row, positions: Sequence[Position]) -> None:
        """Put pods back on the node from which they were taken, in this order."""
        for position in positions:
            self.put_pod(position, row)
        self._on[row] = tuple(positions)

    def find_rejection(self, position: Position, row: Row) -> FilterRejection | None:
        """Return why an existing node rejects a pod, or None if it takes the pod. Raises PluginError."""
        before, filtered = self._run_filters(position)
        if filtered is None:
            return FilterRejection(before.plugin or "", before.status.reasons)
        view, rows = self._current_view()
        here = int(rows[row])
        if before.node_names is not None and view.nodes.names[here] not in before.node_names:
            return FilterRejection(", ".join(sorted(before.narrowed_by)), ())
        if filtered.first[here] < 0:
            return None
        plugin, status = filtered.first_fail(here)
        return FilterRejection(plugin, status.reasons)

    def describe_rejection(self, position: Position, row: Row) -> str | None:
        """Return the figures behind a rejection by an existing node as far as known, or None if it takes the pod."""
        before, filtered = self._run_filters(position)
        if filtered is None or self.find_rejection(position, row) is None:
            return None if filtered is not None else ""
        view, rows = self._current_view()
        here = int(rows[row])
        if before.node_names is not None and view.nodes.names[here] not in before.node_names:
            return OTHER_NODES
        if filtered.first[here] < 0:
            return ""
        plugin = filtered.order[filtered.first[here]]
        rejections = (
            rejection for rejection in filtered.verdicts[plugin].rejections if rejection.mask[here] and rejection.fact
        )
        facts = (rejection.fact(here) for rejection in rejections if rejection.fact)
        texts = (fact if isinstance(fact, str) else describe_fact(fact) for fact in facts)
        return "; ".join(dict.fromkeys(filter(None, texts)))

    def place(self, position: Position, row: Row) -> FilterRejection | None:
        """Put a pod on a node if it fits there, else return why not."""
        refusal = self.find_rejection(position, row)
        if refusal is None:
            self.put_pod(position, row)
        return refusal

    def place_anywhere(self, position: Position, acceptable: Bools | None = None) -> Row | None:
        """Put a pod on the next acceptable node (by row of the universe) that takes it. Return the row, or None."""
        before, filtered = self._run_filters(position)
        if filtered is None or not self.order:
            return None
        view, rows = self._current_view()
        here = filtered.passing & selected_by_name(before, view) & ~view.nodes.unschedulable
        order = self._rows
        fits = here[rows[order]]
        if acceptable is not None:
            fits &= acceptable[order]
        places = np.flatnonzero(fits)
        if not len(places):
            return None
        start = (self.searches.last + 1) % len(order)
        self.searches.last = int(places[np.argmin((places - start) % len(order))])
        row = Row(int(order[self.searches.last]))
        self.put_pod(position, row)
        return row

    def find_takers(self, position: Position) -> Bools | None:
        """Return which nodes take a pod now, (M,), or None if that depends on more than what is on the node."""
        view, rows = self._current_view()
        fitting = Placements(view).find_feasible_mask(self.framework, position)
        if fitting is None:
            return None
        there = np.flatnonzero(rows >= 0)
        taking = np.zeros(len(rows), np.bool_)
        taking[there] = (fitting & ~view.nodes.unschedulable)[rows[there]]
        return taking

    @property
    def _rows(self) -> np.ndarray:
        """Return the rows of the existing nodes, in order."""
        if self._ordered is None:
            self._ordered = np.array(self.order)
        return self._ordered

    def _current_view(self) -> tuple[Fork, np.ndarray]:
        """Return a view of the existing nodes, and the row there of each row of the universe, -1 for none, (M,)."""
        if self._view is None:
            exists = np.zeros(len(self.universe.nodes), np.bool_)
            exists[self.order] = True
            view = self.universe.without_nodes(~exists)
            view.nominations = NO_NOMINATIONS, NO_NOMINATIONS
            self._view = view, np.where(exists, np.cumsum(exists) - 1, NO_ROW)
            self._asked = None
        return self._view

    def _run_filters(self, position: Position) -> tuple[PreFilterOutcome, FilterOutcome | None]:
        """Return the filters' verdicts on a pod; None if a PreFilter plugin rejects it. Raises PluginError."""
        view, _ = self._current_view()
        info = self._get_unplaced_info(position)
        key = int(view.pods.info[position]), len(view.trail)
        if self._asked is None or self._asked[0] != key:
            before = run_pre_filter(self.framework.plugins_at("preFilter"), info, view)
            rejected = before.status.rejected
            outcome = None if rejected else Filtering.from_framework(self.framework, before, info, view).judge()
            self._asked = key, before, outcome
        return self._asked[1], self._asked[2]

    def _get_unplaced_info(self, position: Position) -> PodInfo:
        """Return the PodInfo of the pod without a node."""
        number = int(self.universe.pods.info[position])
        info = self.universe.pods.infos[number]
        if not info.spec.node_name:
            return info
        if number not in self._incoming:
            again = len(self.universe.pods.infos) + number
            self._incoming[number] = PodInfo(made_again(info.pod), info.options, again, info.alike)
        return self._incoming[number]


__all__ = ["ClusterSnapshot", "FilterRejection", "PluginError"]
