"""Positions of the fields of YAML documents, found by parsing the text a second time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from kschedctl.sources.documents.yaml_documents import LOADER, format_key, resolve_scalar

Key = str | int
_DOCUMENT_MARKER = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_CONTENT = re.compile(r"^[ \t]*+[^\s#%]", re.MULTILINE)
"""Text other than comments and directives, which makes the lines before the first marker a document."""
_OTHER_BREAK = re.compile("[\x85\u2028\u2029]|\r(?!\n)")


class FieldPosition:
    """The line and column, from 1, of a field's key, an item of a list or a document, and the positions inside it."""

    __slots__ = ("column", "inside", "line")

    def __init__(self, mark: Any, inside: Mapping[Key, FieldPosition], line: int) -> None:
        """Store the parser's mark as a position. ``line`` is the number of lines before the parsed text."""
        self.line = line + mark.line + 1
        self.column = mark.column + 1
        self.inside = inside


class YamlPositions:
    """A finder of the positions of fields in a valid YAML text, which parses only the required documents again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._positions: dict[int, FieldPosition] = {}

    def locate(self, number: int, path: tuple[Key, ...]) -> tuple[int, int]:
        """Return the line and column (from 1) of a field in a document, or of the field's nearest existing ancestor.

        Documents are parsed on demand, and their positions are cached.
        """
        if number not in self._positions:
            # If the document does not parse by itself, the whole text is parsed
            self._positions |= self._locate_document(number) or _parse_positions(self._text, line=0)
        position = self._positions[number]
        for step in path:
            if step not in position.inside:
                break
            position = position.inside[step]
        return position.line, position.column

    def _locate_document(self, number: int) -> dict[int, FieldPosition]:
        """Return the position of a document by its number, or {} if it does not parse without the text before it."""
        if number > len(self._document_ranges):
            return {}
        start, end = self._document_ranges[number - 1]
        try:
            positions = _parse_positions(self._text[start:end], self._text.count("\n", 0, start))
        except yaml.YAMLError:  # for example, a directive before the first document applies to this one as well
            return {}
        # In its own text, the document has the number 1
        return {number: positions[1]} if len(positions) == 1 else {}

    @cached_property
    def _document_ranges(self) -> list[tuple[int, int]]:
        """The start and end of each document.

        The list is empty if the text has line breaks that only YAML recognizes.
        """
        if _OTHER_BREAK.search(self._text):
            return []
        starts = [match.start() for match in _DOCUMENT_MARKER.finditer(self._text)]
        first = starts[0] if starts else len(self._text)
        # Only the first document needs no marker
        unmarked_start = [0] if _CONTENT.search(self._text, 0, first) else []
        return list(pairwise([*unmarked_start, *starts, len(self._text)]))


def _parse_positions(text: str, line: int) -> dict[int, FieldPosition]:
    """Return the position of each document of a text by its number, from 1, including empty documents.

    ``line`` is the number of lines before the text. Raises yaml.YAMLError if the text is malformed.
    """
    positions: dict[int, FieldPosition] = {}
    stream: Iterator[Event] = iter(yaml.parse(text, Loader=LOADER))
    for event in stream:
        if type(event) is DocumentStartEvent:
            positions[len(positions) + 1] = _PositionBuilder(line).build(stream)
    return positions


def _is_merge_key(event: Event) -> bool:
    """Return whether the event is the key ``<<``."""
    return type(event) is ScalarEvent and event.value == "<<" and bool(event.implicit[0])


def _get_mapping_key(event: Event) -> str:
    """Return the text of a mapping's key, given the key's event.

    Return "" for an event that is not a scalar, such as an alias.
    """
    if type(event) is not ScalarEvent:
        return ""
    is_plain, _is_quoted = event.implicit
    return format_key(resolve_scalar(event.value)) if is_plain else str(event.value)


class _OpenContainer:
    """A mapping or list that is being read."""

    def __init__(self, event: Event, line: int) -> None:
        self.event = event
        self.line = line
        self.inside: dict[Key, FieldPosition] = {}
        self.is_list = type(event) is SequenceStartEvent
        self.key: Event | None = None

    def add_value(self, event: Event, inner_positions: Mapping[Key, FieldPosition]) -> None:
        """Add the position of a value that begins with the event, together with the positions inside it.

        If a mapping expects a key, the event is stored as this key. The value of a merge key (``<<``) adds the fields
        that the mapping lacks.
        """
        if self.is_list:
            self.inside[len(self.inside)] = FieldPosition(event.start_mark, inner_positions, self.line)
        elif self.key is None:
            self.key = event
        else:
            if _is_merge_key(self.key):
                self._merge_fields(inner_positions)
            else:
                self.inside[_get_mapping_key(self.key)] = FieldPosition(self.key.start_mark, inner_positions, self.line)
            self.key = None

    def _merge_fields(self, merged_positions: Mapping[Key, FieldPosition]) -> None:
        """Add the fields of a merged mapping (``<<``), or of a list of mappings, that this mapping lacks."""
        for key, position in merged_positions.items():
            if isinstance(key, int):  # an item of a list, which is a mapping itself
                self._merge_fields(position.inside)
            else:
                self.inside.setdefault(key, position)


class _PositionBuilder:
    """A builder of the positions of one document."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.open: list[_OpenContainer] = []
        self.anchors: dict[str, Mapping[Key, FieldPosition]] = {}
        self.root: FieldPosition | None = None

    def build(self, stream: Iterator[Event]) -> FieldPosition:
        """Build the position of a document from its events. The start event has been read already."""
        for event in stream:
            if type(event) is DocumentEndEvent:
                break
            if type(event) is MappingStartEvent or type(event) is SequenceStartEvent:
                self.open.append(_OpenContainer(event, self.line))
            elif type(event) is AliasEvent:
                self._add_value(event, self.anchors.get(event.anchor or "", {}))
            elif type(event) is ScalarEvent:
                self._add_value(event, {})
            else:
                container = self.open.pop()
                self._add_value(container.event, container.inside)
        assert self.root is not None
        return self.root

    def _add_value(self, event: Event, inner_positions: Mapping[Key, FieldPosition]) -> None:
        """Add a value to the innermost container, and store its positions if it has an anchor."""
        if isinstance(event, NodeEvent) and type(event) is not AliasEvent and event.anchor:
            self.anchors[event.anchor] = inner_positions
        if self.open:
            self.open[-1].add_value(event, inner_positions)
        else:
            self.root = FieldPosition(event.start_mark, inner_positions, self.line)
