"""Lines for an operator's shell: objects that are made, deleted or changed. Names are quoted, as they are untrusted."""

from __future__ import annotations

import json
from shlex import quote
from typing import Any

from msgspec import to_builtins

from kschedctl.api.objects import Struct
from kschedctl.studies.remedies.api_versions import API_VERSIONS
from kschedctl.studies.remedies.changes import ObjectKey

SHORT = {"PersistentVolumeClaim": "pvc", "PersistentVolume": "pv"}
GIVEN_BY_THE_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")
Json = dict[str, Any]


def manifest(key: ObjectKey, found: Struct, **more: Any) -> Json:
    """What is applied to get the object: less its status and what the server gives; ``more`` fields of its spec."""
    document: Json = to_builtins(found)
    document.pop("status", None)
    meta = {name: value for name, value in document["metadata"].items() if name not in GIVEN_BY_THE_SERVER}
    spec = {"spec": {**document.get("spec", {}), **more}} if more else {}
    return {"apiVersion": API_VERSIONS[key.kind], "kind": key.kind, **document, "metadata": meta, **spec}


def apply(document: Json) -> str:
    """In one line, of JSON that is quoted."""
    return f"printf %s {quote(json.dumps(document))} | kubectl apply -f -"


def delete(key: ObjectKey) -> str:
    return f"kubectl delete {_named(key)}"


def patch(key: ObjectKey, change: Json | list[Json]) -> str:
    """A merge patch, or the operations of a JSON patch."""
    sort = "json" if isinstance(change, list) else "merge"
    return f"kubectl patch {_named(key)} --type={sort} -p {quote(json.dumps(change))}"


def annotate(key: ObjectKey, annotation: str) -> str:
    """``annotation``: ``KEY=VALUE``, or ``KEY-`` to remove it."""
    return f"kubectl annotate {_named(key)} {quote(annotation)}"


def _named(key: ObjectKey) -> str:
    namespace = f"-n {quote(key.namespace)} " if key.namespace else ""
    return f"{SHORT.get(key.kind, key.kind.lower())} {namespace}{quote(key.name)}"
