"""Compare pods tried one after the other with kube-scheduler, also with node sampling."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from golden_cases import SETTINGS, Json, iter_family_lines

import kschedctl

SHARES = 5
SETS = ("best", "rejected", "unschedulablePlugins", "tiedCandidates", "victims", "nominationsCleared")


def sample_nodes(cluster: kschedctl.Cluster, case: Json) -> Json:
    return kschedctl.sampling(cluster, case["pods"], start=case["start"]).to_dict()


def follow_steps(cluster: kschedctl.Cluster, case: Json) -> Json:
    choices = [step.get("node") for step in case["want"]["steps"]]
    return kschedctl.follow(cluster, case["pods"], choices, case["retry"]).to_dict()


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize(("family", "ask"), [("sampling", sample_nodes), ("sequence", follow_steps)])
def test_steps(family: str, ask: Callable[[kschedctl.Cluster, Json], Json], share: int) -> None:
    cases = [json.loads(line) for line in iter_family_lines(f"over_time/{family}")[share::SHARES]]
    assert len(cases) == 30
    for case in cases:
        assert not find_differing_steps(ask, case), case["id"]


def find_differing_steps(ask: Callable[[kschedctl.Cluster, Json], Json], case: Json) -> list[Any]:
    """Return our value and kube-scheduler's of each step that differs, of the node order, or of the number of steps."""
    settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
    found = ask(kschedctl.Cluster.from_objects(case["objects"], **settings), case)
    nodes = len(found.get("nodeOrder", ()))
    pairs: list[Any] = [
        (found.get("nodeOrder"), case["want"].get("nodeOrder")),
        (len(found["steps"]), len(case["want"]["steps"])),
    ]
    for got, wanted in zip(found["steps"], case["want"]["steps"], strict=False):
        narrowed = wanted.get("searched", nodes) < nodes
        pairs.append((drop_empty_parts(got, narrowed), drop_empty_parts(wanted, narrowed)))
    return [pair for pair in pairs if pair[0] != pair[1]]


def drop_empty_parts(step: Json, narrowed: bool) -> Json:
    """Return the step without empty parts. Nodes that PreFilter names have no order."""
    unordered = (*SETS, *(["feasible"] if narrowed else []))
    found: dict[str, Any] = {key: value for key, value in step.items() if value not in (None, [], {}, "")}
    return {key: sorted(value) if key in unordered else value for key, value in found.items()}
