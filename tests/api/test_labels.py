"""Check label selectors against upstream's own tables (apimachinery/pkg/labels, pkg/apis/meta/v1; v1.36)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.api import labels
from kschedctl.api.labels import Requirement, SelectorError, build_requirement, parse_selector, selector_from_api
from kschedctl.api.objects import LabelSelector

TABLE = Path(__file__).parent.parent / "golden" / "tables" / "labels.jsonl.gz"
with gzip.open(TABLE, "rt", encoding="utf-8") as lines:
    CASES = [json.loads(line) for line in lines]


def parametrize_cases(kind: str) -> pytest.MarkDecorator:
    chosen = [case for case in CASES if case["kind"] == kind]
    return pytest.mark.parametrize("case", chosen, ids=[case["name"][:40] or "empty" for case in chosen])


def find_error(function: Any, *args: Any) -> str | None:
    try:
        function(*args)
    except SelectorError as error:
        return str(error)
    return None


@parametrize_cases("selector-parse")
def test_parse(case: dict[str, Any]) -> None:
    want = case["want"]
    if "error" in want:
        assert find_error(parse_selector, case["input"]) == want["error"]
        return
    selector = parse_selector(case["input"])
    shown = [{"key": r.key, "operator": r.operator, "values": sorted(r.values)} for r in selector.requirements]
    assert (str(selector), selector.selects_everything, not selector.matches_nothing) == (
        want["string"],
        want["empty"],
        want["selectable"],
    )
    assert shown == want["requirements"]


@parametrize_cases("selector-match")
def test_match(case: dict[str, Any]) -> None:
    if "input" in case:
        assert parse_selector(case["input"]).matches(case["labels"] or {}) is case["want"]["matches"]
    if "requirements" in case:
        made = [build_requirement(r["key"], r["operator"], r["values"] or ()) for r in case["requirements"]]
        assert labels.build_selector(made).matches(case["labels"] or {}) is case["want"]["matches"]


@parametrize_cases("requirement-new")
def test_requirement(case: dict[str, Any]) -> None:
    error = find_error(build_requirement, case["key"], case["operator"], case["values"])
    assert error == case["want"].get("error")
    assert (error is None) == case["want"]["valid"]


@parametrize_cases("labelselector-convert")
def test_from_label_selector(case: dict[str, Any]) -> None:
    given_selector, want = msgspec.convert(case["labelSelector"], LabelSelector | None), case["want"]
    if "error" in want:
        assert find_error(selector_from_api, given_selector) == want["error"]
        return
    selector = selector_from_api(given_selector)
    assert str(selector) == want["string"]
    assert selector.selects_everything == want["empty"]
    assert selector.matches({}) == want["matchesEmptySet"]
    assert selector.matches({"foo": "bar"}) == want["matchesFooBar"]
    assert selector.matches({"foo": "bar", "baz": "qux"}) == want["matchesFooBarBazQux"]


def test_every_case_is_checked() -> None:
    checked = {"selector-parse", "selector-match", "requirement-new", "labelselector-convert"}
    assert {case["kind"] for case in CASES} == checked


@pytest.mark.parametrize(
    ("operator", "values", "matching"),
    [
        ("in", ("a", "b"), {"a", "b"}),
        ("=", ("a",), {"a"}),
        ("==", ("a",), {"a"}),
        ("notin", ("a", "b"), {"", "7", None}),
        ("!=", ("a",), {"b", "", "7", None}),
        ("exists", (), {"a", "b", "", "7"}),
        ("!", (), {None}),
        ("gt", ("6",), {"7"}),
        ("gt", ("7",), set()),
        ("lt", ("8",), {"7"}),
        ("in", ("",), {""}),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], matching: set[str | None]) -> None:
    candidates: list[str | None] = ["a", "b", "", "7", None]  # None: the label is absent
    made = build_requirement("key", operator, values)
    assert {value for value in candidates if made.matches({} if value is None else {"key": value})} == matching


@pytest.mark.parametrize(
    ("key", "error"),
    [
        ("example.com/name", None),
        ("/name", "prefix part must be non-empty"),
        ("Example.com/name", "prefix part a lowercase RFC 1123 subdomain must consist of"),
        ("a" * 254 + "/name", "prefix part must be no more than 253 bytes"),
        ("example.com/", '[key: Invalid value: "example.com/": name part must be non-empty; name part must consist of'),
        ("a/b/c", "a valid label key must consist of alphanumeric characters"),
        ("name\n", 'key: Invalid value: "name\\n": name part must consist of'),
        ("é", 'key: Invalid value: "é": name part must consist of'),
        ("\x01", 'key: Invalid value: "\\x01": name part must consist of'),
    ],
)
def test_label_keys(key: str, error: str | None) -> None:
    found = find_error(build_requirement, key, labels.EXISTS)
    assert found is None if error is None else error.removeprefix("[") in (found or "")


def test_absent_and_empty_values_are_distinguished() -> None:
    assert find_error(build_requirement, "k", "in", None) == (
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    )
    assert find_error(build_requirement, "k", "in", ()) == (
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    )


def test_all_faults_are_listed() -> None:
    assert find_error(build_requirement, "k", "gt", ("a", "1")) == (
        "[values: Invalid value: [\"a\",\"1\"]: for 'Gt', 'Lt' operators, exactly one value is required, "
        "values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an integer]"
    )


def test_unknown_operator_of_a_label_selector() -> None:
    wrong = msgspec.convert({"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}, LabelSelector)
    assert find_error(selector_from_api, wrong) == '"Gt" is not a valid label selector operator'


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("+7", 7), ("-007", -7), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))],
)
def test_parse_int64(text: str, number: int) -> None:
    assert labels.parse_int64(text) == number


@pytest.mark.parametrize("text", ["", "+", "1_0", " 1", "1.0", "0x1", "٣", "9223372036854775808", "9" * 10_000])
def test_parse_int64_rejects(text: str) -> None:
    assert labels.parse_int64(text) is None


words = st.text("abz09-_.", min_size=1, max_size=4).filter(lambda word: word[0] in "abz09" and word[-1] in "abz09")
requirements = st.one_of(
    st.builds(build_requirement, words, st.sampled_from(["in", "notin"]), st.lists(words, min_size=1, unique=True)),
    st.builds(build_requirement, words, st.sampled_from(["=", "==", "!="]), st.tuples(words)),
    st.builds(build_requirement, words, st.sampled_from(["exists", "!"])),
    st.builds(build_requirement, words, st.sampled_from(["gt", "lt"]), st.tuples(st.integers(0, 99).map(str))),
)


@given(st.lists(requirements, max_size=4), st.dictionaries(words, words))
def test_printed_selectors_parse_to_an_equal_selector(made: list[Requirement], labelled: dict[str, str]) -> None:
    selector = labels.build_selector(made)
    again = parse_selector(str(selector))
    assert str(again) == str(selector)
    assert again.matches(labelled) == selector.matches(labelled) == all(r.matches(labelled) for r in made)


@given(st.text("xy=!(),<> in", max_size=12))
def test_any_text_parses_or_is_rejected_in_one_line(text: str) -> None:
    error = find_error(parse_selector, text)
    assert error is None or (error and "\n" not in error)
