"""Check ``kschedctl priorities``."""

from __future__ import annotations

import json

import pytest

import kschedctl
from kschedctl.cli.main import main


def test_first_line_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["priorities", "--demo", "--grow", "1"]) == 1
    first_paragraph = capsys.readouterr().out.partition("\n\n")[0]
    first_lines = " ".join(first_paragraph.split())
    assert first_lines.startswith("4 tiers; ")
    sample = "shop/payments-7c5d98b6f4-5g8nb (PriorityClass shop-critical)"
    assert f"If 1 more pod like {sample} arrived, it would get a node" in first_lines


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--grow", "-1"], "--grow -1: must be a number of pods"),
        (["--tier", "nope"], 'no pod has priority "nope"'),
        (["--starving-after", "soon"], '--starving-after: "soon" is not a duration'),
        (["--now", "today"], "--now"),
    ],
)
def test_contradictory_options_are_errors_of_one_line(
    options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["priorities", "--demo", *options]) == 2
    told = capsys.readouterr().err
    assert expected in told
    assert told.count("\n") == 1


def test_audit_has_the_same_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["priorities", "--demo", "-o", "json"]) == 1
    alone = json.loads(capsys.readouterr().out)
    assert main(["audit", "--demo", "--section", "priorities", "-o", "json"]) == 1
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert {**alone, "toolVersion": ""} == {**section, "toolVersion": ""}


def test_no_pod_starves_in_files_of_unknown_time() -> None:
    """Files do not say when the cluster was read, so the age of their pods is unknown."""
    big = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}],
        "priority": 10,
        "preemptionPolicy": "Never",
    }
    small = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priority": 0, "nodeName": "n1"}
    created = {"creationTimestamp": "2026-01-01T00:00:00Z", "namespace": "shop"}
    cluster = kschedctl.Cluster.from_objects(
        [
            {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}},
            {"kind": "Pod", "metadata": {"name": "big", **created}, "spec": big},
            {"kind": "Pod", "metadata": {"name": "small", **created}, "spec": small},
        ]
    )
    section = kschedctl.priorities(cluster)
    assert section.starving == ()
    assert "Age" in {unknown.kind for unknown in section.unknown}
    assert [starving.tier for starving in kschedctl.priorities(cluster, now="2026-01-02T00:00:00Z").starving] == ["10"]
