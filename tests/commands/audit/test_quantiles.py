"""Compare quantiles with the cases of Prometheus' own promql tests, and with values by hand."""

from __future__ import annotations

import math

import pytest

from kschedctl.sources.metrics.histograms import (
    Bucket,
    ClassicHistogram,
    NativeBucket,
    NativeHistogram,
    estimate_classic_quantile,
    estimate_native_quantile,
    find_lowest_bucket_limit,
)

INF = math.inf
# promql/promqltest/testdata/histograms.test: testhistogram, testhistogram2 and testhistogram3 at 50m, request_duration
POSITIVE = [(0.1, 50), (0.2, 70), (1.0, 110), (INF, 120)]
NEGATIVE = [(-0.2, 10), (-0.1, 20), (0.3, 20), (INF, 30)]
MIDDLES = [(0, 0), (2, 1), (4, 2), (6, 3), (INF, 3)]
POSITIVE3 = [(0, 0), (0.1, 50), (0.2, 70), (1, 110), (INF, 110)]
NEGATIVE3 = [(-0.25, 0), (-0.2, 10), (-0.1, 20), (0.3, 20), (INF, 20)]
REQUESTS = [(0.1, 1 + 2 + 3 + 4), (0.2, 3 + 5 + 4 + 7), (INF, 4 + 6 + 6 + 9)]
# promql/quantile_test.go: TestBucketQuantile_ForcedMonotonicity
SIMPLE = [(10, 10), (15, 15), (20, 15), (30, 15), (INF, 15)]
IMPRECISE = [(10, 10), (15, 15), (20, 15.00000000001), (30, 15), (INF, 15)]
REAL = [
    (1, 6454661.3014166225),
    (5, 8339611.2001912957),
    (10, 14118319.2444762159),
    (25, 14130031.5272856504),
    (50, 46001270.3030008227),
    (64, 46008473.8585563824),
    (80, 46008473.8585563898),
    (100, 46008473.8585563824),
    (250, 46008473.8585563824),
    (1000, 46008473.8585563898),
    (INF, 46008473.8585563824),
]
CLASSIC = [
    ("lowest bucket", POSITIVE, 0, 0),
    ("lowest bucket below zero", NEGATIVE, 0, -0.2),
    ("highest bucket", POSITIVE, 1, 1),
    ("highest bucket of negative ones", NEGATIVE, 1, 0.3),
    ("0.2", POSITIVE, 0.2, 0.048),
    ("0.2 negative", NEGATIVE, 0.2, -0.2),
    ("0.5", POSITIVE, 0.5, 0.15),
    ("0.5 negative", NEGATIVE, 0.5, -0.15),
    ("0.8", POSITIVE, 0.8, 0.72),
    ("0.8 negative", NEGATIVE, 0.8, 0.3),
    ("middle of the first", MIDDLES, 1 / 6, 1),
    ("middle of the second", MIDDLES, 1 / 2, 3),
    ("middle of the third", MIDDLES, 5 / 6, 5),
    ("empty first bucket", POSITIVE3, 0.25, 0.055),
    ("empty first bucket, half", POSITIVE3, 0.5, 0.125),
    ("empty first bucket below zero", NEGATIVE3, 0, -0.25),
    ("empty first bucket below zero, quarter", NEGATIVE3, 0.25, -0.225),
    ("empty highest bucket", POSITIVE3, 1, 1),
    ("added up, 0.3", REQUESTS, 0.3, 0.075),
    ("added up, half", REQUESTS, 0.5, 0.1277777777777778),
    ("below 0", POSITIVE, -0.1, -INF),
    ("above 1", POSITIVE, 1.01, INF),
    ("monotonic", SIMPLE, 0.99, 14.85),
    ("imprecise", IMPRECISE, 0.99, 14.85),
    ("imprecise, all", IMPRECISE, 1, 15),
    ("imprecise, half", IMPRECISE, 0.5, 7.5),
    ("real counts", REAL, 0.99, 49.64475715376406),
    ("real counts, 0.9", REAL, 0.9, 46.39671690938454),
    ("real counts, half", REAL, 0.5, 31.96098248992002),
    ("real counts, all", REAL, 1, 64),
    # By hand: a fall from 5 to 3 counts as 5, so that rank 6 is a third of the way from 2 (5) to 4 (8).
    ("a fall in counts", [(1, 5), (2, 3), (4, 8), (INF, 8)], 0.75, 2 + (4 - 2) * (6 - 5) / (8 - 5)),
    # By hand: le="2" and le="2.0" are one bucket of 4, in no order; rank 3 is the half from 1 (2) to 2 (4).
    ("twice the same bound", [(INF, 6), (2, 1), (1, 2), (2, 3)], 0.5, 1.5),
]


