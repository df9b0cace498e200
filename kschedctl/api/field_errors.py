"""Errors of fields, with the API server's messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

_GO_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"} | {
    '"': r"\"",
    "\\": r"\\",
}


class Key(str):
    """A map key as a step of a field path: ``limits[nvidia.com/gpu]``."""

    __slots__ = ()


class TypedString(str):
    r"""A value of a Go string type, such as an operator. Upstream prints it as JSON, but plain strings with %q.

    >>> str(invalid(("operator",), TypedString("<"), "no")), str(invalid(("operator",), "<", "no"))
    ('operator: Invalid value: "\\u003c": no', 'operator: Invalid value: "<": no')
    """

    __slots__ = ()


Path = tuple[str | int, ...]
"""The path from the root of an object to a field: field names, list indices, Keys of maps."""
ValidationErrors = Iterator["FieldError"]


class FieldError(NamedTuple):
    """A validation error of the API server for one field."""

    path: Path
    body: str
    """The text after the path."""
    location: Path = ()
    """The field to blame, if upstream reports another path or a path that does not exist."""

    @property
    def field(self) -> Path:
        """The path of the field that has to be changed."""
        return self.location or self.path

    def located_at(self, location: Path) -> FieldError:
        """Return the error with the path of the field to blame, which does not change the message."""
        return self._replace(location=location)

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.body}"


def format_path(path: Path) -> str:
    """Format a path as the API server does.

    >>> format_path(("spec", "containers", 0, "resources", "limits", Key("cpu")))
    'spec.containers[0].resources.limits[cpu]'
    """
    text = ""
    for step in path:
        if isinstance(step, int | Key):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def invalid(path: Path, value: object, detail: str) -> FieldError:
    """Build the error for a value that breaks a rule."""
    return FieldError(path, f"Invalid value: {format_value(value)}" + (f": {detail}" if detail else ""))


def required(path: Path, detail: str = "") -> FieldError:
    """Build the error for a missing or empty value."""
    return FieldError(path, "Required value" + (f": {detail}" if detail else ""))


def duplicate(path: Path, value: object) -> FieldError:
    """Build the error for a value that must be unique."""
    return FieldError(path, f"Duplicate value: {format_value(value)}")


def forbidden(path: Path, detail: str) -> FieldError:
    """Build the error for a value that is not allowed in this context."""
    return FieldError(path, f"Forbidden: {detail}")


def not_found(path: Path, value: object, detail: str = "") -> FieldError:
    """Build the error for a reference to an object that does not exist."""
    return FieldError(path, f"Not found: {format_value(value)}" + (f": {detail}" if detail else ""))


def not_supported(path: Path, value: object, supported: Iterable[str]) -> FieldError:
    """Build the error for a value outside a closed set. The supported values are shown in the given order."""
    values = ", ".join(map(quote_like_go, supported))
    return FieldError(path, f"Unsupported value: {format_value(value)}: supported values: {values}")


def deduplicate_errors(field_errors: ValidationErrors) -> list[FieldError]:
    """Return the errors in order, without errors that read the same as an earlier one."""
    errors_by_text: dict[str, FieldError] = {}
    for error in field_errors:
        errors_by_text.setdefault(str(error), error)
    return list(errors_by_text.values())


def format_value(value: object) -> str:
    """Format a value as upstream does: numbers and booleans plain, strings quoted, everything else as JSON."""
    if isinstance(value, TypedString):
        return dump_go_json(str(value))
    return quote_like_go(value) if isinstance(value, str) else dump_go_json(value)


def quote_like_go(text: str) -> str:
    """Quote a string like Go's %q."""
    return f'"{"".join(map(_escape_like_go, text))}"'


def dump_go_json(value: object) -> str:
    """Serialize a value as Go's encoding/json does: maps sorted by key, HTML characters escaped."""
    plain = msgspec.to_builtins(value, order="deterministic")
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return text.translate({ord(character): f"\\u{ord(character):04x}" for character in "<>&"})


def _escape_like_go(character: str) -> str:
    """Return a character as Go's `%q` prints it, escaped if necessary."""
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"
