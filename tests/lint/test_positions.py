"""Documents, and where their fields stand."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.errors import InputError
from kschedctl.sources.positions import Path, Text, split_documents

YAML = """\
# the first line
apiVersion: v1
kind: List
items:
- kind: Pod
  metadata: {name: web, labels: {app: web}}
  spec:
    tolerations:
    - key: a
    -   key: b
---
{"kind": "Pod",
 "spec": {"containers": [{"name": "a"},
   {"name": "b"}]}}
"""

CASES: dict[tuple[int, Path], tuple[int, int]] = {
    (0, ()): (2, 1),
    (0, ("kind",)): (3, 1),
    (0, ("items", 0)): (5, 3),
    (0, ("items", 0, "metadata", "labels", "app")): (6, 34),
    (0, ("items", 0, "spec", "tolerations", 1)): (10, 9),
    (0, ("items", 0, "spec", "tolerations", 1, "effect")): (10, 9),
    (0, ("items", 0, "spec", "tolerations", 7)): (8, 5),
    (1, ()): (12, 1),
    (1, ("spec", "containers", 1)): (14, 4),
    (1, ("spec", "containers", 1, "name")): (14, 5),
    (1, ("spec", "volumes")): (13, 2),
}


@pytest.mark.parametrize(("where", "expected"), CASES.items(), ids=lambda value: str(value)[:60])
def test_positions(where: tuple[int, Path], expected: tuple[int, int]) -> None:
    document = list(split_documents("f", YAML))[where[0]]
    assert document.locate(where[1]) == expected


def leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, item in enumerate(value) for leaf in leaves(item, (*path, i))]
    return [(path, value)]


names = st.text('abc "\\:{}[],é', min_size=1, max_size=5)
documents = st.dictionaries(
    names,
    st.recursive(
        st.integers(0, 99), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
    ),
    min_size=1,
    max_size=3,
)


@given(documents, st.booleans())
def test_a_field_of_json_begins_with_its_key(document: dict[str, Any], indented: bool) -> None:
    text = json.dumps(document, indent=2 if indented else None, ensure_ascii=False)
    lines = text.split("\n")
    for path, value in leaves(document):
        line, column = Text("f", text).locate(path)
        expected = str(value) if isinstance(path[-1], int) else json.dumps(path[-1], ensure_ascii=False)
        assert lines[line - 1][column - 1 :].startswith(expected)


@given(documents)
def test_json_is_located_as_yaml_would(document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1)
    as_yaml = Text("f", "\n" + text)
    as_yaml.is_json = False
    for path, _ in leaves(document):
        line, column = as_yaml.locate(path)
        assert (line - 1, column) == Text("f", text).locate(path)


@given(st.lists(documents, max_size=4))
def test_a_stream_is_split_as_yaml_does(found: list[dict[str, Any]]) -> None:
    text = yaml.safe_dump_all(found, explicit_start=True)
    assert [document.parse() for document in split_documents("f", text)] == found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("---\n# nothing\n---\n", 0),
        ("a: 1\n...\n", 1),
        ("%YAML 1.1\n---\na: 1\n", 1),
        ("a: |\n  ---\n  x\n", 1),
    ],
)
def test_number_of_documents(text: str, count: int) -> None:
    assert len(list(split_documents("f", text))) == count


def test_times_stay_text() -> None:
    assert Text("f", "at: 2026-01-01T00:00:00Z").parse() == {"at": "2026-01-01T00:00:00Z"}


def test_an_error_names_the_line() -> None:
    (_, broken) = split_documents("f.yaml", "a: 1\n---\nb: 1\nc: {{ .Values.x }}: y\n")
    with pytest.raises(InputError, match=r"^f\.yaml:4: .*template") as caught:
        broken.parse()
    assert "\n" not in str(caught.value)
