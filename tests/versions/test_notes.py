"""Check that each release note of a version has a row of the table, a gate, or a reason for neither."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kschedctl.commands.versions import iter_versioned_aspects
from kschedctl.scheduler.framework.feature_gates import ALL_GATE_STAGES, get_stage

NOTES = sorted(Path(__file__).parent.glob("notes-*.txt"))


def read_notes(path: Path) -> dict[str, str]:
    """Return our note on each pull request, by its number."""
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return dict(line.split(" ", 1) for line in lines)


@pytest.mark.parametrize("path", NOTES, ids=[path.stem for path in NOTES])
def test_every_noted_row_is_in_the_table(path: Path) -> None:
    told = {number for change in iter_versioned_aspects() for number in re.findall(r"#(\d+)", change.values.upstream)}
    assert [number for number, meaning in read_notes(path).items() if meaning == "row" and number not in told] == []


@pytest.mark.parametrize("path", NOTES, ids=[path.stem for path in NOTES])
def test_every_noted_gate_is_known(path: Path) -> None:
    minor = int(path.stem.rpartition(".")[2])
    gates = {meaning.removeprefix("gate ") for meaning in read_notes(path).values() if meaning.startswith("gate ")}
    assert [
        gate for gate in sorted(gates) if gate not in ALL_GATE_STAGES or get_stage(gate, minor).maturity == "pre-alpha"
    ] == []
