"""Objects of manifests with the line and column of each of their fields.

Positions are looked up in the text only when they are needed, so that clean manifests cost no more than parsing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.sources.documents.documents import Content, load_content, parse_documents
from kschedctl.sources.documents.files import STDIN, display_path
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

_HELM_SOURCE = re.compile(r"^# Source: (\S+)", re.MULTILINE)
Path = tuple[str | int, ...]
"""Keys of mappings and indices of lists, from the root of a document to a field."""


class Text:
    """The text of a file that was parsed without errors."""

    def __init__(self, file: str, content: Content) -> None:
        self.file, self.content = file, content

    def locate(self, document: int, path: Path) -> tuple[int, int]:
        """Return line and column, from 1, of a field's key or a list's item, or of the nearest ancestor that exists.

        Documents are numbered from 1.
        """
        if self.content.is_json:
            return self._json.locate(document, path)
        return self._yaml.locate(document, path)

    def get_source(self, line: int) -> str:
        """Return the chart template from which Helm rendered the document that begins on the line, or ""."""
        return self._sources.get(line + 1, "")

    @cached_property
    def _sources(self) -> dict[int, str]:
        """Templates that Helm notes in comments, by line."""
        text, sources, line, counted = self.content.text, {}, 1, 0
        for match in _HELM_SOURCE.finditer(text):
            line += text.count("\n", counted, match.start())
            counted = match.start()
            sources[line] = match[1]
        return sources

    @cached_property
    def _json(self) -> JsonPositions:
        """The positions of a JSON text."""
        return JsonPositions(self.content.text)

    @cached_property
    def _yaml(self) -> YamlPositions:
        """The positions of a YAML text."""
        from kschedctl.sources.documents.yaml_positions import YamlPositions  # noqa: PLC0415 - JSON needs no YAML parser

        return YamlPositions(self.content.text)


class LocatedObject(NamedTuple):
    """An object of a file and its position."""

    value: JsonObject
    text: Text
    document: int = 1
    """Number of the document, from 1."""
    root: Path = ()
    """Path of the object in its document, which is empty unless it is an item of a List."""
    line: int = 1
    """Line where the document begins."""

    @property
    def source(self) -> str:
        """The chart template from which Helm rendered the object, or ""."""
        return self.text.get_source(self.line)

    @property
    def build(self) -> str:
        """Always "", since the object was not built."""
        return ""

    @property
    def file(self) -> str:
        """The file that contains the object."""
        return self.text.file

    def file_of(self, path: Path) -> str:
        """Return the file that contains the field."""
        return self.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Return line and column, from 1, of a field of the object."""
        return self.text.locate(self.document, (*self.root, *path))


def load_objects(file: str) -> Iterator[LocatedObject]:
    """Read the objects of a file, or of standard input for ``-``, including items of Lists. Raises InputError."""
    return parse_objects("<stdin>" if file == STDIN else display_path(file), load_content(file))


def parse_objects(file: str, content: Content) -> Iterator[LocatedObject]:
    """Yield the objects of a text, including items of Lists. Raises InputError."""
    text = Text(file, content)
    for document in parse_documents(content):
        yield from iter_objects(document, text)


def iter_objects(document: ParsedDocument, text: Text) -> Iterator[LocatedObject]:
    """Yield the object of the document, or the items if it is a List."""
    yield from _iter_located(document.value, text, document.number, (), document.line)


def _iter_located(value: object, text: Text, document: int, root: Path, line: int) -> Iterator[LocatedObject]:
    """Yield the object with its position, or the items if it is a List."""
    if not isinstance(value, Mapping):
        return
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        for index, item in enumerate(items):
            yield from _iter_located(item, text, document, (*root, "items", index), line)
    elif value:
        yield LocatedObject(value, text, document, root, line)


Key = str | int
_skip_value = json.JSONDecoder().raw_decode


class JsonPositions:
    """Finds the positions of fields in a JSON text that can be parsed. Objects are scanned once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [skip_space(text, 0)]
        self._inside: dict[int, dict[Key, tuple[int, int]]] = {}

    def locate(self, number: int, path: tuple[Key, ...]) -> tuple[int, int]:
        """Return line and column, from 1, of a field of a document, or of its nearest ancestor that exists."""
        start = at = self._find_document(number)
        for step in path:
            field = self._get_fields(at).get(step)
            if field is None:
                break
            start, at = field
        line = bisect_right(self._line_starts, start)
        return line, start - self._line_starts[line - 1] + 1

    @cached_property
    def _line_starts(self) -> list[int]:
        """Offsets at which lines begin."""
        return [0, *(end.end() for end in re.finditer("\n", self._text))]

    def _find_document(self, number: int) -> int:
        """Return the offset at which a document begins. Documents are numbered from 1."""
        while len(self._starts) < number:
            self._starts.append(skip_space(self._text, _skip_value(self._text, self._starts[-1])[1]))
        return self._starts[number - 1]

    def _get_fields(self, at: int) -> dict[Key, tuple[int, int]]:
        """Return the fields of the value at an offset: key or index -> (offset of the key, offset of the value)."""
        if at not in self._inside:
            self._inside[at] = dict(_iter_fields(self._text, at))
        return self._inside[at]


def _iter_fields(text: str, at: int) -> Iterator[tuple[Key, tuple[int, int]]]:
    """Yield key or index, and the offsets of key and value, of the fields of the value at ``at``."""
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


MAX_SEARCHED_SIZE = 1 << 20  # bytes of a file in which a line is looked for; people write less
"""Bytes of a file in which lines are looked up."""
_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")


def locate_field(place: Place, path: Path) -> Place:
    """Return the place with the line of the field, or of its nearest ancestor that exists.

    The file is read again. If that is not possible, as with standard input, the place is returned without change.
    """
    text = _load_text(place.file, _get_stamp(place.file), place.document)
    if text is None:
        return place
    steps = [int(index) if index else name for name, index in _STEP.findall(place.path)]
    return place._replace(line=text.locate(place.document, (*steps, *path))[0])


def _get_stamp(file: str) -> tuple[int, int] | None:
    """Return time of modification and size of a regular file, or None."""
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


@lru_cache(maxsize=16)
def _load_text(file: str, stamp: tuple[int, int] | None, document: int) -> Text | None:
    """Return the text of a file, or None if it is too large, gone, or no longer has the document."""
    if stamp is None:
        return None
    try:
        content = load_content(file)
        has_document = len(content.text) <= MAX_SEARCHED_SIZE and any(
            number == document for _, number, _ in list(parse_documents(content))
        )
    except InputError:
        return None
    return Text(file, content) if has_document else None
