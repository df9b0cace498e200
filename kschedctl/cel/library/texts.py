"""Texts.

Upstream: github.com/google/cel-go/ext/strings.go (v0.26, version 2 of the library) and the standard library. Positions
count code points. What would make a text of more than MAX_TEXT characters is stopped like what costs too much: upstream
has no such bound, but a text beyond it costs too much to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kschedctl.cel.errors import CelError, CostLimitError
from kschedctl.cel.library.formatting import MAX_TEXT, format
from kschedctl.cel.values import Value

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_SPACE += "\u202f\u205f\u3000"  # White_Space of Unicode, which str.strip exceeds by U+001C to U+001F


def _outside(at: int) -> CelError:
    return CelError(f"index out of range: {at}")


def position(text: str, part: str, start: int = 0) -> int:
    """Where a part is from a start on; -1 for nowhere. Raises CelError, as the others do."""
    if not part:
        return start
    if start < 0:
        raise _outside(start)
    return text.find(part, start)


def last_position(text: str, part: str, *start: int) -> int:
    """Where a part is, looked for backwards from a start or the end; -1 for nowhere."""
    if not part:
        return start[0] if start else len(text)
    if not start:
        return text.rfind(part)
    if start[0] < 0:
        raise _outside(start[0])
    return -1 if start[0] >= len(text) else text.rfind(part, 0, start[0] + len(part))


def char_at(text: str, at: int) -> str:
    """The character at a place, empty just behind the last one."""
    if not 0 <= at <= len(text):
        raise _outside(at)
    return text[at : at + 1]


def substring(text: str, start: int, *end: int) -> str:
    """The text from a place to another, or to its end."""
    if end and start > end[0]:
        raise CelError(f"invalid substring range. start: {start}, end: {end[0]}")
    for at in (start, *end):
        if not 0 <= at <= len(text):
            raise _outside(at)
    return text[start : end[0]] if end else text[start:]


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """The text with some or all of another's occurrences replaced."""
    times = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + times * (len(new) - len(old)) > MAX_TEXT:
        raise CostLimitError
    return text.replace(old, new, max(count, -1))


def join(parts: list[Value], separator: str = "") -> str:
    """Texts put together."""
    for part in parts:
        if not isinstance(part, str):
            raise CelError(f"join: invalid input: {part}")
    return separator.join(parts)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """A text taken apart, into a limited number of parts at the most."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, max(limit - 1, -1))
    characters = list(text)
    if limit < 0 or len(characters) <= limit:
        return characters
    return [*characters[: limit - 1], text[limit - 1 :]]


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: change(text) if text.isascii() else "".join(change(c) if c.isascii() else c for c in text)


def quote(text: str) -> str:
    """The text as a literal."""
    escapes = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
    table = str.maketrans(escapes | {"\\": r"\\", '"': r"\""})
    return f'"{text.translate(table)}"'


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "{string}.contains(string) bool": lambda text, part: part in text,
    "{string}.endsWith(string) bool": str.endswith,
    "{string}.startsWith(string) bool": str.startswith,
    "{string}.charAt(int) string": char_at,
    "{string}.indexOf(string) int": position,
    "{string}.indexOf(string, int) int": position,
    "{string}.lastIndexOf(string) int": last_position,
    "{string}.lastIndexOf(string, int) int": last_position,
    "{string}.lowerAscii() string": _ascii(str.lower),
    "{string}.upperAscii() string": _ascii(str.upper),
    "{string}.replace(string, string) string": replace,
    "{string}.replace(string, string, int) string": replace,
    "{string}.split(string) list(string)": split,
    "{string}.split(string, int) list(string)": split,
    "{string}.substring(int) string": substring,
    "{string}.substring(int, int) string": substring,
    "{string}.trim() string": lambda text: text.strip(_SPACE),
    "{string}.format(list(dyn)) string": format,
    "strings.quote(string) string": quote,
    "{list(string)}.join() string": join,
    "{list(string)}.join(string) string": join,
}
