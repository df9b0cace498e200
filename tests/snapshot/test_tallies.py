"""Compare tallies over nodes and domains with pods counted one by one."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.snapshot.nodes import Domains
from kschedctl.snapshot.tallies import FEW_INFOS, FEW_SLOTS, SharedSums, SparseTally, Tally
from kschedctl.snapshot.trail import Trail

NODES = 6


def count_weights(places: list[tuple[int, int]], weights: list[int], codes: list[int], size: int) -> list[int]:
    """Count the weights of pods, given by row and info, in each domain."""
    sums = [0] * size
    for row, info in places:
        if codes[row] >= 0:
            sums[codes[row]] += weights[info]
    return sums


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from((1, 100, 1000, 10**6)))
def test_compact_tallies_follow_moves(seed: int, by_domain: bool, largest: int) -> None:
    """The number of infos is below or above the limit for sparse tallies. A copy changes independently."""
    random = Random(seed)
    infos = random.choice((3, FEW_INFOS, 2 * FEW_INFOS))
    weights = [random.randint(-largest, largest) for _ in range(infos)]
    codes = [random.randint(-1, 2) for _ in range(NODES)] if by_domain else list(range(NODES))
    domains = Domains(np.array(codes, np.int32), 3) if by_domain else None
    size = 3 if by_domain else NODES
    places = [(random.randrange(NODES), random.randrange(infos)) for _ in range(random.randint(0, 12))]
    sums = np.array(count_weights(places, weights, codes, size), np.int64)
    trail = Trail()
    small = Tally(np.array(weights, np.int64), domains, sums, len(trail)).compact()
    assert isinstance(small, SparseTally) == (np.count_nonzero(weights) <= FEW_INFOS)
    for _ in range(8):
        for _ in range(random.choice((0, 1, 1, 5))):
            _move(trail, places, random, infos)
        if random.random() < 0.3:
            small, before = small.copy(), small
            other, elsewhere = trail.copy(), list(places)
            _move(other, elsewhere, random, infos)
            assert before.compute_current_sums(other).tolist() == count_weights(elsewhere, weights, codes, size)
        if random.random() < 0.7:
            assert small.compute_current_sums(trail).tolist() == count_weights(places, weights, codes, size)
    assert small.compute_current_sums(trail).tolist() == count_weights(places, weights, codes, size)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_tallies_of_a_part_follow_moves(seed: int, by_domain: bool) -> None:
    random = Random(seed)
    weights = [random.randint(-2, 2) for _ in range(5)]
    left_out = set(random.sample(range(NODES + 2), 2))
    remaining = [row for row in range(NODES + 2) if row not in left_out]
    row_in_part = np.array([remaining.index(row) if row in remaining else -1 for row in range(NODES + 2)], np.int32)
    places = [(random.randrange(NODES + 2), random.randrange(5)) for _ in range(random.randint(0, 20))]
    sums = count_weights(places, weights, list(range(NODES + 2)), NODES + 2)
    shared_sums = SharedSums(np.array(weights), np.array(sums))

    codes = [random.randint(-1, 2) for _ in range(NODES)] if by_domain else list(range(NODES))
    domains = Domains(np.array(codes, np.int32), 3) if by_domain else None
    size = 3 if by_domain else NODES
    tally = shared_sums.restrict_to_part(row_in_part, NODES, domains)
    trail, places_in_part = Trail(), [(remaining.index(row), info) for row, info in places if row in remaining]
    for moves in (0, 1, 1, 5, 2):
        for _ in range(moves):
            _move(trail, places_in_part, random, 5)
        assert tally.compute_current_sums(trail).tolist() == count_weights(places_in_part, weights, codes, size)


def test_part_without_nodes_counts_no_pods() -> None:
    shared_sums = SharedSums(np.array([1]), np.array([3]))
    no_domains = Domains(np.zeros(0, np.int32), 2)
    everything_left_out = np.array([-1], np.int32)
    assert shared_sums.restrict_to_part(everything_left_out, 0, None).compute_current_sums(Trail()).tolist() == []
    assert shared_sums.restrict_to_part(everything_left_out, 0, no_domains).compute_current_sums(Trail()).tolist() == [
        0,
        0,
    ]


def _move(trail: Trail, places: list[tuple[int, int]], random: Random, infos: int) -> None:
    """Add a pod, or remove one."""
    if places and random.random() < 0.5:
        row, info = places.pop(random.randrange(len(places)))
        trail.append(row, info, -1, 0)
        return
    places.append((random.randrange(NODES), random.randrange(infos)))
    trail.append(*places[-1], 1, 0)


def test_pods_on_many_nodes_are_not_counted_one_by_one() -> None:
    sums = np.ones(FEW_SLOTS + 1, np.int64)
    assert not isinstance(Tally(np.array([1]), None, sums, 0).compact(), SparseTally)
    assert isinstance(Tally(np.array([1]), None, sums[1:], 0).compact(), SparseTally)
