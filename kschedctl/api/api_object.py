"""The interface that API objects of every kind share."""

from __future__ import annotations

from typing import Protocol


class AnyMeta(Protocol):
    """The metadata fields of objects of every kind."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def creation_timestamp(self) -> str | None: ...


class ApiObject(Protocol):
    """An API object of any kind."""

    @property
    def metadata(self) -> AnyMeta: ...


def object_key(obj: ApiObject) -> tuple[str, str]:
    """Return the object's namespace and name, which identify it within its kind."""
    return obj.metadata.namespace, obj.metadata.name
