"""Check that the table of agreement in `kschedctl help versions` counts all golden cases."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from agreement import FEATURES, build_markdown_table
from golden_cases import FAMILIES, VERSIONS, iter_family_lines

VERSIONS_TOPIC = Path(__file__).parent.parent / "kschedctl/cli/topics/versions.md"


def test_table_counts_all_golden_cases() -> None:
    newest = sum(len(iter_family_lines(family)) for family in FAMILIES)
    older = [len(iter_family_lines(version)) for version in reversed(VERSIONS)]
    row = " | ".join(["| **all**", *(f"{number:,}" for number in (newest, *older))])
    assert f"{row} |\n" in VERSIONS_TOPIC.read_text()


def test_every_family_belongs_to_a_feature() -> None:
    assert {family for families in FEATURES.values() for family in families} == {*FAMILIES}


def test_differing_cases_are_counted() -> None:
    taints = {"1.36": Counter({True: 3}), "1.35": Counter({True: 1, False: 1})}
    table = {"taints": taints, "dra": {"1.36": Counter([True])}}
    assert build_markdown_table(table).splitlines() == [
        "| Area | 1.36 | 1.35 |",
        "| --- | --: | --: |",
        "| Taints and cordons | 3 | 1 of 2 |",
        "| Devices (DRA) | 1 | – |",
        "| **all** | 4 | 1 of 2 |",
    ]
