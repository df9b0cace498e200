"""Where the fields of YAML documents stand: the second look at a text, for those that somebody asks about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from yaml import events

from kschedctl.sources.documents.yaml_documents import LOADER, key_text, resolve

Key = str | int


class Spot:
    """A field's key, a list's item or a whole document: line and column from 1, and what is inside of it."""

    __slots__ = ("column", "inside", "line")

    def __init__(self, mark: Any, inside: Mapping[Key, Spot]) -> None:
        self.line, self.column, self.inside = mark.line + 1, mark.column + 1, inside


def spots(text: str) -> dict[int, Spot]:
    """Of each document of a text that can be parsed, by number from 1; the empty ones are numbers too."""
    found: dict[int, Spot] = {}
    number = 0
    stream: Iterator[Any] = iter(yaml.parse(text, Loader=LOADER))
    for event in stream:
        if type(event) is events.DocumentStartEvent:
            number += 1
            found[number] = _Builder().build(stream)
    return found


def _is_merge(event: Any) -> bool:
    return type(event) is events.ScalarEvent and event.value == "<<" and event.implicit[0]


def _name(event: Any) -> str:
    """The key that an event stands for, empty for an alias."""
    if type(event) is not events.ScalarEvent:
        return ""
    return key_text(resolve(event.value)) if event.implicit[0] else str(event.value)


class _Open:
    """A mapping or list that is read: where it began, its fields, and the key whose value comes next."""

    def __init__(self, event: Any) -> None:
        self.event = event
        self.inside: dict[Key, Spot] = {}
        self.is_list = type(event) is events.SequenceStartEvent
        self.key: Any = None

    def add(self, event: Any, inside: Mapping[Key, Spot]) -> None:
        """A value, at the event with which it begins."""
        if self.is_list:
            self.inside[len(self.inside)] = Spot(event.start_mark, inside)
        elif self.key is None:
            self.key = event
        else:
            if _is_merge(self.key):
                self._merge(inside)
            else:
                self.inside[_name(self.key)] = Spot(self.key.start_mark, inside)
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

    def __init__(self) -> None:
        self.open: list[_Open] = []
        self.anchors: dict[str, Mapping[Key, Spot]] = {}
        self.root: Spot | None = None

    def build(self, stream: Iterator[Any]) -> Spot:
        """Of the document whose start was read last."""
        for event in stream:
            kind = type(event)
            if kind is events.DocumentEndEvent:
                break
            if kind is events.MappingStartEvent or kind is events.SequenceStartEvent:
                self.open.append(_Open(event))
            elif kind is events.AliasEvent:
                self._add(event, self.anchors.get(event.anchor, {}))
            elif kind is events.ScalarEvent:
                self._add(event, {})
            else:
                done = self.open.pop()
                self._add(done.event, done.inside)
        assert self.root is not None
        return self.root

    def _add(self, event: Any, inside: Mapping[Key, Spot]) -> None:
        if type(event) is not events.AliasEvent and event.anchor:
            self.anchors[event.anchor] = inside
        if self.open:
            self.open[-1].add(event, inside)
        else:
            self.root = Spot(event.start_mark, inside)
