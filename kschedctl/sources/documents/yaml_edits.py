"""Edits of YAML and JSON as people wrote it: only the field changes, comments and layout stay."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml

from kschedctl.errors import InputError
from kschedctl.lint.framework.field_edits import FieldEdit, RenameField, SetField, apply_edit
from kschedctl.lint.objects.subject import Path
from kschedctl.sources.documents.documents import Content, parse
from kschedctl.sources.documents.yaml_documents import LOADER, resolve

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_REST_OF_LINE = re.compile(r"[ \t]*(#[^\r\n]*)?(?=\r?\n|\Z)")
_LINE_BREAK = re.compile(r"\r?\n")


class TextEdit(NamedTuple):
    """What stands between two positions of a text from now on."""

    start: int
    end: int
    text: str


class NotEditableError(Exception):
    """A field that cannot be changed by itself: it is shared by an anchor, merged, spread over lines, or not there."""


class EditableText:
    """A text and its nodes, by document from 1. Raises NotEditableError for what cannot be parsed a second time."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._documents: list[Any] = list(yaml.compose_all(text, Loader=LOADER))
        except yaml.YAMLError as error:
            raise NotEditableError(str(error)) from None
        self._shared = _shared(self._documents)

    def replacement(self, document: int, root: Path, change: FieldEdit) -> TextEdit:
        """Where the text changes, and to what. Raises NotEditableError."""
        *steps, last = (*root, *change.path)
        parent = self._documents[document - 1]
        for step in steps:
            parent = self._inside(parent, step)
        if id(parent) in self._shared:
            raise NotEditableError("shared by an anchor")
        value = self._inside(parent, last)
        if isinstance(change, SetField):
            return self._scalar(value, change.value)
        index = next(i for i, (_, node) in enumerate(parent.value) if node is value)
        if isinstance(change, RenameField):
            return self._scalar(parent.value[index][0], change.key)
        return self._removal(parent, index)

    def _inside(self, node: object, step: str | int) -> object:
        if id(node) in self._shared:
            raise NotEditableError("shared by an anchor")
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            return node.value[step]
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value == step:
                    return value
        raise NotEditableError("not there, or merged from elsewhere")

    def _scalar(self, node: object, value: str | int) -> TextEdit:
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">") or id(node) in self._shared:
            raise NotEditableError("not a simple value")
        start, end = node.start_mark.index, node.end_mark.index
        if self.text[start : start + 1] in ("&", "!", "") or node.start_mark.line != node.end_mark.line:
            raise NotEditableError("anchored, tagged, or more than a line")
        return TextEdit(start, end, _written(value, node.style))

    def _removal(self, mapping: yaml.MappingNode, index: int) -> TextEdit:
        key, value = mapping.value[index]
        if len(mapping.value) == 1 or not isinstance(value, yaml.ScalarNode) or value.style in ("|", ">"):
            raise NotEditableError("the only field, or one with others in it")
        start, end = key.start_mark.index, value.end_mark.index
        if mapping.flow_style:
            return self._removal_in_flow(mapping, index)
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        rest = _REST_OF_LINE.match(self.text, end)
        if rest is None or before.strip(" "):  # another item of the line, or the dash of a list's item
            return self._removal_up_to_next(mapping, index)
        line = start - len(before)
        if rest[1]:
            return TextEdit(line, rest.end(), before + rest[1])
        broken = _LINE_BREAK.match(self.text, rest.end())
        return TextEdit(line, broken.end() if broken else rest.end(), "")

    def _removal_up_to_next(self, mapping: yaml.MappingNode, index: int) -> TextEdit:
        """The next field takes the place of this one."""
        if index + 1 == len(mapping.value):
            raise NotEditableError("nothing follows that could take its place")
        start, end = mapping.value[index][0].start_mark.index, mapping.value[index + 1][0].start_mark.index
        return self._without_comment(start, end)

    def _removal_in_flow(self, mapping: yaml.MappingNode, index: int) -> TextEdit:
        if index + 1 < len(mapping.value):
            return self._removal_up_to_next(mapping, index)
        return self._without_comment(mapping.value[index - 1][1].end_mark.index, mapping.value[index][1].end_mark.index)

    def _without_comment(self, start: int, end: int) -> TextEdit:
        if "#" in self.text[start:end]:
            raise NotEditableError("a comment would go with it")
        return TextEdit(start, end, "")


def replaced(text: str, replacements: Sequence[TextEdit]) -> str:
    """The text with all of them made. Raises NotEditableError where two overlap."""
    after = len(text)
    for start, end, new in sorted(replacements, reverse=True):
        if end > after:
            raise NotEditableError("two edits of one place")
        text, after = text[:start] + new + text[end:], start
    return text


def _written(value: str | int, style: str | None) -> str:
    """A value as the one that it replaces was written, where that says the same."""
    if isinstance(value, int):
        return str(value)
    if style == '"':
        return json.dumps(value, ensure_ascii=False)
    if style == "'" and "'" not in value:
        return f"'{value}'"
    return value if _PLAIN.fullmatch(value) and resolve(value) == value else json.dumps(value, ensure_ascii=False)


def _shared(documents: Sequence[object]) -> set[int]:
    """The nodes for which aliases stand too."""
    seen: set[int] = set()
    shared: set[int] = set()
    left = [node for node in documents if node is not None]
    while left:
        node = left.pop()
        if id(node) in seen:
            shared.add(id(node))
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left += node.value
        elif isinstance(node, yaml.MappingNode):
            left += [part for pair in node.value for part in pair]
    return shared


class Correction(NamedTuple):
    """An edit of an object: which document of the text, from 1, and where in it the object stands."""

    document: int
    root: Path
    change: FieldEdit


def corrected(content: Content, wanted: Sequence[Correction]) -> tuple[str, list[Correction]]:
    """The text after those corrections that can be made, and these.

    It parses to what the text did, each edit made: else none is.
    """
    try:
        text = EditableText(content.text)
    except NotEditableError:
        return content.text, []
    replacements: dict[TextEdit, Correction] = {}
    for correction in wanted:
        try:
            replacements[text.replacement(*correction)] = correction
        except NotEditableError:
            continue
    made = list(replacements.values())
    try:
        after = replaced(content.text, list(replacements))
        same = _values(content._replace(text=after)) == _edited(content, made)
    except (NotEditableError, InputError, LookupError):
        same = False
    return (after, made) if same else (content.text, [])


def _values(content: Content) -> dict[int, object]:
    """Number -> value of each document that is not empty."""
    return {number: value for value, number, _ in parse(content)}


def _edited(content: Content, made: Sequence[Correction]) -> dict[int, object]:
    values = _values(content)
    for document, root, change in made:
        apply_edit(values[document], change, root)
    return values
