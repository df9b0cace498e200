"""The order in which Go's sort.Slice (pattern-defeating quicksort) leaves equal keys.

Upstream: pdqsort_func of src/sort/zsortfunc.go (Go 1.24 and later). The algorithm is deterministic: the same keys
always come out in the same order. Go 1.19 to 1.23 used other shifts in xorshift (golang/go issue 70144).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

MAX_INSERTION_SORTED = 12
"""Ranges up to this length are sorted by insertion, which is stable."""
NINTHER, SHIFTED = 50, 50
"""Minimum lengths for choosing a median of medians as the pivot, and for shifting misplaced pairs."""
MAX_SHIFTS = 5
ALL_SWAPPED = 12
WORD = (1 << 64) - 1
XORSHIFT = (13, 7, 17)
"""The three shifts of the random generator: left, right and left."""


def compute_go_sort_order(keys: Sequence[float]) -> list[int]:
    """Return the original indexes of the keys in the order in which Go's sort.Slice leaves them, ascending by key."""
    if all(left <= right for left, right in pairwise(keys)):
        return list(range(len(keys)))
    stable = sorted(range(len(keys)), key=keys.__getitem__)
    # Go sorts short ranges stably, and the order of distinct keys does not depend on the algorithm.
    if len(keys) <= MAX_INSERTION_SORTED or all(keys[left] < keys[right] for left, right in pairwise(stable)):
        return stable
    return list(_pdqsort_order(tuple(keys)))


@lru_cache(256)
def _pdqsort_order(keys: tuple[float, ...]) -> tuple[int, ...]:
    """Return the original indexes of the keys in the order in which pattern-defeating quicksort leaves them."""
    sort = _PatternDefeatingSort(keys)
    sort.sort_range(0, len(keys), len(keys).bit_length())
    return tuple(sort.order)


