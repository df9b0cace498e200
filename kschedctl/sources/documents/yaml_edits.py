"""Edits of fields in YAML and JSON files that keep comments and layout."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import yaml

from kschedctl.errors import InputError
from kschedctl.lint.objects.subject import Path
from kschedctl.lint.rule import FieldEdit, RenameField, SetField, apply_edit
from kschedctl.sources.documents.documents import Content, parse_documents
from kschedctl.sources.documents.yaml_documents import LOADER, resolve_scalar

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_REST_OF_LINE = re.compile(r"[ \t]*(#[^\r\n]*)?(?=\r?\n|\Z)")
_LINE_BREAK = re.compile(r"\r?\n")


class TextEdit(NamedTuple):
    """A replacement of the text between two offsets."""

    start: int
    end: int
    text: str


class NotEditableError(Exception):
    """A field cannot be edited without changing others: it is shared, merged, on several lines, or absent."""


class EditableText:
    """A text with the YAML nodes of its documents. Raises NotEditableError if the text cannot be parsed."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._documents: list[Any] = list(yaml.compose_all(text, Loader=LOADER))
        except yaml.YAMLError as error:
            raise NotEditableError(str(error)) from None
        self._shared = _find_shared_nodes(self._documents)

    def build_edit(self, document: int, root: Path, change: FieldEdit) -> TextEdit:
        """Build the text edit for a change to the object at ``root`` in a document, which is numbered from 1.

        Raises NotEditableError if the field cannot be edited without changing other fields.
        """
        # Find the field and its parent
        *steps, last = (*root, *change.path)
        parent = self._documents[document - 1]
        for step in steps:
            parent = self._get_child_node(parent, step)
        if id(parent) in self._shared:
            raise NotEditableError("shared by an anchor")
        value = self._get_child_node(parent, last)

        # Replace its value or its key, or remove it
        if isinstance(change, SetField):
            return self._build_replacement(value, change.value)
        index = next(i for i, (_key, node) in enumerate(parent.value) if node is value)
        if isinstance(change, RenameField):
            key, _value = parent.value[index]
            return self._build_replacement(key, change.key)
        return self._build_field_removal(parent, index)

    def _get_child_node(self, node: object, step: str | int) -> object:
        """Return the child of a node at a key or index.

        Raises NotEditableError if an anchor shares the node, or if there is no such child.
        """
        if id(node) in self._shared:
            raise NotEditableError("shared by an anchor")
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            return node.value[step]
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value == step:
                    return value
        raise NotEditableError("missing, or merged from elsewhere")

    def _build_replacement(self, node: object, value: str | int) -> TextEdit:
        """Build the edit that replaces a scalar on one line. Raises NotEditableError for any other node."""
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">") or id(node) in self._shared:
            raise NotEditableError("not a simple value")
        start = node.start_mark.index
        end = node.end_mark.index
        if self.text[start : start + 1] in ("&", "!", "") or node.start_mark.line != node.end_mark.line:
            raise NotEditableError("anchored, tagged, or more than a line")
        return TextEdit(start, end, _render_scalar(value, node.style))

    def _build_field_removal(self, mapping: yaml.MappingNode, index: int) -> TextEdit:
        """Build the edit that removes a field with a scalar value from a mapping, but keeps the comment on its line.

        Raises NotEditableError if the field is the only one, or if its value is not a scalar on one line.
        """
        key, value = mapping.value[index]
        if len(mapping.value) == 1 or not isinstance(value, yaml.ScalarNode) or value.style in ("|", ">"):
            raise NotEditableError("the only field of its object, or one with fields of its own")
        if mapping.flow_style:
            return self._build_flow_removal(mapping, index)

        # If something else is on the line, such as the dash of a list's item, the next field moves up
        start = key.start_mark.index
        indentation = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        rest_of_line = _REST_OF_LINE.match(self.text, value.end_mark.index)
        if rest_of_line is None or indentation.strip(" "):
            return self._build_removal_up_to_next_field(mapping, index)

        # Otherwise, remove the whole line, or everything on it except the comment
        line_start = start - len(indentation)
        comment = rest_of_line[1]
        if comment:
            return TextEdit(line_start, rest_of_line.end(), indentation + comment)
        line_break = _LINE_BREAK.match(self.text, rest_of_line.end())
        return TextEdit(line_start, line_break.end() if line_break else rest_of_line.end(), "")

    def _build_removal_up_to_next_field(self, mapping: yaml.MappingNode, index: int) -> TextEdit:
        """Build the edit that removes a field up to the beginning of the next field.

        Raises NotEditableError if there is no next field, or if the edit would also remove a comment.
        """
        if index + 1 == len(mapping.value):
            raise NotEditableError("nothing follows that could replace it")
        start = mapping.value[index][0].start_mark.index
        end = mapping.value[index + 1][0].start_mark.index
        return self._build_range_removal(start, end)

    def _build_flow_removal(self, mapping: yaml.MappingNode, index: int) -> TextEdit:
        """Build the edit that removes a field, with its comma, from a mapping in braces.

        Raises NotEditableError if the edit would also remove a comment.
        """
        if index + 1 < len(mapping.value):
            return self._build_removal_up_to_next_field(mapping, index)
        # The last field is removed together with the comma before it. It is never the only field.
        _previous_key, previous_value = mapping.value[index - 1]
        _key, value = mapping.value[index]
        return self._build_range_removal(previous_value.end_mark.index, value.end_mark.index)

    def _build_range_removal(self, start: int, end: int) -> TextEdit:
        """Build the edit that removes the text between two offsets.

        Raises NotEditableError if the text has a comment.
        """
        if "#" in self.text[start:end]:
            raise NotEditableError("a comment would be removed with it")
        return TextEdit(start, end, "")


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Return the text after all edits. Raises NotEditableError if two edits overlap."""
    next_start = len(text)
    for edit in sorted(edits, reverse=True):  # from the end, so that the offsets of earlier edits stay valid
        if edit.end > next_start:
            raise NotEditableError("two edits of the same place")
        text = text[: edit.start] + edit.text + text[edit.end :]
        next_start = edit.start
    return text


def _render_scalar(value: str | int, style: str | None) -> str:
    """Render a value in YAML, with the same quotes as the value that it replaces if possible.

    ``style`` is the style of the replaced scalar: a quote, or None for a plain scalar.
    """
    if isinstance(value, int):
        return str(value)
    if style == '"':
        return json.dumps(value, ensure_ascii=False)
    if style == "'" and "'" not in value:
        return f"'{value}'"
    is_plain = _PLAIN.fullmatch(value) and resolve_scalar(value) == value
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def _find_shared_nodes(documents: Sequence[object]) -> set[int]:
    """Return the ids of the nodes that occur several times because of aliases."""
    seen: set[int] = set()
    shared: set[int] = set()
    unvisited = [node for node in documents if node is not None]
    while unvisited:
        node = unvisited.pop()
        if id(node) in seen:
            shared.add(id(node))
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            unvisited += node.value
        elif isinstance(node, yaml.MappingNode):
            unvisited += [part for pair in node.value for part in pair]
    return shared


class Correction(NamedTuple):
    """An edit of a field of an object in a file."""

    document: int
    """The number of the document, from 1."""
    root: Path
    """The path of the object in the document."""
    change: FieldEdit


def correct_text(content: Content, corrections: Sequence[Correction]) -> tuple[str, list[Correction]]:
    """Make the possible corrections in a text. Return the new text, and the corrections that were made.

    The new text is parsed for comparison. If anything but the corrected fields differs, no correction is made.
    """
    try:
        text = EditableText(content.text)
    except NotEditableError:
        return content.text, []

    # Leave out corrections of fields that cannot be edited alone
    corrections_by_edit: dict[TextEdit, Correction] = {}
    for correction in corrections:
        with suppress(NotEditableError):
            edit = text.build_edit(correction.document, correction.root, correction.change)
            corrections_by_edit[edit] = correction
    applied_corrections = list(corrections_by_edit.values())

    # Compare the new text's values with the old values after the same corrections
    try:
        new_text = apply_edits(content.text, list(corrections_by_edit))
        new_values = _parse_values(content._replace(text=new_text))
        expected_values = _apply_corrections(content, applied_corrections)
    except (NotEditableError, InputError, LookupError):
        return content.text, []
    if new_values != expected_values:
        return content.text, []
    return new_text, applied_corrections


def _parse_values(content: Content) -> dict[int, object]:
    """Return the values of the non-empty documents by number."""
    return {document.number: document.value for document in parse_documents(content)}


def _apply_corrections(content: Content, corrections: Sequence[Correction]) -> dict[int, object]:
    """Apply the corrections to the parsed documents, and return the values of all documents by number.

    Raises InputError if a document cannot be parsed, and LookupError if a field is not found.
    """
    values = _parse_values(content)
    for correction in corrections:
        apply_edit(values[correction.document], correction.change, correction.root)
    return values
