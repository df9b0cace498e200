"""Compare events for rejected pods with kube-scheduler: the queueing hints, and the queue of the pod."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_cases import SETTINGS, family_lines

import kschedctl

SHARES = 3
SETS = ("unschedulablePlugins", "pendingPlugins")


@pytest.mark.parametrize("share", range(SHARES))
def test_wakes(share: int) -> None:
    cases = [json.loads(line) for line in family_lines("over_time/wakes")[share::SHARES]]
    wrong = {}
    for case in cases:
        settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
        cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
        found = kschedctl.wakes(cluster, case["pod"], case["event"]).to_dict()
        differing = [
            part for part, wanted in case["want"].items() if plain(part, found.get(part)) != plain(part, wanted)
        ]
        if differing:
            wrong[case["id"]] = [(part, case["want"][part], found.get(part)) for part in differing]
    assert len(cases) == 50
    assert wrong == {}


def plain(part: str, value: Any) -> Any:
    """Return the value without empty parts and with sorted plugins."""
    return sorted(value) if part in SETS and value else value or None