class _PatternDefeatingSort:
    """A pattern-defeating quicksort of ``keys``, with the original indexes in ``order``. Ranges exclude ``end``."""

    def __init__(self, keys: Sequence[float]) -> None:
        self.keys = list(keys)
        self.order = list(range(len(keys)))

    def swap(self, left: int, right: int) -> None:
        """Swap two keys with their indexes."""
        keys, order = self.keys, self.order
        keys[left], keys[right] = keys[right], keys[left]
        order[left], order[right] = order[right], order[left]

    def sort_range(self, start: int, end: int, bad_pivots: int) -> None:
        """Sort the keys from ``start`` to ``end``. Heapsort takes over after ``bad_pivots`` unbalanced partitions."""
        balanced = partitioned = True
        while end - start > MAX_INSERTION_SORTED:
            if not bad_pivots:
                self.heap_sort(start, end)
                return

            if not balanced:
                self.break_patterns(start, end)
                bad_pivots -= 1
            pivot, rising = self.choose_pivot(start, end)
            if balanced and partitioned and rising and self.partial_insertion_sort(start, end):
                return

            # If the pivot equals the key before the range, it is the smallest key of the range.
            if start and self.keys[start - 1] >= self.keys[pivot]:
                start = self.move_equal_keys_to_front(start, end, pivot)
                continue

            middle, partitioned = self.partition(start, end, pivot)
            # As in Go, each part of a balanced partition has at least an eighth of the keys.
            balanced = min(middle - start, end - middle) >= (end - start) // 8
            # Recurse into the shorter part, and continue with the longer one.
            if middle - start < end - middle:
                self.sort_range(start, middle, bad_pivots)
                start = middle + 1
            else:
                self.sort_range(middle + 1, end, bad_pivots)
                end = middle
        self.insertion_sort(start, end)

    def _rearrange_range(self, start: int, end: int, places: Sequence[int]) -> None:
        """Replace a range by the elements at ``places``, in this order."""
        self.keys[start:end] = [self.keys[index] for index in places]
        self.order[start:end] = [self.order[index] for index in places]

    def insertion_sort(self, start: int, end: int) -> None:
        """Sort a range stably, with the same result as insertion sort."""
        self._rearrange_range(start, end, sorted(range(start, end), key=self.keys.__getitem__))

    def heap_sort(self, start: int, end: int) -> None:
        """Sort a range with heapsort, swapping in the same order as Go."""
        for root in range((end - start - 1) // 2, -1, -1):
            self._sift_down(root, end - start, start)
        for size in range(end - start - 1, -1, -1):
            self.swap(start, start + size)
            self._sift_down(0, size, start)

    def _sift_down(self, root: int, size: int, start: int) -> None:
        """Move the key at ``root`` down until it is at least as large as its children.

        The heap starts at ``start`` and has ``size`` keys. ``root`` is an offset from ``start``.
        """
        keys = self.keys
        while (child := 2 * root + 1) < size:
            if child + 1 < size and keys[start + child] < keys[start + child + 1]:
                child += 1
            if keys[start + root] >= keys[start + child]:
                return
            self.swap(start + root, start + child)
            root = child

    def break_patterns(self, start: int, end: int) -> None:
        """Swap three elements near the middle with pseudorandom ones, to break patterns that cause bad pivots.

        The pseudorandom numbers come from xorshift, seeded with the length of the range.
        """
        length = draw = end - start
        mask = (1 << length.bit_length()) - 1
        # Go's formulas, so that the same elements are swapped
        middle = start + length // 4 * 2
        first_shift, second_shift, third_shift = XORSHIFT
        for place in (middle - 1, middle, middle + 1):
            draw ^= (draw << first_shift) & WORD
            draw ^= draw >> second_shift
            draw ^= (draw << third_shift) & WORD
            offset = draw & mask  # less than twice the length
            if offset >= length:
                offset -= length
            self.swap(place, start + offset)

    def choose_pivot(self, start: int, end: int) -> tuple[int, bool]:
        """Return the index of the pivot, and whether the sampled keys are in ascending order.

        The pivot is a median of three keys or, in long ranges, of three such medians. A range that seems to be
        descending is reversed first.
        """
        length = end - start
        places = [start + length // 4 * quarter for quarter in (1, 2, 3)]
        swaps = 0
        if length >= NINTHER:
            medians = [self._find_median(place - 1, place, place + 1) for place in places]
            places = [place for place, _ in medians]
            swaps = sum(count for _, count in medians)
        place, count = self._find_median(*places)
        swaps += count
        if swaps == ALL_SWAPPED:  # all sampled keys were in descending order
            self._rearrange_range(start, end, range(end - 1, start - 1, -1))
            place = end - 1 - (place - start)
        return place, swaps in (0, ALL_SWAPPED)

    def _find_median(self, first: int, second: int, third: int) -> tuple[int, int]:
        """Return the index of the median of three keys, and the number of swaps that it takes to find it."""
        keys = self.keys
        swaps = 0
        if keys[second] < keys[first]:
            first, second = second, first
            swaps += 1
        if keys[third] < keys[second]:
            second = third
            swaps += 1
        if keys[second] < keys[first]:
            second = first
            swaps += 1
        return second, swaps

    def partial_insertion_sort(self, start: int, end: int) -> bool:
        """Try to sort an almost sorted range by moving a few misplaced keys. Return whether it is sorted now.

        At most MAX_SHIFTS keys are moved, and none in a range of fewer than SHIFTED keys.
        """
        keys = self.keys
        index = start + 1
        for _ in range(MAX_SHIFTS):
            while index < end and keys[index] >= keys[index - 1]:
                index += 1
            if index == end:
                return True
            if end - start < SHIFTED:
                return False
            self.swap(index, index - 1)
            self._shift_pair(index, start, end)
        return False

    def _shift_pair(self, index: int, start: int, end: int) -> None:
        """Move the key at ``index - 1`` left and the key at ``index`` right until their neighbors are in order."""
        keys = self.keys
        left = index - 1
        right = index + 1
        # As in Go, keys may move left beyond the start of the range
        while index - start >= 2 and left >= 1 and keys[left] < keys[left - 1]:
            self.swap(left, left - 1)
            left -= 1
        while right < end and keys[right] < keys[right - 1]:
            self.swap(right, right - 1)
            right += 1

    def move_equal_keys_to_front(self, start: int, end: int, pivot: int) -> int:
        """Move the keys that equal the pivot to the front. Return the index of the first greater key.

        The pivot must be the smallest key of the range.
        """
        self.swap(start, pivot)
        keys = self.keys
        left = start + 1
        right = end - 1
        pivot_key = keys[start]
        while True:
            while left <= right and keys[left] <= pivot_key:
                left += 1
            while left <= right and keys[right] > pivot_key:
                right -= 1
            if left > right:
                return left
            self.swap(left, right)
            left += 1
            right -= 1

    def partition(self, start: int, end: int, pivot: int) -> tuple[int, bool]:
        """Move the keys that are smaller than the pivot before it.

        Return the pivot's new index, and whether the other keys were already partitioned.
        """
        self.swap(start, pivot)
        keys = self.keys
        left = start + 1
        right = end - 1
        pivot_key = keys[start]
        moved = False
        while True:
            while left <= right and keys[left] < pivot_key:
                left += 1
            while left <= right and keys[right] >= pivot_key:
                right -= 1
            if left > right:
                self.swap(right, start)
                return right, not moved
            self.swap(left, right)
            left += 1
            right -= 1
            moved = True
