"""Check tolerations against upstream's own tables (api/core/v1/toleration_test.go, component-helpers; v1.36)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kschedctl.api.objects import Taint, Toleration
from kschedctl.api.tolerations import find_untolerated_taint, is_tolerated, tolerates

TABLE = Path(__file__).parent.parent / "golden" / "tables" / "corev1helpers.jsonl.gz"
with gzip.open(TABLE, "rt", encoding="utf-8") as lines:
    CASES = [json.loads(line) for line in lines]


def parametrize_cases(kind: str) -> pytest.MarkDecorator:
    chosen = [case for case in CASES if case["kind"] == kind]
    return pytest.mark.parametrize("case", chosen, ids=[case["name"] for case in chosen])


def is_comparison_enabled(case: dict[str, Any]) -> bool:
    return bool(case["featureGates"]["TaintTolerationComparisonOperators"])


@parametrize_cases("toleratestaint")
def test_tolerates(case: dict[str, Any]) -> None:
    toleration, taint = msgspec.convert(case["toleration"], Toleration), msgspec.convert(case["taint"], Taint)
    assert tolerates(toleration, taint, comparison_operators=is_comparison_enabled(case)) is case["want"]["tolerates"]


@parametrize_cases("toleration-numeric")
def test_numeric(case: dict[str, Any]) -> None:
    toleration, taint = Toleration("k", case["operator"], case["tolerationValue"]), Taint("k", case["taintValue"])
    compared = case["operator"] in ("Gt", "Lt") and tolerates(toleration, taint, comparison_operators=True)
    assert compared is case["want"]["result"]
    if case["operator"] in ("Gt", "Lt"):
        assert not tolerates(toleration, taint)  # the gate is off


@parametrize_cases("untoleratedtaint")
def test_find_untolerated(case: dict[str, Any]) -> None:
    """The table gives the taints that pass its filter function. Filters by effect are tested below."""
    tolerations = msgspec.convert(case["tolerations"] or [], list[Toleration])
    taints = msgspec.convert(case["taintsAfterFilter"] or [], list[Taint])
    found = find_untolerated_taint(taints, tolerations, comparison_operators=is_comparison_enabled(case))
    assert found == msgspec.convert(case["want"]["taint"], Taint | None)


def test_first_untolerated_taint_of_the_given_effects_is_found() -> None:
    taints = [Taint("a", "", "PreferNoSchedule"), Taint("b", "", "NoExecute"), Taint("c", "", "NoSchedule")]
    assert find_untolerated_taint(taints, []) == taints[0]
    assert find_untolerated_taint(taints, [], {"NoSchedule", "NoExecute"}) == taints[1]
    assert find_untolerated_taint(taints, [Toleration("b", "Exists")], {"NoSchedule", "NoExecute"}) == taints[2]
    assert find_untolerated_taint(taints, [Toleration(operator="Exists")]) is None
    assert find_untolerated_taint(taints, iter([Toleration("a", "Exists"), Toleration("b", "Exists")])) == taints[2]


def test_empty_key_matches_any_key_with_every_operator() -> None:
    assert tolerates(Toleration("", "Equal", "v"), Taint("k", "v", "NoSchedule"))
    assert not tolerates(Toleration("", "Equal", "w"), Taint("k", "v", "NoSchedule"))
    assert tolerates(Toleration("", "Exists"), Taint("k", "v", "NoSchedule"))


def test_unknown_operator_tolerates_nothing() -> None:
    assert not tolerates(Toleration("k", "Like", "v"), Taint("k", "v"))
    assert not is_tolerated([Toleration("k", "Like", "v")], Taint("k", "v"))
