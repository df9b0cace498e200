"""Manifests as people write them: objects, and the line and column of each of their fields.

Positions are looked up in the text only when somebody asks for one, so that clean manifests cost their parsing alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.sources.documents.documents import Content, load_content, parse
from kschedctl.sources.documents.files import STDIN, shown
from kschedctl.sources.documents.place import ParsedDocument

if TYPE_CHECKING:
    from kschedctl.sources.documents.yaml_positions import YamlPositions
import json
import os
import stat
from bisect import bisect_right
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]

from kschedctl.errors import InputError
from kschedctl.sources.documents.json_documents import skip_space
from kschedctl.sources.documents.place import Place

_SOURCE = re.compile(r"^# Source: (\S+)", re.MULTILINE)
Path = tuple[str | int, ...]
"""From the root of a document to a field: keys of mappings and indices of lists."""


class Text:
    """The text of a file, which was read without an error."""

    def __init__(self, file: str, content: Content) -> None:
        self.file, self.content = file, content

    def locate(self, document: int, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of a field's key or a list's item; of the nearest field above where it is absent.

        Documents have numbers from 1.
        """
        if self.content.is_json:
            return self._json.locate(document, path)
        return self._yaml.locate(document, path)

    def source(self, line: int) -> str:
        """The template from which the document that begins here was rendered, as Helm notes it; empty for others."""
        return self._sources.get(line + 1, "")

    @cached_property
    def _sources(self) -> dict[int, str]:
        """By line."""
        text, sources, line, counted = self.content.text, {}, 1, 0
        for match in _SOURCE.finditer(text):
            line += text.count("\n", counted, match.start())
            counted = match.start()
            sources[line] = match[1]
        return sources

    @cached_property
    def _json(self) -> JsonPositions:
        return JsonPositions(self.content.text)

    @cached_property
    def _yaml(self) -> YamlPositions:
        from kschedctl.sources.documents.yaml_positions import YamlPositions  # noqa: PLC0415 - JSON needs no YAML parser

        return YamlPositions(self.content.text)


class LocatedObject(NamedTuple):
    """One object: its data, and where it is: text, document, and the path in that (the items of a List have one).

    ``line``: where the document begins.
    """

    value: JsonObject
    text: Text
    document: int = 1
    root: Path = ()
    line: int = 1

    @property
    def source(self) -> str:
        return self.text.source(self.line)

    @property
    def build(self) -> str:
        return ""

    @property
    def file(self) -> str:
        return self.text.file

    def file_of(self, path: Path) -> str:
        """The file in which a field of the object stands."""
        return self.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of a field of the object."""
        return self.text.locate(self.document, (*self.root, *path))


def read_manifests(file: str) -> Iterator[LocatedObject]:
    """The objects of a file (``-`` for standard input), those within Lists too. Raises InputError."""
    return manifests_of("<stdin>" if file == STDIN else shown(file), load_content(file))


def manifests_of(file: str, content: Content) -> Iterator[LocatedObject]:
    """The objects of a text. Raises InputError."""
    text = Text(file, content)
    for document in parse(content):
        yield from objects_of(document, text)


def objects_of(document: ParsedDocument, text: Text) -> Iterator[LocatedObject]:
    """The object that a document of the text is, or those within it where it is a List."""
    yield from _objects(document.value, text, document.number, (), document.line)


def _objects(value: object, text: Text, document: int, root: Path, line: int) -> Iterator[LocatedObject]:
    if not isinstance(value, Mapping):
        return
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        for index, item in enumerate(items):
            yield from _objects(item, text, document, (*root, "items", index), line)
    elif value:
        yield LocatedObject(value, text, document, root, line)


Key = str | int
_skip_value = json.JSONDecoder().raw_decode


class JsonPositions:
    """Where values stand in a text that can be parsed; what was looked through once is kept."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [skip_space(text, 0)]
        self._inside: dict[int, dict[Key, tuple[int, int]]] = {}

    def locate(self, number: int, path: tuple[Key, ...]) -> tuple[int, int]:
        """Line and column, from 1, of a field of a document; of the nearest above it that is there."""
        start = at = self._document(number)
        for step in path:
            field = self._fields(at).get(step)
            if field is None:
                break
            start, at = field
        line = bisect_right(self._line_starts, start)
        return line, start - self._line_starts[line - 1] + 1

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(end.end() for end in re.finditer("\n", self._text))]

    def _document(self, number: int) -> int:
        """Where the document of this number, from 1, begins."""
        while len(self._starts) < number:
            self._starts.append(skip_space(self._text, _skip_value(self._text, self._starts[-1])[1]))
        return self._starts[number - 1]

    def _fields(self, at: int) -> dict[Key, tuple[int, int]]:
        """The fields of the value at an offset: key or index -> where its key and where its value begin."""
        if at not in self._inside:
            self._inside[at] = dict(_fields(self._text, at))
        return self._inside[at]


def _fields(text: str, at: int) -> Iterator[tuple[Key, tuple[int, int]]]:
    if text[at] not in "{[":
        return
    position, index = skip_space(text, at + 1), 0
    while text[position] not in "}]":
        start, key = position, index
        if text[at] == "{":
            key, position = scanstring(text, position + 1)
            position = skip_space(text, skip_space(text, position) + 1)
        yield key, (start, position)
        position = skip_space(text, _skip_value(text, position)[1])
        if text[position] == ",":
            position = skip_space(text, position + 1)
        index += 1


LARGEST = 1 << 20  # bytes of a file in which a line is looked for; people write less
_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")


def at_field(place: Place, path: Path) -> Place:
    """The place with the line of the field, or of the nearest one above it; as it is where that cannot be found.

    Standard input cannot be read twice.
    """
    text = _text(place.file, _stamp(place.file), place.document)
    if text is None:
        return place
    steps = [int(index) if index else name for name, index in _STEP.findall(place.path)]
    return place._replace(line=text.locate(place.document, (*steps, *path))[0])


def _stamp(file: str) -> tuple[int, int] | None:
    """When an ordinary file was written, and how large it is."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


@lru_cache(maxsize=16)
def _text(file: str, stamp: tuple[int, int] | None, document: int) -> Text | None:
    """The text of a file, unless it is too large, gone, or has another content by now."""
    if stamp is None:
        return None
    try:
        content = load_content(file)
        there = len(content.text) <= LARGEST and any(number == document for _, number, _ in list(parse(content)))
    except InputError:
        return None
    return Text(file, content) if there else None
