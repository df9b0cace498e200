"""Check on random clusters that each fix works when applied, changes no more than needed, and that none is missed.

Drawn by seed, as a cluster has too many parts to draw each one; ``world(family, seed)`` is it again.
"""

from __future__ import annotations

import pytest
from remedy_checks import assert_all_hold, assert_none_is_missed, build_trials
from remedy_worlds import FAMILIES, World, build_world

SEEDS = range(10)


def build_stuck_worlds(family: str) -> list[World]:
    """Return the worlds in which the pod fits nowhere."""
    worlds = [build_world(family, seed) for seed in SEEDS]
    return [each for each in worlds if not build_trials(each).base.works]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_fix_helps_and_needs_all_its_changes(family: str) -> None:
    helped = sum(assert_all_hold(each) > 0 for each in build_stuck_worlds(family))
    assert helped > len(SEEDS) // 3


@pytest.mark.parametrize("family", FAMILIES)
def test_search_finds_a_fix_if_brute_force_does(family: str) -> None:
    found = sum(assert_none_is_missed(each) for each in build_stuck_worlds(family))
    assert found > len(SEEDS) // 3
