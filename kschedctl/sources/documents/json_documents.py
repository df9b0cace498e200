"""Strict parser of JSON documents. Duplicate keys and numbers such as NaN are errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from kschedctl.errors import InputError
from kschedctl.sources.documents.place import ParsedDocument

MAX_DEPTH = 100
"""The maximum nesting of a document in JSON or YAML. API objects have about thirty levels."""
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_encode = json.JSONEncoder(ensure_ascii=False).encode


def parse_json(text: str, file: str, first_number: int = 1) -> Iterator[ParsedDocument]:
    """Yield the JSON documents of a text, which may contain several, one after the other.

    The first document gets the number ``first_number``. Raises InputError if a document is malformed.
    """
    number = first_number
    line = 1
    lines_counted_until = 0
    start = skip_space(text, 0)
    while start < len(text):
        line += text.count("\n", lines_counted_until, start)
        lines_counted_until = start
        value, end = _parse_document(text, start, f"{file}: document {number}")
        yield ParsedDocument(value, number, line)
        number += 1
        start = skip_space(text, end)


def _parse_document(text: str, start: int, where: str) -> tuple[object, int]:
    """Parse the document at ``start``, and return its value and the offset after it.

    Raises InputError if the document is malformed or nested too deeply.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
        _validate_depth(value)
        if _SURROGATE.search(text, start, end):
            _encode(value).encode()  # fails for half of a surrogate pair
    except json.JSONDecodeError as error:
        where = f"{where}, line {error.lineno}, column {error.colno}"
        raise InputError(f"invalid JSON: {describe_json_error(error)}", where=where, line=error.lineno) from None
    except RecursionError:
        raise InputError(f"nested more than {MAX_DEPTH} levels deep", where=where) from None
    except UnicodeEncodeError:
        raise InputError("contains half of a surrogate pair, which is not valid text", where=where) from None
    except ValueError as error:
        raise InputError(_describe_value_error(error), where=where) from None
    return value, end


def describe_json_error(error: json.JSONDecodeError) -> str:
    """Return the parser's message in lower case, without the words that introduce a position."""
    message = error.msg.removesuffix(" at").removesuffix(" starting")
    return message[:1].lower() + message[1:]


def skip_space(text: str, start: int) -> int:
    """Return the position of the first character from ``start`` on that is not a blank."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _validate_depth(value: object) -> None:
    """Raise RecursionError if the value is nested deeper than MAX_DEPTH."""
    # Level by level, so that the check itself needs no recursion
    level = _filter_containers([value])
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise RecursionError
        next_level: list[dict[object, object] | list[object]] = []
        for container in level:
            children = container.values() if isinstance(container, dict) else container
            next_level += _filter_containers(children)
        level = next_level


def _filter_containers(values: Iterable[object]) -> list[dict[object, object] | list[object]]:
    """Return the values that are objects or arrays."""
    return [value for value in values if isinstance(value, dict | list)]


def _describe_value_error(error: ValueError) -> str:
    """Return the message of an error of the parser. Python's limit on the digits of an integer gets a plainer one."""
    return "an integer of more than 4,300 digits" if str(error).startswith("Exceeds the limit") else str(error)


def _build_json_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build a JSON object from key-value pairs. Raises ValueError if a key occurs twice."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        unseen = set(fields)
        for key, _ in pairs:
            if key not in unseen:
                raise ValueError(f"duplicate field {key[:60]!r}")
            unseen.remove(key)
    return fields


def _reject_constant(constant: str) -> NoReturn:
    """Raise ValueError for NaN and Infinity."""
    raise ValueError(f"{constant} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_build_json_object, parse_constant=_reject_constant)
