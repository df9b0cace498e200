"""Check the positions of documents and their fields."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.errors import InputError
from kschedctl.sources.documents.documents import Content
from kschedctl.sources.documents.positions import LocatedObject, Path, Text, load_objects, parse_objects

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


def parse_manifests(text: str) -> list[LocatedObject]:
    """Return the manifests in a text."""
    return list(parse_objects("f.yaml", Content("f.yaml", text, is_json=False)))


@pytest.mark.parametrize(("where", "expected"), CASES.items(), ids=lambda value: str(value)[:60])
def test_positions(where: tuple[int, Path], expected: tuple[int, int]) -> None:
    text = parse_manifests(YAML)[0].text
    assert text.locate(where[0] + 1, where[1]) == expected


def iter_leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Yield the path and value of each scalar."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in iter_leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, item in enumerate(value) for leaf in iter_leaves(item, (*path, i))]
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
def test_json_field_begins_with_its_key(document: dict[str, Any], indented: bool) -> None:
    text = json.dumps(document, indent=2 if indented else None, ensure_ascii=False)
    lines = text.split("\n")
    for path, value in iter_leaves(document):
        line, column = Text("f", Content("f", text, is_json=True)).locate(1, path)
        expected = str(value) if isinstance(path[-1], int) else json.dumps(path[-1], ensure_ascii=False)
        assert lines[line - 1][column - 1 :].startswith(expected)


@given(documents)
def test_json_is_located_like_yaml(document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1)
    as_json, as_yaml = (Text("f", Content("f", text, is_json=is_json)) for is_json in (True, False))
    for path, _ in iter_leaves(document):
        assert as_yaml.locate(1, path) == as_json.locate(1, path)


@given(st.lists(documents.filter(bool), max_size=4))
def test_each_document_of_a_stream_is_located_separately(found: list[dict[str, Any]]) -> None:
    """Each JSON document is one line, and lines between the fields of other documents do not matter."""
    lines = [json.dumps(document) for document in found]
    as_json = Text("f", Content("f", "\n".join(lines), is_json=True))
    as_yaml = Text("f", Content("f", "".join(f"---\n{line}\n" for line in lines), is_json=False))
    for number, document in enumerate(found, 1):
        for path, _ in iter_leaves(document):
            assert as_json.locate(number, path)[0] == number
            assert as_yaml.locate(number, path) == (2 * number, as_json.locate(number, path)[1])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("---\n# nothing\n---\n", 0),
        ("a: 1\n...\n", 1),
        ("%YAML 1.1\n---\na: 1\n", 1),
        ("a: |\n  ---\n  x\n", 1),
        ('{"a": 1}\n---\n{"a": 2}\n', 2),
        ('{"a": 1}\n---\na: 2\n', 2),
    ],
)
def test_number_of_documents(text: str, count: int, tmp_path: FilePath) -> None:
    file = tmp_path / "f"
    file.write_text(text)
    assert len(list(load_objects(str(file)))) == count


MANY = {
    "markers": "---\na: 1\n---\n# nothing\n---\nb:\n- c: 1\n",
    "a first one without a marker": "# head\na: 1\n---\nb: 2\n",
    "ends": "a: 1\n...\n---\nb: 2\n...\n# end\n---\nc: 3\n",
    "directives": "%YAML 1.1\n---\na: 1\n...\n%YAML 1.1\n---\nb: 2\n",
    "a tag that a directive declares": "a: 1\n...\n%TAG !k! tag:yaml.org,2002:\n---\nb: !k!str 2\n",
    "markers in text": "a: |\n  ---\n  x\nb: 'y\n  --- z'\n---\nc: 3\n",
    "other line breaks": "a: 'x\u2028  y'\nb: 1\n---\nc: 3\n",
    "Windows": "---\r\na: 1\r\n---\r\nb: 2\r\n",
    "JSON": '--- {"a": 1}\n---\n{"b": [1,\n 2]}\n',
}


@pytest.mark.parametrize("name", MANY)
def test_document_parsed_separately_has_its_position_in_the_file(name: str) -> None:
    roots = list(yaml.compose_all(MANY[name], Loader=yaml.CSafeLoader))
    keys = [root.value[0][0] for root in roots if isinstance(root, yaml.MappingNode)]
    located = [each.locate((key.value,)) for each, key in zip(parse_manifests(MANY[name]), keys, strict=True)]
    assert located == [(key.start_mark.line + 1, key.start_mark.column + 1) for key in keys]
    assert len(keys) > 1


def test_merged_and_aliased_fields_are_located_where_they_are_written() -> None:
    text = "base: &base\n  a: {b: 1}\nfirst:\n  <<: *base\n  c: 2\nsecond: *base\n"
    found = parse_manifests(text)[0].text
    assert found.locate(1, ("first", "a", "b")) == (2, 7)
    assert found.locate(1, ("first", "c")) == (5, 3)
    assert found.locate(1, ("second", "a")) == (2, 3)


def test_anchor_may_be_redefined() -> None:
    """YAML allows it, unlike some of its libraries."""
    (manifest,) = parse_manifests("a: &x 1\nb: &x 2\nc: *x\n")
    assert manifest.value == {"a": 1, "b": 2, "c": 2}
    assert manifest.locate(("c",)) == (3, 1)


def test_times_stay_text() -> None:
    assert parse_manifests("at: 2026-01-01T00:00:00Z")[0].value == {"at": "2026-01-01T00:00:00Z"}


def test_error_names_the_line() -> None:
    with pytest.raises(InputError, match=r"^f\.yaml: document 2, line 4: .*template") as caught:
        parse_manifests("a: 1\n---\nb: 1\nc: {{ .Values.x }}: y\n")
    assert "\n" not in str(caught.value)
