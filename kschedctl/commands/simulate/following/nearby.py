"""The pods that were bound at about the same time as another: whether it went where the replay has it, had they not
come before it, or come before it after all.

An event tells when a binding was done, not when the pod was tried. Bindings go on side by side, and in a burst they
wait for each other: kube-scheduler sends 50 requests a second once it sent 100 (clientConnection of its configuration).
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
MOST_IN_VAIN = 100
"""Placements without an explanation after which none is looked for: then it is something else than the order."""


class Nearby(NamedTuple):
    """A pod that went to a row so many nanoseconds after another one did, before it if negative."""

    position: Position
    row: Row
    nanoseconds: int


def in_order(nearby: Sequence[Nearby]) -> Iterator[Sequence[Nearby]]:
    """One more after the other of those that came before, the latest first, then of those that came after."""
    abreast = [placement for placement in nearby if abs(placement.nanoseconds) <= ABREAST]
    before = [placement for placement in abreast if placement.nanoseconds <= 0][::-1][:MOST_ABREAST]
    after = [placement for placement in abreast if placement.nanoseconds > 0][:MOST_ABREAST]
    for several in (before, after):
        yield from (several[: number + 1] for number in range(len(several)))


def overlapping(
    nearby: Sequence[Nearby], row: Row, best: Collection[Row], agrees: Callable[[Sequence[Nearby]], bool]
) -> Sequence[Nearby]:
    """The fewest that explain why a pod went to ``row`` and to none of the ``best``: one of them, else all that came to
    these nodes. Empty where nothing does.

    ``agrees``: whether the replay has the row, too, were these on the other side of the pod.
    """
    chosen = [placement for placement in nearby if placement.nanoseconds <= 0 and placement.row == row]
    better = [placement for placement in nearby if placement.nanoseconds > 0 and placement.row in best]
    telling = sorted((*chosen, *better), key=_distance)
    others = sorted((placement for placement in nearby if placement not in telling), key=_distance)
    single = [[placement] for placement in (*telling, *others)[:MOST_WITHIN]]
    several = [placements[:MOST_WITHIN] for placements in (chosen[::-1], better, telling) if len(placements) > 1]
    return next((moved for moved in (*single, *several) if agrees(moved)), ())


def _distance(nearby: Nearby) -> int:
    return abs(nearby.nanoseconds)
