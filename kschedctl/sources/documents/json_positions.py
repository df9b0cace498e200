"""Where the fields of JSON documents stand: found by skipping what is beside the way to a field."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from json.decoder import scanstring  # type: ignore[attr-defined]

from kschedctl.sources.documents.json_documents import skip_space

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
