"""How an object of a cluster is named."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.api_object import ApiObject
from kschedctl.cluster import CLUSTER_SCOPED


class ObjectKey(NamedTuple):
    """An object: ``namespace`` is empty for one of the whole cluster."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, api_object: ApiObject) -> ObjectKey:
        """The key of a typed object."""
        kind = type(api_object).__name__
        return cls(kind, "" if kind in CLUSTER_SCOPED else api_object.metadata.namespace, api_object.metadata.name)

    def __str__(self) -> str:
        """``Pod shop/web``."""
        return f"{self.kind} {self.namespace}{'/' * bool(self.namespace)}{self.name}"
