"""String functions.

Upstream: github.com/google/cel-go/ext/strings.go (v0.26, version 2 of the library) and the standard library. Positions
count code points. A result of more than MAX_TEXT characters is stopped like an expression that costs too much; upstream
has no such bound, but a longer text costs too much to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kschedctl.cel.errors import CelError, CostLimitError
from kschedctl.cel.library.formatting import MAX_TEXT, format_values
from kschedctl.cel.values import Value

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_SPACE += "\u202f\u205f\u3000"  # White_Space of Unicode, which str.strip exceeds by U+001C to U+001F


def _index_error(at: int) -> CelError:
    return CelError(f"index out of range: {at}")


def find_index(text: str, part: str, start: int = 0) -> int:
    """Return the index of a part from ``start`` on, or -1. Raises CelError."""
    if not part:
        return start
    if start < 0:
        raise _index_error(start)
    return text.find(part, start)


def find_last_index(text: str, part: str, *start: int) -> int:
    """Return the last index of a part, searching backwards from ``start`` or the end, or -1. Raises CelError."""
    if not part:
        return start[0] if start else len(text)
    if not start:
        return text.rfind(part)
    if start[0] < 0:
        raise _index_error(start[0])
    return -1 if start[0] >= len(text) else text.rfind(part, 0, start[0] + len(part))


def char_at(text: str, at: int) -> str:
    """Return the character at an index, "" right after the last one. Raises CelError."""
    if not 0 <= at <= len(text):
        raise _index_error(at)
    return text[at : at + 1]


def substring(text: str, start: int, *end: int) -> str:
    """Return the text from ``start`` to ``end`` or to its end. Raises CelError."""
    if end and start > end[0]:
        raise CelError(f"invalid substring range. start: {start}, end: {end[0]}")
    for at in (start, *end):
        if not 0 <= at <= len(text):
            raise _index_error(at)
    return text[start : end[0]] if end else text[start:]


def replace_text(text: str, old: str, new: str, count: int = -1) -> str:
    """Return the text with some or all occurrences replaced."""
    times = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + times * (len(new) - len(old)) > MAX_TEXT:
        raise CostLimitError
    return text.replace(old, new, max(count, -1))


def join_texts(parts: list[Value], separator: str = "") -> str:
    """Join texts. Raises CelError."""
    for part in parts:
        if not isinstance(part, str):
            raise CelError(f"join: invalid input: {part}")
    return separator.join(parts)


def split_text(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split a text into at most ``limit`` parts."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, max(limit - 1, -1))
    characters = list(text)
    if limit < 0 or len(characters) <= limit:
        return characters
    return [*characters[: limit - 1], text[limit - 1 :]]


def _on_ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: change(text) if text.isascii() else "".join(change(c) if c.isascii() else c for c in text)


def quote_text(text: str) -> str:
    """Return the text as a literal."""
    escapes = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
    table = str.maketrans(escapes | {"\\": r"\\", '"': r"\""})
    return f'"{text.translate(table)}"'


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "{string}.contains(string) bool": lambda text, part: part in text,
    "{string}.endsWith(string) bool": str.endswith,
    "{string}.startsWith(string) bool": str.startswith,
    "{string}.charAt(int) string": char_at,
    "{string}.indexOf(string) int": find_index,
    "{string}.indexOf(string, int) int": find_index,
    "{string}.lastIndexOf(string) int": find_last_index,
    "{string}.lastIndexOf(string, int) int": find_last_index,
    "{string}.lowerAscii() string": _on_ascii(str.lower),
    "{string}.upperAscii() string": _on_ascii(str.upper),
    "{string}.replace(string, string) string": replace_text,
    "{string}.replace(string, string, int) string": replace_text,
    "{string}.split(string) list(string)": split_text,
    "{string}.split(string, int) list(string)": split_text,
    "{string}.substring(int) string": substring,
    "{string}.substring(int, int) string": substring,
    "{string}.trim() string": lambda text: text.strip(_SPACE),
    "{string}.format(list(dyn)) string": format_values,
    "strings.quote(string) string": quote_text,
    "{list(string)}.join() string": join_texts,
    "{list(string)}.join(string) string": join_texts,
}
