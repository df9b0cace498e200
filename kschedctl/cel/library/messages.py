"""Messages that expressions can build: protocol buffers' well-known types, represented by plain values.

Upstream: github.com/google/cel-go/common/types/{provider,object}.go (v0.26).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kschedctl.cel.errors import CelError
from kschedctl.cel.library.operators import build_duration, build_timestamp
from kschedctl.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    build_type,
    list_of,
    map_of,
)
from kschedctl.cel.values import Map, Uint, Value

_PREFIX = "google.protobuf."


@dataclass(frozen=True, slots=True)
class MessageType:
    """A message type."""

    result: Type
    """The type of the message for the checker."""
    fields: Mapping[str, Type]
    build: Callable[[Mapping[str, Value]], Value]
    """A function that builds the value from the fields that were set."""


def _build_wrapper_type(cel_type: Type, zero: Value, bounds: tuple[int, int] | None = None) -> MessageType:
    """Build the message type for a wrapper such as `google.protobuf.Int64Value`.

    `zero` is the value of an empty message. `bounds` are the least and the greatest value, or None if all values of
    the type are valid.
    """

    def build_value(fields: Mapping[str, Value]) -> Value:
        """Return the field `value`, or zero if it is not set. Raises CelError if it is out of bounds."""
        value = fields.get("value", zero)
        if bounds is not None:
            least, greatest = bounds
            if not least <= value <= greatest:
                raise CelError("integer overflow" if type(value) is int else "unsigned integer overflow")
        return value

    return MessageType(build_type("wrapper", "", cel_type), {"value": cel_type}, build_value)


def _to_float32(fields: Mapping[str, Value]) -> float:
    """Return the field `value` rounded to 32 bits, or infinity if it is out of range."""
    try:
        return float(struct.unpack("f", struct.pack("f", fields.get("value", 0.0)))[0])
    except OverflowError:
        return float("inf") if fields["value"] > 0 else float("-inf")


def _compute_total_nanos(fields: Mapping[str, Value]) -> int:
    """Return the fields ``seconds`` and ``nanos`` together in nanoseconds."""
    return int(fields.get("seconds", 0)) * 10**9 + int(fields.get("nanos", 0))


_SECONDS_AND_NANOS = {"seconds": INT, "nanos": INT}
_JSON = {
    "number_value": DOUBLE,
    "string_value": STRING,
    "bool_value": BOOL,
    "struct_value": map_of(STRING, DYN),
    "list_value": list_of(DYN),
}
MESSAGES: Mapping[str, MessageType] = {
    f"{_PREFIX}BoolValue": _build_wrapper_type(BOOL, False),
    f"{_PREFIX}BytesValue": _build_wrapper_type(BYTES, b""),
    f"{_PREFIX}DoubleValue": _build_wrapper_type(DOUBLE, 0.0),
    f"{_PREFIX}FloatValue": MessageType(build_type("wrapper", "", DOUBLE), {"value": DOUBLE}, _to_float32),
    f"{_PREFIX}Int32Value": _build_wrapper_type(INT, 0, bounds=(-(2**31), 2**31 - 1)),
    f"{_PREFIX}Int64Value": _build_wrapper_type(INT, 0),
    f"{_PREFIX}StringValue": _build_wrapper_type(STRING, ""),
    f"{_PREFIX}UInt32Value": _build_wrapper_type(UINT, Uint(0), bounds=(0, 2**32 - 1)),
    f"{_PREFIX}UInt64Value": _build_wrapper_type(UINT, Uint(0)),
    f"{_PREFIX}Duration": MessageType(
        DURATION, _SECONDS_AND_NANOS, lambda fields: build_duration(_compute_total_nanos(fields))
    ),
    f"{_PREFIX}Timestamp": MessageType(
        TIMESTAMP, _SECONDS_AND_NANOS, lambda fields: build_timestamp(_compute_total_nanos(fields))
    ),
    f"{_PREFIX}Struct": MessageType(
        map_of(STRING, DYN), {"fields": map_of(STRING, DYN)}, lambda fields: fields.get("fields", Map())
    ),
    f"{_PREFIX}ListValue": MessageType(list_of(DYN), {"values": list_of(DYN)}, lambda fields: fields.get("values", [])),
    f"{_PREFIX}Value": MessageType(DYN, _JSON, lambda fields: next(iter(fields.values()), None)),
    f"{_PREFIX}Any": MessageType(ANY, {"type_url": STRING, "value": BYTES}, lambda fields: None),
}
TYPES: Mapping[str, Type] = {
    **{cel_type.kind: cel_type for cel_type in (BOOL, BYTES, DOUBLE, INT, STRING, UINT)},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": build_type("null"),
    "type": build_type("type"),
    "optional_type": build_type("opaque", "optional_type", DYN),
    "net.IP": build_type("opaque", "net.IP"),
    "net.CIDR": build_type("opaque", "net.CIDR"),
    **{name: message.result for name, message in MESSAGES.items()},
}
"""The types that can be named, by name."""
