"""Decoding of JSON, msgpack and plain values into structs. No other module creates decoders.

msgspec (0.22) fills in its facts about a struct when it decodes the struct for the first time, and other threads can
see them half filled: a thread that decodes meanwhile crashes with SIGSEGV. Therefore each type, with all types inside
it, is prepared behind one lock before anything is decoded into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

T = TypeVar("T")
_TYPES = {str: "str", bool: "bool", int: "int", float: "float", dict: "object", list: "array", type(None): "null"}
_SINCE = "since"
_ANY_KEY = "..."
"""msgspec's step for the value of a map, whichever key it has."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_ERROR = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_RECEIVED_TYPE = re.compile(r"got `(\w+)`")
_lock = RLock()  # reentrant, because __post_init__ of a struct may decode another struct
_json_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_msgpack_decoders: dict[object, msgspec.msgpack.Decoder[Any]] = {}


def get_json_decoder(into: type[T]) -> msgspec.json.Decoder[T]:
    """Return the JSON decoder for a type. It is built at the first call and then shared by all threads."""
    if into not in _json_decoders:
        with _lock:  # another thread may have built it meanwhile, so `setdefault`
            _json_decoders.setdefault(into, msgspec.json.Decoder(into))
    return _json_decoders[into]


def get_msgpack_decoder(into: type[T]) -> msgspec.msgpack.Decoder[T]:
    """Return the msgpack decoder for a type. It is built at the first call and then shared by all threads."""
    if into not in _msgpack_decoders:
        with _lock:  # another thread may have built it meanwhile, so `setdefault`
            _msgpack_decoders.setdefault(into, msgspec.msgpack.Decoder(into))
    return _msgpack_decoders[into]


def decode_json(data: bytes, into: type[T]) -> T:
    """Decode JSON into the type. Raises msgspec.DecodeError, or its ValidationError if the shape differs."""
    return get_json_decoder(into).decode(data)


def decode_msgpack(data: bytes, into: type[T]) -> T:
    """Decode msgpack into the type. Raises msgspec.DecodeError, or its ValidationError if the shape differs."""
    return get_msgpack_decoder(into).decode(data)


def convert_builtins(value: object, into: type[T], decode_custom: Callable[[type, object], object] | None = None) -> T:
    """Convert dicts, lists and scalars into the type. Raises msgspec.ValidationError."""
    get_json_decoder(into)
    return msgspec.convert(value, into, dec_hook=decode_custom)


def type_name(value: object) -> str:
    """Return the name that msgspec's errors use for the type of a value.

    >>> type_name(None), type_name([1]), type_name({})
    ('null', 'array', 'object')
    """
    return _TYPES.get(type(value), type(value).__name__)


class TypeMismatch(NamedTuple):
    """A value of a document that does not have the type of its field."""

    message: str
    """msgspec's message without the path, such as ``Expected `int`, got `str```."""
    path: tuple[str | int, ...]
    """The path of the value, or of the map that holds it if its key is not known."""
    text: str
    """This path in msgspec's notation, with the keys of maps in place of ``[...]`` if they are known."""


def locate_mismatch(document: object, error: msgspec.ValidationError) -> TypeMismatch:
    """Return msgspec's message and the path of the value that it rejected.

    For the key of a map, msgspec writes only ``[...]``. The keys are therefore searched for a value of the rejected
    type. If none is found, the path ends at the map.

    >>> try: convert_builtins({"cpu": "1", "memory": []}, dict[str, str])
    ... except msgspec.ValidationError as error: locate_mismatch({"cpu": "1", "memory": []}, error)[1:]
    (('memory',), '[memory]')
    """
    match = _ERROR.fullmatch(str(error))
    assert match is not None
    message, text = match.groups(default="")
    steps = [name or index for name, index in _STEP.findall(text)]
    received = _RECEIVED_TYPE.search(message)
    path = _find_path_to_type(document, steps, received[1]) if received else None
    if path is None:  # no key is known, so the path ends at the map
        before_map = steps[: steps.index(_ANY_KEY)] if _ANY_KEY in steps else steps
        return TypeMismatch(message, tuple(int(step) if step.isdecimal() else step for step in before_map), text)
    # Show the found keys in the text, too
    for step, key in zip(steps, path, strict=True):
        if step == _ANY_KEY:
            text = text.replace("[...]", f"[{key}]", 1)
    return TypeMismatch(message, path, text)


