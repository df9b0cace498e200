"""Check that scores are shown only if there was a choice between nodes."""

from __future__ import annotations

import pytest
from small import build_node, build_pod

import kschedctl
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS


@pytest.mark.parametrize(("nodes", "is_shown"), [(1, False), (2, True)])
def test_single_feasible_node_has_no_table_of_scores(nodes: int, is_shown: bool) -> None:
    objects = [*(build_node(f"n{number}") for number in range(nodes)), build_pod("p")]
    report = kschedctl.explain(kschedctl.Cluster.from_objects(objects), "d/p")
    assert ("Scores of" in RENDERERS["table"](report, Style(width=100))) is is_shown
    assert "Scores of" in RENDERERS["wide"](report, Style(width=100, wide=True))
