"""Compare events for rejected pods with kube-scheduler: the queueing hints, and the queue of the pod."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_cases import SETTINGS, Json, iter_family_lines

import kschedctl

SHARES = 3
SETS = ("unschedulablePlugins", "pendingPlugins")


@pytest.mark.parametrize("share", range(SHARES))
def test_wakes(share: int) -> None:
    cases = [json.loads(line) for line in iter_family_lines("over_time/wakes")[share::SHARES]]
    wrong = {}
    for case in cases:
        if differing := find_differing_parts(case):
            wrong[case["id"]] = differing
    assert len(cases) == 50
    assert wrong == {}


def find_differing_parts(case: Json) -> Json:
    """Return kube-scheduler's value and ours of each part of the answer in which they differ."""
    settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
    cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
    found = kschedctl.wakes(cluster, case["pod"], case["event"]).to_dict()
    parts = {part: (wanted, found.get(part)) for part, wanted in case["want"].items()}
    return {
        part: pair for part, pair in parts.items() if drop_empty_parts(part, pair[0]) != drop_empty_parts(part, pair[1])
    }


def drop_empty_parts(part: str, value: Any) -> Any:
    """Return the value without empty parts and with sorted plugins."""
    return sorted(value) if part in SETS and value else value or None
