"""What the page of a report says, and in which order."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from msgspec.structs import replace
from reports import BINDING, GATED, PENDING, SCHEDULABLE, UNSCHEDULABLE

from kschedctl.cli.options import Format
from kschedctl.render.page import Style, shown_first
from kschedctl.render.renderers import PAGES, RENDERERS
from kschedctl.reports.explanation import Explanation, PreemptionReport


def text(report: object, **style: object) -> str:
    return RENDERERS["table"](report, Style(**{"width": 160, **style}))  # type: ignore[arg-type]


def section(shown: str, title: str) -> list[str]:
    """The lines under a heading."""
    lines = shown.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(title)) + 1
    return lines[start : lines.index("", start)]


def test_every_format_has_a_renderer() -> None:
    assert set(Format) <= set(RENDERERS)


def test_verdict_and_the_scheduler_s_message_come_first() -> None:
    first = text(UNSCHEDULABLE).split("\n")[0]
    assert first == f"shop/web Unschedulable: {UNSCHEDULABLE.message}"


def test_eliminations_count_nodes_and_name_the_nearest_miss() -> None:
    rows = section(text(UNSCHEDULABLE), "Why nodes are refused")
    assert rows[1].split() == [
        "3",
        "2",
        "NodeResourcesFit",
        "Insufficient",
        "cpu",
        "n3:",
        "cpu:",
        "2",
        "requested,",
        "1",
        "free",
        "of",
        "4",
    ]
    narrow = section(text(UNSCHEDULABLE, width=80), "Why nodes are refused")
    assert narrow[2].strip() == "nearest: n3: cpu: 2 requested, 1 free of 4"


def test_nodes_that_lack_least_come_first_and_all_refusals_are_told() -> None:
    rows = section(text(UNSCHEDULABLE), "Refused nodes")[1:]
    assert [row.split()[0] for row in rows] == ["n3", "n2", "n1", "n4"]
    assert "taint gpu:NoSchedule is not tolerated" in rows[2]
    assert rows[2].endswith("NodeResourcesFit")
    assert "zone-a/gpu" in rows[3]
    assert rows[3].endswith("TaintToleration")
    wide = section(text(UNSCHEDULABLE, wide=True), "All nodes")
    assert wide[3].endswith("NodeResourcesFit: cpu: 2 requested, 1 free of 4")


def test_preemption_shows_the_choice_its_reason_and_every_victim() -> None:
    rows = section(text(UNSCHEDULABLE), "Preemption")
    assert "on n3 by evicting 1 pod, decided by: fewest PodDisruptionBudgets violated" in rows[0]
    victims = [row.split() for row in rows[2:5]]
    assert victims[0][:3] == ["n3", "shop/older", "0"]
    assert victims[1] == ["n2", "shop/old", "1,000", "ReplicaSet/old", "2026-05-04T08:00:00Z", "shop/old-budget"]
    assert victims[2] == ["batch/job", "-5"]
    assert rows[5].strip() == "- 2 nodes: Preemption is not helpful for scheduling"


def test_preemption_that_may_not_happen_says_why() -> None:
    report = replace(
        UNSCHEDULABLE, preemption=PreemptionReport(True, False, "not eligible due to preemptionPolicy=Never.")
    )
    assert section(text(report), "Preemption") == ["not eligible due to preemptionPolicy=Never."]
    assert "Preemption" not in text(replace(UNSCHEDULABLE, preemption=None))


def test_tied_candidates_are_all_named() -> None:
    preemption = replace(UNSCHEDULABLE.preemption, tied=("n2", "n3"))
    shown = text(replace(UNSCHEDULABLE, preemption=preemption))
    assert "on one of 2 tied nodes by evicting 1 pod, picked at random: n2, n3" in shown


def test_scores_show_raw_and_weighted_and_the_ties() -> None:
    rows = section(text(SCHEDULABLE), "Scores of 3 feasible nodes")
    assert rows[3].split() == ["n1", "★", "350", "50", "→", "50"]
    assert rows[5].split() == ["n3", "310", "10", "→", "10"]
    assert "The same on these nodes: TaintToleration 300" in rows
    assert rows[-1] == "2 nodes are tied at the top, kube-scheduler picks one of them at random: n1, n2"
    wide = text(SCHEDULABLE, wide=True)
    assert "0 → 100 × 3" in wide


def test_scores_are_a_text_where_there_is_no_room_for_columns() -> None:
    rows = section(text(SCHEDULABLE, width=60), "Scores of 3 feasible nodes")
    assert [re.split("  +", row.strip()) for row in rows[:2]] == [
        ["NODE", "TOTAL", "SCORES"],
        ["n1", "★ 350", "NodeResourcesFit 50 → 50"],
    ]


def test_victims_on_a_narrow_terminal() -> None:
    rows = [row.strip() for row in section(text(UNSCHEDULABLE, width=80), "Preemption")]
    assert rows[2:8] == [
        "NODE  PRIORITY  VICTIM",
        "n3           0  shop/older",
        "n2       1,000  shop/old",
        "of ReplicaSet/old",
        "started 2026-05-04T08:00:00Z",
        "breaks PDB shop/old-budget",
    ]


def test_one_best_node_is_named() -> None:
    assert "kube-scheduler would choose n1" in text(replace(SCHEDULABLE, best=("n1",)))


def test_what_happened_before_any_node() -> None:
    rows = section(text(GATED), "Before any node")
    assert [row.split()[:2] for row in rows[1:]] == [
        ["PreEnqueue", "SchedulingGates"],
        ["PreFilter", "VolumeBinding"],
        ["PreFilter", "NodeAffinity"],
    ]
    assert rows[3].endswith("leaves only n0, n1, n2 and 7 more")
    assert "NodePorts" not in text(GATED)


def test_advice_and_what_was_left_out() -> None:
    shown = text(UNSCHEDULABLE)
    assert shown.endswith("What to do next\n  - Ask for less cpu\n")


@pytest.mark.parametrize("report", [UNSCHEDULABLE, PENDING], ids=["explanation", "pending"])
@pytest.mark.parametrize("form", ["table", "wide", "markdown"])
def test_what_is_not_replayed_has_a_line_of_its_own(report: object, form: str) -> None:
    left_out = replace(report, not_replayed=("plugin Custom", "extender https://x.example"))
    lines = [line.replace("`", "") for line in RENDERERS[form](left_out, Style()).split("\n")]
    assert lines.count("not replayed yet: plugin Custom") == 1
    assert lines.count("not replayed yet: extender https://x.example") == 1


def test_what_would_be_bound_on_the_best_nodes() -> None:
    rows = section(text(BINDING), "What would be bound")
    assert [re.split("  +", row.strip()) for row in rows[1:4]] == [
        ["n2", "shop/data", "volume pv-7"],
        ["shop/logs", "a new volume"],
        ["shop/gpu", "device gpu.example.com/n2/gpu-0 for r0: 40Gi of memory"],
    ]
    assert rows[4].split() == ["n0", "shop/data", "a", "new", "volume"]
    assert rows[-1].strip() == "… 1 more, --nodes shows all"
    assert len(section(text(BINDING, all_nodes=True), "What would be bound")) == len(rows)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_bare_report_is_one_paragraph(width: int) -> None:
    bare = Explanation(pod="shop/web", verdict="Error", headline="it failed")
    assert text(bare, width=width) == "shop/web Error: it failed\n"


def test_pending_pods_by_cause() -> None:
    rows = section(text(PENDING), "4 pods pending in all namespaces, 2 causes")
    assert rows[1].split(maxsplit=2)[:2] == ["3", "Unschedulable"]
    assert rows[1].endswith("3 Insufficient cpu  a/x, a/y, …")
    assert rows[2].endswith("c/w")
    assert text(PENDING).endswith("Next\n  kschedctl explain a/x\n")
    assert "a/x, a/y, b/z" in text(PENDING, wide=True)
    assert RENDERERS["name"](PENDING, Style()) == "a/x\na/y\nb/z\nc/w\n"
    assert RENDERERS["name"](UNSCHEDULABLE, Style()) == "shop/web\n"


def test_a_few_rows_more_are_not_left_out() -> None:
    assert shown_first(range(12), 10) == (tuple(range(12)), "")
    assert shown_first(range(1013), 10) == (tuple(range(10)), "… 1,003 more, --nodes shows all")
    assert shown_first(range(1013), None) == (tuple(range(1013)), "")


@pytest.mark.parametrize("page", PAGES.values())
def test_every_page_is_where_the_table_says(page: str) -> None:
    module, _, function = page.partition(":")
    assert callable(getattr(import_module(f"kschedctl.render.{module}"), function))
