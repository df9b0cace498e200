"""Check that the table of `kschedctl help fidelity` counts all golden cases, and that each comparison can fail.

Whether the cases agree is checked by the tests from which `fidelity.py` takes the comparisons.
"""

from __future__ import annotations

from itertools import islice

import pytest
from fidelity import TOPIC, Comparison, count_unreplayed_evictions, format_row, iter_comparisons

COMPARISONS = list(iter_comparisons())


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: f"{each.program}-{each.release}-{each.subject}")
def test_table_counts_all_golden_cases(comparison: Comparison) -> None:
    number = sum(1 for _ in comparison.cases())
    assert number > 0
    assert format_row(comparison, number, []) in TOPIC.read_text(), "run python tests/fidelity.py"


def test_topic_counts_the_cases_that_are_not_replayed() -> None:
    assert f"{count_unreplayed_evictions()} recorded cases of the descheduler are not replayed" in TOPIC.read_text()


@pytest.mark.parametrize("comparison", COMPARISONS, ids=lambda each: f"{each.program}-{each.release}-{each.subject}")
def test_case_with_the_answer_of_another_case_differs(comparison: Comparison) -> None:
    key = comparison.wanted
    cases = list(islice(comparison.cases(), 40))
    first = cases[0]
    other = next(case for case in cases if case[key] != first[key])
    exchanged = {**first, key: other[key]}
    exchanged.pop("want0192", None)
    exchanged.pop("variants", None)
    assert comparison.agrees(first)
    assert not comparison.agrees(exchanged)


def test_row_names_differing_cases() -> None:
    row = format_row(COMPARISONS[0], 12, ["taints-0003"])
    assert row.endswith("| 12 | 11 | 1: taints-0003 |\n")
