"""Check node selectors against upstream's own tables (component-helpers/scheduling/corev1/nodeaffinity, v1.36)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.api.json_values import drop_nulls
from kschedctl.api.node_selector import (
    NodeSelectorError,
    compile_node_selector,
    compile_preferred_terms,
    compile_required_node_affinity,
    compile_requirements,
)
from kschedctl.api.objects import (
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    PreferredSchedulingTerm,
    SelectorRequirement,
)

TABLE = Path(__file__).parent.parent / "golden" / "tables" / "corev1helpers.jsonl.gz"
with gzip.open(TABLE, "rt", encoding="utf-8") as lines:
    CASES = [json.loads(line) for line in lines]


def parametrize_cases(kind: str) -> pytest.MarkDecorator:
    chosen = [case for case in CASES if case["kind"] == kind]
    return pytest.mark.parametrize("case", chosen, ids=[case["name"] for case in chosen])


def get_labels_and_name(case: dict[str, Any]) -> tuple[dict[str, str], str]:
    metadata = (case["nodes"][0] or {}).get("metadata", {})
    return metadata.get("labels", {}), metadata.get("name", "")


def call_or_get_error(function: Any, *args: Any) -> Any:
    """Call a function and return its result, or the message of its NodeSelectorError."""
    try:
        return function(*args)
    except NodeSelectorError as error:
        return str(error)


@parametrize_cases("nodeselector-match")
def test_node_selector(case: dict[str, Any]) -> None:
    compiled = compile_node_selector(msgspec.convert(drop_nulls(case["nodeSelector"] or {}), NodeSelector))
    if case["nodes"] == [None] and "error" in case["want"]:  # upstream parsed it eagerly
        assert call_or_get_error(compiled.raise_errors) == case["want"]["error"]
        return
    want = case["want"].get("error") or case["want"]["matches"]
    assert call_or_get_error(compiled.match, *get_labels_and_name(case)) == want


@parametrize_cases("preferredterms-score")
def test_preferred_terms(case: dict[str, Any]) -> None:
    terms = msgspec.convert(case["preferredSchedulingTerms"], tuple[PreferredSchedulingTerm, ...])
    want = case["want"].get("error") or case["want"].get("score")
    assert call_or_get_error(lambda: compile_preferred_terms(terms).score(*get_labels_and_name(case))) == want


@parametrize_cases("noderequirements-selector")
def test_requirements(case: dict[str, Any]) -> None:
    requirements = msgspec.convert(case["requirements"] or [], list[SelectorRequirement])
    selector, errors = compile_requirements(requirements, "root")
    assert errors == case["want"].get("errors", [])
    assert errors or str(selector) == case["want"]["string"]


@parametrize_cases("pod-nodeaffinity-match")
def test_required_node_affinity(case: dict[str, Any]) -> None:
    """Upstream's table counts an error as "does not match"."""
    compiled = compile_required_node_affinity(msgspec.convert(drop_nulls(case["pod"]["spec"]), PodSpec))
    assert (call_or_get_error(compiled.match, *get_labels_and_name(case)) is True) == case["want"]["matches"]


def test_every_case_is_checked() -> None:
    here = {"nodeselector-match", "preferredterms-score", "noderequirements-selector", "pod-nodeaffinity-match"}
    tolerations = {"toleratestaint", "untoleratedtaint", "toleration-numeric"}
    assert {case["kind"] for case in CASES} == here | tolerations


