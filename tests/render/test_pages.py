"""Check the texts of a report's page and their order."""

from __future__ import annotations

import json
import re
from importlib import import_module

import pytest
from msgspec.structs import replace
from reports import BINDING, GATED, PENDING, SCHEDULABLE, TAINT, UNSCHEDULABLE

from kschedctl.commands.explain.pending_report import ExplainedPods
from kschedctl.commands.explain.report import Advice, Explanation, NodeGroup, PreemptionReport, Refusal
from kschedctl.commands.whatif.report import PodChange, WhatIf
from kschedctl.render.page import Style, limit_rows
from kschedctl.render.renderers import PAGES, RENDERERS


def render_page(report: object, **style: object) -> str:
    return RENDERERS["table"](report, Style(**{"width": 160, **style}))  # type: ignore[arg-type]


def list_section_lines(shown: str, title: str) -> list[str]:
    """Return the lines below a heading."""
    lines = shown.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(title)) + 1
    return lines[start : lines.index("", start)]


def test_answer_is_followed_by_the_schedulers_words() -> None:
    first, *others = render_page(UNSCHEDULABLE).split("\n\n")[0].split("\n")
    assert first == f"shop/web Unschedulable, would preempt 1 pod on n3: {UNSCHEDULABLE.headline}"
    assert others[-1] == f"kube-scheduler: {UNSCHEDULABLE.message}"
    same = replace(UNSCHEDULABLE, headline=UNSCHEDULABLE.message)
    assert render_page(same).count(UNSCHEDULABLE.message or "?") == 1


def test_reasons_count_nodes_and_nodes_rejected_only_by_them() -> None:
    for width in (80, 160):
        rows = [
            re.split("  +", row.strip())
            for row in list_section_lines(render_page(UNSCHEDULABLE, width=width), "Why nodes are rejected")
        ]
        assert rows[1:3] == [
            ["3", "2", "NodeResourcesFit", "Insufficient cpu"],
            ["1", "0", "TaintToleration", "node(s) had untolerated taint(s)"],
        ]
        legend = " ".join(" ".join(row) for row in rows[3:])
        assert (
            legend == "Each node is counted under the first plugin that rejects it, once per reason. "
            "NO OTHER REASON: those of the nodes that nothing else would reject"
        )


def test_nodes_rejected_for_the_same_reasons_are_one_row() -> None:
    """The row has their number, pools, two names, and the obstacles of the first node."""
    rows = [re.split("  +", row.strip()) for row in list_section_lines(render_page(UNSCHEDULABLE), "Rejected nodes")]
    assert rows[1] == ["2", "general", "n3, n2", "NodeResourcesFit", "n3: cpu: 2 requested, 1 free of 4"]
    assert rows[2][:4] == ["2", "gpu", "n1, n4", "TaintToleration"]
    assert rows[2][4:] == ["n1: taint gpu:NoSchedule is not tolerated", "NodeResourcesFit"]
    narrow = list_section_lines(render_page(UNSCHEDULABLE, width=80), "Rejected nodes")
    assert [row.split() for row in narrow[3:4]] == [["2", "gpu", "TaintToleration"]]
    narrow_text = " ".join(" ".join(narrow[4:]).split())
    assert narrow_text.startswith(
        "n1, n4 n1: taint gpu:NoSchedule is not tolerated (NodeResourcesFit would also reject"
    )


def test_matrices_count_only_newly_pending_pods() -> None:
    """Three of four pods count: one is explained, and the fourth has moved.

    ``explain`` knows nothing about assumed changes.
    """
    waiting = [PodChange(f"a/{name}", "Pod a", "NewlyPending", "n1") for name in "xyz"]
    changes = (*waiting, PodChange("a/w", "Pod a", "Moved", "n1", "n2"))
    explained = (ExplainedPods(("a/x",), UNSCHEDULABLE),)
    shown = RENDERERS["html"](WhatIf("", 0, (0, 3), changes=changes, explained=explained), Style())
    assert isinstance(shown, str)
    assert "of each newly pending pod</h2>" in shown
    assert "the nodes of 2 more pods.</p>" in shown


