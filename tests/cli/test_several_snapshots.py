"""Check that a question about several snapshots gets the same answers as each snapshot alone, also with workers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest
from command_line import Run, Write
from commands.whatif.test_what_if_commands import build_deployment, build_node, build_running_pod

from kschedctl.commands.schema import DOCUMENTS, build_schema

QUESTIONS = ("simulate", "capacity", "drain", "failures", "whatif")


@pytest.fixture
def snapshots(run: Run, write: Write) -> dict[str, str]:
    """Save a roomy and a tight cluster to files."""
    clusters = {
        "roomy": [build_node("n1", "a"), build_node("n2", "b"), build_running_pod("r1", "n1")],
        "tight": [build_node("n1", "a"), build_node("n2", "b", cpu="1"), build_running_pod("r1", "n1", cpu="3")],
    }
    files = {}
    for name, objects in clusters.items():
        source = write(*objects, name=f"{name}.json")
        files[name] = source.replace(".json", ".ksnap")
        assert run("snapshot", "save", "-f", source, "-o", files[name]).code == 0
    return files


@pytest.fixture
def question(request: pytest.FixtureRequest, write: Write, tmp_path: Path) -> list[str]:
    manifest = ["-f", write(build_deployment(3), name="api.json")]
    scenario = tmp_path / "scenario.json"
    scenario.write_text(json.dumps({"steps": [{"drain": {"nodes": ["n1"]}}]}))
    asked = {"simulate": manifest, "capacity": [*manifest, "--max", "3"], "drain": ["n1"], "whatif": [str(scenario)]}
    return [request.param, *asked.get(request.param, [])]


@pytest.mark.parametrize("question", QUESTIONS, indirect=True)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_snapshot_gets_the_answer_that_it_gets_alone(
    run: Run, snapshots: dict[str, str], question: list[str], jobs: str
) -> None:
    both = [part for file in snapshots.values() for part in ("--snapshot", file)]
    found = run(*question, *both, "--jobs", jobs, "-o", "json")
    document = json.loads(found.out)
    jsonschema.validate(document, build_schema(DOCUMENTS["answers"]))
    assert (found.code, [answer["good"] for answer in document["answers"]]) == (1, [True, False])
    for answer, file in zip(document["answers"], snapshots.values(), strict=True):
        alone = run(*question, "--snapshot", file, "-o", "json")
        assert (answer["cluster"], answer["good"]) == (file, alone.code == 0)
        assert answer["document"] == json.loads(alone.out)


@pytest.mark.parametrize(
    ("question", "clause"),
    [
        ("simulate", "all pods are created and get a node"),
        ("capacity", "enough pods fit"),
        ("failures", "any zone can be lost without disruption"),
        ("whatif", "no pod becomes pending"),
    ],
    indirect=["question"],
)
def test_first_line_says_what_a_good_answer_is(
    run: Run, snapshots: dict[str, str], question: list[str], clause: str
) -> None:
    both = [part for file in snapshots.values() for part in ("--snapshot", file)]
    assert f"In 1 of 2 clusters, {clause}" in " ".join(run(*question, *both, "--brief").out.split())


def test_table_and_csv(run: Run, snapshots: dict[str, str]) -> None:
    both = [part for file in snapshots.values() for part in ("--snapshot", file)]
    lines = run("drain", "n1", *both, "-o", "wide").out.splitlines()
    assert lines[0] == "In 1 of 2 clusters, every evicted pod gets another node"
    assert [line.split()[1] for line in lines[2:4]] == ["yes", "no"]
    brief = run("drain", "n1", *both, "--brief").out
    assert [f"{file}: " in brief for file in snapshots.values()] == [True, True]
    assert "fits nowhere else" in " ".join(brief.split())
    rows = list(csv.DictReader(io.StringIO(run("drain", "n1", *both, "-o", "csv").out)))
    assert [(row["cluster"], row["pod"], row["to"]) for row in rows] == [
        (snapshots["roomy"], "d/r1", "n2"),
        (snapshots["tight"], "d/r1", ""),
    ]


def test_errors_name_the_snapshot(run: Run, snapshots: dict[str, str], write: Write) -> None:
    assert run("snapshot", "save", "-f", write(build_node("other", "a")), "-o", snapshots["tight"]).code == 0
    both = [part for file in snapshots.values() for part in ("--snapshot", file)]
    found = run("drain", "n1", *both)
    assert found.code == 2
    assert found.err.startswith(f"error: {snapshots['tight']}: ")


def test_other_commands_accept_only_one_snapshot(run: Run, snapshots: dict[str, str]) -> None:
    both = [part for file in snapshots.values() for part in ("--snapshot", file)]
    found = run("explain", *both)
    assert (found.code, found.err) == (
        2,
        "error: --snapshot: this command takes one cluster (pass only one snapshot)\n",
    )
