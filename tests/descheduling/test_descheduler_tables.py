"""Check the descheduler's plugins against its own table tests (v0.36), by name."""

from __future__ import annotations

import numpy as np
import pytest
from descheduler_cases import Case, agrees, convert_arguments, list_evicted_pods, read_cases, start_round

from kschedctl.descheduling.descheduler import PLUGIN_TYPES


def list_unsupported_parts(case: Case) -> list[str]:
    """Return the parts of the case that are not replayed."""
    if case["plugin"] not in PLUGIN_TYPES:
        return [""]
    return list(convert_arguments(case["plugin"], case["args"]).iter_unreplayed_arguments())


EVICTIONS = [case for case in read_cases("evictions") if not list_unsupported_parts(case)]
EVICTABLE = read_cases("evictable")


@pytest.mark.parametrize("case", EVICTIONS, ids=lambda case: case["test"])
def test_evictions(case: Case) -> None:
    assert agrees(case, list_evicted_pods(case)), case["evicted"]


@pytest.mark.parametrize("case", EVICTABLE, ids=lambda case: case["test"])
def test_default_evictor(case: Case) -> None:
    assert is_evictable(case) == case["want"]


def is_evictable(case: Case) -> bool:
    """Return whether DefaultEvictor lets the pod of a case be evicted, at the extension point of the case."""
    where, _ = start_round(case, "args")
    meta = case["pod"]["metadata"]
    key = f"{meta['namespace']}/{meta['name']}"
    if key not in where.seen.view.pods.index:
        assert where.ended is not None
        where = where.ended
    position = where.seen.view.pods.index[key]
    if case["point"] == "Filter":
        return bool(where.evictor.evictable[position])
    return bool(where.evictor.find_pods_passing_pre_eviction(np.array([position]))[0])


def test_number_of_compared_cases() -> None:
    """Of the 277 cases, 7 depend on conditions that are not kept, and 21 on the actual usage of pods."""
    assert len(EVICTIONS) == 249
    assert len(EVICTABLE) == 78
