"""A Workload of Kueue whose two pod sets wait for quota (kubernetes-sigs/kueue#3909).

ClusterQueue cq has 8 GPUs of flavor multi and 16 of flavor single. Workload low reserves all of them. Workload high
needs 1 x 8 for its master and 2 x 8 for its workers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kschedctl
from kschedctl.cli.main import main

FOLDER = Path(__file__).parent / "19-kueue-podsets-sum"
HEADLINE = (
    "waits for quota in ClusterQueue cq: pod set master needs 8 nvidia.com/gpu, but flavor multi has 0 of 8 free and "
    "flavor single has 0 of 16 free; pod set worker needs 16 nvidia.com/gpu, but flavor multi has 0 of 8 free and "
    "flavor single has 0 of 16 free"
)
HOLDER = "Workload ai/low (priority 0) holds 8 nvidia.com/gpu of flavor multi and 16 nvidia.com/gpu of flavor single"


def test_pod_sets_flavors_quantities_and_the_holder_are_named() -> None:
    report = kschedctl.pending(kschedctl.Cluster.from_paths([FOLDER / "in.yaml"]))
    (high,) = report.waiting_elsewhere
    assert (high.resource, high.state, high.pods) == ("Workload ai/high", "NotAdmitted", 3)
    assert (high.headline, high.holders) == (HEADLINE, (HOLDER,))
    assert [condition.words for condition in high.conditions] == ["QuotaReserved=False, Pending: m"]
    assert str(report).startswith("1 Workload not admitted")


def test_suspended_job_is_reported_with_its_workload() -> None:
    report = kschedctl.pending(kschedctl.Cluster.from_paths([FOLDER / "in2.yaml"]))
    assert [(each.resource, each.part_of) for each in report.waiting_elsewhere] == [
        ("Workload ai/high", ("Job ai/high",))
    ]


@pytest.mark.parametrize(("words", "file"), [("workload/high", "in.yaml"), ("job/high", "in2.yaml")])
def test_workload_is_found_by_name(words: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", words, "-n", "ai", "-f", str(FOLDER / file)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert f"{HEADLINE} {HOLDER} This Workload is number 1 of 1 in ClusterQueue cq" in out
    assert "To admit this Workload, Kueue would preempt ai/low" in out
    assert "Kueue admits this Workload with flavors multi (pod set master) and single (pod set worker)" in out
    assert "kube-scheduler would then place 3 pods" in out
    assert "QuotaReserved=False, Pending: m" in out


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["explain", "-A"], 1),
        (["audit", "--section", "pending"], 1),
        (["simulate", "--pending"], 5),  # all pods are placed, if no other pods exist: Pods were not among the files
    ],
)
def test_overviews_list_the_workload(command: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "-f", str(FOLDER / "in.yaml")]) == code
    assert HEADLINE in " ".join(capsys.readouterr().out.split())


def test_admitted_workload_is_not_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "workload/low", "-n", "ai", "-f", str(FOLDER / "in.yaml")]) == 0
