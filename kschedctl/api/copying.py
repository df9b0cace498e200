"""Copies with other fields, as ``copy.replace`` makes them from Python 3.13 on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def replace(value: T, /, **fields: object) -> T:
    """The struct or dataclass with these fields.

    >>> from kschedctl.api.objects import Toleration
    >>> replace(Toleration("key", "Exists"), key="other").key
    'other'
    """
    if isinstance(value, msgspec.Struct):
        return cast(T, msgspec.structs.replace(value, **fields))
    return cast(T, dataclasses.replace(cast("DataclassInstance", value), **fields))
