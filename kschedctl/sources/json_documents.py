"""JSON documents read strictly: a key that stands twice, or a number that JSON does not have, is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from kschedctl.errors import InputError
from kschedctl.sources.place import Document

_SPACE = re.compile(r"[ \t\n\r]*")


def parse_json(text: str, file: str, number: int = 1) -> Iterator[Document]:
    """The documents, one after the other, of which the first has this number. Raises InputError."""
    end = _skip_space(text, 0)
    while end < len(text):
        line = text.count("\n", 0, end) + 1
        try:
            value, stop = _DECODER.raw_decode(text, end)
        except json.JSONDecodeError as error:
            where = f"{file}: document {number}, line {error.lineno}, column {error.colno}"
            raise InputError(f"broken JSON: {problem(error)}", where=where) from None
        except ValueError as error:
            raise InputError(str(error).partition(";")[0], where=f"{file}: document {number}") from None
        yield Document(value, number, line)
        number, end = number + 1, _skip_space(text, stop)


def problem(error: json.JSONDecodeError) -> str:
    """What is wrong, in words that need no position after them."""
    message = error.msg.removesuffix(" at").removesuffix(" starting")
    return message[:1].lower() + message[1:]


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"duplicate field {twice[:60]!r}")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse)
