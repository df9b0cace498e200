"""Where numbers lie on an axis, and which of them are written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kschedctl.render.plots.plot import Axis, number

STEPS = (1, 2, 5, 10)
MOST_STEPS = 6


@dataclass(frozen=True)
class AxisScale:
    """``ticks``: where a text stands -> the text, from the least to the greatest; places are as ``at`` gives them."""

    decades: bool
    ticks: dict[float, str]

    @property
    def least(self) -> float:
        return next(iter(self.ticks))

    @property
    def greatest(self) -> float:
        return next(reversed(self.ticks))

    def at(self, value: float) -> float:
        """The place of a value on the axis."""
        return math.log10(value) if self.decades else value


def scale(axis: Axis, values: Sequence[float]) -> AxisScale:
    """From at or below the least value to at or above the greatest; of values that the axis has a place for.

    Of counts there are no halves.
    """
    if not axis.decades:
        chosen = ticks(values or (0.0,))
        if all(float(value).is_integer() for value in values):
            chosen = [tick for tick in chosen if tick.is_integer()]
        return AxisScale(False, {tick: number(tick) for tick in chosen})
    powers = [math.log10(value) for value in values] or [0.0]
    first, last = math.floor(min(powers)), math.ceil(max(powers))
    return AxisScale(True, {float(power): number(10.0**power) for power in range(first, max(last, first + 1) + 1)})


def ticks(values: Sequence[float]) -> list[float]:
    """Round numbers, evenly apart, from at or below the least value to at or above the greatest.

    >>> ticks([5, 100]), ticks([0, 0.37])
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 0.1, 0.2, 0.3, 0.4])
    """
    least, greatest = min(values), max(values)
    least, greatest = (least, greatest) if least < greatest else (least, least + 1)
    power = math.floor(math.log10((greatest - least) / MOST_STEPS))
    for step in (factor * 10.0**power for factor in STEPS):
        first, last = math.floor(least / step), math.ceil(greatest / step)
        if last - first <= MOST_STEPS:
            break
    return [round(i * step, max(-power, 0)) for i in range(first, last + 1)]
