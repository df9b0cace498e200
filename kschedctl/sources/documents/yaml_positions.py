"""Where the fields of YAML documents stand: the second look at a text, for those that somebody asks about."""

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

from kschedctl.sources.documents.yaml_documents import LOADER, key_text, resolve

Key = str | int
_MARKER = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_CONTENT = re.compile(r"^[ \t]*+[^\s#%]", re.MULTILINE)
"""What makes a document of the lines before the first marker: something beside comments and directives."""
_OTHER_BREAK = re.compile("[\x85\u2028\u2029]|\r(?!\n)")


class Spot:
    """A field's key, a list's item or a whole document: line and column from 1, and what is inside of it."""

    __slots__ = ("column", "inside", "line")

    def __init__(self, mark: Any, inside: Mapping[Key, Spot], line: int) -> None:
        """``line``: how many there are before the text that the mark is of."""
        self.line, self.column, self.inside = line + mark.line + 1, mark.column + 1, inside


class YamlPositions:
    """Where values stand in a text that can be parsed; only documents that are asked about are parsed again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spots: dict[int, Spot] = {}

    def locate(self, number: int, path: tuple[Key, ...]) -> tuple[int, int]:
        """Line and column, from 1, of a field of a document; of the nearest above it that is there."""
        if number not in self._spots:
            self._spots |= self._document(number) or _spots(self._text, 0)
        spot = self._spots[number]
        for step in path:
            if step not in spot.inside:
                break
            spot = spot.inside[step]
        return spot.line, spot.column

    def _document(self, number: int) -> dict[int, Spot]:
        """The document by itself; nothing where it needs what stands before it."""
        if number > len(self._ranges):
            return {}
        start, end = self._ranges[number - 1]
        try:
            spots = _spots(self._text[start:end], self._text.count("\n", 0, start))
        except yaml.YAMLError:  # a directive that is not repeated
            return {}
        return {number: spots[1]} if len(spots) == 1 else {}

    @cached_property
    def _ranges(self) -> list[tuple[int, int]]:
        """Where each document begins and ends; none where line breaks are such as only YAML knows."""
        if _OTHER_BREAK.search(self._text):
            return []
        starts = [match.start() for match in _MARKER.finditer(self._text)]
        first = starts[0] if starts else len(self._text)
        bare = [0] if _CONTENT.search(self._text, 0, first) else []
        return list(pairwise([*bare, *starts, len(self._text)]))


def _spots(text: str, line: int) -> dict[int, Spot]:
    """The spot of each document of a text that can be parsed, by number from 1; empty ones are numbers too.

    ``line``: how many there are before the text.
    """
    spots: dict[int, Spot] = {}
    stream: Iterator[Event] = iter(yaml.parse(text, Loader=LOADER))
    for event in stream:
        if type(event) is DocumentStartEvent:
            spots[len(spots) + 1] = _Builder(line).build(stream)
    return spots


def _is_merge(event: Event) -> bool:
    return type(event) is ScalarEvent and event.value == "<<" and bool(event.implicit[0])


def _name(event: Event) -> str:
    """The key that an event stands for, empty for an alias."""
    if type(event) is not ScalarEvent:
        return ""
    return key_text(resolve(event.value)) if event.implicit[0] else str(event.value)


class _Open:
    """A mapping or list that is read: where it began, its fields, and the key whose value comes next."""

    def __init__(self, event: Event, line: int) -> None:
        self.event, self.line = event, line
        self.inside: dict[Key, Spot] = {}
        self.is_list = type(event) is SequenceStartEvent
        self.key: Event | None = None

    def add(self, event: Event, inside: Mapping[Key, Spot]) -> None:
        """A value, at the event with which it begins."""
        if self.is_list:
            self.inside[len(self.inside)] = Spot(event.start_mark, inside, self.line)
        elif self.key is None:
            self.key = event
        else:
            if _is_merge(self.key):
                self._merge(inside)
            else:
                self.inside[_name(self.key)] = Spot(self.key.start_mark, inside, self.line)
            self.key = None

    def _merge(self, inside: Mapping[Key, Spot]) -> None:
        """Fields of a mapping, or of a list of them, that stand elsewhere; own ones go before them."""
        for key, spot in inside.items():
            if isinstance(key, int):
                self._merge(spot.inside)
            else:
                self.inside.setdefault(key, spot)


class _Builder:
    """Builds the spots of one document."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.open: list[_Open] = []
        self.anchors: dict[str, Mapping[Key, Spot]] = {}
        self.root: Spot | None = None

    def build(self, stream: Iterator[Event]) -> Spot:
        """The spot of the document whose start was read last."""
        for event in stream:
            if type(event) is DocumentEndEvent:
                break
            if type(event) is MappingStartEvent or type(event) is SequenceStartEvent:
                self.open.append(_Open(event, self.line))
            elif type(event) is AliasEvent:
                self._add(event, self.anchors.get(event.anchor or "", {}))
            elif type(event) is ScalarEvent:
                self._add(event, {})
            else:
                done = self.open.pop()
                self._add(done.event, done.inside)
        assert self.root is not None
        return self.root

    def _add(self, event: Event, inside: Mapping[Key, Spot]) -> None:
        if isinstance(event, NodeEvent) and type(event) is not AliasEvent and event.anchor:
            self.anchors[event.anchor] = inside
        if self.open:
            self.open[-1].add(event, inside)
        else:
            self.root = Spot(event.start_mark, inside, self.line)
