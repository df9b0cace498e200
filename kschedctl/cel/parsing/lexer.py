"""The lexer.

Upstream: github.com/google/cel-go/parser/gen/CEL.g4 and parser/unescape.go (v0.26).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kschedctl.cel.errors import build_compile_error
from kschedctl.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint, Value


class Token(NamedTuple):
    """A token."""

    kind: str
    """The token itself for operators and keywords, else its category."""
    text: str
    at: int


KEYWORDS = frozenset(["in", "true", "false", "null"])
END = "<EOF>"

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_TEXT = "|".join(
    [rf"{quote * 3}(?:{_ESCAPE}|[^\\])*?{quote * 3}" for quote in "\"'"]
    + [rf"{quote}(?:{_ESCAPE}|[^\\\n\r{quote}])*{quote}" for quote in "\"'"]
)
_RAW = "|".join(
    [rf"{quote * 3}(?s:.*?){quote * 3}" for quote in "\"'"] + [rf"{quote}[^\n\r{quote}]*{quote}" for quote in "\"'"]
)
_TOKEN = re.compile(
    rf"""(?P<space>[\t \r\n\f]+|//[^\n]*)
    |(?P<text>[rR](?:{_RAW})|{_TEXT})
    |(?P<bytes>[bB](?:[rR](?:{_RAW})|{_TEXT}))
    |(?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])""",
    re.VERBOSE,
)
_ESCAPED = re.compile(_ESCAPE)
_PAIRS, _WIDE = re.compile(r"\\\\"), re.compile(r"\\[uU]")
_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def tokenize(source: str) -> list[Token]:
    """Return all tokens and an end token. Raises CompileError."""
    read, at = [], 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None:
            raise build_compile_error(
                source, [(at, f"Syntax error: token recognition error at: '{source[at : at + 20]}'")]
            )
        kind, text = str(match.lastgroup), match[0]
        if kind == "operator" or (kind == "name" and text in KEYWORDS):
            kind = text
        if kind != "space":
            read.append(Token(kind, text, at))
        at = match.end()
    return [*read, Token(END, END, len(source))]


def parse_literal(token: Token, negative: bool = False) -> Value:
    """Return the value of a literal token. Raises ValueError."""
    sign = "-" if negative else ""
    match token.kind:
        case "int":
            return _parse_number(sign + token.text, INT_MIN, INT_MAX, "invalid int literal")
        case "uint":
            return Uint(_parse_number(token.text[:-1], 0, UINT_MAX, "invalid uint literal"))
        case "double":
            value = float(sign + token.text)
            if value in (float("inf"), float("-inf")):
                raise ValueError("invalid double literal")
            return value
        case "text":
            return _unescaped(token.text, False)
        case "bytes":
            return _unescaped(token.text[1:], True).encode("latin-1")
    return {"true": True, "false": False, "null": None}[token.text]


def _parse_number(text: str, low: int, high: int, fault: str) -> int:
    """Parse a decimal or hexadecimal integer. Raises ValueError if it is out of range."""
    if len(text) > 40 and text.strip("-0x")[40:]:  # beyond 64 bits, however it is written
        raise ValueError(fault)
    value = int(text.replace("0x", ""), 16) if "0x" in text else int(text)
    if not low <= value <= high:
        raise ValueError(fault)
    return value


def _unescaped(text: str, in_bytes: bool) -> str:
    """Return the text between the quotes; in bytes, one character per byte. Raises ValueError."""
    raw = text[0] in "rR"
    text = text[raw:].replace("\r\n", "\n").replace("\r", "\n")
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    text = text[width:-width]
    if in_bytes:
        text = text.encode("utf-8", "surrogatepass").decode("latin-1")
    if in_bytes and not raw and _WIDE.search(_PAIRS.sub("", text)):
        raise ValueError("unable to unescape string")
    return text if raw else _ESCAPED.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    """Return the character for an escape sequence. Raises ValueError for an invalid code point."""
    escape = match[0][1:]
    if escape[0] in "xXuU0123":
        code = int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ValueError("invalid unicode code point")
        return chr(code)
    return _NAMED.get(escape, escape)
