"""Patches as the API server applies them: strategic merge, merge and JSON patches, and what kubectl apply sends.

References: Update API Objects in Place Using kubectl patch (k8s.io/docs), RFC 7386, RFC 6902; the keys by which lists
are merged are the patchMergeKeys of k8s.io/api (v1.36).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from applied import operate

Json = dict[str, Any]
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "resourceClaims": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
    "ownerReferences": "uid",
}
"""Lists of objects -> the key by which a strategic merge patch merges them. All others are replaced."""


def apply_json_patch(document: Json, operations: list[Json]) -> Json:
    """Return the document after the operations of a JSON patch (RFC 6902)."""
    found = deepcopy(document)
    for each in operations:
        operate(found, each)
    return found


def merge_patch(document: Any, patch: Any) -> Any:
    """Return the document after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    found = deepcopy(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge_patch(found.get(key), value)
    return found


def apply_strategic_patch(document: Any, patch: Any, field: str = "") -> Any:
    """Return the document after a strategic merge patch, which merges some lists by a key and has directives."""
    if isinstance(patch, list):
        return _list(document or [], patch, MERGE_KEYS.get(field))
    if not isinstance(patch, dict):
        return deepcopy(patch)
    if patch.get("$patch") == "replace":
        return {key: deepcopy(value) for key, value in patch.items() if key != "$patch"}
    found = deepcopy(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = apply_strategic_patch(found.get(key), value, key)
    return found


def _list(known: list[Any], patch: list[Any], merge_key: str | None) -> list[Any]:
    """Return the list after a strategic merge patch. Without a merge key, the patch replaces the list."""
    if {"$patch": "replace"} in patch:
        return [deepcopy(each) for each in patch if each != {"$patch": "replace"}]
    if merge_key is None or not all(isinstance(each, dict) for each in patch):
        return deepcopy(patch)
    found = {each[merge_key]: each for each in known}
    for each in patch:
        name = each[merge_key]
        if each.get("$patch") == "delete":
            del found[name]
        else:
            found[name] = apply_strategic_patch(found.get(name), each)
    return list(found.values())
