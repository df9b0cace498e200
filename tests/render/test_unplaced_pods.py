"""Check the table of pods without a node."""

from __future__ import annotations

from kschedctl.render.page import Style
from kschedctl.render.sections import build_unplaced_section
from kschedctl.render.terminal import render_text
from kschedctl.reports.placements import UnplacedPods


def build_group(number: int, cause: str = "") -> UnplacedPods:
    """Build a group of one pod of the StatefulSet with this number."""
    return UnplacedPods(
        f"StatefulSet db-{number}",
        verdict="Unschedulable",
        message="0/3 nodes are available: 3 Insufficient cpu.",
        pods=(f"shop/db-{number}-0",),
        cause=cause,
    )


def test_reason_of_many_workloads_is_one_row() -> None:
    groups = [build_group(number) for number in range(6)]
    groups.insert(2, build_group(9, cause="storage class fast is missing"))
    text = render_text(build_unplaced_section(groups, Style(width=100)), Style(width=100))
    assert text.count("3 lack CPU") == 2
    assert "6  6 workloads: StatefulSet db-0, StatefulSet db-1, StatefulSet db-2 and 3 more" in text
    assert "shop/db-0-0, shop/db-1-0, shop/db-2-0 and 3 more" in text
    assert "storage class fast is missing" in text


def test_reason_of_few_workloads_is_one_row_for_each() -> None:
    text = render_text(
        build_unplaced_section([build_group(number) for number in range(5)], Style(width=100)), Style(width=100)
    )
    assert text.count("3 lack CPU") == 5


def test_wide_style_lists_all_workloads() -> None:
    wide = Style(width=100, wide=True)
    text = render_text(build_unplaced_section([build_group(number) for number in range(6)], wide), wide)
    assert text.count("StatefulSet db-") == 6