@pytest.mark.parametrize(("buckets", "q", "expected"), [case[1:] for case in CLASSIC], ids=[c[0] for c in CLASSIC])
def test_classic_buckets(buckets: list[tuple[float, float]], q: float, expected: float) -> None:
    found = estimate_classic_quantile(q, [Bucket(*each) for each in reversed(buckets)])
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "buckets",
    [[], [(INF, 5)], [(1, 5), (2, 6)], [(1, 0), (INF, 0)], [(1, math.nan), (INF, math.nan)]],
    ids=["none", "only +Inf", "no +Inf", "no observations", "not counts"],
)
def test_histogram_with_too_few_buckets_has_no_quantile(buckets: list[tuple[float, float]]) -> None:
    assert math.isnan(estimate_classic_quantile(0.5, [Bucket(*each) for each in buckets]))


def test_quantile_in_the_highest_bucket_is_a_lower_limit() -> None:
    histogram = ClassicHistogram(tuple(Bucket(*each) for each in POSITIVE), 120, 60)
    # 110 of 120 are at most 1: 91.66 %.
    assert [histogram.is_lower_limit(q) for q in (0.5, 0.91, 0.92, 1)] == [False, False, True, True]
    half = ClassicHistogram((Bucket(1, 60), Bucket(math.inf, 120)), 120, 60)
    assert [half.is_lower_limit(q) for q in (0.5, 0.51)] == [False, True]  # the 60th is at most 1


# promql/promqltest/testdata/native_histograms.test: histogram_quantile_1 to 3; buckets:[2 3 0 1 4] of schema 0
UP = [(0.5, 1, 2), (1, 2, 3), (4, 8, 1), (8, 16, 4)]
DOWN = [(-upper, -lower, count) for lower, upper, count in UP]
ZERO = (-0.001, 0.001)
FIRST = ([(*ZERO, 2), *UP], 12)
SECOND = ([(*ZERO, 2), *DOWN], 12)
THIRD = ([(*ZERO, 4), *UP, *DOWN], 24)
SINGLE = ([(0.5, 1, 1), (1, 2, 2), (2, 4, 1)], 4)
NATIVE = [
    (SINGLE, 0.5, 1.414213562373095),
    (FIRST, 1, 16),
    (FIRST, 0.99, 15.67072476139083),
    (FIRST, 0.9, 12.99603834169977),
    (FIRST, 0.6, 4.594793419988138),
    (FIRST, 0.5, 1.5874010519681994),
    (FIRST, 0.1, 0.0006),
    (FIRST, 0, 0),
    (FIRST, -1, -INF),
    (FIRST, 1.001, INF),
    (SECOND, 1, 0),
    (SECOND, 0.99, -0.00006),
    (SECOND, 0.9, -0.0006),
    (SECOND, 0.5, -1.5874010519681996),
    (SECOND, 0.1, -12.996038341699768),
    (SECOND, 0, -16),
    (THIRD, 0.99, 15.34822590920423),
    (THIRD, 0.9, 10.556063286183155),
    (THIRD, 0.7, 1.2030250360821164),
    (THIRD, 0.55, 0.0006),
    (THIRD, 0.5, 0),
    (THIRD, 0.45, -0.0006),
    (THIRD, 0.3, -1.2030250360821169),
    (THIRD, 0.01, -15.34822590920423),
    (THIRD, 0, -16),
    (([(1, 4, 5)], 5), 0.5, 2.0),
    (([(1, 2**0.5, 5)], 5), 0.5, 1.189207115002721),
    # Custom bounds are interpolated linearly: those of testhistogram3 above, and a first bucket without a lower bound.
    (([(0, 0.1, 50), (0.1, 0.2, 20), (0.2, 1, 40)], 110), 0.5, 0.125),
    (([(0, 0.1, 50), (0.1, 0.2, 20), (0.2, 1, 40)], 110), 0.75, 0.45),
    (([(-INF, 0.1, 50), (0.1, 0.2, 20), (0.2, 1, 40), (1, INF, 10)], 120), 0.2, 0.048),
    (([(-INF, 0.1, 50), (0.1, 0.2, 20), (0.2, 1, 40), (1, INF, 10)], 120), 1, 1),
    (([(-INF, -0.2, 10), (-0.2, -0.1, 10), (0.3, INF, 10)], 30), 0.2, -0.2),
]


