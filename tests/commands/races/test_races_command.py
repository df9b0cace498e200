"""Check the first line, output forms and options of ``kschedctl races``."""

from __future__ import annotations

import csv
import json
from typing import Any

import jsonschema
import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.commands.audit.races import compare
from kschedctl.commands.audit.races.model import RaceCounts
from kschedctl.commands.schema import DOCUMENTS, build_schema

FEW = ("races", "--nodes", "20", "--rate", "5", "--pods-per-node", "4", "--duration", "2m")


def test_recommendation_comes_first(run: Run) -> None:
    code, out, err = run(*FEW, "--expiry", "10s", "--expiry", "never")
    assert (code, err) == (0, "")
    answer = " ".join(out.split())
    assert answer.startswith("Nothing to change: kube-scheduler has not expired assumed pods since 1.25. With ")
    assert "% of pods would be double-booked (20 nodes, 5 pods/s)" in answer


def test_equal_seeds_give_equal_documents(run: Run) -> None:
    texts = [run(*FEW, "--seed", seed, "-o", "json").out for seed in ("3", "3", "4")]
    assert texts[0] == texts[1] != texts[2]
    document = json.loads(texts[0])
    jsonschema.validate(document, build_schema(DOCUMENTS["races"]))
    assert [(r["expiry"], r["ttlSeconds"]) for r in document["results"]] == [
        ("30s", 30.0),
        ("120s", 120.0),
        ("300s", 300.0),
        ("adaptive", 30.0),
        ("never", None),
    ]


def test_table_by_size_and_rate(run: Run) -> None:
    sizes = ("--nodes", "40", "--rate", "2")
    out = run(*FEW, *sizes, "--expiry", "10s", "--expiry", "never", "--runs", "2").out
    rows = [line.split() for line in out.splitlines() if line.startswith("  ")]
    assert rows[0] == ["NODES", "PODS", "PER", "S", "10S", "NEVER"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:5]] == [
        ("20", "5", "0%"),
        ("20", "2", "0%"),
        ("40", "5", "0%"),
        ("40", "2", "0%"),
    ]
    assert "–" in rows[1][3]  # the range over the runs


def test_ctrl_c_prints_the_results_so_far(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user interrupts in the third of four runs, which is the first of the second size."""
    simulate, calls = compare._simulate_each_ttl, list[int]()

    def simulate_until_third(*arguments: Any) -> list[RaceCounts]:
        calls.append(1)
        if len(calls) % 3 == 0:
            raise KeyboardInterrupt
        return simulate(*arguments)

    monkeypatch.setattr(compare, "_simulate_each_ttl", simulate_until_third)
    options = ("--nodes", "40", "--runs", "2", "--expiry", "never")
    code, out, err = run(*FEW, *options)
    assert (code, err) == (130, "")
    assert out.splitlines()[0] == "Interrupted: the simulations so far"
    document = json.loads(run(*FEW, *options, "-o", "json").out)
    assert (document["interrupted"], [result["nodes"] for result in document["results"]]) == (True, [20])


@pytest.mark.parametrize("form", ["wide", "yaml", "markdown"])
def test_forms(run: Run, form: str) -> None:
    code, out, err = run(*FEW, "-o", form)
    assert (code, err) == (0, "")
    assert "adaptive" in out


def test_csv_has_a_row_for_each_size_rate_and_expiry(run: Run) -> None:
    rows = list(
        csv.DictReader(run(*FEW, "--rate", "1", "--expiry", "10s", "--expiry", "0", "-o", "csv").out.splitlines())
    )
    assert [(row["nodes"], row["pods per s"], row["expiry"], row["seconds"]) for row in rows] == [
        ("20", "5.0", "10s", "10.0"),
        ("20", "5.0", "never", ""),
        ("20", "1.0", "10s", "10.0"),
        ("20", "1.0", "never", ""),
    ]


def test_cluster_provides_missing_settings(run: Run, write: Write) -> None:
    file = write(*(build_node(f"n{i}") for i in range(3)), *(build_pod(f"p{i}", nodeName=f"n{i}") for i in range(3)))
    document = json.loads(run("races", "-f", file, "--rate", "2", "-o", "json").out)
    assert {result["nodes"] for result in document["results"]} == {3}
    assert document["assumptions"]["load"] == 0.25
    assert document["assumptions"]["podsPerNode"] == 4
    assert document["assumptions"]["fromCluster"] == [
        "number of nodes",
        "number of pods that fit on a node",
        "share of room in use",
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["--expiry", "soon"],
        ["--binding-latency", "normal:1s"],
        ["--informer-lag", "measured"],
        ["--nodes", "0"],
        ["--rate", "-1"],
        ["--load", "inf"],
        ["--instances", "0"],
        ["--runs", "0"],
        ["--seed", "-1"],
        ["--duration", "forever"],
        ["--duration", "9000h"],
        ["--duration", "0"],
        ["--nodes", "100000", "--pods-per-node", "10000"],
    ],
)
def test_wrong_usage(run: Run, options: list[str]) -> None:
    code, out, err = run("races", *options)
    assert (code, out) == (2, "")
    assert options[0] in err
    assert len(err.splitlines()) == 1