def test_reason_for_unexamined_nodes_is_shown_once() -> None:
    absent = Refusal("", "pod has unbound immediate PersistentVolumeClaims", "claim shop/data is not bound")
    shown = render_page(replace(UNSCHEDULABLE, groups=(NodeGroup(9, ("general",), ("n1", "n2"), (absent, TAINT)),)))
    header, row = list_section_lines(shown, "No node was evaluated: PreFilter already ruled all of them out")
    assert re.split("  +", header.strip()) == ["NODES", "POOL", "EXAMPLES", "WOULD ALSO BE REJECTED BY"]
    assert re.split("  +", row.strip()) == ["9", "general", "n1, n2, …", "TaintToleration"]


def test_each_node_has_all_its_rejections() -> None:
    for style in ({"all_nodes": True}, {"wide": True}):
        rows = list_section_lines(render_page(UNSCHEDULABLE, **style), "All nodes")[1:]
        assert [row.split()[0] for row in rows] == ["n3", "n2", "n1", "n4"]
        assert "taint gpu:NoSchedule is not tolerated" in rows[2]
        assert "zone-a/gpu" in rows[3]
    assert rows[2].endswith("NodeResourcesFit: cpu: 2 requested, 1 free of 4")


def test_preemption_shows_the_choice_its_reason_and_every_victim() -> None:
    rows = list_section_lines(render_page(UNSCHEDULABLE), "Preemption")
    assert "on n3 by evicting 1 pod, decided by: fewest PodDisruptionBudgets violated" in rows[0]
    victims = [row.split() for row in rows[2:5]]
    assert victims[0][:3] == ["n3", "shop/older", "0"]
    assert victims[1] == ["n2", "shop/old", "1,000", "ReplicaSet/old", "2026-05-04T08:00:00Z", "shop/old-budget"]
    assert victims[2] == ["batch/job", "-5"]
    assert rows[5].strip() == "- 2 nodes: Preemption is not helpful for scheduling"


def test_forbidden_preemption_has_a_reason() -> None:
    report = replace(
        UNSCHEDULABLE, preemption=PreemptionReport(True, False, "not eligible due to preemptionPolicy=Never.")
    )
    assert list_section_lines(render_page(report), "Preemption") == ["not eligible due to preemptionPolicy=Never."]
    assert "Preemption" not in render_page(replace(UNSCHEDULABLE, preemption=None))


def test_tied_candidates_are_all_named() -> None:
    preemption = replace(UNSCHEDULABLE.preemption, tied=("n2", "n3"))
    shown = render_page(replace(UNSCHEDULABLE, preemption=preemption))
    assert "on one of 2 equally good nodes by evicting 1 pod, picked at random: n2, n3" in shown


def test_scores_show_raw_and_weighted_and_the_ties() -> None:
    rows = list_section_lines(render_page(SCHEDULABLE), "Scores of 3 feasible nodes")
    assert rows[3].split() == ["n1", "★", "350", "50", "→", "50"]
    assert rows[5].split() == ["n3", "310", "10", "→", "10"]
    assert "Equal on all these nodes: TaintToleration 300" in rows
    assert rows[-1] == "2 nodes are tied for the best score; kube-scheduler picks one of them at random: n1, n2"
    wide = render_page(SCHEDULABLE, wide=True)
    assert "0 → 100 × 3" in wide


def test_scores_are_a_text_if_columns_do_not_fit() -> None:
    rows = list_section_lines(render_page(SCHEDULABLE, width=60), "Scores of 3 feasible nodes")
    assert [re.split("  +", row.strip()) for row in rows[:2]] == [
        ["NODE", "TOTAL", "SCORES"],
        ["n1", "★ 350", "NodeResourcesFit 50 → 50"],
    ]


def test_victims_on_a_narrow_terminal() -> None:
    rows = [row.strip() for row in list_section_lines(render_page(UNSCHEDULABLE, width=80), "Preemption")]
    assert rows[2:8] == [
        "NODE  PRIORITY  VICTIM",
        "n3           0  shop/older",
        "n2       1,000  shop/old",
        "of ReplicaSet/old",
        "started 2026-05-04T08:00:00Z",
        "breaks PDB shop/old-budget",
    ]


