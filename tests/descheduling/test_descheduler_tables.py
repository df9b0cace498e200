"""The plugins of the descheduler against its own table tests (v0.36), by name."""

from __future__ import annotations

import numpy as np
import pytest
from descheduler_cases import Case, agrees, arguments, evicted_by, fork, here, recorded

from kschedctl.api.objects import Pod
from kschedctl.cluster import convert
from kschedctl.descheduling.descheduler import REPLAYED


def missing(case: Case) -> list[str]:
    """What of the case is not replayed."""
    if case["plugin"] not in REPLAYED:
        return [""]
    return list(arguments(case["plugin"], case["args"]).not_replayed())


EVICTIONS = [case for case in recorded("evictions") if not missing(case)]
EVICTABLE = recorded("evictable")


@pytest.mark.parametrize("case", EVICTIONS, ids=lambda case: case["test"])
def test_evictions(case: Case) -> None:
    assert agrees(case, evicted_by(case)), case["evicted"]


def ended(case: Case) -> bool:
    pod = convert({"apiVersion": "v1", "kind": "Pod", **case["pod"]})
    return isinstance(pod, Pod) and pod.terminated


@pytest.mark.parametrize("case", [case for case in EVICTABLE if not ended(case)], ids=lambda case: case["test"])
def test_default_evictor(case: Case) -> None:
    where, _ = here(case, "args")
    meta = case["pod"]["metadata"]
    position = fork(case).pods.index[f"{meta['namespace']}/{meta['name']}"]
    if case["point"] == "Filter":
        assert bool(where.evictor.evictable[position]) == case["want"], where.evictor.reasons
    else:
        assert bool(where.evictor.passes(np.array([position]))[0]) == case["want"]


def test_how_many_are_compared() -> None:
    """Less those of RemoveFailedPods, of pods that have ended, by most conditions and by real use; two have ended."""
    assert len(EVICTIONS) == 210
    assert sum(map(ended, EVICTABLE)) == 2
