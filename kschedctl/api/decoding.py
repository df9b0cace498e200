"""Where JSON, msgpack and plain values become structs; nothing else in the package makes a decoder.

msgspec (0.22) fills in what it knows of a struct when that is decoded for the first time, and lets other threads see it
half filled: one that decodes meanwhile ends the process by SIGSEGV. So a type and all that it holds is prepared behind
one lock before anything is decoded into it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_TYPES = {str: "str", bool: "bool", int: "int", float: "float", dict: "object", list: "array", type(None): "null"}
_preparing = RLock()  # of a thread that holds it, a struct's own __post_init__ may decode another
_json: dict[Any, msgspec.json.Decoder[Any]] = {}
_msgpack: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def json_decoder(into: type[T]) -> msgspec.json.Decoder[T]:
    """The decoder of JSON that all threads share."""
    if into not in _json:
        with _preparing:
            _json.setdefault(into, msgspec.json.Decoder(into))
    return _json[into]


def msgpack_decoder(into: type[T]) -> msgspec.msgpack.Decoder[T]:
    """The decoder of msgpack that all threads share."""
    if into not in _msgpack:
        with _preparing:
            _msgpack.setdefault(into, msgspec.msgpack.Decoder(into))
    return _msgpack[into]


def from_json(data: bytes, into: type[T]) -> T:
    """Raises msgspec.DecodeError; its ValidationError where the data is JSON of another shape."""
    return json_decoder(into).decode(data)


def from_msgpack(data: bytes, into: type[T]) -> T:
    """Raises msgspec.DecodeError; its ValidationError where the data is msgpack of another shape."""
    return msgpack_decoder(into).decode(data)


def from_builtins(value: Any, into: type[T], decode_custom: Callable[[type, Any], Any] | None = None) -> T:
    """What dictionaries, lists and texts stand for. Raises msgspec.ValidationError."""
    json_decoder(into)
    return msgspec.convert(value, into, dec_hook=decode_custom)


def type_name(value: Any) -> str:
    """What msgspec's errors call the type of a value.

    >>> type_name(None), type_name([1]), type_name({})
    ('null', 'array', 'object')
    """
    return _TYPES.get(type(value), type(value).__name__)
