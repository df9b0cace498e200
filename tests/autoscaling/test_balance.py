"""Check how new nodes are divided among similar groups, with the sizes of upstream's TestBalance*
(balancing_processor_test.go)."""

from __future__ import annotations

import pytest

from kschedctl.autoscaling.cluster_autoscaler.expanders import balance_increases
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup

CASES = {
    "TestBalanceSingleGroup": ([(1, 10)], 1, [2]),
    "TestBalanceSingleGroup, several nodes": ([(1, 10)], 4, [5]),
    "TestBalanceUnderMaxSize: as many as bring the smallest up": (
        [(3, 10), (1, 10), (2, 10), (5, 10)],
        1,
        [3, 2, 2, 5],
    ),
    "TestBalanceHittingMaxSize: all that is left": ([(1, 1), (1, 3), (1, 3), (1, 9)], 1000, [1, 3, 3, 9]),
}


@pytest.mark.parametrize("name", CASES)
def test_new_nodes_are_balanced(name: str) -> None:
    sizes, count, wanted = CASES[name]
    groups = [AutoscaledGroup(f"g{at}", 0, most, size) for at, (size, most) in enumerate(sizes)]
    grown = {each.group.id: each.new_size for each in balance_increases(groups, count)}
    assert [grown.get(group.id, group.target) for group in groups] == wanted


@pytest.mark.parametrize("count", range(1, 40))
def test_new_nodes_go_to_the_smallest_group(count: int) -> None:
    """The expected sizes are made by adding nodes one at a time to the smallest group that may grow."""
    sizes, most = [4, 0, 7, 2, 2], [9, 3, 8, 30, 5]
    groups = [AutoscaledGroup(f"g{at}", 0, most[at], size) for at, size in enumerate(sizes)]
    by_hand = list(sizes)
    for _ in range(min(count, sum(most) - sum(sizes))):
        at = min((i for i in range(5) if by_hand[i] < most[i]), key=lambda i: by_hand[i])
        by_hand[at] += 1
    grown = {each.group.id: each.new_size for each in balance_increases(groups, count)}
    assert sorted(grown.get(group.id, group.target) for group in groups) == sorted(by_hand)
