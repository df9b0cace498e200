"""The key of an object in a cluster."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.objects import ApiObject
from kschedctl.cluster import CLUSTER_SCOPED


class ObjectKey(NamedTuple):
    """Kind, namespace and name of an object."""

    kind: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str

    @classmethod
    def of(cls, api_object: ApiObject) -> ObjectKey:
        """Return the key of a typed object."""
        kind = type(api_object).__name__
        return cls(kind, "" if kind in CLUSTER_SCOPED else api_object.metadata.namespace, api_object.metadata.name)

    def __str__(self) -> str:
        """Return the key as ``Pod shop/web``."""
        return f"{self.kind} {self.namespace}{'/' * bool(self.namespace)}{self.name}"
