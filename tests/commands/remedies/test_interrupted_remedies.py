"""Check that an interrupted search for fixes reports the fixes so far, marked as incomplete."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from command_line import Run, Write
from small import Json, build_node, build_pod, build_replica

import kschedctl
from kschedctl import Cluster
from kschedctl.commands.remedies import find_remedies_with_room
from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.fixes.search import RemedySearch
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.scheduler import Scheduler

TEAM = {"key": "team", "value": "yes", "effect": "NoSchedule"}


class Interrupting:
    """Press Ctrl-C once a computation with a title has finished so many parts."""

    def __init__(self, title: str, parts: int) -> None:
        self.title, self.remaining = title, parts

    def begin(self, title: str, total: int) -> Callable[[int], None]:
        return self.done if title == self.title else lambda number: None

    def done(self, number: int) -> None:
        self.remaining -= number
        if number and not self.remaining:
            raise KeyboardInterrupt


NODES = [
    build_node("n1", taints=[TEAM]),
    build_node("n2", unschedulable=True),
    build_node("n3", cpu="2"),
    build_replica("r", "n3", "2"),
]


def interrupt_remedies(title: str, parts: int) -> tuple[Remedies, Remedies]:
    """Return the interrupted report about one of two waiting pods, and the whole report."""
    scheduler = Scheduler(Cluster.from_objects([*NODES, build_pod("a", cpu="3"), build_pod("b", cpu="3")]))
    asked = scheduler.cluster.pod("d", "a")
    assert asked is not None
    target = TargetPod(scheduler, scheduler.view.build_stored_pod(asked))
    report = find_remedies_with_room(target, progress=Interrupting(title, parts))
    return report, find_remedies_with_room(target)


def test_fixes_found_before_an_interruption_are_reported() -> None:
    for parts in range(1, 20):
        report, whole = interrupt_remedies("trying remedies", parts)
        if report.remedies:
            break
    assert (report.interrupted, whole.interrupted) == (True, False)
    assert 0 < len(report.remedies) < len(whole.remedies)
    assert {fix.summary for fix in report.remedies} <= {fix.summary for fix in whole.remedies}
    assert report.searched is not None
    assert not report.searched.complete
    assert all(fix.holds is None for fix in report.remedies)


def test_interrupted_checks_leave_fixes_unchecked() -> None:
    report, whole = interrupt_remedies("checking remedies", 1)
    assert report.interrupted
    assert {fix.summary for fix in report.remedies} == {fix.summary for fix in whole.remedies}
    assert any(fix.holds is not None for fix in whole.remedies)
    assert all(fix.holds is None for fix in report.remedies)


def interrupt_choice(title: str, parts: int) -> tuple[RemediesOfMany, RemediesOfMany]:
    """Return the interrupted report about pods that need two changes, and the whole report."""
    nodes = [build_node("n1", "a", "1", "1", taints=[TEAM]), build_node("n2", cpu="2", unschedulable=True)]
    nodes[0]["metadata"]["labels"]["edge"] = "true"
    lost = build_pod("lost", cpu="0", nodeSelector={"edge": "true", "pool": "p"})
    cluster = Cluster.from_objects([*nodes, build_pod("full", "n1"), *(build_replica(f"r{i}") for i in range(3)), lost])
    report = kschedctl.pending_remedies(cluster, progress=Interrupting(title, parts))
    return report, kschedctl.pending_remedies(cluster)


def test_changes_chosen_before_an_interruption_are_reported() -> None:
    _, whole = interrupt_choice("", 0)
    assert len(whole.chosen) > 1
    for parts in range(1, 20):
        report, _ = interrupt_choice("simulating remedies", parts)
        if report.chosen or not report.interrupted:
            break
    assert (report.interrupted, report.complete) == (True, False)
    assert [each.remedy.summary for each in report.chosen] == [whole.chosen[0].remedy.summary]
    assert 0 < report.cleared < whole.cleared


def test_nothing_is_chosen_if_the_search_is_interrupted() -> None:
    report, whole = interrupt_choice("searching remedies", 1)
    assert (report.interrupted, report.complete, report.chosen, report.cleared) == (True, False, (), 0)
    assert report.waiting == whole.waiting


@pytest.mark.parametrize("options", [["d/a"], ["-A"]])
def test_first_line_and_exit_code_of_an_interrupted_search(
    options: list[str], run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents: list[Json] = [*NODES, build_pod("a", cpu="3"), build_pod("b", cpu="3")]

    def interrupt(search: RemedySearch) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RemedySearch, "_search_all_sizes", interrupt)
    code, out, err = run("remedies", *options, "-f", write(*documents))
    assert (code, err) == (130, "")
    assert out.startswith("Interrupted: ")
    assert json.loads(run("remedies", *options, "-f", write(*documents), "-o", "json").out)["interrupted"]
