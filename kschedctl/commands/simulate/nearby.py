"""Pods bound at about the same time as another pod, and the order of scheduling that may explain where that pod went.

An event says when a binding was done, not when the pod was tried. Bindings run side by side, and in a burst they wait
for each other: kube-scheduler sends 50 requests per second after the first 100 (clientConnection of its configuration).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from kschedctl.api.arrays import Position, Row

UNORDERED_NANOSECONDS = 100_000_000
"""The time within which events say nothing about the order in which pods were tried."""
MAX_REORDERED = 16
"""The maximum number of pods that are tried in another order."""
NEARBY_NANOSECONDS = 1_000_000_000
"""The time for which bindings may have waited for each other in a burst."""
MAX_NEARBY = 40
"""The maximum number of nearby placements that are tried as an explanation."""
MAX_UNEXPLAINED = 100
"""The number of unexplained placements after which the search for explanations stops."""


class NearbyPlacement(NamedTuple):
    """A pod bound to a row at about the same time as another pod."""

    position: Position
    row: Row
    nanoseconds: int
    """The delay after the other pod, negative if before."""


def iter_reorderings(nearby: Sequence[NearbyPlacement]) -> Iterator[Sequence[NearbyPlacement]]:
    """Yield growing groups of placements shortly before the pod, then of placements shortly after it, closest first.

    The real order of these placements and the pod may be another one.
    """
    simultaneous = [placement for placement in nearby if abs(placement.nanoseconds) <= UNORDERED_NANOSECONDS]
    before = [placement for placement in reversed(simultaneous) if placement.nanoseconds <= 0]
    after = [placement for placement in simultaneous if placement.nanoseconds > 0]
    for placements in (before[:MAX_REORDERED], after[:MAX_REORDERED]):
        for size in range(1, len(placements) + 1):
            yield placements[:size]


def find_overlapping(
    nearby: Sequence[NearbyPlacement],
    row: Row,
    best_rows: Collection[Row],
    agrees: Callable[[Sequence[NearbyPlacement]], bool],
) -> Sequence[NearbyPlacement]:
    """Return placements that explain why a pod went to `row` instead of a best node, or () if none do.

    The explanation is a single placement, or all placements on these nodes. `agrees` returns whether the replay chooses
    the row if the placements are moved to the other side of the pod.
    """
    earlier_on_row = [placement for placement in nearby if placement.nanoseconds <= 0 and placement.row == row]
    later_on_best = [placement for placement in nearby if placement.nanoseconds > 0 and placement.row in best_rows]
    likely = sorted((*earlier_on_row, *later_on_best), key=_get_distance)
    unlikely = sorted((placement for placement in nearby if placement not in likely), key=_get_distance)
    single_moves = [[placement] for placement in (*likely, *unlikely)[:MAX_NEARBY]]
    groups = (earlier_on_row[::-1], later_on_best, likely)
    group_moves = [placements[:MAX_NEARBY] for placements in groups if len(placements) > 1]
    return next((moves for moves in (*single_moves, *group_moves) if agrees(moves)), ())


def _get_distance(nearby: NearbyPlacement) -> int:
    """Return the time between the placement and the pod in nanoseconds."""
    return abs(nearby.nanoseconds)
