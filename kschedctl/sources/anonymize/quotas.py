"""Handlers for the resources of quotas: resources, object counts, and resources of a StorageClass."""

from __future__ import annotations

from kschedctl.api.json_values import JsonObject
from kschedctl.sources.anonymize.rewriter import Rewriter

_OF_CLASS = ".storageclass.storage.k8s.io/"
QUOTA_NAMES = frozenset(
    (
        *("pods", "services", "services.loadbalancers", "services.nodeports", "secrets", "configmaps"),
        *("persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "requests.storage"),
        *(f"{part}.{name}" for part in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    )
)


def replace_quota_names(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace the names in the resources that a quota limits."""
    return {_replace_quota_name(rewriter, key): item for key, item in value.items()}


def _replace_quota_name(rewriter: Rewriter, key: str) -> str:
    """Replace the names in one resource of a quota, such as its StorageClass."""
    name, of_class, resource = key.partition(_OF_CLASS)
    if of_class:
        return rewriter.name(name) + of_class + resource
    return key if key.startswith("count/") or key in QUOTA_NAMES else rewriter.resource(key)
