"""Manifests as people write them: YAML or JSON documents, and the line and column of each field in them.

Positions are looked up in the text only when somebody asks for one, so that clean manifests cost their parsing alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import msgspec
import yaml

from kschedctl.errors import InputError
from kschedctl.sources.files import STDIN, open_file

Path = tuple[str | int, ...]
"""From the root of a document to a field: keys of mappings and indices of lists."""

_MARKER = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_NOTHING = re.compile(r"(\s|#.*|%.*|\.\.\.\s*$)*", re.MULTILINE)
_SPACE = re.compile(r"[ \t\r\n]*")
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BASE):  # type: ignore[misc]
    """Leaves times as they are written, as the API takes them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in _BASE.yaml_implicit_resolvers.items()
}


class Text:
    """The text of one document, which begins on ``first_line`` (1 is the first) of ``file``."""

    def __init__(self, file: str, text: str, first_line: int = 1) -> None:
        self.file, self.text, self.first_line = file, text, first_line
        self._json_children: dict[int, dict[str | int, tuple[int, int]]] = {}

    def parse(self) -> Any:
        """The document as plain data. Raises InputError that names file and line."""
        try:
            return msgspec.json.decode(self.text) if self.is_json else yaml.load(self.text, _Loader)
        except (yaml.YAMLError, msgspec.DecodeError) as error:
            mark = getattr(error, "problem_mark", None)
            line = self.first_line + mark.line if mark else self.first_line
            what = getattr(error, "problem", None) or str(error)
            hint = "is it a template? lint what it renders to" if "{{" in self.text else ""
            raise InputError(" ".join(what.split()), where=f"{self.file}:{line}", hint=hint) from None
        except ValueError as error:  # a date or number that only looks like one
            raise InputError(str(error), where=f"{self.file}:{self.first_line}") from None

    @cached_property
    def is_json(self) -> bool:
        """Whether msgspec can read it; YAML in braces cannot be told from JSON otherwise."""
        if not self.text.lstrip().startswith("{"):
            return False
        try:
            msgspec.json.decode(self.text, type=msgspec.Raw)
        except msgspec.DecodeError:
            return False
        return True

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of a field's key or a list's item; of the nearest field above where it is absent."""
        return self._locate_json(path) if self.is_json else self._locate_yaml(path)

    @cached_property
    def _root(self) -> yaml.Node | None:
        return yaml.compose(self.text, _Loader)

    def _locate_yaml(self, path: Path) -> tuple[int, int]:
        node = self._root
        mark = node.start_mark if node else None
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            mark, node = found
        return (mark.line + self.first_line, mark.column + 1) if mark else (self.first_line, 1)

    def _locate_json(self, path: Path) -> tuple[int, int]:
        start = at = _skip(self.text, 0)
        for step in path:
            found = self._children(at).get(step)
            if found is None:
                break
            start, at = found
        line_start = self.text.rfind("\n", 0, start) + 1
        return self.text.count("\n", 0, start) + self.first_line, start - line_start + 1

    def _children(self, at: int) -> dict[str | int, tuple[int, int]]:
        """Of the JSON value at an offset: key or index -> where its key and where its value begin."""
        if at not in self._json_children:
            self._json_children[at] = dict(_json_children(self.text, at))
        return self._json_children[at]


class Manifest(NamedTuple):
    """One object: its data, the text that it is in, and where in that (the items of a List are not at its root)."""

    value: Mapping[str, Any]
    text: Text
    root: Path = ()

    @property
    def file(self) -> str:
        return self.text.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of a field of the object."""
        return self.text.locate((*self.root, *path))


def read_manifests(file: str) -> Iterator[Manifest]:
    """The objects of a file (``-`` for standard input), those within Lists too. Raises InputError."""
    with open_file(file) as reader:
        data = reader.read(-1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", where=file, hint=f"byte {error.start}") from None
    for document in split_documents("<stdin>" if file == STDIN else file, text):
        yield from _objects(document.parse(), document, ())


def split_documents(file: str, text: str) -> Iterator[Text]:
    """The documents of a YAML stream, without those that are empty.

    >>> [(t.first_line, t.text) for t in split_documents("f", "# one\\n---\\na: 1\\n--- # two\\nb: 2\\n")]
    [(2, '\\na: 1\\n'), (4, ' # two\\nb: 2\\n')]
    """
    ends = [*(match.start() for match in _MARKER.finditer(text)), len(text)]
    start, line = 0, 1
    for end in ends:
        chunk = text[start:end]
        if not _NOTHING.fullmatch(chunk):
            yield Text(file, chunk, line)
        line += chunk.count("\n")
        start = end + len("---")


def _objects(value: Any, text: Text, root: Path) -> Iterator[Manifest]:
    if not isinstance(value, Mapping):
        return
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        for index, item in enumerate(items):
            yield from _objects(item, text, (*root, "items", index))
    elif value:
        yield Manifest(value, text, root)


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((k.start_mark, v) for k, v in node.value if k.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def _json_children(text: str, at: int) -> Iterator[tuple[str | int, tuple[int, int]]]:
    if text[at] not in "{[":
        return
    skip = json.JSONDecoder().raw_decode
    position, index = _skip(text, at + 1), 0
    while text[position] not in "}]":
        start, key = position, index
        if text[at] == "{":
            key, position = scanstring(text, position + 1)
            position = _skip(text, _skip(text, position) + 1)
        yield key, (start, position)
        position = _skip(text, skip(text, position)[1])
        if text[position] == ",":
            position = _skip(text, position + 1)
        index += 1


def _skip(text: str, position: int) -> int:
    """Past white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position
