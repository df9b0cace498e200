"""Decoders of the items of JSON lists, by kind."""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import GenericAlias
from typing import Any, Literal

import msgspec

from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Struct
from kschedctl.sources.list_items import NODE_FIELDS, POD_FIELDS

PARTLY_DECODED: dict[str, list[tuple[str, Any, Any]]] = {"Pod": POD_FIELDS, "Node": NODE_FIELDS}
"""The fields of items that keep some JSON undecoded because many objects share it. See list_items.py."""


class TypeMeta(Struct, frozen=True):
    """The kind and API version of a document."""

    kind: str = ""
    api_version: str = ""


@cache
def get_items_decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a JSON array of objects of this kind, or of all kinds mixed if ``kind`` is "".

    Items become subclasses of the structs of their kinds, with the fields of PARTLY_DECODED. Kinds that share their
    name with another, or of which only some objects are read, are not among the mixed kinds. The decoder raises
    msgspec.ValidationError if an item is of another kind or of a version that is not read.
    """
    item = (
        build_item_type(kind)
        if kind
        else reduce(or_, (build_item_type(k.name) for k in KINDS.values() if k.kind == k.name and not k.names))
    )
    items: Any = GenericAlias(list, item)
    return get_json_decoder(items)


def get_item_decoder(kind: str) -> msgspec.json.Decoder[object]:
    """Return the decoder of one object of this kind."""
    return get_json_decoder(build_item_type(kind))


@cache
def build_item_type(kind: str) -> Any:
    """Return the struct for the items of a kind in lists."""
    versions = KINDS[kind].versions
    fields: list[tuple[str, object, object]] = [("api_version", Literal[versions], versions[0])]
    fields += PARTLY_DECODED.get(kind, [])
    settings: dict[str, Any] = {
        "tag_field": "kind",
        "tag": KINDS[kind].kind,
        "rename": "camel",
        "frozen": True,
        "gc": False,
    }
    return msgspec.defstruct(f"{kind}Item", fields, bases=(KINDS[kind].struct,), **settings)


def get_item_kind(item: object) -> str:
    """Return the kind of a decoded item."""
    return type(item).__name__.removesuffix("Item")


def to_plain_struct(kind: str, item: object) -> Struct:
    """Return a decoded item as the plain struct of its kind."""
    into = KINDS[kind].struct
    return into(*[getattr(item, name) for name in into.__struct_fields__])
