"""The cluster as the autoscaler simulates it: nodes and pods are added and removed, and pods are placed one by one.

Upstream: simulator/clustersnapshot and its predicate/plugin_runner.go, simulator/scheduling/hinting_simulator.go and
similar_pods.go (1.36). Pods are placed by the filters of the scheduler's default profile. Nothing is scored, preempted
or reserved, and nominations do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import NO_ROW, Bools, Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.defaults import DEFAULT_SCHEDULER_NAME
from kschedctl.api.objects import Node, Pod
from kschedctl.autoscaling.cluster_autoscaler.pods import compute_similarity_key, get_controller, is_daemon_set_pod
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import (
    Filtering,
    FilterOutcome,
    PreFilterOutcome,
    mask_allowed_nodes,
    run_pre_filter,
)
from kschedctl.scheduler.framework.facts import describe_fact
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NO_ROWS = np.zeros(0, np.int64)
NO_POSITIONS = np.zeros(0, np.int64)

OTHER_NODES = "the pod requires other nodes by name"
MAX_REMEMBERED = 10
Hints = dict[str, Row]
"""Pod key -> the row where the pod was placed last."""


class FilterRejection(NamedTuple):
    """The rejection of a pod by a filter plugin on one node."""

    plugin: str
    reasons: tuple[str, ...]
    """The plugin's reasons, or an empty tuple if PreFilter excludes the node."""


class SearchCursor:
    """The place in the node order where the last search ended and the next one begins.

    It is kept even if the changes of the search are undone.
    """

    def __init__(self) -> None:
        self.last = 0


class _ExistingView(NamedTuple):
    """A view of only the existing nodes."""

    fork: Fork
    rows: np.ndarray
    """The view's row for each row of the universe, (M,), or NO_ROW for nodes that do not exist."""


class _CachedFiltering(NamedTuple):
    """The outcome of the last filtering, which holds for equal pods until the view changes."""

    info_number: int
    """Number of the pod's PodInfo."""
    change_count: int
    """Number of changes of the view at that time."""
    pre_filter: PreFilterOutcome
    outcome: FilterOutcome | None
    """None if PreFilter rejected the pod."""


