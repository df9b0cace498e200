"""Check which columns a plugin sees that looks only at a node's own row."""

from __future__ import annotations

import numpy as np
import pytest
from small import build_node, build_pod

import kschedctl
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import OwnRows


def test_rows_include_additional_pods() -> None:
    """n2 has 4 cores and no pod. With two additional pods of 1 core each, 2 cores are requested."""
    cluster = kschedctl.Cluster.from_objects([build_node("n1"), build_node("n2"), build_pod("p", cpu="1")])
    view = Scheduler(cluster).view
    rows = OwnRows(view, np.array([1]), np.array([2]), int(view.pods.info[0]))
    cpu = view.resources["cpu"]
    assert rows.nodes.names == ("n2",)
    assert (rows.requested[:, cpu].tolist(), rows.allocatable[:, cpu].tolist()) == ([2000], [4000])


def test_hidden_column_is_named() -> None:
    view = Scheduler(kschedctl.Cluster.from_objects([build_node("n1")])).view
    with pytest.raises(AttributeError, match="OWN_ROW cannot read count_by_node"):
        _ = OwnRows(view, np.array([0])).count_by_node
