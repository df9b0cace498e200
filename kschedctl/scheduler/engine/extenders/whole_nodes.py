"""Scoring of whole nodes that an extender returned, in place of the scheduler's own nodes.

Upstream makes a new NodeInfo of each, without pods and images (HTTPExtender.Filter in pkg/scheduler/extender.go,
v1.36). PreScore still counts on the scheduler's own nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Row, Rows, Scores
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.extenders.answers import parse_node
from kschedctl.scheduler.engine.extenders.extender import OfferedNodes
from kschedctl.scheduler.framework import PluginError, ScorePlugin
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

SCORED_AS_RETURNED = ByVersion(
    "whether Score plugins see nodes as extenders returned them, or look them up by name",
    (("", False), ("1.33", True)),
)


class ScoredNodes(NamedTuple):
    """The nodes to score."""

    view: Fork
    """The state that has the nodes."""
    rows: Rows
    """(F,): their rows in `view`."""
    own_view: Fork
    """The state with the scheduler's own nodes."""
    own_rows: Rows
    """(F,): their rows in `own_view`, -1 for nodes that it does not have."""

    @classmethod
    def from_offered(cls, view: Fork, nodes: OfferedNodes, release: KubeVersion) -> ScoredNodes:
        """Prepare the offered nodes for scoring. Raises PluginError."""
        if nodes.returned is not None and SCORED_AS_RETURNED.at(release):
            return cls(*_add_returned_nodes(view, nodes), view, nodes.rows)
        for position in np.flatnonzero(nodes.rows < 0).tolist():
            name = nodes.names[position]
            text = f'getting node "{name}" from Snapshot: nodeinfo not found for node name "{name}"'
            raise PluginError(f"running Score plugins: {text}")
        return cls(view, nodes.rows, view, nodes.rows)

    def score_with(self, plugin: ScorePlugin, info: PodInfo, state: object, *, by_name: bool) -> Scores:
        """Return a plugin's raw scores, (F,).

        `by_name`: the plugin scores with the state of its PreFilter, which it looks up by the names of the nodes.
        """
        if not by_name or self.own_view is self.view:
            return plugin.score(info, self.view, state, self.rows)
        scores = np.zeros(len(self.own_rows), np.int64)
        known = self.own_rows >= 0
        scores[known] = plugin.score(info, self.own_view, state, self.own_rows[known])
        return scores


def _add_returned_nodes(view: Fork, offered: OfferedNodes) -> tuple[Fork, Rows]:
    """Return a fork with the returned nodes after its own, and their rows. Raises PluginError."""
    nodes = [parse_node(document) for document in offered.returned or ()]
    like = [Row(max(row, 0)) for row in offered.rows.tolist()]
    fork = view.with_changes(view.cluster, {}, list(zip(like, nodes, strict=True)))
    try:
        offers = view.snapshot.demands.offered_by(nodes)
    except InputError as error:
        raise PluginError(str(error)) from None
    fork.allocatable = np.concatenate((view.allocatable, offers))
    return fork, np.arange(len(view.nodes), len(fork.nodes))
