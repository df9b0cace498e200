"""Pods bound at about the same time as another one, whose order may explain where that pod went.

An event tells when a binding finished, not when the pod was tried. Bindings run side by side, and in a burst they wait
for each other: kube-scheduler sends 50 requests per second after the first 100 (clientConnection of its configuration).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from kschedctl.api.arrays import Position, Row

ABREAST, MOST_ABREAST = 100_000_000, 16
"""Nanoseconds within which events say nothing about the order in which pods were tried. Not more than so many are tried
in another order."""
WITHIN, MOST_WITHIN = 1_000_000_000, 40
"""How long bindings may have waited for each other in a burst."""
MAX_UNEXPLAINED = 100
"""The number of unexplained placements after which the search for explanations stops."""


class NearbyPlacement(NamedTuple):
    """A pod bound to a row at about the same time as another pod."""

    position: Position
    row: Row
    nanoseconds: int
    """The delay after the other pod; negative if before."""


def iter_reorderings(nearby: Sequence[NearbyPlacement]) -> Iterator[Sequence[NearbyPlacement]]:
    """Yield growing groups of the placements before, latest first, then of those after."""
    abreast = [placement for placement in nearby if abs(placement.nanoseconds) <= ABREAST]
    before = [placement for placement in abreast if placement.nanoseconds <= 0][::-1][:MOST_ABREAST]
    after = [placement for placement in abreast if placement.nanoseconds > 0][:MOST_ABREAST]
    for several in (before, after):
        yield from (several[: number + 1] for number in range(len(several)))


def find_overlapping(
    nearby: Sequence[NearbyPlacement],
    row: Row,
    best: Collection[Row],
    agrees: Callable[[Sequence[NearbyPlacement]], bool],
) -> Sequence[NearbyPlacement]:
    """Return the fewest placements that explain why a pod went to ``row`` instead of one of the ``best``, or none.

    That is a single placement, or all that went to these nodes. ``agrees`` tells whether the replay chooses the row
    with the placements on the other side of the pod.
    """
    chosen = [placement for placement in nearby if placement.nanoseconds <= 0 and placement.row == row]
    better = [placement for placement in nearby if placement.nanoseconds > 0 and placement.row in best]
    telling = sorted((*chosen, *better), key=_distance)
    others = sorted((placement for placement in nearby if placement not in telling), key=_distance)
    single = [[placement] for placement in (*telling, *others)[:MOST_WITHIN]]
    several = [placements[:MOST_WITHIN] for placements in (chosen[::-1], better, telling) if len(placements) > 1]
    return next((moved for moved in (*single, *several) if agrees(moved)), ())


def _distance(nearby: NearbyPlacement) -> int:
    return abs(nearby.nanoseconds)
