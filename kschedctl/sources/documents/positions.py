"""Manifests as people write them: objects, and the line and column of each of their fields.

Positions are looked up in the text only when somebody asks for one, so that clean manifests cost their parsing alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.sources.documents.documents import Content, parse, read_content
from kschedctl.sources.documents.files import STDIN, open_file, shown
from kschedctl.sources.documents.json_positions import JsonPositions
from kschedctl.sources.documents.place import ParsedDocument

if TYPE_CHECKING:
    from kschedctl.sources.documents.yaml_positions import YamlPositions

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
    with open_file(file) as reader:
        content = read_content(reader)
    return manifests_of("<stdin>" if file == STDIN else shown(file), content)


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
