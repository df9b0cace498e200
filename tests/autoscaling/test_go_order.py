"""Check that elements with equal keys are ordered as by Go's sort.Slice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.autoscaling.karpenter import go_order as module
from kschedctl.autoscaling.karpenter.go_order import MAX_INSERTION_SORTED, _PatternDefeatingSort, compute_go_sort_order

PRINTED_BY_GO = {
    11: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0],
    12: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0],
    13: [6, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 0],
    14: [6, 8, 2, 3, 4, 5, 1, 13, 10, 9, 7, 11, 12, 0],
}
"""The output of a Go 1.21 program that sorts one "x" followed by "test" only (blog.arkark.dev, 2023-09-21)."""


@pytest.mark.parametrize("length", PRINTED_BY_GO)
def test_equal_keys_are_ordered_as_by_go(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "XORSHIFT", (13, 17, 5))  # until Go 1.23
    module._pdqsort_order.cache_clear()
    try:
        assert compute_go_sort_order([1, *[0] * (length - 1)]) == PRINTED_BY_GO[length]
    finally:
        module._pdqsort_order.cache_clear()


@given(st.lists(st.integers(0, 9), max_size=300))
def test_result_is_sorted(keys: list[int]) -> None:
    order = compute_go_sort_order(keys)
    assert sorted(order) == list(range(len(keys)))
    assert [keys[at] for at in order] == sorted(keys)


@given(st.lists(st.integers(0, 3), max_size=MAX_INSERTION_SORTED))
def test_short_lists_keep_the_order_of_equal_keys(keys: list[int]) -> None:
    assert compute_go_sort_order(keys) == sorted(range(len(keys)), key=keys.__getitem__)


@given(st.lists(st.integers(0, 9), max_size=200))
def test_heapsort_sorts(keys: list[int]) -> None:
    sort = _PatternDefeatingSort(keys)
    sort.heap_sort(0, len(keys))
    assert sort.keys == sorted(keys) == [keys[at] for at in sort.order]