def build_term(*expressions: tuple[str, str, tuple[str, ...]], fields: tuple[Any, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(SelectorRequirement(*expression) for expression in expressions),
        tuple(SelectorRequirement(*field) for field in fields),
    )


FAULTY = build_term(("cpus", "Gt", ("x",)))
FAULT = "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"


def test_faults_are_raised_only_if_no_term_matches() -> None:
    compiled = compile_node_selector(NodeSelector((FAULTY, build_term(("zone", "In", ("a",))))))
    assert compiled.match({"zone": "a"}, "n") is True
    with pytest.raises(NodeSelectorError) as error:
        compiled.match({"zone": "b"}, "n")
    assert str(error.value) == f"nodeSelectorTerms[0].matchExpressions[0].{FAULT}"


def test_node_selector_map_is_checked_before_faults() -> None:
    spec = msgspec.convert(
        {
            "nodeSelector": {"disk": "ssd"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Near"}]}]
                    }
                }
            },
        },
        PodSpec,
    )
    assert compile_required_node_affinity(spec).match({"disk": "hdd"}, "n") is False
    with pytest.raises(NodeSelectorError, match='Unsupported value: "Near": supported values: "In", "NotIn"'):
        compile_required_node_affinity(spec).match({"disk": "ssd"}, "n")


def test_preferred_faults_are_raised_with_their_index() -> None:
    terms = (PreferredSchedulingTerm(0, FAULTY), PreferredSchedulingTerm(1, FAULTY))
    with pytest.raises(NodeSelectorError) as error:
        compile_preferred_terms(terms)
    assert str(error.value) == f"[1].matchExpressions[0].{FAULT}"
    assert compile_preferred_terms(terms[:1]).score({}, "n") == 0


def test_empty_terms_match_and_score_nothing() -> None:
    assert compile_node_selector(NodeSelector((NodeSelectorTerm(),))).match({"a": "b"}, "n") is False
    assert compile_preferred_terms((PreferredSchedulingTerm(9),)).score({"a": "b"}, "n") == 0
    assert compile_required_node_affinity(PodSpec()).match({}, "n") is True


@pytest.mark.parametrize(
    ("field", "node_name", "matches"),
    [
        (("metadata.name", "In", ("n1",)), "n1", True),
        (("metadata.name", "In", ("n1",)), "n2", False),
        (("metadata.name", "NotIn", ("n1",)), "n2", True),
        (("metadata.name", "NotIn", ("n1",)), "n1", False),
        (("metadata.name", "In", ("n1",)), "", True),  # without a name fields are not asked
        (("spec.other", "In", ("n1",)), "n1", False),  # an unknown field is empty
        (("spec.other", "NotIn", ("n1",)), "n1", True),
    ],
)
def test_fields(field: tuple[str, str, tuple[str, ...]], node_name: str, matches: bool) -> None:
    compiled = compile_node_selector(NodeSelector((build_term(fields=(field,)),)))
    assert compiled.match({}, node_name) is matches
    assert compiled.names == {"n1"}


KEYS, VALUES = ["a", "b", "c"], ["1", "2", "x"]
expressions: st.SearchStrategy[tuple[str, str, list[str]]] = st.one_of(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["In", "NotIn"]), st.lists(st.sampled_from(VALUES), min_size=1)),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["Gt", "Lt"]), st.just(["1"])),
)
selectors = st.lists(st.lists(expressions, max_size=3), max_size=3).map(
    lambda terms: NodeSelector(
        tuple(build_term(*((key, op, tuple(values)) for key, op, values in one)) for one in terms)
    )
)
nodes = st.dictionaries(st.sampled_from([*KEYS, "unread"]), st.sampled_from(VALUES))


def match_naively(selector: NodeSelector, labels: dict[str, str]) -> bool:
    def holds(one: SelectorRequirement) -> bool:
        value, values = labels.get(one.key), one.values or ()
        return {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
            "Gt": value in ("2",),  # the only bound drawn is 1, so of the values only 2 is greater and none is less
            "Lt": False,
        }[one.operator]

    return any(t.match_expressions and all(map(holds, t.match_expressions)) for t in selector.node_selector_terms)


@given(selectors, nodes)
def test_matching_reads_only_the_named_keys(selector: NodeSelector, labels: dict[str, str]) -> None:
    compiled = compile_node_selector(selector)
    read = {key: value for key, value in labels.items() if key in compiled.keys}
    assert compiled.match(labels, "n") is bool(match_naively(selector, labels))
    assert compiled.match(read, "") is compiled.match(labels, "n")
    assert not compiled.names