class ClusterSnapshot:
    """The existing nodes in iteration order, with the pods on them.

    ``universe`` holds the existing nodes and the nodes that may be added later. ``order`` holds the rows of the
    existing nodes in the universe. A pod's position is its index in the universe's pod table.
    """

    def __init__(self, universe: Fork, framework: Framework, order: Sequence[Row], cursor: SearchCursor) -> None:
        self.universe, self.framework, self.cursor = universe, framework, cursor
        self.order = list(order)
        self._pods_by_row: dict[Row, tuple[Position, ...]] = {}
        self._order_array: np.ndarray | None = None
        self._view: _ExistingView | None = None
        self._cached_filtering: _CachedFiltering | None = None

    @classmethod
    def from_cluster(cls, cluster: Cluster, existing: Iterable[str]) -> ClusterSnapshot:
        """Build the snapshot of a cluster in which only the nodes in ``existing`` exist, in the order of these names.

        The cluster may contain further nodes, which can be added later. All pods are checked by the Filter plugins of
        the default scheduler profile.
        """
        # Without a configuration, the scheduler has only the default profile
        scheduler = Scheduler(replace(cluster, configuration=None))
        framework = scheduler.find_framework(DEFAULT_SCHEDULER_NAME)
        assert framework is not None
        # Take the nodes out of the cluster only: the view keeps the rows of all nodes, so that they can be added later.
        view = scheduler.view.with_changes(replace(cluster, nodes=()))
        return cls(view, framework, [Row(view.nodes.index[name]) for name in existing], SearchCursor())

    def fork(self) -> ClusterSnapshot:
        """Return an independent copy. Only the cursor of the search for nodes is shared with this snapshot."""
        copy = ClusterSnapshot(self.universe.fork(), self.framework, self.order, self.cursor)
        copy._pods_by_row = dict(self._pods_by_row)
        return copy

    # -- nodes ----------------------------------------------------------------------------------------------------

    def add_node(self, row: Row) -> None:
        """Make a node of the universe exist, as the last in the order."""
        self.order.append(row)
        self._view = self._order_array = None

    def remove_node(self, row: Row) -> None:
        """Remove a node without pods from the existing nodes. It stays in the universe."""
        self.order.remove(row)
        self._view = self._order_array = None

    def with_replaced_node(self, row: Row, node: Node) -> ClusterSnapshot:
        """Return a fork in which ``node`` replaces the node of this row."""
        copy = self.fork()
        copy.universe = copy.universe.with_changes(copy.universe.cluster, {row: node})
        return copy

    def create_rows_like(self, row: Row, nodes: Sequence[Node]) -> list[Row]:
        """Reserve rows for nodes that resemble the node at ``row`` and share its data, and return these rows.

        The nodes do not exist until ``add_node`` is called for their rows.
        """
        row_count = len(self.universe.nodes)
        added_nodes = [(row, node) for node in nodes]  # each with the row of the node that it resembles
        self.universe = self.universe.with_changes(self.universe.cluster, added=added_nodes)
        self._view = None
        return [Row(row_count + number) for number in range(len(nodes))]

    # -- pods -----------------------------------------------------------------------------------------------------

    def put_pod(self, position: Position, row: Row) -> None:
        """Put a pod on a node without running filters. The pod is the last to arrive there.

        The node may be one that is not added yet. The cached view of the existing nodes is kept up to date.
        """
        self.universe.assume(position, row)
        self._pods_by_row[row] = (*self._pods_by_row.get(row, ()), position)
        if self._view is not None:  # keep the view of existing nodes up to date instead of building it anew
            view, rows = self._view
            row_in_view = int(rows[row])
            if row_in_view >= 0:  # negative if the node is not added yet
                view.assume(position, Row(row_in_view))

    def remove_pod(self, position: Position) -> Row:
        """Remove a pod from its node, and return the node's row."""
        row = Row(int(self.universe.node[position]))
        self._pods_by_row[row] = tuple(remaining for remaining in self._pods_by_row[row] if remaining != position)
        self.universe.forget(position)
        if self._view is not None and self._view.fork.node[position] >= 0:
            self._view.fork.forget(position)
        return row

    def clone_pods(self, positions: Iterable[Position]) -> list[Position]:
        """Add copies of these pods to the universe without placing them, and return the positions of the copies."""
        self._view = None
        return [copy for position in positions for copy in self.universe.add_clones(position, 1)]

    def get_pods_on(self, row: Row) -> tuple[Position, ...]:
        """Return the positions of the pods on a node, in order of arrival."""
        return self._pods_by_row.get(row, ())

    def set_arrival_order(self, positions: Iterable[Position]) -> None:
        """Set the order in which pods arrived on their nodes. Pods that are not listed come last."""
        node_rows = self.universe.node.tolist()
        # Each position once, the listed ones first
        listed_first = dict.fromkeys((*positions, *range(len(node_rows))))
        by_row: dict[Row, list[Position]] = {}
        for position in listed_first:
            if node_rows[position] >= 0:
                by_row.setdefault(Row(node_rows[position]), []).append(Position(position))
        self._pods_by_row = {row: tuple(on_row) for row, on_row in by_row.items()}

    def put_pods_back(self, row: Row, positions: Sequence[Position]) -> None:
        """Put all pods that were taken from a node back on it, in this order of arrival."""
        for position in positions:
            self.put_pod(position, row)
        self._pods_by_row[row] = tuple(positions)

    def find_rejection(self, position: Position, row: Row) -> FilterRejection | None:
        """Return the rejection of a pod by an existing node, or None if the node accepts the pod.

        PreFilter rejects the pod on all nodes, or excludes this node. Otherwise, the first filter that rejects the pod
        decides. Raises PluginError if a plugin returns an error.
        """
        pre_filter, filtered = self._run_filters(position)
        if filtered is None:
            return FilterRejection(pre_filter.plugin or "", pre_filter.status.reasons)
        view, rows = self._get_current_view()
        view_row = int(rows[row])
        if pre_filter.node_names is not None and view.nodes.names[view_row] not in pre_filter.node_names:
            return FilterRejection(", ".join(sorted(pre_filter.narrowed_by)), reasons=())
        if filtered.first[view_row] < 0:  # no filter rejects the pod there
            return None
        plugin, status = filtered.find_first_rejection(view_row)
        return FilterRejection(plugin, status.reasons)

    def describe_rejection(self, position: Position, row: Row) -> str | None:
        """Describe the figures behind a node's rejection of a pod, or return None if the node accepts the pod.

        The text is OTHER_NODES if PreFilter excludes the node. It is empty if there are no figures, for example because
        PreFilter rejects the pod on all nodes.
        """
        pre_filter, filtered = self._run_filters(position)
        if filtered is None:
            return ""
        view, rows = self._get_current_view()
        view_row = int(rows[row])
        if pre_filter.node_names is not None and view.nodes.names[view_row] not in pre_filter.node_names:
            return OTHER_NODES
        first_plugin = filtered.first[view_row]
        if first_plugin < 0:  # no filter rejects the pod there
            return None
        verdict = filtered.verdicts[filtered.order[first_plugin]]
        texts = []
        for rejection in verdict.rejections:
            if rejection.mask[view_row] and rejection.fact:
                fact = rejection.fact(view_row)
                texts.append(fact if isinstance(fact, str) else describe_fact(fact))
        return "; ".join(dict.fromkeys(filter(None, texts)))

    def place_pod_if_accepted(self, position: Position, row: Row) -> FilterRejection | None:
        """Put a pod on a node if the node accepts it. Return the rejection, or None on success."""
        rejection = self.find_rejection(position, row)
        if rejection is None:
            self.put_pod(position, row)
        return rejection

    def place_pod_on_next_fitting_node(self, position: Position, acceptable: Bools | None = None) -> Row | None:
        """Put a pod on the next existing node that accepts the pod, and return the node's row.

        Return None if no node accepts the pod. The search begins after the node that the last search chose, and wraps
        around. ``acceptable``, a mask (M,) of the universe's nodes, limits which nodes are tried. Cordoned nodes are
        never tried.
        """
        pre_filter, filtered = self._run_filters(position)
        if filtered is None or not self.order:
            return None
        view, view_rows = self._get_current_view()
        feasible = filtered.passing & mask_allowed_nodes(pre_filter, view) & ~view.nodes.unschedulable
        existing_rows = self._existing_rows
        fits = feasible[view_rows[existing_rows]]
        if acceptable is not None:
            fits &= acceptable[existing_rows]
        fitting_places = np.flatnonzero(fits)
        if not len(fitting_places):
            return None

        # the first fitting node at or after the start, wrapping around at the end
        start = (self.cursor.last + 1) % len(existing_rows)
        steps = (fitting_places - start) % len(existing_rows)
        self.cursor.last = int(fitting_places[np.argmin(steps)])
        row = Row(int(existing_rows[self.cursor.last]))
        self.put_pod(position, row)
        return row

    def find_accepting_nodes(self, position: Position) -> Bools | None:
        """Return a mask (M,), over all nodes of the universe, of the existing uncordoned nodes that accept a pod.

        Return None if the answer also depends on pods on other nodes.
        """
        view, view_rows = self._get_current_view()  # (M,) the node's row in the view, negative if it does not exist
        feasible = Placements(view).find_feasible_mask(self.framework, position)
        if feasible is None:
            return None
        accepting_in_view = feasible & ~view.nodes.unschedulable
        existing = np.flatnonzero(view_rows >= 0)
        accepting = np.zeros(len(view_rows), np.bool_)
        accepting[existing] = accepting_in_view[view_rows[existing]]
        return accepting

    @property
    def _existing_rows(self) -> np.ndarray:
        """The rows of the existing nodes in order, as an array that is cached until nodes are added or removed."""
        if self._order_array is None:
            self._order_array = np.array(self.order)
        return self._order_array

    def _get_current_view(self) -> _ExistingView:
        """Return the cached view of the existing nodes, which is rebuilt after nodes were added or removed."""
        if self._view is None:
            exists = np.zeros(len(self.universe.nodes), np.bool_)
            exists[self.order] = True
            view = self.universe.without_nodes(~exists)
            view.nominations = NO_ROWS, NO_POSITIONS  # nominated pods are already on their nodes
            view_rows = np.where(exists, np.cumsum(exists) - 1, NO_ROW)  # existing nodes are numbered consecutively
            self._view = _ExistingView(view, view_rows)
            self._cached_filtering = None  # it is about the rows of the previous view
        return self._view

    def _run_filters(self, position: Position) -> tuple[PreFilterOutcome, FilterOutcome | None]:
        """Run PreFilter and the filters for a pod on all existing nodes, and return both outcomes.

        The last outcomes are reused if the pod is equal and nothing has changed since. The filter outcome is None if
        PreFilter rejects the pod. Raises PluginError if a plugin returns an error.
        """
        view = self._get_current_view().fork
        info_number = view.pods.get_info_number(position)
        change_count = len(view.trail)
        cached = self._cached_filtering
        if cached is not None and (cached.info_number, cached.change_count) == (info_number, change_count):
            return cached.pre_filter, cached.outcome

        info = self._get_unplaced_pod_info(position)
        pre_filter = run_pre_filter(self.framework.plugins_at("preFilter"), info, view)
        outcome = None
        if not pre_filter.status.rejected:
            outcome = Filtering.from_framework(self.framework, pre_filter, info, view).run_filters()
        self._cached_filtering = _CachedFiltering(info_number, change_count, pre_filter, outcome)
        return pre_filter, outcome

    def _get_unplaced_pod_info(self, position: Position) -> PodInfo:
        """Return the pod's PodInfo or, if the pod names a node, the PodInfo of a copy without the node name.

        Filters for a pod that is to be placed must not see its current node.
        """
        number = self.universe.pods.get_info_number(position)
        info = self.universe.pods.infos[number]
        return self.universe.pods.get_recreated_info(number) if info.spec.node_name else info


