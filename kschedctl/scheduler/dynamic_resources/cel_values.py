"""What the functions of CEL selectors have in common: the library, limits, and values that CEL cannot look into."""

from __future__ import annotations

from typing import Any

from kschedctl.errors import InputError

Value = Any

NO_SUCH_OVERLOAD = "no such overload"
COST_LIMIT = "operation cancelled: actual cost limit exceeded"
MAX_TEXT = 1 << 20
"""Characters that one function may return: what keeps ``replace`` in a chain from filling the memory."""
MAX_INCLUDES = 48
"""Upstream's limit of the values of one attribute (resource/v1 ResourceSliceMaxAttributeValuesPerDevice)."""


def load_library() -> Any:
    """The CEL library. Raises InputError where the platform has none."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]  # noqa: PLC0415 - takes a moment
    except ImportError as error:
        what = "device selectors are CEL expressions, and the package cel-expr-python that reads them cannot be loaded"
        raise InputError(what, hint=str(error)) from None
    return cel


def opaque(value: Value, prefix: bytes) -> str:
    """The normal form of a quantity, version or address, told by its prefix. Raises ValueError for anything else."""
    if not isinstance(value, bytes | bytearray) or not value.startswith(prefix):
        raise ValueError(NO_SUCH_OVERLOAD)
    return bytes(value).removeprefix(prefix).decode()
