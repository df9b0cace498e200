"""Compare the race simulation with arithmetic by hand: single pods at given times, and the binomial distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kschedctl.commands.audit.races.latency import ConstantLatency, ExponentialLatency, Latency, LognormalLatency
from kschedctl.commands.audit.races.model import RaceCounts, RaceSetting, RaceSimulation, RandomDraws
from kschedctl.commands.audit.races.question import FOREVER

LATENCIES = [ConstantLatency(0.0), ConstantLatency(45.0), ExponentialLatency(10.0), LognormalLatency(1.0, 90.0)]


def build_crowded_setting(informer: Latency, instances: int = 1, nodes: int = 20, load: float = 1.0) -> RaceSetting:
    """Build a setting with few full nodes and many short-lived pods."""
    return RaceSetting(nodes, 5.0, 4, load, instances, ExponentialLatency(3.0), informer, 200.0)


def build_draws(arrivals: list[float], binding: float, lag: float, instance: list[int] | None = None) -> RandomDraws:
    """Build draws in which pods come to empty nodes at these times, one node for all, and never end."""
    number, whose = len(arrivals), np.array(instance or [0] * len(arrivals))
    return RandomDraws(
        arrivals=np.array(arrivals),
        run_times=np.full(number, 1e9),
        binding=np.full(number, binding),
        lags=np.full((number, int(whose.max()) + 1), lag),
        instance=whose,
        ties=np.zeros(number),
        initial_pods=np.zeros(1, np.int64),
        ends=np.zeros(0),
        end_nodes=np.zeros(0, np.int64),
        end_lags=np.zeros((0, int(whose.max()) + 1)),
    )


def run_on_one_node(draws: RandomDraws, ttl: float) -> RaceCounts:
    """Run two minutes on one node with room for one pod."""
    instances = draws.lags.shape[1]
    setting = RaceSetting(1, 1.0, 1, 1.0, instances, ConstantLatency(0), ConstantLatency(0), 120.0)
    return RaceSimulation(setting, draws, ttl).run()


@given(
    st.integers(0, 2**32),
    st.sampled_from(LATENCIES),
    st.integers(1, 30),
    st.sampled_from([0.3, 1.0, 2.0]),
)
@settings(max_examples=60, deadline=None)
def test_one_instance_without_expiry_double_books_no_pod(seed: int, informer: Latency, nodes: int, load: float) -> None:
    setting = build_crowded_setting(informer, nodes=nodes, load=load)
    counts = RaceSimulation(setting, RandomDraws.from_seed(setting, seed), FOREVER).run()
    assert (counts.double_booked, counts.expired) == (0, 0)
    assert counts.assumed > 0


def test_equal_seeds_give_equal_results() -> None:
    setting = build_crowded_setting(ExponentialLatency(10.0), instances=2)
    runs = [RaceSimulation(setting, RandomDraws.from_seed(setting, seed), 20.0).run() for seed in (7, 7, 8)]
    assert runs[0] == runs[1] != runs[2]
    assert runs[0].double_booked > 0


@pytest.mark.parametrize("ttl", [5.0, 10.0, 20.0, 30.0])
def test_number_of_expiries_with_an_exponential_lag(ttl: float) -> None:
    """Each of n pods expires with probability p = exp(-ttl / mean).

    The number is n p, give or take 4 sqrt(n p (1 - p)).
    """
    setting = build_crowded_setting(ExponentialLatency(10.0), nodes=2000)
    counts = [RaceSimulation(setting, RandomDraws.from_seed(setting, seed), ttl).run() for seed in range(4)]
    pods, expired = sum(each.assumed for each in counts), sum(each.expired for each in counts)
    share = math.exp(-ttl / 10)
    assert pods > 3000
    assert abs(expired - pods * share) < 4 * math.sqrt(pods * share * (1 - share))


def test_shorter_expiry_leads_to_more_expiries() -> None:
    """exp(-t/10) at 5, 10, 20 and 30 s is 0.61, 0.37, 0.14 and 0.05."""
    setting = build_crowded_setting(ExponentialLatency(10.0), nodes=2000)
    expired = [
        RaceSimulation(setting, RandomDraws.from_seed(setting, 0), ttl).run().expired for ttl in (5.0, 10.0, 20.0, 30.0)
    ]
    assert expired == sorted(expired, reverse=True)
    assert expired[0] > 8 * expired[3]


@pytest.mark.parametrize(
    ("ttl", "second", "expected"),
    [
        # The first is assumed at 0.01, bound at 1.01, expires at 31.01 and is confirmed at 41.01.
        pytest.param(
            30.0, 35.0, RaceCounts(assumed=2, expired=2, double_booked=1), id="in between: its room looks free"
        ),
        pytest.param(30.0, 50.0, RaceCounts(assumed=1, expired=1, waiting=1), id="after it was confirmed"),
        pytest.param(30.0, 20.0, RaceCounts(assumed=1, expired=1, waiting=1), id="before: an expiry wakes nobody"),
        pytest.param(FOREVER, 35.0, RaceCounts(assumed=1, waiting=1), id="never expires"),
        pytest.param(40.0, 41.0, RaceCounts(assumed=1, waiting=1), id="confirmed just in time"),
    ],
)
def test_second_pod_gets_the_room_of_an_expired_pod(ttl: float, second: float, expected: RaceCounts) -> None:
    draws = build_draws([0.0, second], binding=1.0, lag=40.0)
    assert run_on_one_node(draws, ttl) == expected


def test_unanswered_binding_does_not_expire() -> None:
    draws = build_draws([0.0, 60.0], binding=100.0, lag=1.0)
    assert run_on_one_node(draws, 30.0) == RaceCounts(assumed=1, waiting=1)


def test_instances_that_do_not_see_each_other_double_book() -> None:
    """The first pod is bound at 1.01 and seen by the other instance five seconds later: not yet at 4, but at 7."""
    assert run_on_one_node(build_draws([0.0, 4.0], 1.0, 5.0, [0, 1]), FOREVER) == RaceCounts(assumed=2, double_booked=1)
    assert run_on_one_node(build_draws([0.0, 7.0], 1.0, 5.0, [0, 1]), FOREVER) == RaceCounts(assumed=1, waiting=1)


def test_room_of_a_rejected_pod_is_free_once_it_is_seen() -> None:
    """The other pod ends at 8 and is seen at 13, the rejected one at 4 + 0.01 + 1 + 5.

    Then one more pod gets the room.
    """
    draws = build_draws([0.0, 4.0, 20.0], 1.0, 5.0, [0, 1, 1])._replace(run_times=np.array([7.0, 1e9, 1e9]))
    assert run_on_one_node(draws, FOREVER) == RaceCounts(assumed=3, double_booked=1)


def test_node_with_the_fewest_pods_is_chosen_with_random_ties() -> None:
    draws = build_draws([0.0, 1.0, 2.0], 0.1, 0.1)._replace(
        ties=np.array([0.99, 0.0, 0.5]), initial_pods=np.array([0, 1, 0])
    )
    model = RaceSimulation(RaceSetting(3, 1.0, 2, 1.0, 1, ConstantLatency(0), ConstantLatency(0), 60.0), draws, FOREVER)
    model.run()
    assert model.pods_on_node.tolist() == [
        1,
        2,
        1,
    ]  # the last of two, then the only empty one, then the middle of three
