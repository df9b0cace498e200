"""What is wrong with a field, as the API server words it.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/field/{errors,path}.go (v1.36).
"""

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
    """A step of a path into a map: ``limits[nvidia.com/gpu]``."""

    __slots__ = ()


class Named(str):
    """A value of a string type of its own, such as an operator; upstream prints it as JSON, plain strings as Go does.

    >>> str(invalid(("operator",), Named("<"), "no")), str(invalid(("operator",), "<", "no"))
    ('operator: Invalid value: "\\\\u003c": no', 'operator: Invalid value: "<": no')
    """

    __slots__ = ()


Path = tuple[str | int, ...]
"""From the root of an object to a field: names of fields, indices of lists, Keys of maps."""
Found = Iterator["FieldError"]


class FieldError(NamedTuple):
    """Why the API server refuses an object; ``body`` is all that it says behind the path.

    ``at``: the field that is to blame, where the path is another one, or none that there is.
    """

    path: Path
    body: str
    at: Path = ()

    @property
    def field(self) -> Path:
        """Where to look in the object."""
        return self.at or self.path

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.body}"


def path_text(path: Path) -> str:
    """A path as the API server writes it.

    >>> path_text(("spec", "containers", 0, "resources", "limits", Key("cpu")))
    'spec.containers[0].resources.limits[cpu]'
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int | Key) else f".{step}" if text else step
    return text


def invalid(path: Path, value: object, detail: str) -> FieldError:
    """A value that breaks a rule."""
    return FieldError(path, f"Invalid value: {printed(value)}" + (f": {detail}" if detail else ""))


def required(path: Path, detail: str = "") -> FieldError:
    """A value that is missing or empty."""
    return FieldError(path, "Required value" + (f": {detail}" if detail else ""))


def duplicate(path: Path, value: object) -> FieldError:
    """A value that may be there only once."""
    return FieldError(path, f"Duplicate value: {printed(value)}")


def forbidden(path: Path, detail: str) -> FieldError:
    """A value that may not be there, as things are."""
    return FieldError(path, f"Forbidden: {detail}")


def not_found(path: Path, value: object, detail: str = "") -> FieldError:
    """A reference to what is not there."""
    return FieldError(path, f"Not found: {printed(value)}" + (f": {detail}" if detail else ""))


def not_supported(path: Path, value: object, supported: Iterable[str]) -> FieldError:
    """A value that is none of the known ones, which are shown in this order."""
    values = ", ".join(map(quote, supported))
    return FieldError(path, f"Unsupported value: {printed(value)}: supported values: {values}")


def each_once(field_errors: Found) -> list[FieldError]:
    """In their order, what is said in the same words only once."""
    return list({str(error): error for error in reversed(tuple(field_errors))}.values())[::-1]


def printed(value: object) -> str:
    """A value as upstream prints it: numbers and booleans plainly, strings quoted, everything else as JSON."""
    if isinstance(value, Named):
        return go_json(str(value))
    return quote(value) if isinstance(value, str) else go_json(value)


def quote(text: str) -> str:
    """The text in double quotes, as Go's %q."""
    return f'"{"".join(map(_escape, text))}"'


def go_json(value: object) -> str:
    """JSON as Go writes it: maps sorted by key, and what could be HTML escaped."""
    plain = msgspec.to_builtins(value, order="deterministic")
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return text.translate({ord(character): f"\\u{ord(character):04x}" for character in "<>&"})


def _escape(character: str) -> str:
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
