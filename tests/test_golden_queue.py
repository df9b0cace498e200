"""Compare a run of the queue with kube-scheduler: every cycle, and the final place of each pod."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_cases import SETTINGS, Json, iter_family_lines

import kschedctl

SHARES = 6
SETS = ("rejectors", "victims", "nominationsCleared")


@pytest.mark.parametrize("family", ["run", "gang"])
@pytest.mark.parametrize("share", range(SHARES))
def test_cycles(share: int, family: str) -> None:
    """Parameter `gang` selects the cases of pod groups."""
    cases = [json.loads(line) for line in iter_family_lines(f"over_time/{family}")[share::SHARES]]
    assert len(cases) == 25
    for case in cases:
        found, wanted = run_queue(family, case), case["want"]
        for number, cycles in enumerate(zip(found["cycles"], wanted["cycles"], strict=False)):
            assert drop_empty_parts(cycles[0]) == drop_empty_parts(cycles[1]), f"{case['id']}, cycle {number}"
        assert agrees(wanted, found), case["id"]


def run_queue(family: str, case: Json) -> Json:
    """Return our run of the queue of a case."""
    settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
    cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
    return kschedctl.run_queue(cluster, closed_loop=family == "run").to_dict()


def agrees(wanted: Json, found: Json) -> bool:
    """Return whether both runs have the same cycles and leave the same queue."""
    return all(
        drop_empty_parts(found[part]) == drop_empty_parts(wanted[part]) for part in ("cycles", "queueAfter", "gated")
    )


def drop_empty_parts(value: Any, key: str = "") -> Any:
    """Return the document without empty values, and with lists sorted whose order is undefined."""
    if isinstance(value, dict):
        found: Json = {name: drop_empty_parts(each, name) for name, each in value.items()}
        return {name: each for name, each in found.items() if each is not False and each not in (None, [], {}, "")}
    if isinstance(value, list):
        return sorted(value) if key in SETS else [drop_empty_parts(each) for each in value]
    return value
