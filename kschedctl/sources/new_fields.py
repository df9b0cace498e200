"""Fields of stored pods that only a newer API can know, found while the JSON of a big list is read.

The structs of pods leave out what they do not know. Others are made here of the names that are known, which refuse
anything else; only what they refuse is looked at field by field. Of pods of one template one is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol, cast

import msgspec

from kschedctl.api.decoding import json_decoder
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.api.validation.known_fields import fields_by_type

_REVISION = re.compile(rb'"controller-revision-hash"\s*:\s*"([^"]*)"')
"""A label by which the pods of one owner are told apart that are of several templates."""
_raw_items = json_decoder(list[msgspec.Raw])
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, OverflowError)
_SCALAR = str | int | float | bool | None
"""What is not of the type that it should be is refused elsewhere."""


class _Meta(Protocol):
    """The metadata of an item that is a pod: see pod_items.py."""

    @property
    def namespace(self) -> str: ...

    @property
    def owner_references(self) -> msgspec.Raw: ...

    @property
    def labels(self) -> msgspec.Raw: ...


class NewFields:
    """``tell`` gets each pod that has a field which is not known, and its number in the list."""

    def __init__(self, tell: Callable[[JsonObject, int], None]) -> None:
        self._tell = tell
        self._templates: set[tuple[str, bytes, bytes]] = set()

    def look(self, array: bytes, items: Sequence[object], start: int) -> None:
        """Look at the pods among the items of an array, the first of which is number ``start``."""
        numbers = [
            number
            for number, item in enumerate(items)
            if isinstance(item, Pod) and self._is_first(cast(_Meta, item.metadata))
        ]
        raw = _raw_items.decode(array) if numbers else ()
        for number in numbers:
            with suppress(*_UNDECODABLE):
                if not self._knows(raw[number]):
                    self._tell(msgspec.json.decode(raw[number]), start + number)

    def _is_first(self, meta: _Meta) -> bool:
        """Whether no pod of its template was looked at; one that nobody owns has none."""
        owners, labels = bytes(meta.owner_references), bytes(meta.labels)
        if len(owners) <= len("[]"):
            return True
        revision = _REVISION.search(labels)
        template = meta.namespace, owners, revision[1] if revision else b""
        if template in self._templates:
            return False
        self._templates.add(template)
        return True

    def _knows(self, item: msgspec.Raw) -> bool:
        try:
            _strict().decode(item)
        except msgspec.ValidationError:
            return False
        return True


@cache
def _strict() -> msgspec.json.Decoder[Any]:
    pod = msgspec.defstruct("StrictPod", [("spec", _Types().of("PodSpec"), None)])
    return json_decoder(pod)


class _Types:
    """The types of values, of which structs refuse fields that are not known."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def of(self, name: str) -> Any:
        if not name:
            return msgspec.Raw
        if name not in self._made:
            known = fields_by_type()[name]
            fields = [(f"f{number}", self.of(inner), None) for number, inner in enumerate(known.values())]
            names = {f"f{number}": field for number, field in enumerate(known)}
            struct = msgspec.defstruct(name, fields, rename=names, forbid_unknown_fields=True, gc=False)
            self._made[name] = list[struct] | struct | _SCALAR  # type: ignore[valid-type]
        return self._made[name]