def place_pods(
    snapshot: ClusterSnapshot,
    pods: Sequence[tuple[Pod, Position]],
    acceptable: Bools | None = None,
    hints: Hints | None = None,
    *,
    all_or_none: bool = False,
) -> dict[str, Row]:
    """Place pods one after the other, and return the node's row of each placed pod by the pod's key.

    ``acceptable`` is an (M,) mask that limits which nodes are tried. ``hints`` are the nodes to try first, and are
    updated. With ``all_or_none``, the placement ends with the first pod that does not fit. A pod that is similar to a
    pod that did not fit is only tried on the node of its hint.
    """
    unplaceable = _UnplaceablePods()
    placed: dict[str, Row] = {}
    for pod, position in pods:
        row = _place_pod_on_hinted_node(snapshot, pod, position, acceptable, hints)
        if row is None and not unplaceable.contains_similar(pod):
            row = snapshot.place_pod_on_next_fitting_node(position, acceptable)
            if row is None:
                unplaceable.add_pod(pod)
        if row is not None:
            placed[pod.key] = row
            if hints is not None:
                hints[pod.key] = row
        elif all_or_none:
            break
    return placed


def _place_pod_on_hinted_node(
    snapshot: ClusterSnapshot, pod: Pod, position: Position, acceptable: Bools | None, hints: Hints | None
) -> Row | None:
    """Place the pod on the node of its hint and return the node's row.

    Return None if the pod has no hint, the node does not exist or is not acceptable, or the node rejects the pod.
    """
    row = hints.get(pod.key) if hints else None
    if row is None or row not in snapshot.order:
        return None
    if acceptable is not None and not acceptable[row]:
        return None
    rejection = snapshot.place_pod_if_accepted(position, row)
    return row if rejection is None else None


class _UnplaceablePods:
    """Pods that fit on no node, up to MAX_REMEMBERED different pods per controller."""

    def __init__(self) -> None:
        self._by_controller: dict[str, list[bytes]] = {}

    def contains_similar(self, pod: Pod) -> bool:
        """Return whether a similar pod of the same controller is known to fit nowhere."""
        controller = get_controller(pod)
        return controller is not None and compute_similarity_key(pod) in self._by_controller.get(controller.uid, ())

    def add_pod(self, pod: Pod) -> None:
        """Remember a pod that fits on no node.

        Pods without a controller, pods of DaemonSets and pods beyond MAX_REMEMBERED of a controller are not remembered.
        """
        controller = get_controller(pod)
        if controller is None or is_daemon_set_pod(pod):
            return
        similarities = self._by_controller.setdefault(controller.uid, [])
        if len(similarities) < MAX_REMEMBERED:
            similarities.append(compute_similarity_key(pod))
