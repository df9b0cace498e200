"""Check which nodes `--sampling` and `--start-index` select, what the answer says, and invalid values."""

from __future__ import annotations

import json

import pytest
from command_line import Run, Write, build_node, build_pod

NODES = 120


@pytest.fixture
def cluster(write: Write) -> str:
    """Write 120 nodes that all fit, of which 100 are enough."""
    return write(*(build_node(f"n{i:03}") for i in range(NODES)), build_pod("web", namespace="d"))


@pytest.mark.parametrize(("options", "start", "known"), [([], 0, False), (["--start-index", "30"], 30, True)])
def test_explain_searches_a_part_of_the_nodes(
    run: Run, cluster: str, options: list[str], start: int, known: bool
) -> None:
    found = run("explain", "d/web", "-f", cluster, "--sampling", *options, "-o", "json")
    document = json.loads(found.out)
    assert document["searched"] == {
        "start": {"index": start, "known": known},
        "nodes": NODES,
        "examined": 100,
        "found": 100,
        "next": (start + 100) % NODES,
    }
    looked_at = {f"n{(start + i) % NODES:03}" for i in range(100)}
    assert set(document["feasible"]) == set(document["best"]) == looked_at


def test_all_nodes_are_the_default(run: Run, cluster: str) -> None:
    document = json.loads(run("explain", "d/web", "-f", cluster, "-o", "json").out)
    assert (document["searched"], len(document["feasible"])) == (None, NODES)


@pytest.mark.parametrize("command", ["simulate", "explain"])
def test_unknown_start_index_is_reported(run: Run, cluster: str, command: str) -> None:
    asked = ["--pending"] if command == "simulate" else ["d/web"]
    told = run(command, *asked, "-f", cluster, "--sampling").out
    assert "the first search begins at node 0" in told
    assert "--start-index" in told
    told = run(command, *asked, "-f", cluster, "--sampling", "--start-index", "125").out
    assert "the first search begins at node 5" in told
    assert "--start-index" not in told


@pytest.mark.parametrize(
    ("options", "text"),
    [(["--start-index", "3"], "needs --sampling"), (["--sampling", "--start-index", "-1"], "0 or more")],
)
def test_invalid_start_indexes_are_errors(run: Run, cluster: str, options: list[str], text: str) -> None:
    found = run("explain", "d/web", "-f", cluster, *options)
    assert (found.code, text in found.err) == (2, True)
