"""What every object of the API has, whatever its kind: a name, in a namespace or not."""

from __future__ import annotations

from typing import Protocol


class AnyMeta(Protocol):
    """What the metadata of all kinds has."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def creation_timestamp(self) -> str | None: ...


class ApiObject(Protocol):
    """An object of any kind."""

    @property
    def metadata(self) -> AnyMeta: ...


def object_key(obj: ApiObject) -> tuple[str, str]:
    """Namespace and name: what the objects of a kind are told apart by, and sorted."""
    return obj.metadata.namespace, obj.metadata.name
