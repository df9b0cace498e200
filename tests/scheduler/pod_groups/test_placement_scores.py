"""Check that plugins' scores of a placement are between 0 and 100, times their weight."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kschedctl.api.arrays import Scores
from kschedctl.api.objects import PodGroup
from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.pod_groups.placement import GroupPlacement, PodGroupAssignments, score_placements
from kschedctl.scheduler.framework import PluginError
from kschedctl.snapshot.fork import Fork

INVALID = (
    'applying score defaultWeights on PlacementScore plugins: plugin "Rows" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)


class Rows:
    """A scoring plugin: the score of a placement is the sum of its row numbers."""

    name = "Rows"

    def score_placement(self, group: PodGroup, view: Fork, proposal: PodGroupAssignments) -> int:
        return int(proposal.placement.rows.sum())

    def normalize_placements(self, scores: Scores) -> Scores:
        return scores


def compute_scores(*rows: int) -> list[int]:
    """Return the scores of placements of one row each, with weight 3."""
    profile = SimpleNamespace(placement_weights={"Rows": 3})
    framework: Any = SimpleNamespace(plugins_at=lambda point: [Rows()] * (point == "placementScore"), profile=profile)
    proposals = [PodGroupAssignments(GroupPlacement("", np.array([row])), ()) for row in rows]
    view = Fork.from_cluster(Cluster.from_objects([{"kind": "Node", "metadata": {"name": "a"}}]))
    return score_placements(framework, PodGroup(), view, proposals)["Rows"].tolist()


def test_lowest_and_highest_score_are_valid() -> None:
    assert compute_scores(0, 100, 7) == [0, 300, 21]


@pytest.mark.parametrize("wrong", [-1, 101])
def test_scores_out_of_range_are_errors(wrong: int) -> None:
    with pytest.raises(PluginError) as failure:
        compute_scores(50, wrong)
    assert str(failure.value) == INVALID.format(wrong)
