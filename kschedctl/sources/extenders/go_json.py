"""A JSON decoder that behaves like Go's on a stream: it reads the first value and ignores what follows.

Upstream: encoding/json of Go, scanner.go and stream.go.
"""

from __future__ import annotations

import json
import re

from kschedctl.scheduler.engine.extenders.answers import ExtenderError

_BLANK = " \t\r\n"
_STRINGS = re.compile(r'"(?:\\.|[^"\\])*"')
_AFTER = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
}


def decode_first_value(body: bytes) -> object:
    """Decode the first JSON value. Raises ExtenderError with Go's message."""
    text = body.decode("utf-8", errors="replace").lstrip(_BLANK)
    if not text:
        raise ExtenderError("EOF")
    try:
        return json.JSONDecoder(parse_constant=_reject_constant).raw_decode(text)[0]
    except json.JSONDecodeError as error:
        raise ExtenderError(_describe_error(text, error)) from None
    except RecursionError:
        raise ExtenderError("exceeded max depth") from None
    except ValueError:  # more digits than anything has a use for
        raise ExtenderError("json: cannot unmarshal number into Go value of type int64") from None


def _reject_constant(name: str) -> object:
    """Raise ExtenderError for NaN and Infinity, which are not valid JSON."""
    raise ExtenderError(f"invalid character '{name[0]}' looking for beginning of value")


def _describe_error(text: str, error: json.JSONDecodeError) -> str:
    """Describe a decoding error in Go's words."""
    if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected EOF"
    character = text[error.pos]
    context = _AFTER.get(error.msg) or f"after {_describe_enclosing_element(text[: error.pos])}"
    return f"invalid character {character!r} {context}"


def _describe_enclosing_element(preceding_text: str) -> str:
    """Describe the kind of element after which a comma is expected, in Go's words."""
    open_brackets: list[str] = []
    for bracket in re.findall(r"[\[\]{}]", _STRINGS.sub("", preceding_text)):
        if bracket in "[{":
            open_brackets.append(bracket)
        elif open_brackets:
            open_brackets.pop()
    return "array element" if open_brackets and open_brackets[-1] == "[" else "object key:value pair"
