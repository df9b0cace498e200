"""Check that the node tables of many pods are unpacked on demand and equal the report's."""

from __future__ import annotations

import random
from typing import Any

from msgspec.structs import replace
from opened_reports import Opens, find_accessibility_problems
from playwright.sync_api import expect
from reports import HOSTILE, PENDING, UNSCHEDULABLE

from kschedctl.commands.explain import html_widgets as matrix
from kschedctl.commands.explain.pending_report import ExplainedPods, PendingGroup, PendingPods
from kschedctl.commands.explain.report import Explanation, Explanations, NodeReport, Refusal
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

TITLE = "Nodes and plugins, for each pod"


def build_explanation(pod: str, nodes: int, seed: int) -> Explanation:
    """Build an explanation in which some nodes fit with different scores and the others lack different CPU."""
    chance = random.Random(seed)
    found, scores = [], {}
    for i in range(nodes):
        name = f"n{i:04}"
        if chance.random() < 0.5:
            scores[name] = chance.randrange(1000)
            found.append(NodeReport(name, f"z{i % 3}", f"pool-{i % 4}", True, (), scores[name]))
        else:
            fact = f"cpu: {seed + 2} requested, {chance.randrange(1000)}m free of 4"
            short = Refusal("NodeResourcesFit", "Insufficient cpu", fact)
            found.append(NodeReport(name, f"z{i % 3}", f"pool-{i % 4}", False, (short,)))
    chance.shuffle(found)
    best = tuple(name for name, score in scores.items() if score == max(scores.values()))
    return Explanation(
        pod, "Schedulable", f"pod of seed {seed}", nodes=tuple(found), weighted={"ImageLocality": scores},
        total=scores, best=best,
    )  # fmt: skip


def list_matrix_rows(page: Any, pod: str, nodes: int) -> list[list[str]]:
    """Return all rows of a pod's matrix, unfolded one below the other."""
    details = page.get_by_role("region", name=TITLE).locator("details", has_text=pod)
    details.locator("summary").click()
    details.get_by_role("checkbox").uncheck()
    rows = details.locator("tbody tr")
    expect(rows).to_have_count(nodes)
    return rows.evaluate_all("rows => rows.map(row => [...row.querySelectorAll('td')].slice(1).map(x => x.innerText))")


def test_each_pod_has_a_matrix_that_equals_the_report(opened: Opens) -> None:
    reports = (build_explanation("a/x", 40, 1), build_explanation("a/y", 40, 2))
    page = opened(Explanations(reports))
    for report in reports:
        shown = {row[0]: row[1:] for row in list_matrix_rows(page, report.pod, 40)}
        assert len(shown) == 40
        for node in report.nodes:
            star = "★ " if node.name in report.best else ""
            score = [f"{star}{node.total}", "", f"{node.total}"] if node.feasible else ["", "rejects", ""]
            why = "".join(refusal.fact for refusal in node.refusals)
            columns = score if node.feasible else ["", "rejects", ""]
            assert shown[node.name] == [node.zone, why, *columns], node.name


def test_matrices_are_unpacked_when_opened(opened: Opens) -> None:
    page = opened(Explanations((build_explanation("a/x", 40, 1),)))
    assert page.locator("details table").is_hidden()
    assert page.locator("details tbody tr").count() == 0
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="pool-0: fits").wait_for()


def test_equal_pods_share_a_matrix(opened: Opens) -> None:
    same = build_explanation("a/x", 5, 1)
    other = replace(same, headline="another answer")
    page = opened(Explanations((same, replace(same, pod="a/y"), replace(same, pod="a/z"), other)))
    assert page.locator("summary").all_inner_texts() == [
        "a/x and 2 more like it Schedulable pod of seed 1",
        "a/x Schedulable another answer",
    ]


def report_pending_pods(explained: tuple[ExplainedPods, ...], more: int) -> PendingPods:
    pods = tuple(pod for each in explained for pod in each.pods) + tuple(f"b/{i}" for i in range(more))
    return replace(PENDING, groups=(PendingGroup("Unschedulable", "cpu", None, pods),), explained=explained)


def test_pending_pods_that_were_not_explained_in_full_are_counted(opened: Opens) -> None:
    explained = ExplainedPods(("a/x", "a/y"), build_explanation("a/x", 5, 1))
    page = opened(report_pending_pods((explained,), 3))
    assert page.locator("summary").all_inner_texts() == ["a/x and 1 more like it Schedulable pod of seed 1"]
    assert page.get_by_text("Left out to keep this file small: the nodes of 3 more pods.").count() == 1
    page = opened(report_pending_pods((explained,), 0))
    assert page.get_by_text("Left out to keep this file small").count() == 0


def test_matrices_beyond_the_size_limit_are_counted(monkeypatch: Any, opened: Opens) -> None:
    reports = tuple(build_explanation(f"a/{i}", 200, i) for i in range(4))
    sizes = [len(each) for each in opened(Explanations(reports)).locator("details script").all_text_contents()]
    monkeypatch.setattr(matrix, "MAX_PACKED_BYTES", sum(sizes[:2]) + min(sizes) // 2)
    page = opened(Explanations(reports))
    assert page.locator("summary").count() == 2
    assert page.get_by_text("the nodes of 2 more pods").count() == 1


def test_a_hundred_pods_on_5000_nodes_are_less_than_8_mb_and_open_within_2_s(opened_file: Opens) -> None:
    explained = tuple(ExplainedPods((f"a/{i}",), build_explanation(f"a/{i}", 5000, i)) for i in range(20))
    text = RENDERERS["html"](report_pending_pods(explained, 0), Style())
    assert 5 * len(text.encode()) < 8_000_000
    page = opened_file(text)
    assert page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") < 2000
    cells_of_one = page.locator("details").nth(7)
    cells_of_one.locator("summary").click()
    cells_of_one.get_by_label("Filter rows").press_sequentially("pool-3 n49", delay=60)
    cells_of_one.get_by_role("status").get_by_text("25 of 5,000 rows").wait_for()


def test_open_matrix_is_accessible_and_fits_the_page(opened: Opens) -> None:
    page = opened(Explanations((UNSCHEDULABLE, build_explanation("a/x", 40, 1))))
    list_matrix_rows(page, "a/x", 40)
    assert find_accessibility_problems(page) == []


def test_names_in_matrices_are_text(opened: Opens) -> None:
    name = "</script><img src=x onerror=\"document.title = 'hacked'\">" + HOSTILE
    node = NodeReport(name, name, name, False, (Refusal(name, name, name),))
    page = opened(Explanations((Explanation(name, "Unschedulable", name, nodes=(node,)),)))
    [row] = list_matrix_rows(page, "onerror", 1)
    assert page.locator("img").count() == 0
    assert row[0].startswith("</script><img src=x onerror=")
    assert row[0].endswith("nnew\\tline\\x07")
