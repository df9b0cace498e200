"""String functions and string formatting, such as ``"%s: %d".format([…])``.

Upstream: github.com/google/cel-go/ext/{strings,formatting}.go (v0.26, version 2 of the library), where numbers are
printed as in en_US, and the standard library. Positions count code points. A result of more than MAX_TEXT characters is
stopped like an expression that costs too much. Upstream has no such limit, but charges too much for a longer text to
be used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.cel.errors import CelError, CostLimitError
from kschedctl.cel.library.conversions import format_seconds, to_string
from kschedctl.cel.library.times import format_timestamp
from kschedctl.cel.values import Duration, Map, Timestamp, TypeValue, Uint, Value, get_type_name, spend_work

MAX_TEXT = 1 << 24
"""The maximum number of characters that a function may return."""
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
_SPACE += "\u202f\u205f\u3000"  # White_Space of Unicode, which str.strip exceeds by U+001C to U+001F


def _build_index_error(position: int) -> CelError:
    """Build the error for an index that is out of range."""
    return CelError(f"index out of range: {position}")


def find_index(text: str, part: str, start: int = 0) -> int:
    """Return the index of the first occurrence of ``part`` at or after ``start``, or -1.

    An empty part is found at ``start``, which is not checked in this case, as in upstream. Otherwise, raises CelError
    if ``start`` is negative.
    """
    if not part:
        return start
    if start < 0:
        raise _build_index_error(start)
    return text.find(part, start)


def find_last_index(text: str, part: str, start: int | None = None) -> int:
    """Return the index of the last occurrence of ``part`` at or before ``start``, or -1.

    Without ``start``, the whole text is searched. As in upstream, an empty part is found at any ``start``, and no other
    part is found at a ``start`` beyond the last character. Raises CelError if ``start`` is negative and ``part`` is not
    empty.
    """
    if start is None:
        return text.rfind(part)
    if not part:
        return start
    if start < 0:
        raise _build_index_error(start)
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def char_at(text: str, position: int) -> str:
    """Return the character at an index, or "" right after the last one. Raises CelError for other indices."""
    if not 0 <= position <= len(text):
        raise _build_index_error(position)
    return text[position : position + 1]


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the text from ``start`` to before ``end``, by default to the end.

    Raises CelError if an index is out of range, or if ``start`` is after ``end``.
    """
    if end is None:
        end = len(text)
    elif start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise _build_index_error(position)
    return text[start:end]


def replace_text(text: str, old: str, new: str, count: int = -1) -> str:
    """Return the text with ``old`` replaced by ``new``, at most ``count`` times if ``count`` is not negative.

    Raises CostLimitError if the result is longer than MAX_TEXT.
    """
    times = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + times * (len(new) - len(old)) > MAX_TEXT:
        raise CostLimitError
    return text.replace(old, new, max(count, -1))


def join_texts(parts: list[Value], separator: str = "") -> str:
    """Join strings with a separator. Raises CelError if a part is not a string."""
    for part in parts:
        if not isinstance(part, str):
            raise CelError(f"join: invalid input: {part}")
    return separator.join(parts)


