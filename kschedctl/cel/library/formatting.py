"""String formatting, such as ``"%s: %d".format([…])``.

Upstream: github.com/google/cel-go/ext/formatting.go (v0.26), which prints numbers as in en_US.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.cel.errors import CelError, CostLimitError
from kschedctl.cel.library.conversions import format_seconds, to_string
from kschedctl.cel.library.times import format_timestamp
from kschedctl.cel.meter import spend_work
from kschedctl.cel.values import Duration, Map, Timestamp, TypeValue, Uint, Value, type_name

MAX_TEXT = 1 << 24
"""The number of characters that a function may return."""
_MAX_PRECISION = 100_000
_CLAUSE = re.compile(r"%(?:\.([0-9]*))?(.)?", re.DOTALL)
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NOT_PRINTED = {0x7F: "\\x7f", **{i: f"\\x{i:02x}" for i in range(0x20)}}
_NOT_PRINTED |= {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}

ACCEPTED = {
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
_ONLY = {
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
    precision: int
    """-1 if there is none."""


def iter_clauses(template: str, count: int) -> Iterator[Clause | str]:
    """Yield the clauses of a format with ``count`` values, then the text after the last. Raises CelError."""
    before, at, index = "", 0, 0
    while (next_at := template.find("%", at)) >= 0:
        before, at = before + template[at:next_at], next_at
        if template.startswith("%%", at):
            before, at = f"{before}%", at + 2
            continue
        if index >= count:
            raise CelError(f"index {index} out of range")
        clause, at = _parse_clause(template, at, before)
        yield clause
        before, index = "", index + 1
    yield before + template[at:]


def _parse_clause(template: str, at: int, before: str) -> tuple[Clause, int]:
    """Parse a clause such as `%.2f`, and return it with the position after it. Raises CelError."""
    if at + 1 >= len(template):
        raise CelError("unexpected end of string")
    match = _CLAUSE.match(template, at)
    assert match is not None
    digits, verb = match.groups()
    fault = "could not parse formatting clause: "
    if digits is not None and verb is None:
        raise CelError(f"{fault}error while parsing precision: could not find end of precision specifier")
    if digits is not None and not (digits and len(digits) < 18):
        what = f'error while converting precision to integer: strconv.Atoi: parsing "{digits}": invalid syntax'
        raise CelError(f"{fault}error while parsing precision: {what}")
    if verb not in ACCEPTED:
        raise CelError(f'{fault}unrecognized formatting clause "{verb}"')
    return Clause(before, verb, int(digits) if digits else -1), match.end()


def describe_unfit(verb: str, given: str) -> str:
    """Return the error for a value whose type a clause does not accept."""
    return f"error during formatting: {_ONLY[verb]}, was given {given}"


def format_values(template: str, values: list[Value]) -> str:
    """Return the template with its clauses filled in. Raises CelError."""
    pieces, rest = [], iter(values)
    for clause in iter_clauses(template, len(values)):
        if isinstance(clause, str):
            pieces.append(clause)
        else:
            pieces += [clause.before, _format_clause(clause, next(rest))]
        if sum(map(len, pieces)) > MAX_TEXT:
            raise CostLimitError
    return "".join(pieces)


def _format_clause(clause: Clause, value: Value) -> str:
    """Format a value as its clause says. Raises CelError if the verb does not suit the type."""
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
    if type(value) not in (int, Uint):
        raise CelError(describe_unfit(verb, type_name(value)))
    return f"{int(value):{verb}}"


def _format_double(clause: Clause, value: Value) -> str:
    """Format a double for `%f` or `%e`, with `∞` and superscript exponents as upstream does."""
    if value in ("NaN", "Infinity", "-Infinity") and isinstance(value, str):
        value = float(value)
    if type(value) is not float:
        raise CelError(describe_unfit(clause.verb, type_name(value)))
    precision = 6 if clause.precision < 0 else clause.precision
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
    """Format a value for `%s`."""
    if isinstance(value, list | Map):
        spend_work(len(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_format_inner, value))}]"
    if isinstance(value, Map):
        pairs = sorted((_format_key(key), _format_inner(value.find_own(key))) for key in value)
        return "{" + ", ".join(f"{key}:{shown}" for key, shown in pairs) + "}"
    if value is None:
        return "null"
    if isinstance(value, str | bytes | int | float | Duration | Timestamp | TypeValue):
        return to_string(value)
    raise CelError(describe_unfit("s", type_name(value)))


def _format_key(key: Value) -> str:
    if not isinstance(key, str | int):
        raise CelError(f"error during formatting: no formatting function for map key of type {type_name(key)}")
    return _quote(key) if isinstance(key, str) else to_string(key)


def _format_inner(value: Value) -> str:
    """Format a value inside a list or map as a literal."""
    return _LITERALS.get(type(value), _format_text)(value)


def _quote(text: str) -> str:
    """Quote a string like Go's ``%q``."""
    if text.isascii():
        return f'"{text.translate(_NOT_PRINTED)}"'
    return (
        '"' + "".join(c.translate(_NOT_PRINTED) if c.isascii() or c.isprintable() else _escape(c) for c in text) + '"'
    )


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_LITERALS: Mapping[type, Callable[[Value], str]] = {
    str: _quote,
    bytes: lambda value: f"b{_quote(to_string(value))}",
    float: lambda value: f"{value:.6f}" if math.isfinite(value) else f'"{to_string(value)}"',
    Duration: lambda value: f'duration("{format_seconds(value)}s")',
    Timestamp: lambda value: f'timestamp("{format_timestamp(value)}")',
}
