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
"""What a program in Go 1.21 printed that sorts one "x" and then only "test" (blog.arkark.dev, 2023-09-21)."""


@pytest.mark.parametrize("length", PRINTED_BY_GO)
def test_equal_keys_come_as_from_go(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "XORSHIFT", (13, 17, 5))  # until Go 1.23
    module._pdqsort_order.cache_clear()
    try:
        assert compute_go_sort_order([1, *[0] * (length - 1)]) == PRINTED_BY_GO[length]
    finally:
        module._pdqsort_order.cache_clear()


@given(st.lists(st.integers(0, 9), max_size=300))
def test_every_order_is_sorted(keys: list[int]) -> None:
    order = compute_go_sort_order(keys)
    assert sorted(order) == list(range(len(keys)))
    assert [keys[at] for at in order] == sorted(keys)


@given(st.lists(st.integers(0, 3), max_size=MAX_INSERTION_SORTED))
def test_few_keys_stay_as_they_stand(keys: list[int]) -> None:
    assert compute_go_sort_order(keys) == sorted(range(len(keys)), key=keys.__getitem__)


@given(st.lists(st.integers(0, 9), max_size=200))
def test_as_a_heap_too(keys: list[int]) -> None:
    sort = _PatternDefeatingSort(keys)
    sort.heap_sort(0, len(keys))
    assert sort.keys == sorted(keys) == [keys[at] for at in sort.order]
