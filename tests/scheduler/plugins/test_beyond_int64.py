"""Check amounts near and beyond 64 bits, which Go's int64 arithmetic wraps.

Upstream: ScaledValue in apimachinery/pkg/api/resource/quantity.go, fitsRequest in noderesources/fit.go, Resource.Add in
pkg/scheduler/framework/types.go, leastRequestedScore in noderesources/least_allocated.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kschedctl
from kschedctl.scheduler.framework.scores import truncating_divide
from kschedctl.scheduler.plugins.helper.resource_allocation import (
    MAX_EXACT_AMOUNT,
    MIN_SIZE_FOR_FLOAT_DIVISION,
    STRATEGIES,
    NodeUsage,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)

Json = dict[str, Any]
MOST = 2**63 - 1
GPU = "example.com/gpu"


def build_node(name: str, **allocatable: str) -> Json:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9", **allocatable}}
    return {"kind": "Node", "metadata": {"name": name}, "status": status}


def build_pod(name: str, node_name: str = "", **requests: str) -> Json:
    container = {"name": "c", "resources": {"requests": requests}}
    spec: Json = {"containers": [container]}
    if node_name:
        spec["nodeName"] = node_name
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec}


def list_rejections(*objects: Json) -> Json:
    """Return why NodeResourcesFit rejects each node that it rejects."""
    found = kschedctl.explain(kschedctl.Cluster.from_objects(list(objects)), "d/p").to_dict()["filter"]
    return {name: plugins["NodeResourcesFit"]["reasons"] for name, plugins in found.items()}


@pytest.mark.parametrize(
    ("memory", "refused"),
    [
        ("9E", True),
        ("9223372036854775807", True),
        ("12E", False),  # an int64 amount that leaves int64 when scaled is 0
        ("9223372036854775808", False),  # a big decimal, of which the lowest 64 bits are -2**63, below zero
    ],
)
def test_requests_up_to_and_beyond_int64(memory: str, refused: bool) -> None:
    assert list_rejections(build_node("n"), build_pod("p", memory=memory)) == (
        {"n": ["Insufficient memory"]} if refused else {}
    )


def test_free_amount_is_compared_without_overflow() -> None:
    """8 GiB - 9E does not overflow and is less than 9E. Adding first, 9E - (8 GiB - 9E), would overflow."""
    objects = build_node("n"), build_pod("full", "n", memory="9E"), build_pod("p", memory="9E")
    assert list_rejections(*objects) == {"n": ["Insufficient memory"]}


def test_sums_of_requests_wrap_around() -> None:
    """9E + 9E = 18 * 10**18 - 2**64 = -446744073709551616, so the node seems to have more free than its allocatable."""
    objects = build_node("n"), build_pod("a", "n", memory="9E"), build_pod("b", "n", memory="9E")
    assert list_rejections(*objects, build_pod("p", memory="100Gi")) == {}


def test_negative_requests_count_for_devices_only() -> None:
    """18446744073709551615 is -1 in 64 bits. That is too much of a device for a node with 4 - 9 = -5 of it free."""
    minus_one = "18446744073709551615"
    over_full = build_node("n", memory="4", **{GPU: "4"}), build_pod("full", "n", memory="9", **{GPU: "9"})
    assert list_rejections(*over_full, build_pod("p", memory=minus_one)) == {}
    assert list_rejections(*over_full, build_pod("p", **{GPU: minus_one})) == {"n": [f"Insufficient {GPU}"]}


def test_cpu_beyond_int64_millicores_is_zero() -> None:
    """10P cores are 10**19 millicores, which is beyond int64 and becomes 0."""
    assert list_rejections(build_node("n"), build_pod("p", cpu="10P")) == {}
    assert list_rejections(build_node("n"), build_pod("p", cpu="9P")) == {"n": ["Insufficient cpu"]}


# -- scores, against a naive loop in Go's arithmetic ------------------------------------------------------------------


def wrap_int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def divide_as_go(dividend: int, divisor: int) -> int:
    return int(abs(dividend) // abs(divisor)) * (1 if (dividend < 0) == (divisor < 0) else -1)


def score_least_allocated(requested: int, capacity: int) -> int:
    return 0 if requested > capacity else divide_as_go(wrap_int64(wrap_int64(capacity - requested) * 100), capacity)


def score_most_allocated(requested: int, capacity: int) -> int:
    return divide_as_go(wrap_int64(min(requested, capacity) * 100), capacity)


def score_ratio(requested: int, capacity: int) -> int:
    """Compute the function through (0, 0) and (100, 10), times 10."""
    percent = 100 if requested > capacity else divide_as_go(wrap_int64(requested * 100), capacity)
    return min(max(percent, 0), 100)


JUST_ORDINARY = 2**46 - 1
AMOUNTS = [
    0,
    1,
    7,
    3 * 10**12,
    JUST_ORDINARY - 1,
    JUST_ORDINARY,
    JUST_ORDINARY + 1,
    10**9,
    92 * 10**15,
    93 * 10**15,
    2 * 10**17,
    5 * 10**18,
    MOST,
    -1,
    -(10**17),
]


def compute_scores(strategy: ScoringStrategy, pairs: list[tuple[int, int]], *, plain: bool = False) -> list[int]:
    """Return the scores of nodes with these requested and allocatable amounts."""
    requested, capacity = np.array(pairs, np.int64).T.reshape(2, 1, -1)
    return STRATEGIES[strategy.type](strategy, NodeUsage(requested, requested, capacity, np.array([1]), plain)).tolist()


@pytest.mark.parametrize(
    ("name", "naive"), [("LeastAllocated", score_least_allocated), ("MostAllocated", score_most_allocated)]
)
def test_scores_wrap_around(name: str, naive: Any) -> None:
    strategy = ScoringStrategy(type=name, resources=(ResourceSpec("memory", 1),))
    pairs = [(requested, capacity) for requested in AMOUNTS for capacity in AMOUNTS if capacity > 0]
    assert compute_scores(strategy, pairs) == [naive(*pair) for pair in pairs]
    for pair in pairs:
        if pair[1] < MAX_EXACT_AMOUNT:
            assert compute_scores(strategy, [pair], plain=True) == [naive(*pair)]


@pytest.mark.parametrize(
    ("name", "naive"), [("LeastAllocated", score_least_allocated), ("MostAllocated", score_most_allocated)]
)
def test_shares_just_below_whole_percents(name: str, naive: Any) -> None:
    """A float that is rounded up would give a score that is one too high here."""
    strategy = ScoringStrategy(type=name, resources=(ResourceSpec("memory", 1),))
    capacities = [JUST_ORDINARY - k for k in (0, 1, 4, 63)] + [2**45 + 1, 3**28, 7 * 10**12 + 3, 100, 97]
    pairs = [
        (capacity * percent // 100 + off, capacity)
        for capacity in capacities
        for percent in range(0, 101, 3)
        for off in (-1, 0, 1)
        if 0 <= capacity * percent // 100 + off <= capacity
    ]
    want = [naive(*pair) for pair in pairs]
    assert len(pairs) > MIN_SIZE_FOR_FLOAT_DIVISION
    assert compute_scores(strategy, pairs, plain=True) == want
    assert [compute_scores(strategy, [pair], plain=True)[0] for pair in pairs] == want


def test_ratios_wrap_around() -> None:
    points = (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))
    name = "RequestedToCapacityRatio"
    strategy = ScoringStrategy(
        type=name,
        resources=(ResourceSpec("memory", 1),),
        requested_to_capacity_ratio=RequestedToCapacityRatioParam(points),
    )
    pairs = [(requested, capacity) for requested in AMOUNTS for capacity in AMOUNTS if capacity > 0]
    assert compute_scores(strategy, pairs) == [score_ratio(*pair) for pair in pairs]


def test_division_rounds_towards_zero() -> None:
    for dividend in (*AMOUNTS, -7, -(2**63)):
        for divisor in (1, 2, 3, -3, 10**18):
            assert truncating_divide(np.array([dividend]), divisor).tolist() == [divide_as_go(dividend, divisor)]
