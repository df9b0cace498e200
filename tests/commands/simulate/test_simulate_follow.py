"""Check the answer, exit code, form and errors of `simulate --follow`."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from command_line import Json, Run, Write, build_node, build_pod

from kschedctl.commands.schema import build_schema
from kschedctl.commands.simulate.following_report import FollowedRollout


def build_event(name: str, node_name: str, second: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": name},
        "reason": "Scheduled",
        "message": f"Successfully assigned default/{name} to {node_name}",
        "eventTime": f"2026-01-01T00:00:0{second}.000000Z",
        "reportingComponent": "default-scheduler",
    }


@pytest.fixture
def state(write: Write) -> str:
    """Write a cluster in which ``a`` runs on the empty node and ``b`` went to the full one."""
    running = [
        build_pod("x", "4", uid="x", nodeName="full"),
        build_pod("a", uid="a", nodeName="empty"),
        build_pod("b", uid="b"),
    ]
    return write(build_node("empty"), build_node("full"), *running)


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = tmp_path / "events.json"
    items = [build_event("a", "empty", 1), build_event("b", "full", 2)]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_answer_about_a_real_rollout(run: Run, state: str, events: str) -> None:
    found = run("simulate", "--follow", events, "-f", state)
    assert found.code == 1
    assert found.out.splitlines()[0] == (
        "1 of 2 pods placed otherwise: 1 of 2 pods went to a node that the replay ranks among the best"
    )
    assert "rejected by NodeResourcesFit: Insufficient cpu" in found.out
    assert "its cache was stale" in found.out
    assert max(map(len, found.out.splitlines()[1:])) <= 110


def test_overlapping_bindings_are_the_likely_cause(run: Run, write: Write, tmp_path: Path) -> None:
    """``b`` fits on the node that ``a`` filled 300 ms before."""
    state = write(
        build_node("w1", "4"),
        build_node("w2", "4"),
        build_pod("a", "4", nodeName="w1"),
        build_pod("b", "4", nodeName="w1"),
    )
    path = tmp_path / "events.json"
    soon = {**build_event("b", "w1", 1), "eventTime": "2026-01-01T00:00:01.300000Z"}
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [build_event("a", "w1", 1), soon]}))
    out = run("simulate", "--follow", str(path), "-f", state).out
    assert "overlapping bindings could explain 1 of 1 pod placed otherwise" in out
    assert "as replayed if tried before default/a (w1, 300 ms before)" in out
    assert "its cache was stale" not in out


def test_document_of_a_real_rollout(run: Run, state: str, events: str) -> None:
    document = json.loads(run("simulate", "--follow", events, "-f", state, "-o", "json").out)
    jsonschema.validate(document, build_schema(FollowedRollout))
    assert [each["outcome"] for each in document["placements"]] == ["AsReplayed", "NotFeasible"]
    assert (document["kind"], document["agree"], document["otherwise"]) == ("FollowedRollout", 1, 1)


def test_answer_is_undecided_without_the_rest_of_the_cluster(run: Run, write: Write, events: str) -> None:
    state = write(
        build_node("empty"), build_node("full"), build_pod("a", uid="a"), build_pod("b", uid="b"), whole=False
    )
    found = run("simulate", "--follow", events, "-f", state)
    assert found.code == 5
    assert "(not certain: " in found.out.splitlines()[0]


@pytest.mark.parametrize("option", [["--pending"], ["--rollout"], ["--runs", "3"]])
def test_options_without_effect_are_errors(run: Run, state: str, events: str, option: list[str]) -> None:
    found = run("simulate", "--follow", events, "-f", state, *option)
    assert (found.code, "--follow repeats a real rollout" in found.err) == (2, True)


def test_files_without_events(run: Run, state: str) -> None:
    found = run("simulate", "--follow", state, "-f", state)
    assert (found.code, "no Scheduled event" in found.err) == (2, True)


def test_events_of_another_cluster_decide_nothing(run: Run, write: Write, events: str) -> None:
    found = run("simulate", "--follow", events, "-f", write(build_node("empty"), build_node("full")))
    assert (found.code, found.out.startswith("Nothing compared: 0 of 2 pods")) == (5, True)


def test_missing_pods_suggest_a_snapshot_from_before_the_events(run: Run, write: Write, events: str) -> None:
    found = run("simulate", "--follow", events, "-f", write(build_node("empty"), name="before.json"), "-o", "json")
    document = json.loads(found.out)
    told = [each for each in document["unknown"] if each["kind"] == "Pod"]
    assert (found.code, document["undecided"]) == (5, True)
    assert [each["why"] for each in told] == [
        "of the events are not in the cluster, 2 of 2: the cluster may have been read before the events"
    ]
    shown = run("simulate", "--follow", events, "-f", write(build_node("empty"), name="before.json")).out
    assert "Pods of the events are not in the cluster, 2 of 2" in " ".join(shown.split())
