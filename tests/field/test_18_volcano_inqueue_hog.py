"""A PodGroup of Volcano that waits behind one that fits nowhere (volcano-sh/volcano#2814)."""

from __future__ import annotations

from pathlib import Path

import pytest

import kschedctl
from kschedctl.cli.main import main

SITUATION = Path(__file__).parent / "18-volcano-inqueue-hog" / "in.yaml"
HEADLINE = (
    "waits for Volcano's queue ml: the group needs 1 nvidia.com/gpu, but 2 of the queue's 2 are in use by PodGroup "
    "ml/big (Inqueue), although no node is large enough for its pod ml/big-t-0, which requests 2 nvidia.com/gpu: the "
    "largest node has 1"
)


def test_group_that_blocks_the_queue_is_named() -> None:
    report = kschedctl.pending(kschedctl.Cluster.from_paths([SITUATION]))
    (small,) = report.waiting_elsewhere
    assert (small.resource, small.state, small.pods) == ("PodGroup ml/small", "NotAdmitted", 1)
    assert small.headline == HEADLINE
    assert [condition.message for condition in small.conditions] == ["queue resource quota insufficient"]
    assert "1 PodGroup not admitted" in str(report)


@pytest.mark.parametrize("words", [["job/small"], ["podgroup/small"], ["podgroup", "small"]])
def test_group_is_found_by_name(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *words, "-n", "ml", "-f", str(SITUATION)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith(f"PodGroup ml/small, of Job ml/small {HEADLINE}")
    assert "Unschedulable=True, NotEnoughResources: queue resource quota insufficient" in out


@pytest.mark.parametrize("command", [["explain", "-A"], ["audit", "--section", "pending"], ["simulate", "--pending"]])
def test_overviews_list_the_group(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "-f", str(SITUATION)]) == 1
    assert HEADLINE in " ".join(capsys.readouterr().out.split())


def test_group_is_explained_by_its_existing_pods(capsys: pytest.CaptureFixture[str]) -> None:
    main(["explain", "podgroup/big", "-n", "ml", "-f", str(SITUATION)])
    assert "2 Insufficient nvidia.com/gpu" in " ".join(capsys.readouterr().out.split())
