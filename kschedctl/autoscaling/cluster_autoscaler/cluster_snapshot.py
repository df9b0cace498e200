"""The cluster as the autoscaler supposes it to be: nodes and pods come and go, and pods go where filters let them.

Upstream: simulator/clustersnapshot and its predicate/plugin_runner.go (1.36). The filters are the scheduler's own, of
its default profile; nobody scores, preempts or reserves, and no nomination counts.
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
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

NEVER_CAME = -1
NOTHING_PROMISED = np.zeros(0, np.int64)


class Refusal(NamedTuple):
    """The plugin that refuses a pod on a node, and its reasons: none where PreFilter merely names other nodes."""

    plugin: str
    reasons: tuple[str, ...]


class Searches:
    """Where the last search for a node ended: the next begins behind it, whatever was undone meanwhile."""

    def __init__(self) -> None:
        self.last = 0


class ClusterSnapshot:
    """Some of the nodes of a ``universe``, in the order in which they are gone through, and the pods on them.

    ``order``: the rows of the nodes that exist, of all that may. Positions are of the universe's pods.
    """

    def __init__(self, universe: Fork, framework: Framework, order: Sequence[Row], searches: Searches) -> None:
        self.universe, self.framework, self.searches = universe, framework, searches
        self.order = list(order)
        self.came = np.full(len(universe.pods), NEVER_CAME, np.int64)
        """(P,): in which order pods came to their nodes."""
        self._view: tuple[Fork, np.ndarray] | None = None
        self._incoming: dict[int, PodInfo] = {}
        self._asked: tuple[tuple[int, int], PreFilterOutcome, FilterOutcome | None] | None = None

    @classmethod
    def of(cls, cluster: Cluster, existing: Iterable[str]) -> ClusterSnapshot:
        """Of a cluster of all nodes that may exist; those that do, in order."""
        scheduler = Scheduler(replace(cluster, configuration=None))
        framework = scheduler.framework(DEFAULT_SCHEDULER_NAME)
        assert framework is not None
        view = scheduler.view
        return cls(view, framework, [Row(view.nodes.index[name]) for name in existing], Searches())

    def fork(self) -> ClusterSnapshot:
        """One that goes its own way, but for where searches begin."""
        other = ClusterSnapshot(self.universe.fork(), self.framework, self.order, self.searches)
        other._incoming, other.came = self._incoming, self.came.copy()
        return other

    # -- nodes -------------------------------------------------------------------------------------------------------

    def add(self, row: Row) -> None:
        """Have a node exist, behind all others."""
        self.order.append(row)
        self._view = None

    def remove(self, row: Row) -> None:
        """Have a node, on which no pod is left, exist no more."""
        self.order.remove(row)
        self._view = None

    def with_node(self, row: Row, node: Node) -> ClusterSnapshot:
        """A fork in which a node is another one."""
        other = self.fork()
        cluster = other.universe.cluster
        nodes = tuple(node if each.metadata.name == node.metadata.name else each for each in cluster.nodes)
        other.universe = other.universe.changed(replace(cluster, nodes=nodes), {row: node})
        return other

    def more_like(self, row: Row, nodes: Sequence[Node]) -> list[Row]:
        """Rows of new nodes, like that of a row; they do not exist yet."""
        known, cluster = len(self.universe.nodes), self.universe.cluster
        grown = replace(cluster, nodes=(*cluster.nodes, *nodes))
        self.universe = self.universe.changed(grown, more=[(row, node) for node in nodes])
        self._view = None
        return [Row(known + i) for i in range(len(nodes))]

    # -- pods --------------------------------------------------------------------------------------------------------

    def put(self, position: Position, row: Row) -> None:
        """Put a pod on a node without asking."""
        self.universe.assume(position, row)
        self.came[position] = self.came.max(initial=NEVER_CAME) + 1
        if self._view is not None:
            view, rows = self._view
            if rows[row] >= 0:
                view.assume(position, Row(int(rows[row])))

    def take(self, position: Position) -> Row:
        """Take a pod off its node; which that was."""
        row = Row(int(self.universe.node[position]))
        self.universe.forget(position)
        if self._view is not None and self._view[0].node[position] >= 0:
            self._view[0].forget(position)
        return row

    def clone(self, positions: Iterable[Position]) -> list[Position]:
        """Other pods like these, without a node."""
        self._view = None
        copies = [copy for position in positions for copy in self.universe.clone(position, 1)]
        self.came = np.append(self.came, np.full(len(copies), NEVER_CAME, np.int64))
        return copies

    def on(self, row: Row) -> list[Position]:
        """The pods on a node, in the order in which they came."""
        return sorted(self.universe.pods_on(row), key=self.came.__getitem__)

    def refusal(self, position: Position, row: Row) -> Refusal | None:
        """Why a pod can't go to a node that exists; None: it can. Raises PluginError."""
        before, filtered = self._ask(position)
        if filtered is None:
            return Refusal(before.plugin or "", before.status.reasons)
        view, rows = self._now()
        here = int(rows[row])
        if before.node_names is not None and view.nodes.names[here] not in before.node_names:
            return Refusal(", ".join(sorted(before.narrowed_by)), ())
        if filtered.first[here] < 0:
            return None
        plugin, status = filtered.first_fail(here)
        return Refusal(plugin, status.reasons)

    def place(self, position: Position, row: Row) -> Refusal | None:
        """Put a pod on a node if it can go there; else why not."""
        refusal = self.refusal(position, row)
        if refusal is None:
            self.put(position, row)
        return refusal

    def place_anywhere(self, position: Position, acceptable: Bools | None = None) -> Row | None:
        """Put a pod on the next node that takes it, of the acceptable ones (by row of the universe); None: nowhere."""
        before, filtered = self._ask(position)
        if filtered is None or not self.order:
            return None
        view, rows = self._now()
        here = filtered.passing & selected_by_name(before, view) & ~view.nodes.unschedulable
        order = np.array(self.order)
        fits = here[rows[order]]
        if acceptable is not None:
            fits &= acceptable[order]
        places = np.flatnonzero(fits)
        if not len(places):
            return None
        start = (self.searches.last + 1) % len(order)
        self.searches.last = int(places[np.argmin((places - start) % len(order))])
        row = Row(int(order[self.searches.last]))
        self.put(position, row)
        return row

    def _now(self) -> tuple[Fork, np.ndarray]:
        """The nodes that exist, and (M,) the row there of each row of the universe, -1 for none."""
        if self._view is None:
            exists = np.zeros(len(self.universe.nodes), np.bool_)
            exists[self.order] = True
            view = self.universe.without(~exists)
            view.nominations = NOTHING_PROMISED, NOTHING_PROMISED
            self._view = view, np.where(exists, np.cumsum(exists) - 1, NO_ROW)
            self._asked = None
        return self._view

    def _ask(self, position: Position) -> tuple[PreFilterOutcome, FilterOutcome | None]:
        """What the filters say of a pod on all nodes; None where a PreFilter plugin refuses it. Raises PluginError."""
        view, _ = self._now()
        info = self._info(position)
        key = int(view.pods.info[position]), len(view.trail)
        if self._asked is None or self._asked[0] != key:
            before = run_pre_filter(self.framework.at("preFilter"), info, view)
            rejected = before.status.rejected
            outcome = None if rejected else Filtering.of(self.framework, before, info, view).judge()
            self._asked = key, before, outcome
        return self._asked[1], self._asked[2]

    def _info(self, position: Position) -> PodInfo:
        """What a pod asks for that has no node."""
        number = int(self.universe.pods.info[position])
        info = self.universe.pods.infos[number]
        if not info.spec.node_name:
            return info
        if number not in self._incoming:
            again = len(self.universe.pods.infos) + number
            self._incoming[number] = PodInfo(made_again(info.pod), info.options, again, info.alike)
        return self._incoming[number]


__all__ = ["ClusterSnapshot", "PluginError", "Refusal"]
