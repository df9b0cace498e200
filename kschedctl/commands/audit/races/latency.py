"""How long something takes, as a distribution that an option names or that was measured; in seconds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kschedctl.api.times import format_duration, parse_duration
from kschedctl.errors import InputError, UsageError

Seconds = npt.NDArray[np.float64]
NORMAL_P99 = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""
MEASURED = "measured"
ENOUGH = 20
"""Fewer times than these tell nothing of how long it takes."""


class Latency(ABC):
    """A distribution of times; ``str()`` is how an option names it."""

    @abstractmethod
    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        """(number,): so many independent times."""

    @abstractmethod
    def beyond(self, seconds: float) -> float:
        """The probability that it takes longer."""


@dataclass(frozen=True)
class ConstantLatency(Latency):
    """A latency that is always the same."""

    seconds: float

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        return np.full(number, self.seconds)

    def beyond(self, seconds: float) -> float:
        return float(self.seconds > seconds)

    def __str__(self) -> str:
        return f"constant:{format_duration(self.seconds)}"


@dataclass(frozen=True)
class ExponentialLatency(Latency):
    """What already took long takes no less long from there: P(T > t) = exp(-t / mean)."""

    mean: float

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        return random.exponential(self.mean, number)

    def beyond(self, seconds: float) -> float:
        return math.exp(-seconds / self.mean) if self.mean else 0.0

    def __str__(self) -> str:
        return f"exponential:{format_duration(self.mean)}"


@dataclass(frozen=True)
class LognormalLatency(Latency):
    """Mostly about the median, with a heavy tail: its logarithm is normal. ``p99``: one in a hundred takes longer."""

    median: float
    p99: float

    @property
    def sigma(self) -> float:
        return math.log(self.p99 / self.median) / NORMAL_P99

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        return random.lognormal(math.log(self.median), self.sigma, number)

    def beyond(self, seconds: float) -> float:
        if seconds <= 0 or not self.sigma:
            return float(self.median > seconds)
        return math.erfc(math.log(seconds / self.median) / self.sigma / math.sqrt(2)) / 2

    def __str__(self) -> str:
        return f"lognormal:{format_duration(self.median)},{format_duration(self.p99)}"


@dataclass(frozen=True, eq=False)
class MeasuredLatency(Latency):
    """Seconds that were measured, each as likely as the others. ``times``, one or more, are sorted."""

    times: Seconds

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        return random.choice(self.times, number)

    def beyond(self, seconds: float) -> float:
        return 1 - float(np.searchsorted(self.times, seconds, "right")) / len(self.times)

    def quantile(self, share: float) -> float:
        """The least of the times that this share of all does not pass."""
        return float(self.times[max(math.ceil(share * len(self.times)) - 1, 0)])

    def __str__(self) -> str:
        return MEASURED


def _constant(times: Sequence[float]) -> Latency:
    return ConstantLatency(times[0])


def _exponential(times: Sequence[float]) -> Latency:
    return ExponentialLatency(times[0])


def _lognormal(times: Sequence[float]) -> Latency:
    if not 0 < times[0] <= times[1]:
        raise InputError("the median of a lognormal time is above 0 and not above its 99th percentile")
    return LognormalLatency(times[0], times[1])


_KINDS: Mapping[str, tuple[int, Callable[[Sequence[float]], Latency]]] = {
    "constant": (1, _constant),
    "exponential": (1, _exponential),
    "lognormal": (2, _lognormal),
}
"""Name -> how many times it is told by, and what makes it of them."""
FORMS = "constant:TIME, exponential:MEAN, lognormal:MEDIAN,P99 or measured"


def latency_of(text: str, option: str, measured: MeasuredLatency | None = None) -> Latency:
    """The distribution that an option names; ``measured``: what the cluster tells. Raises UsageError.

    >>> str(latency_of("exponential:10s", "--informer-lag")), str(latency_of("2s", "--informer-lag"))
    ('exponential:10s', 'constant:2s')
    """
    if text == MEASURED:
        if measured is None:
            why = f"needs a cluster with {ENOUGH} pods or more that tell when they were bound and started"
            raise UsageError(f"{MEASURED} {why}", where=option, hint="name a cluster, as by --snapshot FILE")
        return measured
    name, colon, rest = text.partition(":")
    name, rest = (name, rest) if colon else ("constant", name)
    number, make = _KINDS.get(name, (0, _constant))
    parts = rest.split(",")
    if len(parts) != number:
        raise UsageError(f'"{text[:60]}" is no distribution of times', where=option, hint=FORMS)
    try:
        return make([parse_duration(part.strip()) for part in parts])
    except InputError as error:
        raise UsageError(error.what, where=option, hint=FORMS) from None