def test_single_best_node_is_named() -> None:
    assert "kube-scheduler would choose n1" in render_page(replace(SCHEDULABLE, best=("n1",)))


def test_rejections_before_any_node_was_examined() -> None:
    rows = list_section_lines(render_page(GATED), "Before any node")
    assert [row.split()[:2] for row in rows[1:]] == [
        ["PreFilter", "VolumeBinding"],
        ["PreFilter", "NodeAffinity"],
    ]
    assert rows[2].endswith("leaves only n0, n1, n2 and 7 more")
    assert render_page(GATED).count("waiting for scheduling gates") == 1  # in the first line already
    assert "NodePorts" not in render_page(GATED)


def test_advice_has_a_command_only_if_it_can_be_typed() -> None:
    advice = Advice("Uncordon", "Once n2 is uncordoned, the pod fits there", "n2")
    report = replace(UNSCHEDULABLE, advice=(advice,))
    assert "  - Once n2 is uncordoned, the pod fits there\n  kubectl uncordon n2\n\n" in render_page(report)
    shown = json.loads(RENDERERS["json"](report, Style()))
    assert shown["advice"] == [
        {"kind": "Uncordon", "text": "Once n2 is uncordoned, the pod fits there", "node": "n2", "claim": ""}
    ]


def test_advice_and_omissions() -> None:
    shown = render_page(UNSCHEDULABLE)
    assert "\nWhat to do next\n  - Ask for less cpu\n\n" in shown


@pytest.mark.parametrize("report", [UNSCHEDULABLE, PENDING], ids=["explanation", "pending"])
@pytest.mark.parametrize("form", ["table", "wide", "markdown"])
def test_unreplayed_rules_have_their_own_line(report: object, form: str) -> None:
    left_out = replace(report, not_replayed=("plugin Custom", "extender https://x.example"))
    lines = [line.replace("`", "") for line in RENDERERS[form](left_out, Style()).split("\n")]
    assert lines.count("Not replayed: plugin Custom") == 1
    assert lines.count("Not replayed: extender https://x.example") == 1


@pytest.mark.parametrize("report", [UNSCHEDULABLE, PENDING], ids=["explanation", "pending"])
@pytest.mark.parametrize("form", ["table", "wide", "markdown"])
def test_upstream_bugs_have_their_own_line(report: object, form: str) -> None:
    shown = RENDERERS[form](replace(report, upstream_faults=("it crashes",)), Style()).replace("`", "")
    assert shown.split("\n").count("kube-scheduler bug: it crashes") == 1


def test_victims_with_equal_alternatives() -> None:
    chosen = replace(UNSCHEDULABLE.preemption.candidates["n3"], ties=(("shop/older", "shop/same"),))
    other = replace(UNSCHEDULABLE.preemption.candidates["n2"], ties=(("shop/old", "batch/job"),))
    preemption = replace(UNSCHEDULABLE.preemption, candidates={"n2": other, "n3": chosen})
    rows = [
        row.strip()
        for row in list_section_lines(render_page(replace(UNSCHEDULABLE, preemption=preemption)), "Preemption")
    ]
    first = next(i for i, row in enumerate(rows) if row.startswith("- n3"))
    said = " ".join(rows[first:])
    memory = "have the same priority and start time; kube-scheduler takes them in an arbitrary order"
    assert f"n3: shop/older, shop/same {memory}, so it may evict pods other than shop/older" in said
    assert "n2: shop/old" not in said
    everything = render_page(replace(UNSCHEDULABLE, preemption=preemption), all_nodes=True)
    assert f"n2: shop/old, batch/job {memory}" in " ".join(everything.split())


