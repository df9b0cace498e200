"""Check the tiles at the top of HTML reports: what they may claim, and what they must mention."""

from __future__ import annotations

from kschedctl.commands.audit.report import Audit, CreationSection
from kschedctl.commands.explain.report import Explanation, NodeReport
from kschedctl.render.html.document import Tile, build_tiles
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.findings import Finding
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.summary import CostKind, FixCost


def build_section(*not_replayed: str) -> CreationSection:
    return CreationSection(title="Creation", headline="fine", state="sound", not_replayed=not_replayed)


def test_audit_tiles_have_each_limit_once() -> None:
    audit = Audit(
        headline="Sound", state="sound", sections=(build_section("webhooks"), build_section("webhooks", "quotas"))
    )
    certainty = build_tiles(audit)[-1]
    assert certainty == Tile("certainty", "with caveats", "warning", "not replayed: webhooks; not replayed: quotas")


def test_nothing_is_limited_if_no_section_is() -> None:
    audit = Audit(headline="Sound", state="sound", sections=(build_section(),))
    assert build_tiles(audit)[-1].tone == "good"


def test_sections_that_were_not_judged_are_gaps() -> None:
    judged, not_judged = build_section(), CreationSection(title="C", headline="", state="sound", nothing_judged=True)
    audit = Audit(headline="Sound", state="sound", sections=(judged, not_judged), not_asked={"latency": "--metrics"})
    detail = f"not judged: {not_judged.name}; not audited: latency"
    assert build_tiles(audit)[-1] == Tile("certainty", "with gaps", "plain", detail)


def test_warnings_are_no_errors() -> None:
    """The answer of an audit is orange if its gravest findings are warnings, as in the table below."""
    warning = Finding("audit-packing-removable", "warning", "packing", "Pool a", "1 node is empty", "Remove it", "f")
    unsound = CreationSection(title="C", headline="1 finding", state="findings", findings=(warning,))
    for document in (unsound, Audit(headline="Unsound", state="findings", sections=(unsound,))):
        assert 'class="answer warning"' in RENDERERS["html"](document, Style())


def test_fix_whose_room_others_take_says_so() -> None:
    costs = (FixCost(CostKind.EVICTS, "evicts shop/a"),)
    fix = Remedy("Delete shop/a", "operator", None, ("n1",), (), (), costs=costs, rivals=("shop/first",))
    node = NodeReport("n1", "", "", False)
    tiles = build_tiles(Explanation("shop/b", "Unschedulable", "", nodes=(node,), remedies=(fix,)))
    (best,) = [tile for tile in tiles if tile.label == "not enough"]
    assert "shop/first" in best.detail
    assert "evicts shop/a" in best.detail


def test_no_tiles_without_nodes() -> None:
    assert build_tiles(Explanation("shop/b", "Unschedulable", "")) == []