def _find_path_to_type(value: object, steps: Sequence[str], wanted_type: str) -> tuple[str | int, ...] | None:
    """Find the first value of the wanted type at the end of the steps, and return its path.

    The step ``_ANY_KEY`` stands for any key of a map. Return None if no value at the end has the type.
    """
    if not steps:
        type_names = {type_name(value)}
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            type_names.add("float")  # msgspec's name for an integer of more than 64 bits
        return () if wanted_type in type_names else None
    step = steps[0]
    values: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, Mapping):
        if step == _ANY_KEY:
            values = value.items()
        elif step in value:
            values = [(step, value[step])]
    elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
        values = [(int(step), value[int(step)])]
    for key, inner in values:
        path = _find_path_to_type(inner, steps[1:], wanted_type)
        if path is not None:
            return key, *path
    return None


def introduced_in(minor: int) -> msgspec.Meta:
    """Return the annotation of a field that exists only since a minor version."""
    return msgspec.Meta(extra={_SINCE: minor})


def iter_unknown_fields(document: object, struct: type, minor: int) -> Iterator[tuple[str, int | None]]:
    """Yield the fields of a document that the struct does not have in a minor version.

    Each item is the path of a field, and the minor version that introduced it or None if no version has it.
    """
    yield from _iter_unknown_fields_of_type(document, _get_type_info(struct), "", minor)


def _iter_unknown_fields_of_type(
    document: object, info: inspect.Type, path: str, minor: int
) -> Iterator[tuple[str, int | None]]:
    """Yield the path of each field in a value that the value's type does not have in a minor version.

    Each path comes with the minor version that introduced the field, or None if no version has it.
    """
    if isinstance(info, inspect.UnionType):
        for option in info.types:
            yield from _iter_unknown_fields_of_type(document, option, path, minor)
    elif isinstance(info, inspect.Metadata):
        yield from _iter_unknown_fields_of_annotated(document, info, path, minor)
    elif isinstance(info, inspect.StructType) and isinstance(document, Mapping):
        fields = {field.encode_name: field.type for field in info.fields}
        for key in sorted(map(str, document)):
            field_path = f"{path}.{key}" if path else key
            if key not in fields:
                yield field_path, None
            else:
                yield from _iter_unknown_fields_of_type(document[key], fields[key], field_path, minor)
    elif isinstance(info, inspect.DictType) and isinstance(document, Mapping):
        for key in document:
            yield from _iter_unknown_fields_of_type(document[key], info.value_type, f"{path}[{key}]", minor)
    elif isinstance(info, inspect.VarTupleType) and isinstance(document, list | tuple):
        for index, value in enumerate(document):
            yield from _iter_unknown_fields_of_type(value, info.item_type, f"{path}[{index}]", minor)


def _iter_unknown_fields_of_annotated(
    document: object, info: inspect.Metadata, path: str, minor: int
) -> Iterator[tuple[str, int | None]]:
    """Yield the path of a field if only a later minor version has it, or else the paths of unknown fields in its value.

    Each path comes with the minor version that introduced the field, or None if no version has it.
    """
    since = (info.extra or {}).get(_SINCE, minor)
    if since > minor:
        yield path, since
    else:
        yield from _iter_unknown_fields_of_type(document, info.type, path, minor)


@lru_cache(maxsize=64)
def _get_type_info(into: type) -> inspect.Type:
    """Return msgspec's description of a type. The description is cached, since building it is slow."""
    return inspect.type_info(into)
