"""Check latency distributions: their stated parameters, their samples and their names in options."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kschedctl.commands.audit.races.latency import (
    ConstantLatency,
    ExponentialLatency,
    Latency,
    LognormalLatency,
    MeasuredLatency,
    parse_latency,
)
from kschedctl.commands.audit.races.question import FOREVER, compute_adaptive_ttl, parse_expiry
from kschedctl.errors import UsageError

MEASURED = MeasuredLatency(np.array([0.0, 0.0, 1.0, 3.0]))


@pytest.mark.parametrize(
    ("latency", "seconds", "beyond"),
    [
        (ConstantLatency(2.0), 1.9, 1.0),
        (ConstantLatency(2.0), 2.0, 0.0),
        (ExponentialLatency(10.0), 30.0, math.exp(-3)),
        (ExponentialLatency(0.0), 0.0, 0.0),
        (LognormalLatency(1.0, 10.0), 1.0, 0.5),
        (LognormalLatency(1.0, 10.0), 10.0, 0.01),
        (LognormalLatency(2.0, 2.0), 1.0, 1.0),
        (MEASURED, 0.0, 0.5),
        (MEASURED, 1.0, 0.25),
        (MEASURED, 3.0, 0.0),
    ],
)
def test_share_of_values_beyond_a_time(latency: Latency, seconds: float, beyond: float) -> None:
    assert latency.compute_probability_above(seconds) == pytest.approx(beyond, abs=1e-12)
    drawn = latency.draw(np.random.default_rng(0), 10_000)
    assert abs((drawn > seconds).mean() - beyond) <= 4 * math.sqrt(beyond * (1 - beyond) / 10_000)


def test_measured_times_have_quantiles() -> None:
    assert [MEASURED.get_quantile(share) for share in (0.5, 0.75, 0.76, 1.0)] == [0.0, 1.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant:1m30s", ConstantLatency(90.0)),
        ("250ms", ConstantLatency(0.25)),
        ("exponential:10s", ExponentialLatency(10.0)),
        ("lognormal:500ms,20s", LognormalLatency(0.5, 20.0)),
        ("measured", MEASURED),
    ],
)
def test_options_name_distributions(text: str, expected: Latency) -> None:
    assert parse_latency(text, "--informer-lag", MEASURED) == expected


@pytest.mark.parametrize(
    "text",
    ["", "normal:1s", "exponential", "exponential:", "lognormal:1s", "lognormal:9s,1s", "lognormal:0s,1s", "-1s"],
)
def test_invalid_distributions_are_errors(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_latency(text, "--informer-lag")
    assert str(caught.value).startswith("--informer-lag: ")
    assert "exponential:MEAN" in str(caught.value)


def test_measured_distribution_needs_measurements() -> None:
    with pytest.raises(UsageError, match="measured needs a cluster"):
        parse_latency("measured", "--binding-latency")


def test_expiries() -> None:
    assert [parse_expiry(text).ttl(4000) for text in ("30s", "never", "0", "0s", "adaptive", "2m")] == [
        30.0,
        FOREVER,
        FOREVER,
        FOREVER,
        120.0,
        120.0,
    ]
    assert [compute_adaptive_ttl(nodes) for nodes in (1, 1000, 2500)] == [30.0, 30.0, 75.0]
    with pytest.raises(UsageError, match="--expiry"):
        parse_expiry("soon")
