"""JSON as Go's decoder reads it from a stream: the first value, whatever follows it.

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


def decoded(body: bytes) -> object:
    """The value. Raises ExtenderError in Go's words."""
    text = body.decode("utf-8", errors="replace").lstrip(_BLANK)
    if not text:
        raise ExtenderError("EOF")
    try:
        return json.JSONDecoder(parse_constant=_no_constant).raw_decode(text)[0]
    except json.JSONDecodeError as error:
        raise ExtenderError(_words(text, error)) from None
    except RecursionError:
        raise ExtenderError("exceeded max depth") from None
    except ValueError:  # more digits than anything has a use for
        raise ExtenderError("json: cannot unmarshal number into Go value of type int64") from None


def _no_constant(name: str) -> object:
    """NaN and Infinity are no JSON."""
    raise ExtenderError(f"invalid character '{name[0]}' looking for beginning of value")


def _words(text: str, error: json.JSONDecodeError) -> str:
    if error.pos >= len(text) or error.msg.startswith("Unterminated string"):
        return "unexpected EOF"
    character = text[error.pos]
    after = _AFTER.get(error.msg) or f"after {_element(text[: error.pos])}"
    return f"invalid character {character!r} {after}"


def _element(before: str) -> str:
    """What a comma could have followed."""
    open_: list[str] = []
    for bracket in re.findall(r"[\[\]{}]", _STRINGS.sub("", before)):
        if bracket in "[{":
            open_.append(bracket)
        elif open_:
            open_.pop()
    return "array element" if open_ and open_[-1] == "[" else "object key:value pair"
