"""Objects in a version of the API that is newer than those that are read: taken where all their fields are known.

What a newer version renamed or added could mean anything, so an object with a field that is not known is left out, and
its kind counts as not read in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from kschedctl.api.api_versions import fate
from kschedctl.api.objects import KINDS
from kschedctl.sources.kinds import VERSIONS

_VERSION = re.compile(r"v(\d{1,3})(?:(alpha|beta)(\d{1,3}))?")
_LEVELS = {"alpha": 0, "beta": 1, None: 2}
_NOT_READ = frozenset(("apiVersion", "kind", "metadata", "status"))
"""Fields of all objects: what scheduling reads of these is the same in all versions."""


def is_newer(kind: str, api_version: str) -> bool:
    """Whether a version of a kind that is read, of its own API group, comes after all that are known.

    >>> is_newer("PodGroup", "scheduling.k8s.io/v1beta1"), is_newer("PodDisruptionBudget", "policy/v1beta1")
    (True, False)
    """
    known = VERSIONS.get(kind, ())
    group, _, version = api_version.rpartition("/")
    same = [name for name in known if name.rpartition("/")[0] == group]
    order = _order(version)
    if not same or api_version in known or order is None or fate(api_version, kind):
        return False
    return all(order > (_order(name.rpartition("/")[2]) or order) for name in same)


def as_known(kind: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The document in the newest version that is known; None where it has a field that is not."""
    fields = {name: value for name, value in document.items() if name not in _NOT_READ}
    if next(_strange(fields, msgspec.inspect.type_info(KINDS[kind])), None) is not None:
        return None
    return {**document, "apiVersion": VERSIONS[kind][0]}


def _order(version: str) -> tuple[int, int, int] | None:
    """Upstream: apimachinery/pkg/version/helpers.go, by stability of one major version after the other."""
    parts = _VERSION.fullmatch(version)
    return (int(parts[1]), _LEVELS[parts[2]], int(parts[3] or 0)) if parts else None


def _strange(value: Any, of: msgspec.inspect.Type) -> Iterator[str]:
    """The fields that a type does not have."""
    for struct in _structs(of):
        if isinstance(value, Mapping):
            known = _fields(struct.cls)
            for name, inner in value.items():
                if name not in known:
                    yield name
                else:
                    yield from _strange(inner, known[name])
    for items in _items(of):
        if isinstance(value, list):
            for inner in value:
                yield from _strange(inner, items)


@cache
def _fields(struct: type) -> Mapping[str, msgspec.inspect.Type]:
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.encode_name: field.type for field in info.fields}


def _structs(of: msgspec.inspect.Type) -> Iterator[msgspec.inspect.StructType]:
    for each in _choices(of):
        if isinstance(each, msgspec.inspect.StructType):
            yield each


def _items(of: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    for each in _choices(of):
        if isinstance(each, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
            yield each.item_type


def _choices(of: msgspec.inspect.Type) -> tuple[msgspec.inspect.Type, ...]:
    return of.types if isinstance(of, msgspec.inspect.UnionType) else (of,)
