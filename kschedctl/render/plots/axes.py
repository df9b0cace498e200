"""Scales of axes: positions of values, and ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kschedctl.render.plots.plot import Axis, format_number

STEPS = (1, 2, 5, 10)
MOST_STEPS = 6


@dataclass(frozen=True)
class AxisScale:
    """The scale of an axis."""

    decades: bool
    ticks: dict[float, str]
    """Position -> text, in ascending order."""

    @property
    def start(self) -> float:
        """The position of the first tick."""
        return next(iter(self.ticks))

    @property
    def end(self) -> float:
        """The position of the last tick."""
        return next(reversed(self.ticks))

    def position_of(self, value: float) -> float:
        """Return the position of a value on the axis."""
        return math.log10(value) if self.decades else value


def build_scale(axis: Axis, values: Sequence[float]) -> AxisScale:
    """Build the scale of an axis that includes all values. Scales of counts have no fractions."""
    if not axis.decades:
        chosen = choose_ticks(values or (0.0,))
        if all(float(value).is_integer() for value in values):
            chosen = [tick for tick in chosen if tick.is_integer()]
        return AxisScale(False, {tick: format_number(tick) for tick in chosen})
    powers = [math.log10(value) for value in values] or [0.0]
    first = math.floor(min(powers))
    last = max(math.ceil(max(powers)), first + 1)
    return AxisScale(True, {float(power): format_number(10.0**power) for power in range(first, last + 1)})


def choose_ticks(values: Sequence[float]) -> list[float]:
    """Return evenly spaced round numbers that include all values.

    >>> choose_ticks([5, 100]), choose_ticks([0, 0.37])
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 0.1, 0.2, 0.3, 0.4])
    """
    least = min(values)
    greatest = max(values)
    if least == greatest:
        greatest = least + 1
    power = math.floor(math.log10((greatest - least) / MOST_STEPS))
    for step in (factor * 10.0**power for factor in STEPS):
        first, last = math.floor(least / step), math.ceil(greatest / step)
        if last - first <= MOST_STEPS:
            break
    return [round(i * step, max(-power, 0)) for i in range(first, last + 1)]
