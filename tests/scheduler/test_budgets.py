"""Check PDBs while pods come and go: a PDB that lacks healthy pods allows nothing until it has enough again."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.preemption.budgets import Budgets
from kschedctl.scheduler.scheduler import Scheduler


def build_budgets(**status: int) -> Budgets:
    meta, labels = {"namespace": "d", "name": "b"}, {"app": "web"}
    pdb: dict[str, Any] = {"metadata": meta, "spec": {"selector": {"matchLabels": labels}}, "status": status}
    pod = {"kind": "Pod", "metadata": {**meta, "labels": labels}, "spec": {}}
    return Budgets(Scheduler(Cluster.from_objects([{"kind": "PodDisruptionBudget", **pdb}, pod])).view)


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"disruptionsAllowed": 1}, [1, 2, 3]),
        ({"currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1}, [1, 2, 3]),
        ({"currentHealthy": 2, "desiredHealthy": 2}, [0, 1, 2]),
        ({"currentHealthy": 1, "desiredHealthy": 2}, [0, 0, 1]),
        ({}, [0, 1, 2]),
    ],
    ids=["spare", "known", "just enough", "one short", "unknown"],
)
def test_allowed_disruptions_while_pods_become_ready(status: dict[str, int], allowed: list[int]) -> None:
    found = build_budgets(**status)
    told = [found.count_allowed_disruptions("d/b")]
    for _ in range(2):
        found.record_running_pods([0])
        told.append(found.count_allowed_disruptions("d/b"))
    assert told == allowed
    assert found.view.cluster.pod_disruption_budgets[0].status.disruptions_allowed == allowed[-1]


def test_each_removed_pod_uses_one_disruption() -> None:
    """Three disruptions are allowed. Two removed pods leave one, and returning pods give theirs back."""
    found = build_budgets(disruptionsAllowed=3)
    found.record_evicted_pods([0, 0])
    assert found.count_allowed_disruptions("d/b") == 1
    assert found.view.cluster.pod_disruption_budgets[0].status.disruptions_allowed == 1
    found.record_running_pods([0])
    assert found.count_allowed_disruptions("d/b") == 2