@pytest.mark.parametrize(("histogram", "q", "expected"), NATIVE)
def test_native_buckets(histogram: tuple[list[tuple[float, float, float]], float], q: float, expected: float) -> None:
    buckets, count = histogram
    found = estimate_native_quantile(q, [NativeBucket(*each) for each in buckets], count, 100.0)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_nan_observations_are_above_all_buckets() -> None:
    buckets = [NativeBucket(*each) for each in SINGLE[0]]
    # Of 8 observations 4 are NaN: the third is in the middle of (1, 2], the seventh in no bucket.
    assert estimate_native_quantile(2 / 8, buckets, 8, math.nan) == pytest.approx(2**0.5)
    assert math.isnan(estimate_native_quantile(7 / 8, buckets, 8, math.nan))


def test_empty_native_histogram_has_no_quantile() -> None:
    assert math.isnan(NativeHistogram((), 0.0, 0.0).estimate_quantile(0.5))


def test_number_of_observations_up_to_a_value() -> None:
    native = NativeHistogram((NativeBucket(2, 4, 3), NativeBucket(0.5, 1, 1), NativeBucket(4, INF, 6)), 10, 40)
    assert native.get_cumulative_buckets() == [(1, 1), (4, 4)]
    classic = ClassicHistogram(tuple(Bucket(*each) for each in [(INF, 9), (2, 9), (1, 4), (5, 9)]), 9, 12)
    assert classic.get_cumulative_buckets() == [(1, 4), (2, 9)]
    assert ClassicHistogram((), 0, 0).get_cumulative_buckets() == []


@pytest.mark.parametrize(
    ("buckets", "limits"),
    [
        (
            [(0.005, 26), (0.01, 26), (INF, 26)],
            (0.005, 0.005),
        ),  # all in the first bucket
        ([(0.005, 20), (0.01, 26), (INF, 26)], (0.005, None)),
        ([(0.005, 0), (0.01, 26), (INF, 26)], (None, None)),  # between 5 and 10 ms
        ([(INF, 26)], (None, None)),
        ([(0.005, 0), (INF, 0)], (None, None)),
        ([(0, 5), (1, 5), (INF, 5)], (None, None)),  # not above 0: this is no duration
    ],
)
def test_limit_of_quantiles_in_the_first_bucket(
    buckets: list[tuple[float, float]], limits: tuple[float | None, float | None]
) -> None:
    assert tuple(find_lowest_bucket_limit(q, [Bucket(*each) for each in buckets]) for q in (0.5, 0.99)) == limits
