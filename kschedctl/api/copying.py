"""Copies of structs and dataclasses with some fields replaced, like ``copy.replace`` of Python 3.13."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def replace(value: T, /, **fields: object) -> T:
    """Return a copy of a struct or dataclass with the given fields replaced.

    >>> from kschedctl.api.objects import Toleration
    >>> replace(Toleration("key", "Exists"), key="other").key
    'other'
    """
    if isinstance(value, msgspec.Struct):
        return cast(T, msgspec.structs.replace(value, **fields))
    return cast(T, dataclasses.replace(cast("DataclassInstance", value), **fields))