def test_reservations_on_the_best_nodes() -> None:
    rows = list_section_lines(render_page(BINDING), "Volumes and devices that would be bound")
    assert [re.split("  +", row.strip()) for row in rows[1:4]] == [
        ["n2", "shop/data", "volume pv-7"],
        ["shop/logs", "a new volume"],
        ["shop/gpu", "device gpu.example.com/n2/gpu-0 for r0: 40Gi of memory"],
    ]
    assert rows[4].split() == ["n0", "shop/data", "a", "new", "volume"]
    assert rows[-1].strip() == "… 1 more, --each-node shows all"
    assert len(
        list_section_lines(render_page(BINDING, all_nodes=True), "Volumes and devices that would be bound")
    ) == len(rows)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_bare_report_is_one_paragraph(width: int) -> None:
    bare = Explanation(pod="shop/web", verdict="Error", headline="it failed")
    assert render_page(bare, width=width) == "shop/web Error: it failed\n"


def test_pending_pods_by_cause_begin_with_pods_age_and_workload() -> None:
    """Facts about a single pod are beside its name, since the figures of other pods may differ."""
    rows = [
        re.split("  +", row.strip())
        for row in list_section_lines(render_page(PENDING), "4 pods pending across all namespaces, 2 causes")
    ]
    assert rows == [
        ["PODS", "AGE", "WORKLOAD AND CAUSE"],
        ["3", "3d4h", "Deployment a/web, Pod b/z"],
        ["too little CPU is free (Insufficient cpu)"],
        ["a/x (all 3 nodes)"],
        ["b/z (n1, the only candidate node)"],
        ["1", "91m", "Job c/w"],
        ["Schedulable: on n1"],
    ]
    commands = {"": ("kschedctl explain a/x",), "a/x": ("kschedctl explain a/x",), "c/w": ("kschedctl explain c/w",)}
    next_section = "Next (explain one of these pods in detail)\n  kschedctl explain a/x\n"
    assert render_page(PENDING, commands=commands).endswith(next_section)
    assert "in detail" not in render_page(PENDING)
    shown = render_page(PENDING, wide=True, commands=commands)
    wide = [re.split("  +", row.strip()) for row in list_section_lines(shown, "4 pods pending")]
    assert shown.endswith("Next\n  kschedctl explain a/x\n  kschedctl explain c/w\n")
    assert wide[1][:5] == ["3", "3d4h", "a/x", "Deployment a/web", "Unschedulable"]
    assert wide[3] == ["5m", "b/z", "Pod b/z", "Unschedulable", "Insufficient cpu (n1, the only candidate node)"]
    assert RENDERERS["name"](PENDING, Style()) == "a/x\na/y\nb/z\nc/w\n"
    assert RENDERERS["name"](UNSCHEDULABLE, Style()) == "shop/web\n"


def test_a_few_additional_rows_are_shown() -> None:
    assert limit_rows(range(12), 10) == (tuple(range(12)), "")
    assert limit_rows(range(1013), 10) == (tuple(range(10)), "… 1,003 more, --each-node shows all")
    assert limit_rows(range(1013), None) == (tuple(range(1013)), "")


@pytest.mark.parametrize("page", PAGES.values())
def test_every_page_is_registered(page: str) -> None:
    module, _, function = page.partition(":")
    assert callable(getattr(import_module(f"kschedctl.{module}"), function))


def test_names_in_commands_are_quoted_for_shells() -> None:
    advice = (
        Advice("LookAtNode", "Look at it", "n2; rm -rf /"),
        Advice("LookAtClaim", "Look at the claim", claim="data; reboot"),
        Advice("LookAtClaim", "No claim is there"),
    )
    assert list_section_lines(render_page(replace(UNSCHEDULABLE, advice=advice)), "What to do next") == [
        "  - Look at it",
        "  kubectl describe node 'n2; rm -rf /'",
        "  - Look at the claim",
        "  kubectl describe pvc -n shop 'data; reboot'",
        "  - No claim is there",
        "  kubectl get pvc -n shop",
    ]


def test_victims_of_preemption_are_named_once() -> None:
    advice = (Advice("AwaitPreemption", "Preemption would make room on n3 by evicting 1 pod", "n3"),)
    shown = render_page(replace(UNSCHEDULABLE, advice=advice))
    assert "make room on n3" in shown
    assert "What to do next" not in shown
