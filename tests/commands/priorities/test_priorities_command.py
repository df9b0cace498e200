"""Check ``kschedctl priorities``."""

from __future__ import annotations

import json

import pytest

from kschedctl.cli.main import main


def test_the_first_line_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["priorities", "--demo", "--grow", "1"]) == 1
    first_lines = " ".join(capsys.readouterr().out.splitlines()[:2])
    assert first_lines.startswith("4 tiers; ")
    assert "1 more pod of PriorityClass shop-critical would preempt" in first_lines


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--grow", "-1"], "--grow -1: must be a number of pods"),
        (["--tier", "nope"], 'no pod has priority "nope"'),
        (["--starving-after", "soon"], '--starving-after: "soon" is not a duration'),
        (["--now", "today"], "--now"),
    ],
)
def test_what_makes_no_sense_is_one_line(options: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["priorities", "--demo", *options]) == 2
    told = capsys.readouterr().err
    assert expected in told
    assert told.count("\n") == 1


def test_the_audit_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["priorities", "--demo", "-o", "json"]) == 1
    alone = json.loads(capsys.readouterr().out)
    assert main(["audit", "--demo", "--section", "priorities", "-o", "json"]) == 1
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert {**alone, "toolVersion": ""} == {**section, "toolVersion": ""}
