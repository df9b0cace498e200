"""Fields of stored objects that only a newer API can know, each told once.

Those of pods are found while the JSON of a big list is read. The structs of pods leave out what they do not know.
Others are made here of the names that are known, which refuse anything else; only what they refuse is looked at field
by field. Of pods of one template one is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol, cast

import msgspec

from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.field_errors import format_path
from kschedctl.api.json_values import JsonObject
from kschedctl.api.newer_versions import iter_unknown_paths
from kschedctl.api.objects import Pod
from kschedctl.api.validation.known_fields import fields_by_type
from kschedctl.api.validation.unknown_fields import find_unknown_fields
from kschedctl.cluster import without_nulls

_REVISION_LABEL = b"controller-revision-hash"
_REVISION = re.compile(rb'"%s"\s*:\s*"([^"]*)"' % _REVISION_LABEL)
"""A label by which the pods of one owner are told apart that are of several templates."""
_ONE_TEMPLATE = re.compile(rb'"kind"\s*:\s*"(?:ReplicaSet|ReplicationController|StatefulSet|DaemonSet|Job)"')
"""The owners that make pods of a template; under a Node or a Workflow are pods that have nothing else in common."""
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, OverflowError)
_SCALAR = str | int | float | bool | None
"""What is not of the type that it should be is refused elsewhere."""


READ_WHOLE = frozenset(
    {
        *("PodGroup", "CompositePodGroup", "DeviceTaintRule"),
        *("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"),
    }
)
"""Kinds of young groups of the API, of which the structs have every field that there is now."""


class ToldFields:
    """What to know of fields that are not known: nothing that was told before."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def of_pod(self, pod: JsonObject, where: object) -> Iterator[str]:
        """Of the spec of a pod, which is found at ``where``."""
        fields = find_unknown_fields({"kind": "Pod", "spec": pod.get("spec")})
        yield from self._new("Pod", ((str(field), _generic(format_path(field.path))) for field in fields), where)

    def of(self, kind: str, document: JsonObject, where: object) -> Iterator[str]:
        """Of an object of a kind that is in READ_WHOLE."""
        paths = (str(path) for path in iter_unknown_paths(kind, without_nulls(document)))
        fields = ((f'unknown field "{path}" of a {kind}', _generic(path)) for path in paths)
        yield from self._new(kind, fields, where)

    def _new(self, kind: str, fields: Iterable[tuple[str, str]], where: object) -> Iterator[str]:
        for shown, path in fields:
            if (kind, path) not in self._told:
                self._told.add((kind, path))
                yield f"{where}: {shown}: what it does to scheduling is not known here (told once)"


def _generic(path: str) -> str:
    """
    >>> _generic("spec.containers[0].imagee")
    'spec.containers[].imagee'
    """
    return re.sub(r"\[\d+\]", "[]", path)


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

    def look(
        self, items: Sequence[object], raw_items: Callable[[], Sequence[msgspec.Raw]], start: int
    ) -> list[msgspec.Raw]:
        """Look at the pods among some items, the first of which is number ``start``; ``raw_items``: their JSON.

        The JSON of those that were looked at: of each template the first, and all that follow none.
        """
        numbers = [
            number
            for number, item in enumerate(items)
            if isinstance(item, Pod) and self._is_first(cast(_Meta, item.metadata))
        ]
        raw = raw_items() if numbers else ()
        for number in numbers:
            with suppress(*_UNDECODABLE):
                if not self._knows(raw[number]):
                    self._tell(msgspec.json.decode(raw[number]), start + number)
        return [raw[number] for number in numbers]

    def _is_first(self, meta: _Meta) -> bool:
        """Whether no pod of its template was looked at, or it has none."""
        owners, labels = bytes(meta.owner_references), bytes(meta.labels)
        revision = _REVISION.search(labels) if _REVISION_LABEL in labels else None
        template = meta.namespace, owners, revision[1] if revision else b""
        if template in self._templates:
            return False
        if _ONE_TEMPLATE.search(owners):
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
    return get_json_decoder(pod)


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
