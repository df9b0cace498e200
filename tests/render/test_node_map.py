"""Check the map of nodes in HTML reports: cells, a legend that counts and filters, and rows that open."""

from __future__ import annotations

from collections import Counter

from opened_reports import Opens, find_accessibility_problems
from playwright.sync_api import expect

from kschedctl.commands.explain.html_widgets import COLOURS, OTHERS, build_node_map
from kschedctl.commands.explain.report import Explanation, NodeReport, Refusal

REASONS = ("Insufficient cpu", "node(s) had untolerated taint(s)", "node(s) were unschedulable")


def build_explanation(nodes: int, reasons: tuple[str, ...] = REASONS) -> Explanation:
    """Build an explanation with a node of each reason and one that fits, in two zones and pools of ten nodes."""
    found = tuple(
        NodeReport(
            f"n{i}", "ab"[i % 2], f"pool-{i // 10 % 3}", False, (Refusal("P", reasons[i % len(reasons)], f"fact {i}"),)
        )
        for i in range(1, nodes)
    )
    return Explanation(
        "d/p", "Schedulable", "fits", nodes=(NodeReport("n0", "a", "pool-0", True, (), 9), *found), best=("n0",)
    )


def test_map_counts_equal_a_naive_loop() -> None:
    made = build_node_map(build_explanation(100))
    expected = Counter("fits" if i == 0 else REASONS[i % 3] for i in range(100))
    assert {key.text: key.nodes for key in made.legend} == expected
    assert made.legend[0].text == "fits"
    cells = {name: made.legend[key].text for _, nodes in made.places for name, key in nodes}
    assert cells == {f"n{i}": "fits" if i == 0 else REASONS[i % 3] for i in range(100)}
    assert sorted(place for place, _ in made.places) == sorted(
        {f"pool-{i // 10 % 3} · {'ab'[i % 2]}" for i in range(100)}
    )


def test_more_reasons_than_colours_share_the_last() -> None:
    made = build_node_map(build_explanation(201, tuple(f"reason {i}" for i in range(20))))
    assert len(made.legend) == 1 + COLOURS
    assert made.legend[-1].text == OTHERS
    assert sum(key.nodes for key in made.legend) == 201


def test_legend_filters_and_a_cell_opens_its_row(opened: Opens) -> None:
    page = opened(build_explanation(60))
    cells = page.locator(".cell")
    expect(cells).to_have_count(60)
    page.get_by_role("button", name="Insufficient cpu").first.click()
    expect(page.locator(".cell:not(.dim)")).to_have_count(sum(i % 3 == 0 for i in range(1, 60)))
    page.locator(".cell[data-name=n7]").click()
    rows = page.get_by_role("region", name="Nodes and plugins").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("fact 7")
    page.get_by_role("button", name="Show all nodes").click()
    expect(rows).not_to_have_count(1)


def test_map_by_keyboard(opened: Opens) -> None:
    page = opened(build_explanation(12))
    page.locator(".cell").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Nodes and plugins").locator("tbody tr")).to_have_count(1)


def test_5000_nodes_fit_a_phone_screen(opened: Opens) -> None:
    page = opened(build_explanation(5_000))
    expect(page.locator(".cell")).to_have_count(5_000)
    assert find_accessibility_problems(page) == []
