"""Check that YAML has kubectl's meaning, with the tables of goyaml.v2's resolve.go and of sigs.k8s.io/yaml."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.sources.documents.yaml_documents import parse_yaml

SCALARS: dict[str, Any] = {
    "yes": True,
    "On": True,
    "y": True,
    "n": False,
    "OFF": False,
    "yEs": "yEs",
    "'yes'": "yes",
    "~": None,
    "": None,
    "null": None,
    "nil": "nil",
    "12": 12,
    "+12": 12,
    "-1_000": -1000,
    "0x1F": 31,
    "0b101": 5,
    "0o17": 15,
    "017": 15,
    "08": 8,
    "18446744073709551615": 2**64 - 1,
    "18446744073709551616": 1.8446744073709552e19,
    "1.5": 1.5,
    ".5": 0.5,
    "1.": 1,
    "1e3": 1000,
    "1e+06": 1_000_000,
    "1e400": "1e400",
    "12:30:45": "12:30:45",
    "1Gi": "1Gi",
    "2024-01-02": "2024-01-02",
    "2024-01-02T03:04:05Z": "2024-01-02T03:04:05Z",
    "1.2.3": "1.2.3",
    "-": [None],
    "!!str 12": "12",
    "!!int 12": 12,
    "!!float 12": 12,
    "! 12": 12,
    '"\\e[31m"': "\x1b[31m",
    "=": "=",
}


@pytest.mark.parametrize("text", SCALARS)
def test_scalars(text: str) -> None:
    (document,) = parse_yaml(f"a: {text}" if text != "-" else "a:\n-", "file")
    assert document.value == {"a": SCALARS[text]}
    assert type(document.value["a"]) is type(SCALARS[text]) or text == "!!float 12"


def test_keys_become_strings() -> None:
    (document,) = parse_yaml("{1: a, true: b, n: c, 1.5: d, 'yes': e}", "file")
    assert document.value == {"1": "a", "true": "b", "false": "c", "1.5": "d", "yes": "e"}


def test_anchors_and_merges() -> None:
    text = "base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\nfirst: {<<: *base, b: 5}\nboth: {<<: [*base, *more]}"
    (document,) = parse_yaml(text, "file")
    assert document.value["first"] == {"a": 1, "b": 5}
    assert document.value["both"] == {"a": 1, "b": 2, "c": 4}


def test_merge_key_may_be_tagged() -> None:
    """Some generators write it so. Upstream: isMerge in goyaml.v2/decode.go."""
    (document,) = parse_yaml("base: &base {a: 1}\nfirst: {!!merge <<: *base, b: 2}", "file")
    assert document.value["first"] == {"a": 1, "b": 2}


def test_quoted_merge_key_is_an_ordinary_key() -> None:
    (document,) = parse_yaml("'<<': {a: 1}", "file")
    assert document.value == {"<<": {"a": 1}}


def test_documents_have_numbers_and_lines() -> None:
    documents = list(parse_yaml("# first\na: 1\n---\n---\n# third\nb: 2\n...\n---\nc: 3\n", "file"))
    assert [(d.value, d.number, d.line) for d in documents] == [({"a": 1}, 1, 2), ({"b": 2}, 3, 4), ({"c": 3}, 4, 8)]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(categories=["L", "N", "P", "Zs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz.-/", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES.filter(lambda value: value is not None))
def test_json_is_yaml(value: Any) -> None:
    (document,) = parse_yaml(json.dumps(value, ensure_ascii=False), "file")
    assert document.value == value


@given(VALUES.filter(lambda value: value is not None))
def test_output_of_yaml_libraries_is_read_back(value: Any) -> None:
    (document,) = parse_yaml(yaml.safe_dump(value, default_style='"', allow_unicode=True), "file")
    assert document.value == value
