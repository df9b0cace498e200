"""Check nodes that an extender returned whole, scored with the PreFilter state of nodes of these names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kschedctl.api.arrays import Rows, Scores
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.scoring import ScoredNodes
from kschedctl.snapshot.fork import Fork


class ByView:
    """A plugin that scores ten times the row, plus the number of nodes of the view."""

    def score(self, info: Any, view: Fork, state: Any, rows: Rows) -> Scores:
        return 10 * rows + len(view.nodes)


@pytest.mark.parametrize(
    ("by_name", "expected"), [(True, [2, 0, 12]), (False, [24, 34, 44])], ids=["by name", "as returned"]
)
def test_known_node_scores_as_the_scheduler_s_own(by_name: bool, expected: list[int]) -> None:
    """The extender returns the first of two nodes, an unknown one, and the second.

    These rows follow the two nodes of the view.
    """
    view, more = (
        Fork.from_cluster(Cluster.from_objects([{"kind": "Node", "metadata": {"name": f"n{i}"}} for i in range(count)]))
        for count in (2, 4)
    )
    scored = ScoredNodes(more, np.array([2, 3, 4]), view, np.array([0, -1, 1]))
    plugin: Any = ByView()
    info: Any = None
    assert scored.score_with_plugin(plugin, info, None, by_name=by_name).tolist() == expected
