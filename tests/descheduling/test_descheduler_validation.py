"""What the descheduler refuses as arguments, against its own tables (v0.36), by name."""

from __future__ import annotations

import pytest
import yaml
from descheduler_cases import GOLDEN, Case

import kschedctl
from kschedctl.descheduling.policy import EVICTOR
from kschedctl.errors import InputError

TABLES: dict[str, list[Case]] = yaml.safe_load((GOLDEN / "validation.yaml").read_text())
ROWS = [(plugin, row) for plugin, rows in TABLES.items() for row in rows]
BALANCING = {
    "HighNodeUtilization",
    "LowNodeUtilization",
    "RemoveDuplicates",
    "RemovePodsViolatingTopologySpreadConstraint",
}


def with_arguments(plugin: str, args: Case) -> Case:
    """A policy of that plugin alone."""
    point = "balance" if plugin in BALANCING else "deschedule"
    plugins = {} if plugin == EVICTOR else {point: {"enabled": [plugin]}}
    profile = {"name": "p", "pluginConfig": [{"name": plugin, "args": args}], "plugins": plugins}
    return {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}


@pytest.mark.parametrize(("plugin", "row"), ROWS, ids=[f"{plugin}/{row['name']}" for plugin, row in ROWS])
def test_arguments(plugin: str, row: Case) -> None:
    cluster, policy = kschedctl.Cluster.from_objects([]), with_arguments(plugin, row["args"])
    if not row["refused"]:
        kschedctl.rebalance(cluster, policy)
        return
    with pytest.raises(InputError):
        kschedctl.rebalance(cluster, policy)


def test_how_many_are_compared() -> None:
    assert len(ROWS) == 75
