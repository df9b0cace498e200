"""What quotas count, under pseudonyms: resources, kinds, and what is of a class of storage."""

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


def counted(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """What a quota counts: resources, objects of a kind, and those of a class."""
    return {_counted_name(rewriter, key): item for key, item in value.items()}


def _counted_name(rewriter: Rewriter, key: str) -> str:
    name, of_class, what = key.partition(_OF_CLASS)
    if of_class:
        return rewriter.name(name) + of_class + what
    return key if key.startswith("count/") or key in QUOTA_NAMES else rewriter.resource(key)
