"""Distributions of latencies in seconds, as options name them or as they were measured."""

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
MIN_SAMPLES = 20
"""The number of measured times that is needed for a distribution."""


class Latency(ABC):
    """A distribution of times. Its string form is the one in which an option names it."""

    @abstractmethod
    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        """Draw independent times, shape (number,)."""

    @abstractmethod
    def compute_probability_above(self, seconds: float) -> float:
        """Return the probability that a time is longer than `seconds`."""


@dataclass(frozen=True)
class ConstantLatency(Latency):
    """A time that is always the same."""

    seconds: float

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        """Return the constant time `number` times."""
        return np.full(number, self.seconds)

    def compute_probability_above(self, seconds: float) -> float:
        """Return 1 if the constant time is longer than `seconds`, otherwise 0."""
        return float(self.seconds > seconds)

    def __str__(self) -> str:
        return f"constant:{format_duration(self.seconds)}"


@dataclass(frozen=True)
class ExponentialLatency(Latency):
    """A memoryless distribution: P(T > t) = exp(-t / mean)."""

    mean: float

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        """Draw times from the exponential distribution."""
        return random.exponential(self.mean, number)

    def compute_probability_above(self, seconds: float) -> float:
        """Return the probability that a time is longer than `seconds`, which is 0 if the mean is 0."""
        return math.exp(-seconds / self.mean) if self.mean else 0.0

    def __str__(self) -> str:
        return f"exponential:{format_duration(self.mean)}"


@dataclass(frozen=True)
class LognormalLatency(Latency):
    """A distribution around the median with a heavy tail: its logarithm is normal."""

    median: float
    p99: float
    """The 99th percentile."""

    @property
    def sigma(self) -> float:
        """The standard deviation of the logarithm."""
        return math.log(self.p99 / self.median) / NORMAL_P99

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        """Draw times from the lognormal distribution."""
        return random.lognormal(math.log(self.median), self.sigma, number)

    def compute_probability_above(self, seconds: float) -> float:
        """Return the probability that a time is longer than `seconds`. If sigma is 0, all times equal the median."""
        if seconds <= 0 or not self.sigma:
            return float(self.median > seconds)
        deviations = math.log(seconds / self.median) / self.sigma  # standard deviations above the mean of the logarithm
        return math.erfc(deviations / math.sqrt(2)) / 2

    def __str__(self) -> str:
        return f"lognormal:{format_duration(self.median)},{format_duration(self.p99)}"


@dataclass(frozen=True, eq=False)
class MeasuredLatency(Latency):
    """Measured times, all equally likely."""

    times: Seconds
    """At least one time in seconds, sorted."""
    slowest_pods: tuple[str, ...] = ()
    """The pods with the longest times, the longest first."""

    def draw(self, random: np.random.Generator, number: int) -> Seconds:
        """Draw from the measured times, with replacement."""
        return random.choice(self.times, number)

    def compute_probability_above(self, seconds: float) -> float:
        """Return the share of the measured times that are longer than `seconds`."""
        return 1 - float(np.searchsorted(self.times, seconds, "right")) / len(self.times)

    def get_quantile(self, share: float) -> float:
        """Return the smallest time that is at least as long as this share (0 to 1) of all times."""
        position = math.ceil(share * len(self.times)) - 1
        return float(self.times[max(position, 0)])

    def __str__(self) -> str:
        return MEASURED


def _build_constant(times: Sequence[float]) -> Latency:
    """Build a constant latency."""
    return ConstantLatency(times[0])


def _build_exponential(times: Sequence[float]) -> Latency:
    """Build an exponential latency from its mean."""
    return ExponentialLatency(times[0])


def _build_lognormal(times: Sequence[float]) -> Latency:
    """Build a lognormal latency from its median and 99th percentile, in seconds.

    Raises InputError if the two contradict each other.
    """
    median, p99 = times
    if not 0 < median <= p99:
        raise InputError("the median of a lognormal time must be above 0 and at most its 99th percentile")
    return LognormalLatency(median, p99)


_DISTRIBUTIONS: Mapping[str, tuple[int, Callable[[Sequence[float]], Latency]]] = {
    "constant": (1, _build_constant),
    "exponential": (1, _build_exponential),
    "lognormal": (2, _build_lognormal),
}
"""The number of times that each distribution takes, and the function that builds it."""
FORMS = "constant:TIME, exponential:MEAN, lognormal:MEDIAN,P99 or measured"


def parse_latency(text: str, option: str, measured: MeasuredLatency | None = None) -> Latency:
    """Parse the distribution of times that an option names. A time alone is constant.

    `measured` is the distribution measured in the cluster, or None if that is unknown. Raises UsageError for an unknown
    distribution, for malformed times, and if the cluster's distribution is named but unknown.

    >>> str(parse_latency("exponential:10s", "--informer-lag")), str(parse_latency("2s", "--informer-lag"))
    ('exponential:10s', 'constant:2s')
    """
    if text == MEASURED:
        if measured is None:
            requirement = f"needs a cluster with at least {MIN_SAMPLES} pods whose times of binding and start are known"
            raise UsageError(
                f"{MEASURED} {requirement}", where=option, hint="specify a cluster, such as --snapshot FILE"
            )
        return measured
    name, colon, parameters = text.partition(":")
    if not colon:
        name, parameters = "constant", text
    times = parameters.split(",")
    if name not in _DISTRIBUTIONS:
        raise UsageError(f'"{text[:60]}" is not a latency distribution', where=option, hint=FORMS)
    time_count, build = _DISTRIBUTIONS[name]
    if len(times) != time_count:
        raise UsageError(f'"{text[:60]}" is not a latency distribution', where=option, hint=FORMS)
    try:
        return build([parse_duration(time.strip()) for time in times])
    except InputError as error:
        raise UsageError(error.what, where=option, hint=FORMS) from None
