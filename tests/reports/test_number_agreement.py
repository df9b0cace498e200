"""Check that verbs agree in number in first lines that count pods."""

from __future__ import annotations

import pytest

from kschedctl.commands.remedies.report import RemediesOfMany
from kschedctl.text.counts import agreeing


@pytest.mark.parametrize(
    ("waiting", "cleared", "start"),
    [
        (1, 1, "1 of 1 pending pod d gets a node"),
        (1, 0, "0 of 1 pending pod d gets a node"),
        (4, 1, "1 of 4 pending pods d gets a node"),
        (4, 0, "0 of 4 pending pods d get a node"),
        (4, 2, "2 of 4 pending pods d get a node"),
    ],
)
def test_verb_agrees_with_the_cleared_pods(waiting: int, cleared: int, start: str) -> None:
    assert RemediesOfMany("d", waiting, cleared).build_headline_parts()[0].startswith(start)


def test_only_one_is_singular() -> None:
    assert [agreeing(number, "is", "are") for number in range(3)] == ["are", "is", "are"]
