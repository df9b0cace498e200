"""Texts with fields corrected: whatever else they say is proved to stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kschedctl.errors import InputError
from kschedctl.lint.framework.field_edits import FieldEdit, apply_edit
from kschedctl.lint.objects.subject import Path
from kschedctl.sources.documents.documents import Content, parse
from kschedctl.sources.documents.yaml_edits import EditableText, NotEditableError, TextEdit, replaced


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
