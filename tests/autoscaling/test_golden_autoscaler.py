"""Compare whole loops with the real Cluster Autoscaler 1.36: see golden/README.md."""

from __future__ import annotations

import json

import pytest
from golden_cases import Json, iter_family_lines
from scaling_answers import drop_empty_parts, is_same

import kschedctl

ORDERED = frozenset(("candidates", "unneeded", "templates", "increases"))
"""Lists whose order is part of the answer."""
SHARES = 4


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("family", ["scaleup", "scaledown"])
def test_loop_equals_that_of_the_real_autoscaler(family: str, share: int) -> None:
    cases = [json.loads(line) for line in iter_family_lines(f"autoscaling/{family}")[share::SHARES]]
    assert len(cases) >= 22
    for case in cases:
        assert not find_differing_parts(family, case), case["id"]


def find_differing_parts(family: str, case: Json) -> Json:
    """Return our value and the autoscaler's of each part of the answer in which they differ."""
    ask = kschedctl.scale_up if family == "scaleup" else kschedctl.scale_down
    given, wanted = case["input"], case["answer"]
    cluster = kschedctl.Cluster.from_objects(given["objects"])
    times = {"now": given["now"], "active_scale_ups": given.get("activeScaleUps")}
    got = ask(cluster, given["nodeGroups"], given.get("options"), **times).to_dict()
    parts = {
        key: (drop_empty_parts(got.get(key), ORDERED, key), drop_empty_parts(wanted[key], ORDERED, key))
        for key in wanted
    }
    return {key: pair for key, pair in parts.items() if not is_same(*pair)}


def test_comparison_detects_a_difference() -> None:
    assert is_same({"value": 1.0}, {"value": 1 + 1e-12})
    assert not is_same({"value": 1.0}, {"value": 1.1})
    assert not is_same(
        drop_empty_parts(["b", "a"], ORDERED, "candidates"), drop_empty_parts(["a", "b"], ORDERED, "candidates")
    )