def split_text(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split a text into at most ``limit`` parts, or without limit if ``limit`` is negative.

    The last part holds the rest of the text. An empty separator splits the text into characters.
    """
    if limit == 0:
        return []
    if separator:
        return text.split(separator, max(limit - 1, -1))
    characters = list(text)
    if limit < 0 or len(characters) <= limit:
        return characters
    return [*characters[: limit - 1], text[limit - 1 :]]


def _build_ascii_change(change: Callable[[str], str]) -> Callable[[str], str]:
    """Build a function that applies ``change`` to the ASCII characters of a text only."""

    def apply(text: str) -> str:
        """Return the text with its ASCII characters changed."""
        if text.isascii():
            return change(text)
        return "".join(change(c) if c.isascii() else c for c in text)

    return apply


def quote_text(text: str) -> str:
    """Return the text in quotes, with its special characters escaped."""
    escapes = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
    table = str.maketrans(escapes | {"\\": r"\\", '"': r"\""})
    return f'"{text.translate(table)}"'


_DEFAULT_PRECISION = 6
_MAX_PRECISION = 100_000
_MAX_PRECISION_DIGITS = 17
_CLAUSE = re.compile(r"%(?:\.([0-9]*))?(.)?", re.DOTALL)
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_ESCAPES = {0x7F: "\\x7f", **{i: f"\\x{i:02x}" for i in range(0x20)}}
_ESCAPES |= {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


ACCEPTED_KINDS = {
    "s": "string list map int uint double bool timestamp bytes duration type null",
    "d": "int uint",
    "f": "double string",
    "e": "double string",
    "b": "int uint bool",
    "x": "int uint string bytes",
    "X": "int uint string bytes",
    "o": "int uint",
}
"""The kinds of types that each clause accepts."""
_UNFIT_MESSAGES = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


class Clause(NamedTuple):
    """A clause of a format."""

    before: str
    """The text before the clause."""
    verb: str
    precision: int | None
    """The number of digits, or None for the default."""


def iter_clauses(template: str, count: int) -> Iterator[Clause | str]:
    """Yield the clauses of a format string and, at the end, the text after the last clause.

    Raises CelError if a clause is invalid, or if there are more clauses than the ``count`` values.
    """
    before = ""
    position = 0
    index = 0
    while (next_at := template.find("%", position)) >= 0:
        before += template[position:next_at]
        position = next_at
        if template.startswith("%%", position):
            before += "%"
            position += 2
            continue
        if index >= count:
            raise CelError(f"index {index} out of range")
        clause, position = _parse_clause(template, position, before)
        yield clause
        before = ""
        index += 1
    yield before + template[position:]


def _parse_clause(template: str, position: int, before: str) -> tuple[Clause, int]:
    """Parse a clause such as `%.2f`, and return it with the position after it. Raises CelError if it is invalid.

    `before` is the text before the clause, which the result includes.
    """
    if position + 1 >= len(template):
        raise CelError("unexpected end of string")
    match = _CLAUSE.match(template, position)
    assert match is not None
    digits, verb = match.groups()
    fault = "could not parse formatting clause: "
    if digits is not None and verb is None:
        raise CelError(f"{fault}error while parsing precision: could not find end of precision specifier")
    is_precision_invalid = digits is not None and not 0 < len(digits) <= _MAX_PRECISION_DIGITS
    if is_precision_invalid:
        what = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": invalid syntax'
        raise CelError(f"{fault}error while parsing precision: {what}")
    if verb not in ACCEPTED_KINDS:
        raise CelError(f'{fault}unrecognized formatting clause "{verb}"')
    precision = int(digits) if digits else None
    return Clause(before, verb, precision), match.end()


def describe_unfit_value(verb: str, given_type: str) -> str:
    """Return the error for a value whose type a clause does not accept."""
    return f"error during formatting: {_UNFIT_MESSAGES[verb]}, was given {given_type}"


def format_values(template: str, values: list[Value]) -> str:
    """Format a template by replacing each clause with its value.

    Raises CelError if the template is invalid or a value does not suit its clause. Raises CostLimitError if the result
    is longer than MAX_TEXT.
    """
    pieces = []
    remaining_values = iter(values)
    for clause in iter_clauses(template, len(values)):
        if isinstance(clause, str):
            pieces.append(clause)
        else:
            pieces += [clause.before, _format_clause(clause, next(remaining_values))]
        if sum(map(len, pieces)) > MAX_TEXT:
            raise CostLimitError
    return "".join(pieces)


def _format_clause(clause: Clause, value: Value) -> str:
    """Format a value according to a clause such as ``%d``.

    Raises CelError if the clause's verb does not suit the value's type.
    """
    verb = clause.verb
    match verb:
        case "s":
            return _format_text(value)
        case "f" | "e":
            return _format_double(clause, value)
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if verb == "X" else digits
        case "b" if isinstance(value, bool):
            return str(int(value))

    # The other verbs, and b, x and X with the types not handled above, format integers only.
    if type(value) not in (int, Uint):
        raise CelError(describe_unfit_value(verb, get_type_name(value)))
    return f"{int(value):{verb}}"


def _format_double(clause: Clause, value: Value) -> str:
    """Format a double for `%f` or `%e`, with `∞` and superscript exponents as upstream does.

    The texts "NaN", "Infinity" and "-Infinity" count as doubles. Raises CelError for any other value, and
    CostLimitError if the precision is too large.
    """
    if value in ("NaN", "Infinity", "-Infinity") and isinstance(value, str):
        value = float(value)
    if type(value) is not float:
        raise CelError(describe_unfit_value(clause.verb, get_type_name(value)))
    precision = _DEFAULT_PRECISION if clause.precision is None else clause.precision
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if precision > _MAX_PRECISION:
        raise CostLimitError
    value += 0.0  # which makes -0.0 a zero without sign, as upstream prints it
    if clause.verb == "f":
        return f"{value:,.{precision}f}"
    mantissa, _, exponent = f"{value:.{precision}e}".partition("e")
    return f"{mantissa}\u202f×\u202f10{exponent.lstrip('+').translate(_SUPERSCRIPT)}"


def _format_text(value: Value) -> str:
    """Format a value for `%s`. Raises CelError if its type cannot be formatted."""
    if isinstance(value, list | Map):
        spend_work(len(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_format_nested_value, value))}]"
    if isinstance(value, Map):
        pairs = sorted((_format_key(key), _format_nested_value(value.find(key))) for key in value)
        return "{" + ", ".join(f"{key}:{shown}" for key, shown in pairs) + "}"
    if value is None:
        return "null"
    if isinstance(value, str | bytes | int | float | Duration | Timestamp | TypeValue):
        return to_string(value)
    raise CelError(describe_unfit_value("s", get_type_name(value)))


def _format_key(key: Value) -> str:
    """Format the key of a map. Raises CelError for a key that is neither a text nor a whole number."""
    if not isinstance(key, str | int):
        raise CelError(f"error during formatting: no formatting function for map key of type {get_type_name(key)}")
    return _quote_like_go(key) if isinstance(key, str) else to_string(key)


def _format_nested_value(value: Value) -> str:
    """Format a value inside a list or map as a literal."""
    return _LITERALS.get(type(value), _format_text)(value)


def _quote_like_go(text: str) -> str:
    """Quote a string like Go's ``%q``."""
    if text.isascii():
        return f'"{text.translate(_ESCAPES)}"'
    escaped = (c.translate(_ESCAPES) if c.isascii() or c.isprintable() else _escape_character(c) for c in text)
    return f'"{"".join(escaped)}"'


def _escape_character(character: str) -> str:
    """Escape a character by its code point, like Go's ``%q``."""
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_LITERALS: Mapping[type, Callable[[Value], str]] = {
    str: _quote_like_go,
    bytes: lambda value: f"b{_quote_like_go(to_string(value))}",
    float: lambda value: f"{value:.6f}" if math.isfinite(value) else f'"{to_string(value)}"',
    Duration: lambda value: f'duration("{format_seconds(value)}s")',
    Timestamp: lambda value: f'timestamp("{format_timestamp(value)}")',
}


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "{string}.contains(string) bool": lambda text, part: part in text,
    "{string}.endsWith(string) bool": str.endswith,
    "{string}.startsWith(string) bool": str.startswith,
    "{string}.charAt(int) string": char_at,
    "{string}.indexOf(string) int": find_index,
    "{string}.indexOf(string, int) int": find_index,
    "{string}.lastIndexOf(string) int": find_last_index,
    "{string}.lastIndexOf(string, int) int": find_last_index,
    "{string}.lowerAscii() string": _build_ascii_change(str.lower),
    "{string}.upperAscii() string": _build_ascii_change(str.upper),
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
