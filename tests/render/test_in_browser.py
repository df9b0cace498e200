"""Check reports in Chromium: with mouse, keyboard and screen reader, on paper, and with hostile names."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from opened_reports import Opens, find_accessibility_problems
from playwright.sync_api import expect
from reports import HOSTILE, HOSTILE_PENDING, HOSTILE_REPORT, HOSTILE_ROOM, PENDING, SCHEDULABLE, UNSCHEDULABLE

from kschedctl.commands.audit.report import Audit, CreationSection
from kschedctl.commands.explain.report import Explanation, NodeReport, Refusal
from kschedctl.commands.remedies.report import Remedies
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.findings import Finding
from kschedctl.reports.placements import PodCount
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.summary import CostKind, FixCost

ALL = pytest.mark.parametrize(
    "document",
    [UNSCHEDULABLE, SCHEDULABLE, PENDING, HOSTILE_REPORT, HOSTILE_PENDING, HOSTILE_ROOM],
    ids=["unschedulable", "schedulable", "pending", "hostile", "hostile-pending", "hostile-room"],
)


def build_large_explanation(nodes: int) -> Explanation:
    """Build an explanation in which every third node fits with its own score and two reasons reject the others."""
    cpu, taint = Refusal("NodeResourcesFit", "Insufficient cpu", "too little"), Refusal("TaintToleration", "tainted")
    fit = [f"n{i}" for i in range(0, nodes, 3)]
    found = tuple(
        NodeReport(f"n{i}", f"z{i % 3}", "pool", True, (), i)
        if i % 3 == 0
        else NodeReport(f"n{i}", f"z{i % 3}", "pool", False, ((cpu,) if i % 3 == 1 else (taint,)))
        for i in range(nodes)
    )
    scores = {"NodeResourcesFit": {node: int(node[1:]) for node in fit}}
    totals = {node: int(node[1:]) for node in fit}
    return Explanation(
        "shop/web", "Schedulable", "fits", nodes=found, weighted=scores, score=scores, normalized=scores, total=totals,
        best=(fit[-1],), feasible=tuple(fit),
    )  # fmt: skip


def find_matrix(page: Any) -> Any:
    return page.get_by_role("region", name="Nodes and plugins")


@ALL
def test_page_is_accessible_and_fits_the_screen(document: Any, opened: Opens) -> None:
    assert find_accessibility_problems(opened(document)) == []


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        "<script>document.title = 'hacked'</script>",
        "</script><script>document.title = 'hacked'</script>",
        "\"'><img src=x onerror=\"document.title = 'hacked'\">",
        "{{ 7 * 7 }}{% raw %}",
        "<!--",
    ],
)
def test_names_are_text_everywhere(name: str, opened: Opens) -> None:
    node = NodeReport(name, name, name, False, (Refusal(name, name, name),))
    page = opened(
        Explanation(name, "Unschedulable", name, nodes=(node,), total={name: 3}, weighted={name: {name: 3}},
                    score={name: {name: 3}}, normalized={name: {name: 3}}, best=(name,))
    )  # fmt: skip
    find_matrix(page).get_by_role("checkbox").uncheck()
    assert "hacked" not in page.title().replace(name, "")
    assert page.locator("img, main script:not([type])").count() == 0
    shown = name.encode("unicode_escape").decode() if name == HOSTILE else name
    assert find_matrix(page).get_by_role("cell").nth(1).inner_text() == shown.replace("\\u202e", "\\u202e")


ADD = """source => {
  const made = document.createElement("script");
  made.textContent = source;
  document.body.append(made);
}"""


def test_content_policy_forbids_foreign_content(opened: Opens, complaints: list[str]) -> None:
    page = opened(UNSCHEDULABLE)
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    title = page.title()
    page.evaluate(ADD, "document.title = 'hacked'")
    assert page.title() == title
    [refused] = complaints
    assert "Content Security Policy" in refused
    complaints.clear()


def test_only_open_sections_are_laid_out(opened: Opens) -> None:
    page = opened(build_large_explanation(5000))
    grid = find_matrix(page)
    rows = grid.locator("tbody tr")
    assert rows.all_inner_texts() == [
        "pool: fits (1,667)",
        "pool: Insufficient cpu (1,667)",
        "pool: tainted (1,666)",
    ]
    grid.get_by_role("button", name="pool: tainted").click()
    expect(rows).to_have_count(3 + 50 + 1)
    grid.get_by_role("button", name="Show 200 more").click()
    expect(rows).to_have_count(3 + 250 + 1)
    assert grid.get_by_role("status").inner_text() == "5,000 rows"


def test_filter_and_sort(opened: Opens) -> None:
    page = opened(build_large_explanation(600))
    grid = find_matrix(page)
    grid.get_by_role("checkbox", name="Grouped by pool and answer").uncheck()
    names = grid.locator("tbody tr td:nth-child(2)")
    grid.get_by_role("button", name="total").click()
    assert names.all_inner_texts()[:3] == ["n597", "n594", "n591"]
    assert grid.get_by_role("columnheader", name="total").get_attribute("aria-sort") == "descending"
    grid.get_by_role("button", name="node", exact=True).click()
    assert names.all_inner_texts()[:4] == ["n0", "n1", "n2", "n3"]
    grid.get_by_role("searchbox").fill("n59 TAINTED")
    grid.get_by_text("5 of 600 rows").wait_for()
    assert names.all_inner_texts() == ["n59", "n590", "n593", "n596", "n599"]


def test_first_keyboard_stop_skips_to_the_answer(opened: Opens) -> None:
    page = opened(build_large_explanation(30))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the answer"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_keyboard_stops_at_scrollable_tables_only(opened: Opens) -> None:
    page = opened(UNSCHEDULABLE, viewport={"width": 1280, "height": 800})
    scrolled = page.locator(".scroll[tabindex]")
    expect(scrolled).to_have_count(0)
    page.set_viewport_size({"width": 700, "height": 800})
    wide = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth).length"
    )
    assert wide > 0
    expect(scrolled).to_have_count(wide)


def test_filter_has_a_label_and_announces_the_number_of_rows(opened: Opens) -> None:
    grid = find_matrix(opened(build_large_explanation(30)))
    grid.get_by_label("Filter rows").press_sequentially("tainted")
    grid.get_by_role("status").get_by_text("10 of 30 rows").wait_for()


def test_long_texts_are_cut_with_a_note(opened: Opens) -> None:
    page = opened(replace(UNSCHEDULABLE, message="<b>" * 350_000))
    assert page.get_by_text("… (1,045,000 characters more)").count() == 1


def test_report_works_with_the_keyboard_alone(opened: Opens) -> None:
    page = opened(build_large_explanation(30))
    button = find_matrix(page).get_by_role("button", name="pool: Insufficient cpu")
    for _ in range(60):
        page.keyboard.press("Tab")
        if button.evaluate("each => each === document.activeElement"):
            break
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert button.evaluate("each => each === document.activeElement")


def test_printed_page_has_no_buttons(opened: Opens) -> None:
    """It also has none of the boxes in table heads, with which Chromium prints a head on the first sheet only."""
    page = opened(build_large_explanation(30))
    head = find_matrix(page).locator("th button", has_text="zone")
    assert head.bounding_box() is not None
    page.emulate_media(media="print")
    assert head.bounding_box() is None
    assert not find_matrix(page).get_by_role("searchbox").is_visible()
    assert page.locator("h1").is_visible()


def test_first_rows_are_shown_without_scripts(opened: Opens) -> None:
    page = opened(build_large_explanation(300), java_script_enabled=False)
    assert find_matrix(page).locator("tbody tr").count() == 50
    assert "The first 50 of 300 rows." in find_matrix(page).inner_text()


def test_best_nodes_have_bars_of_their_scores(opened: Opens) -> None:
    drawing = opened(replace(build_large_explanation(9))).get_by_role(
        "img", name="Scores by plugin of 3 of 3 feasible nodes"
    )
    widths = [each.bounding_box()["width"] for each in drawing.locator("rect").all()]
    assert widths[0] == pytest.approx(2 * widths[1], abs=1)  # 6 and 3, and nothing for 0
    assert len(widths) == 2


def test_bars_and_their_numbers_fit_a_narrow_screen(opened: Opens) -> None:
    page = opened(replace(build_large_explanation(9)), viewport={"width": 390, "height": 700})
    drawing = page.get_by_role("img", name="Scores by plugin of 3 of 3 feasible nodes")
    room = drawing.bounding_box()
    assert room["x"] + room["width"] <= 390
    ends = [each.bounding_box() for each in drawing.locator("rect, text").all()]
    assert max(each["x"] + each["width"] for each in ends) <= room["x"] + room["width"]


REMEDIES = Remedies(
    "shop/web", "Unschedulable", "Insufficient cpu",
    remedies=(
        Remedy("Uncordon node n2", "operator", None, ("n2",), ("kubectl uncordon n2",), ()),
        Remedy(
            "Ask for less", "author", None, ("n1",), ("kubectl patch deployment web -p '{\"spec\": {}}'",), (),
            owner="Deployment shop/web", owner_patch={"spec": {"template": {"spec": {"nodeName": "</pre>"}}}},
        ),
    ),
)  # fmt: skip


@pytest.mark.parametrize("document", [REMEDIES, replace(UNSCHEDULABLE, remedies=REMEDIES.remedies)])
def test_commands_and_patches_are_copied_verbatim_by_keyboard(document: Any, opened: Opens) -> None:
    page = opened(document, permissions=["clipboard-read", "clipboard-write"])
    expected = [
        "kubectl uncordon n2",
        "kubectl patch deployment web -p '{\"spec\": {}}'",
        "spec:\n  template:\n    spec:\n      nodeName: </pre>",
    ]
    buttons = page.get_by_role("button", name="Copy").all()
    assert len(buttons) == len(expected)
    for number, text in enumerate(expected):
        page.get_by_role("button", name="Copy").first.focus()
        page.keyboard.press("Enter")
        page.locator("#live", has_text="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == text, number
        page.evaluate("document.activeElement.remove()")


def test_commands_to_try_can_be_copied(chromium: Any, tmp_path: Path) -> None:
    report = SimulationReport(seed=0, sampling=False, placed=0, unplaced=1)
    file = tmp_path / "report.html"
    file.write_text(RENDERERS["html"](report, Style(commands={"": ("kschedctl whatif '{}'",)})), "utf-8")
    page = chromium.new_page()
    page.goto(file.as_uri())
    assert page.locator(".command pre").inner_text() == "kschedctl whatif '{}'"
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    page.close()


def test_pods_of_zones_and_nodes_are_shown_before_and_after(opened: Opens) -> None:
    report = SimulationReport(
        seed=0, sampling=False, placed=3, unplaced=0,
        zones=(PodCount("a", 4, 5), PodCount("b", 0, 2)), nodes_changed=(PodCount("n2", 0, 2), PodCount("n1", 4, 5)),
    )  # fmt: skip
    page = opened(report)
    zones = page.get_by_role("img", name="Pods by zone, before and after")
    assert zones.locator("text").all_text_contents() == ["a", "4", "5", "b", "0", "2"]
    assert zones.locator("rect title").all_text_contents() == ["a: before 4", "a: after 5", "b: after 2"]
    nodes = page.get_by_role("img", name="Pods by node, before and after").locator("text").all_text_contents()
    assert nodes == ["n2", "0", "2", "n1", "4", "5"]


def test_room_runs_out_in_steps(opened: Opens) -> None:
    """Two nodes have room until two pods are placed, and one until three are.

    The line of the plot is level or upright.
    """
    drawing = opened(HOSTILE_ROOM).get_by_role("img", name="Nodes that take one more")
    path = drawing.locator("path.curve").get_attribute("d")
    points = [tuple(map(float, point.split())) for point in path.removeprefix("M").split("L")]
    assert [y for _, y in points] == sorted(y for _, y in points)
    assert all(x == a or y == b for (x, y), (a, b) in pairwise(points))
    assert len(points) == 5
    assert "nodes over new pods: nodes from 2 at 0 to 0 at 3" in drawing.locator("desc").text_content()


@pytest.mark.parametrize("width", [390, 1280])
def test_best_fix_with_its_drawback_is_on_the_first_screen(opened: Opens, width: int) -> None:
    costs = (FixCost(CostKind.EVICTS, "evicts shop/a"),)
    fix = Remedy("Delete shop/a", "operator", None, ("n1",), ("kubectl delete pod -n shop a",), (), costs=costs)
    page = opened(
        replace(build_large_explanation(12), verdict="Unschedulable", remedies=(fix,)),
        viewport={"width": width, "height": 844},
    )
    tile = page.locator(".tiles div", has_text="best fix")
    expect(tile).to_contain_text("Delete shop/a")
    expect(tile).to_contain_text("evicts shop/a")
    box = tile.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 844


def test_sound_sections_are_folded_and_links_unfold_them(opened: Opens) -> None:
    def section(name: str, severity: str = "note") -> CreationSection:
        finding = Finding(name, severity, f"Pod d/{name}", "", f"{name} is wrong", "", name)
        state = "sound" if severity == "note" else "findings"
        return CreationSection(title=name, headline=f"{name}: 1 found", state=state, findings=(finding,))

    names = ("one", "two", "three")
    sections = (*map(section, names), section("four", "warning"))
    page = opened(Audit(headline="Unsound", state="findings", sections=sections))
    expect(page.get_by_text("four is wrong")).to_be_visible()
    expect(page.locator("summary", has_text="four").get_by_text("1 warning")).to_be_visible()
    for name in names:
        expect(page.get_by_text(f"{name} is wrong")).not_to_be_visible()
        expect(page.locator("summary", has_text=name).get_by_text("ok", exact=True)).to_be_visible()
        expect(page.get_by_text(f"{name}: 1 found")).to_have_count(1)
    page.get_by_role("link", name="two").click()
    expect(page.get_by_text("two is wrong")).to_be_visible()
    expect(page.get_by_text("one is wrong")).not_to_be_visible()
