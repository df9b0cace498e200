"""Whole nodes that an extender returned take the place of the scheduler's own when nodes are scored.

Upstream makes a new NodeInfo of each: it has no pods and no images, whatever runs there (HTTPExtender.Filter in
pkg/scheduler/extender.go, v1.36). What PreScore counts is counted on the scheduler's own nodes all the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Row, Rows, Scores
from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.extenders.answers import node_of
from kschedctl.scheduler.engine.extenders.extender import Offered
from kschedctl.scheduler.framework import PluginError, ScorePlugin
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

SCORED_AS_RETURNED = ByVersion(
    "whether Score plugins see nodes as extenders returned them, or look them up by name",
    (("", False), ("1.33", True)),
)


class Scored(NamedTuple):
    """Nodes that are scored: ``rows`` (F,) of ``view``; ``own``: their rows among the scheduler's own nodes, -1 for
    those that it has not.
    """

    view: Fork
    rows: Rows
    own_view: Fork
    own: Rows

    @classmethod
    def of(cls, view: Fork, nodes: Offered, release: KubeVersion) -> Scored:
        """Raises PluginError."""
        if nodes.returned is not None and SCORED_AS_RETURNED.at(release):
            return cls(*_with_returned(view, nodes), view, nodes.rows)
        for position in np.flatnonzero(nodes.rows < 0).tolist():
            name = nodes.names[position]
            text = f'getting node "{name}" from Snapshot: nodeinfo not found for node name "{name}"'
            raise PluginError(f"running Score plugins: {text}")
        return cls(view, nodes.rows, view, nodes.rows)

    def by(self, plugin: ScorePlugin, info: PodInfo, state: object, *, by_name: bool) -> Scores:
        """(F,): a plugin's raw scores; ``by_name``: from what its PreFilter found for the nodes of these names."""
        if not by_name or self.own_view is self.view:
            return plugin.score(info, self.view, state, self.rows)
        scores = np.zeros(len(self.own), np.int64)
        known = self.own >= 0
        scores[known] = plugin.score(info, self.own_view, state, self.own[known])
        return scores


def _with_returned(view: Fork, offered: Offered) -> tuple[Fork, Rows]:
    """A fork that has the returned nodes after its own, and their rows. Raises PluginError."""
    nodes = [node_of(document) for document in offered.returned or ()]
    like = [Row(max(row, 0)) for row in offered.rows.tolist()]
    fork = view.changed(view.cluster, {}, list(zip(like, nodes, strict=True)))
    try:
        offers = view.snapshot.demands.offered_by(nodes)
    except InputError as error:
        raise PluginError(str(error)) from None
    fork.allocatable = np.concatenate((view.allocatable, offers))
    return fork, np.arange(len(view.nodes), len(fork.nodes))
