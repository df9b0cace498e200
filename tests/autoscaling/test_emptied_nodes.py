"""Check that `drain` empties the nodes that the real autoscaler would remove, by the scheduler's own rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from golden_cases import Json, iter_family_lines

import kschedctl

TWO_BUDGETS = "more than one PodDisruptionBudget selects the pod, which the eviction API does not support"
"""Obstacles that the autoscaler ignores, so that only the API server's rejection of the eviction reveals them."""


def iter_removable_nodes(answer: Json) -> Iterator[str]:
    """Yield the nodes that the real autoscaler would remove one by one."""
    for name, told in (answer.get("nodes") or {}).items():
        if (told.get("alone") or {}).get("removable"):
            yield name


def test_drain_empties_what_the_autoscaler_would_remove() -> None:
    seen: Counter[str] = Counter()
    for line in iter_family_lines("autoscaling/scaledown"):
        case = json.loads(line)
        if not (names := list(iter_removable_nodes(case["answer"]))):
            continue
        cluster = kschedctl.Cluster.from_objects(case["input"]["objects"])
        for name in names:
            report = kschedctl.drain(cluster, [name])
            assert not report.unplaced, (case["id"], name)
            assert all(pod.why.startswith(TWO_BUDGETS) for pod in report.blocked), (case["id"], name)
            seen["moved" if report.moved else "empty"] += 1
    assert seen["moved"] > 20, seen
