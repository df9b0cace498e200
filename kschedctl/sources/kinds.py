"""How the items of a list are decoded into the structs of their kinds."""

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

UNDECODED: dict[str, list[tuple[str, Any, Any]]] = {"Pod": POD_FIELDS, "Node": NODE_FIELDS}
"""The fields of items of which a part stays JSON, since many have the same: see PodItems and NodeItems."""


class TypeMeta(Struct, frozen=True):
    """What a document says that it is."""

    kind: str = ""
    api_version: str = ""


@cache
def items_decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Decodes a JSON array of objects of this kind, "" for all kinds mixed, to subclasses of their structs.

    Some fields of pods and nodes are not decoded: see UNDECODED. Kinds that share the name of another, or of which only
    some are read, are not among the mixed.

    Raises ValidationError when an item says that it is of another kind or of a version that is not read.
    """
    item = (
        item_type(kind)
        if kind
        else reduce(or_, (item_type(k.name) for k in KINDS.values() if k.kind == k.name and not k.names))
    )
    items: Any = GenericAlias(list, item)
    return get_json_decoder(items)


def item_decoder(kind: str) -> msgspec.json.Decoder[object]:
    """Decodes one object of this kind."""
    return get_json_decoder(item_type(kind))


@cache
def item_type(kind: str) -> Any:
    versions = KINDS[kind].versions
    fields: list[tuple[str, object, object]] = [("api_version", Literal[versions], versions[0])]
    fields += UNDECODED.get(kind, [])
    settings: dict[str, Any] = {
        "tag_field": "kind",
        "tag": KINDS[kind].kind,
        "rename": "camel",
        "frozen": True,
        "gc": False,
    }
    return msgspec.defstruct(f"{kind}Item", fields, bases=(KINDS[kind].struct,), **settings)


def kind_of_item(item: object) -> str:
    """The kind of a decoded item."""
    return type(item).__name__.removesuffix("Item")


def without_type(kind: str, item: object) -> Struct:
    """A decoded item as the plain struct of its kind."""
    into = KINDS[kind].struct
    return into(*[getattr(item, name) for name in into.__struct_fields__])
