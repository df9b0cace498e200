"""Whole loops of the real Cluster Autoscaler 1.36, answered the same: see golden/README.md."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from golden_cases import Json, family_lines

import kschedctl

SHARES = 4
ORDERED = frozenset(("candidates", "unneeded", "templates", "increases"))
"""Lists whose order is part of the answer."""


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("family", ["scaleup", "scaledown"])
def test_a_loop_is_answered_as_by_the_real_one(family: str, share: int) -> None:
    ask = kschedctl.scale_up if family == "scaleup" else kschedctl.scale_down
    cases = [json.loads(line) for line in family_lines(f"autoscaling/{family}")[share::SHARES]]
    assert len(cases) >= 22
    for case in cases:
        given, wanted = case["input"], case["answer"]
        cluster = kschedctl.Cluster.from_objects(given["objects"])
        told = {"now": given["now"], "active_scale_ups": given.get("activeScaleUps")}
        got = ask(cluster, given["nodeGroups"], given.get("options"), **told).to_dict()
        parts = {key: (plain(got.get(key), key), plain(wanted[key], key)) for key in wanted}
        different = {key: pair for key, pair in parts.items() if not same(*pair)}
        assert not different, case["id"]


def test_the_comparison_sees_a_difference() -> None:
    assert same({"value": 1.0}, {"value": 1 + 1e-12})
    assert not same({"value": 1.0}, {"value": 1.1})
    assert not same(plain(["b", "a"], "candidates"), plain(["a", "b"], "candidates"))


def plain(value: Any, key: str = "") -> Any:
    """Nothing is like empty, and most lists have no order."""
    if isinstance(value, dict):
        found: Json = {name: plain(each, name) for name, each in value.items()}
        return {name: each for name, each in found.items() if each is not False and each not in (None, [], {}, "")}
    if isinstance(value, list):
        items = [plain(each) for each in value]
        return items if key in ORDERED else sorted(items, key=lambda each: json.dumps(each, sort_keys=True))
    return value


def same(got: Any, wanted: Any) -> bool:
    """Numbers to nine digits; what is not there is like zero or nothing."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(same(got[key], wanted[key]) for key in got)
    if isinstance(got, list) and isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    if isinstance(got, float | int) and isinstance(wanted, float | int):
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return bool(got == wanted) or not (got or wanted)
