"""JSON documents read strictly: a key that stands twice, or a number that JSON does not have, is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from kschedctl.errors import InputError
from kschedctl.sources.documents.place import ParsedDocument

DEEPEST = 100
"""Levels of a document, JSON or YAML; objects of the API have some thirty."""
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_encode = json.JSONEncoder(ensure_ascii=False).encode


def parse_json(text: str, file: str, number: int = 1) -> Iterator[ParsedDocument]:
    """The documents, one after the other, of which the first has this number. Raises InputError."""
    counted, line, end = 0, 1, skip_space(text, 0)
    while end < len(text):
        line += text.count("\n", counted, end)
        counted = end
        value, stop = _parse(text, end, f"{file}: document {number}")
        yield ParsedDocument(value, number, line)
        number, end = number + 1, skip_space(text, stop)


def _parse(text: str, start: int, where: str) -> tuple[object, int]:
    """The document that begins here, and where it ends."""
    try:
        value, stop = _DECODER.raw_decode(text, start)
        _check_depth(value)
        if _SURROGATE.search(text, start, stop):
            _encode(value).encode()
    except json.JSONDecodeError as error:
        where = f"{where}, line {error.lineno}, column {error.colno}"
        raise InputError(f"invalid JSON: {problem(error)}", where=where) from None
    except RecursionError:
        raise InputError(f"nested more than {DEEPEST} levels deep", where=where) from None
    except UnicodeEncodeError:
        raise InputError("holds half of a surrogate pair, which is not text", where=where) from None
    except ValueError as error:
        raise InputError(_reason(error), where=where) from None
    return value, stop


def problem(error: json.JSONDecodeError) -> str:
    """What is wrong, in words that need no position after them."""
    message = error.msg.removesuffix(" at").removesuffix(" starting")
    return message[:1].lower() + message[1:]


def skip_space(text: str, start: int) -> int:
    """Past white space."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _check_depth(value: object) -> None:
    """Raises RecursionError for what is nested deeper than DEEPEST."""
    level, depth = _containers([value]), 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise RecursionError
        level = [
            inner
            for container in level
            for inner in _containers(container.values() if isinstance(container, dict) else container)
        ]


def _containers(values: Iterable[object]) -> list[dict[object, object] | list[object]]:
    return [value for value in values if isinstance(value, dict | list)]


def _reason(error: ValueError) -> str:
    """Python itself refuses to read an integer of more than 4,300 digits."""
    return "an integer of more than 4,300 digits" if str(error).startswith("Exceeds the limit") else str(error)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate field {twice[:60]!r}")
    return fields


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
