"""Where JSON, msgpack and plain values become structs; nothing else in the package makes a decoder.

msgspec (0.22) fills in what it knows of a struct when that is decoded for the first time, and lets other threads see it
half filled: one that decodes meanwhile ends the process by SIGSEGV. So a type and all that it holds is prepared behind
one lock before anything is decoded into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from threading import RLock
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")
_TYPES = {str: "str", bool: "bool", int: "int", float: "float", dict: "object", list: "array", type(None): "null"}
_SINCE = "since"
_preparing = RLock()  # of a thread that holds it, a struct's own __post_init__ may decode another
_json: dict[object, msgspec.json.Decoder[Any]] = {}
_msgpack: dict[object, msgspec.msgpack.Decoder[Any]] = {}


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


def from_builtins(value: object, into: type[T], decode_custom: Callable[[type, object], object] | None = None) -> T:
    """What dictionaries, lists and texts stand for. Raises msgspec.ValidationError."""
    json_decoder(into)
    return msgspec.convert(value, into, dec_hook=decode_custom)


def type_name(value: object) -> str:
    """What msgspec's errors call the type of a value.

    >>> type_name(None), type_name([1]), type_name({})
    ('null', 'array', 'object')
    """
    return _TYPES.get(type(value), type(value).__name__)


def came_with(minor: int) -> msgspec.Meta:
    """What a field is annotated with that older minor versions do not know."""
    return msgspec.Meta(extra={_SINCE: minor})


def fields_not_in(document: object, into: type, minor: int) -> Iterator[tuple[str, int | None]]:
    """(path, the minor version that brought it, None where none did) of what ``into`` has not in this one."""
    yield from _unknown(document, _type_info(into), "", minor)


def _unknown(document: object, info: inspect.Type, path: str, minor: int) -> Iterator[tuple[str, int | None]]:
    if isinstance(info, inspect.UnionType):
        for option in info.types:
            yield from _unknown(document, option, path, minor)
    elif isinstance(info, inspect.Metadata):
        since = (info.extra or {}).get(_SINCE, minor)
        yield from [(path, since)] if since > minor else _unknown(document, info.type, path, minor)
    elif isinstance(info, inspect.StructType) and isinstance(document, Mapping):
        fields = {field.encode_name: field.type for field in info.fields}
        for key in sorted(map(str, document)):
            at = f"{path}.{key}" if path else key
            if key not in fields:
                yield at, None
            else:
                yield from _unknown(document[key], fields[key], at, minor)
    elif isinstance(info, inspect.DictType) and isinstance(document, Mapping):
        for key in document:
            yield from _unknown(document[key], info.value_type, f"{path}[{key}]", minor)
    elif isinstance(info, inspect.VarTupleType) and isinstance(document, list | tuple):
        for index, value in enumerate(document):
            yield from _unknown(value, info.item_type, f"{path}[{index}]", minor)


@lru_cache(maxsize=64)
def _type_info(into: type) -> inspect.Type:
    return inspect.type_info(into)
