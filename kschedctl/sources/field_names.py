"""Fields that the API does not know, in a manifest that somebody wrote: most often a typing error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kschedctl.sources.pod_fields import fields_by_type

POD_HOLDERS = frozenset(
    {
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
    }
)
"""The kinds that are a pod or hold the template of one."""


def check_unknown_fields(document: Mapping[str, Any]) -> list[str]:
    """The paths of the fields that the API does not know, in the order of the document; only of POD_HOLDERS.

    >>> check_unknown_fields({"kind": "Pod", "spec": {"containers": [{"name": "web", "imagee": "nginx"}]}})
    ['spec.containers[0].imagee']
    """
    kind = str(document.get("kind", ""))
    return list(_unknown(document, kind, "")) if kind in POD_HOLDERS else []


def _unknown(value: Any, type_name: str, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(item, type_name, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        fields = fields_by_type()[type_name]
        for name, inner in value.items():
            at = f"{path}.{name}" if path else str(name)
            if name not in fields:
                yield at
            elif fields[name]:
                yield from _unknown(inner, fields[name], at)
