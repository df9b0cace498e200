"""Decoding of one document into its struct, with errors that name the file and the exact field."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kschedctl.api.decoding import convert_builtins, locate_mismatch
from kschedctl.api.json_values import JsonObject, field_at
from kschedctl.cluster import drop_nulls
from kschedctl.errors import InputError
from kschedctl.sources.documents.place import Place

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode


def decode_document(document: JsonObject, struct: type[T], place: Place) -> T:
    """Decode a document into the struct. Raises InputError."""
    document = drop_nulls(document)
    try:
        obj = convert_builtins(document, struct)
        _encode(obj)
    except msgspec.ValidationError as error:
        raise _build_type_error(document, error, place) from None
    except UnicodeEncodeError:
        raise place.error("holds half of a surrogate pair, which is not text") from None
    except OverflowError:
        pass
    path = _find_large_number(document)
    if path is not None:
        raise place.error("number out of range", path.lstrip("."))
    return obj


def _build_type_error(document: JsonObject, error: msgspec.ValidationError, place: Place) -> InputError:
    """Build the error for a field of the wrong type, in our words."""
    mismatch = locate_mismatch(document, error)
    message = mismatch.message[:1].lower() + mismatch.message[1:].replace("`", "").replace(" | null", "")
    is_large = _is_large_number(field_at(document, *mismatch.path))
    if message.startswith(("expected int <=", "expected int >=")) or (
        message == "expected int, got float" and is_large
    ):
        message = "number out of range"
    return place.error(message, mismatch.text.lstrip("."))


def _is_large_number(value: object) -> bool:
    """Return whether the value is a number of more than 64 bits, for which YAML makes a float."""
    return isinstance(value, int | float) and not -(2**63) <= value < 2**63


def _find_large_number(value: object) -> str | None:
    """Return the path of the first integer of more than 64 bits, or None."""
    if isinstance(value, int):
        return "" if _is_large_number(value) else None
    if isinstance(value, dict):
        for key, inner in value.items():
            if (path := _find_large_number(inner)) is not None:
                return f".{key}{path}"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if (path := _find_large_number(inner)) is not None:
                return f"[{index}]{path}"
    return None
