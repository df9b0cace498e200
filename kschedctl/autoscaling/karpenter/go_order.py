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


def go_sort_order(keys: Sequence[float]) -> list[int]:
    """Return the original index of each key after Go's sort in ascending order."""
    if all(left <= right for left, right in pairwise(keys)):
        return list(range(len(keys)))
    stable = sorted(range(len(keys)), key=keys.__getitem__)
    if len(keys) <= MAX_INSERTION_SORTED or all(keys[left] < keys[right] for left, right in pairwise(stable)):
        return stable
    return list(_pdqsort_order(tuple(keys)))


@lru_cache(256)
def _pdqsort_order(keys: tuple[float, ...]) -> tuple[int, ...]:
    """Return the original index of each key after pattern-defeating quicksort."""
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
        """Sort a range. Heapsort takes over after ``bad_pivots`` unbalanced partitions."""
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
                start = self.partition_equal(start, end, pivot)
                continue
            middle, partitioned = self.partition(start, end, pivot)
            balanced = min(middle - start, end - middle) >= (end - start) // 8
            # Recurse into the shorter part, and continue with the longer one.
            if middle - start < end - middle:
                self.sort_range(start, middle, bad_pivots)
                start = middle + 1
            else:
                self.sort_range(middle + 1, end, bad_pivots)
                end = middle
        self.insertion_sort(start, end)

    def _reorder(self, start: int, end: int, places: Sequence[int]) -> None:
        """Fill a range with the elements at ``places``, in that order."""
        self.keys[start:end] = [self.keys[index] for index in places]
        self.order[start:end] = [self.order[index] for index in places]

    def insertion_sort(self, start: int, end: int) -> None:
        """Sort a range stably, as insertion sort does."""
        self._reorder(start, end, sorted(range(start, end), key=self.keys.__getitem__))

    def heap_sort(self, start: int, end: int) -> None:
        """Sort a range by heapsort."""
        for root in range((end - start - 1) // 2, -1, -1):
            self._sift_down(root, end - start, start)
        for size in range(end - start - 1, -1, -1):
            self.swap(start, start + size)
            self._sift_down(0, size, start)

    def _sift_down(self, root: int, size: int, start: int) -> None:
        """Restore the heap property below ``root``."""
        keys = self.keys
        while (child := 2 * root + 1) < size:
            if child + 1 < size and keys[start + child] < keys[start + child + 1]:
                child += 1
            if keys[start + root] >= keys[start + child]:
                return
            self.swap(start + root, start + child)
            root = child

    def break_patterns(self, start: int, end: int) -> None:
        """Swap three middle elements with elements chosen by xorshift, seeded with the length."""
        length = draw = end - start
        mask = (1 << length.bit_length()) - 1
        middle = start + length // 4 * 2
        first_shift, second_shift, third_shift = XORSHIFT
        for place in (middle - 1, middle, middle + 1):
            draw ^= draw << first_shift & WORD
            draw ^= draw >> second_shift
            draw ^= draw << third_shift & WORD
            offset = draw & mask  # less than twice the length
            if offset >= length:
                offset -= length
            self.swap(place, start + offset)

    def choose_pivot(self, start: int, end: int) -> tuple[int, bool]:
        """Return the index of the pivot, and whether the sampled keys are in order.

        A range that seems to be descending is reversed first.
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
        if swaps == ALL_SWAPPED:
            self._reorder(start, end, range(end - 1, start - 1, -1))
            place = end - 1 - (place - start)
        return place, swaps in (0, ALL_SWAPPED)

    def _find_median(self, first: int, second: int, third: int) -> tuple[int, int]:
        """Return the index of the median of three, and the number of swaps needed to find it."""
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
        """Sort an almost sorted range with a few shifts. Return whether it is sorted."""
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
        """Move the keys at ``index - 1`` and ``index`` to their places on the left and on the right."""
        keys = self.keys
        left = index - 1
        right = index + 1
        while index - start >= 2 and left >= 1 and keys[left] < keys[left - 1]:
            self.swap(left, left - 1)
            left -= 1
        while right < end and keys[right] < keys[right - 1]:
            self.swap(right, right - 1)
            right += 1

    def partition_equal(self, start: int, end: int, pivot: int) -> int:
        """Move keys equal to the pivot to the front. Return the index of the first greater key.

        The pivot must be the smallest key of the range.
        """
        self.swap(start, pivot)
        keys = self.keys
        left = start + 1
        right = end - 1
        least = keys[start]
        while True:
            while left <= right and keys[left] <= least:
                left += 1
            while left <= right and keys[right] > least:
                right -= 1
            if left > right:
                return left
            self.swap(left, right)
            left = left + 1
            right = right - 1

    def partition(self, start: int, end: int, pivot: int) -> tuple[int, bool]:
        """Move smaller keys before the pivot. Return the pivot's new index and whether no other key moved."""
        self.swap(start, pivot)
        keys = self.keys
        left = start + 1
        right = end - 1
        key = keys[start]
        moved = False
        while True:
            while left <= right and keys[left] < key:
                left += 1
            while left <= right and keys[right] >= key:
                right -= 1
            if left > right:
                self.swap(right, start)
                return right, not moved
            self.swap(left, right)
            left = left + 1
            right = right - 1
            moved = True
