"""Objects of manifests, with the line and column of each of their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.sources.documents.documents import Content, load_content, parse_documents
from kschedctl.sources.documents.files import STDIN, format_file_path
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
"""The path from the root of a document to a field: keys of mappings and indices of lists."""


class Text:
    """The text of a file that was parsed without errors."""

    def __init__(self, file: str, content: Content) -> None:
        self.file = file
        self.content = content

    def locate(self, document: int, path: Path) -> tuple[int, int]:
        """Return the line and column, from 1, of a field's key or of a list's item in a document, numbered from 1.

        If the field does not exist, return the position of its nearest ancestor.
        """
        if self.content.is_json:
            return self._json.locate(document, path)
        return self._yaml.locate(document, path)

    def get_source(self, line: int) -> str:
        """Return the chart template from which Helm rendered the document that begins on this line, or ""."""
        return self._template_by_comment_line.get(line + 1, "")  # the comment follows the line with "---"

    @cached_property
    def _template_by_comment_line(self) -> dict[int, str]:
        """The template paths in Helm's ``# Source:`` comments, by the line of the comment."""
        text = self.content.text
        sources = {}
        line = 1
        counted_until = 0
        for match in _HELM_SOURCE.finditer(text):
            line += text.count("\n", counted_until, match.start())
            counted_until = match.start()
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
    """An object of a file, with its position."""

    value: JsonObject
    text: Text
    document: int = 1
    """The number of the document, from 1."""
    root: Path = ()
    """The path of the object in its document, which is empty unless the object is an item of a List."""
    line: int = 1
    """The line where the document begins."""

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

    def find_file(self, path: Path) -> str:
        """Return the file that contains the object with all its fields."""
        return self.file

    def locate(self, path: Path) -> tuple[int, int]:
        """Return the line and column, from 1, of a field of the object.

        If the field is missing, use its nearest existing ancestor.
        """
        return self.text.locate(self.document, (*self.root, *path))


def load_objects(file: str) -> Iterator[LocatedObject]:
    """Yield the objects of a file, or of standard input for ``-``. Lists are replaced by their items.

    Raises InputError if the file cannot be read or parsed.
    """
    return parse_objects("<stdin>" if file == STDIN else format_file_path(file), load_content(file))


def parse_objects(file: str, content: Content) -> Iterator[LocatedObject]:
    """Yield the objects of a text. Lists are replaced by their items.

    Raises InputError if the text cannot be parsed.
    """
    text = Text(file, content)
    for document in parse_documents(content):
        yield from iter_objects(document, text)


def iter_objects(document: ParsedDocument, text: Text) -> Iterator[LocatedObject]:
    """Yield the object of the document, or the items if it is a List. An empty or other document yields nothing."""
    yield from _iter_located_objects(document.value, text, document.number, (), document.line)


def _iter_located_objects(value: object, text: Text, document: int, root: Path, line: int) -> Iterator[LocatedObject]:
    """Yield the object at ``root`` in a document with its position, or the items if it is a List.

    Nothing is yielded for an empty object or any other value.
    """
    if not isinstance(value, Mapping):
        return
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        for index, item in enumerate(items):
            yield from _iter_located_objects(item, text, document, (*root, "items", index), line)
    elif value:
        yield LocatedObject(value, text, document, root, line)


Key = str | int
_skip_value = json.JSONDecoder().raw_decode


class JsonPositions:
    """A finder of the positions of fields in a valid JSON text, which scans each object once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [skip_space(text, 0)]
        self._fields: dict[int, dict[Key, tuple[int, int]]] = {}

    def locate(self, number: int, path: tuple[Key, ...]) -> tuple[int, int]:
        """Return the line and column, from 1, of a field of a document.

        For a missing field, return the position of its nearest existing ancestor.
        """
        key_start = value_start = self._find_document(number)
        for step in path:
            offsets = self._get_field_offsets(value_start).get(step)
            if offsets is None:
                break
            key_start, value_start = offsets
        line = bisect_right(self._line_starts, key_start)
        return line, key_start - self._line_starts[line - 1] + 1

    @cached_property
    def _line_starts(self) -> list[int]:
        """The offsets at which lines begin."""
        return [0, *(end.end() for end in re.finditer("\n", self._text))]

    def _find_document(self, number: int) -> int:
        """Return the offset at which a document begins. Documents are numbered from 1."""
        while len(self._starts) < number:
            _, end = _skip_value(self._text, self._starts[-1])
            self._starts.append(skip_space(self._text, end))
        return self._starts[number - 1]

    def _get_field_offsets(self, start: int) -> dict[Key, tuple[int, int]]:
        """Return the offsets of the key and the value of each field or item of the value at an offset, from a cache."""
        if start not in self._fields:
            self._fields[start] = dict(_iter_field_offsets(self._text, start))
        return self._fields[start]


def _iter_field_offsets(text: str, value_start: int) -> Iterator[tuple[Key, tuple[int, int]]]:
    """Yield each key or index of the object or array at an offset, with the offsets of key and value.

    An item of an array has the same offset twice. Other values have no fields.
    """
    if text[value_start] not in "{[":
        return
    is_object = text[value_start] == "{"
    position = skip_space(text, value_start + 1)
    index = 0
    while text[position] not in "}]":
        start = position
        key: Key = index
        if is_object:
            key, position = scanstring(text, position + 1)
            position = skip_space(text, skip_space(text, position) + 1)  # after the colon
        yield key, (start, position)

        # To the next field or item, or to the end
        _, value_end = _skip_value(text, position)
        position = skip_space(text, value_end)
        if text[position] == ",":
            position = skip_space(text, position + 1)
        index += 1


MAX_SEARCHED_SIZE = 1 << 20
"""The maximum size in characters of a file in which lines are looked up. Files written by people are smaller."""
_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")


def locate_field(place: Place, path: Path) -> Place:
    """Return the place with the line of the field, or of the field's nearest ancestor that exists.

    The file is read again. If that is impossible, as for standard input, the place is returned unchanged.
    """
    text = _load_text(place.file, _get_file_stamp(place.file), place.document)
    if text is None:
        return place
    steps = [int(index) if index else name for name, index in _STEP.findall(place.path)]
    return place._replace(line=text.locate(place.document, (*steps, *path))[0])


def _get_file_stamp(file: str) -> tuple[int, int] | None:
    """Return the modification time and size of a file, which change when the file is edited.

    Return None if the file is not a readable regular file.
    """
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


@lru_cache(maxsize=16)
def _load_text(file: str, stamp: tuple[int, int] | None, document: int) -> Text | None:
    """Return the text of a file, or None if the file is too large, gone, or no longer has the document.

    ``stamp`` is None if the file is gone. Any other stamp is part of the cache key, so that an edited file is read
    again.
    """
    if stamp is None:
        return None
    try:
        content = load_content(file)
        if len(content.text) > MAX_SEARCHED_SIZE:
            return None
        numbers = [parsed.number for parsed in parse_documents(content)]
    except InputError:
        return None
    return Text(file, content) if document in numbers else None
