"""JSON patches (RFC 6902), merge patches (RFC 7386) and strategic merge patches between two documents.

Patches have a fixed order, so that the same change always reads the same, and JSON patches use only ``add``, ``remove``
and ``replace``. A strategic merge patch merges lists by the keys that the API defines for them and replaces other
lists; ``$patch: replace`` replaces a list that would be merged. Reference: Update API Objects in Place Using kubectl
patch (k8s.io/docs).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.api.workloads import POD_TEMPLATE_PATHS, USUAL_TEMPLATE_PATH

Operation = dict[str, Json]
REPLACED_LISTS = {"topologySpreadConstraints", "ports"}
"""Lists that are replaced as a whole, although a strategic merge patch would merge them."""
LISTS_MERGED_BY_NAME = {"containers", "initContainers", "resourceClaims", "volumes"}


def build_json_patch(before: Json, after: Json, path: str = "") -> Iterator[Operation]:
    """Yield the JSON patch operations that turn ``before`` into ``after``.

    >>> list(build_json_patch({"a": [1, 2], "b": 0}, {"a": [2], "c": 1}))
    [{'op': 'remove', 'path': '/a/0'}, {'op': 'remove', 'path': '/b'}, {'op': 'add', 'path': '/c', 'value': 1}]
    """
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _patch_members(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _patch_items(before, after, path)
    else:
        yield {"op": "replace", "path": path, "value": after}


def build_json_merge_patch(before: Json, after: Json) -> Json:
    """Return the JSON merge patch from ``before`` to ``after``, with null for removed fields.

    >>> build_json_merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": [1]})
    {'a': {'b': 3, 'c': None}}
    """
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    changed = {
        key: build_json_merge_patch(before.get(key), value) for key, value in after.items() if before.get(key) != value
    }
    return changed | {key: None for key in before if key not in after}


def build_strategic_patch(before: JsonObject, after: JsonObject) -> dict[str, Json]:
    """Return the strategic merge patch from one document to another, with null for removed fields."""
    merged: dict[str, Json] = {}
    for key in sorted(before.keys() | after.keys()):
        old_value, new_value = before.get(key), after.get(key)
        if old_value == new_value:
            continue
        if isinstance(old_value, Mapping) and isinstance(new_value, Mapping):
            merged[key] = build_strategic_patch(old_value, new_value)
        elif key in LISTS_MERGED_BY_NAME and isinstance(old_value, list) and isinstance(new_value, list):
            merged[key] = _patch_list_by_name(old_value, new_value)
        elif key in REPLACED_LISTS and isinstance(new_value, list):
            merged[key] = [{"$patch": "replace"}, *new_value]
        else:
            merged[key] = new_value
    return merged


def _patch_list_by_name(before: list[JsonObject], after: list[JsonObject]) -> list[JsonObject]:
    """Return the strategic merge patch of a list whose items have names."""
    items_by_name = {item["name"]: item for item in before}
    changed = [item for item in after if items_by_name.get(item["name"]) != item]
    deletions: list[JsonObject] = [
        {"name": name, "$patch": "delete"} for name in items_by_name if name not in {item["name"] for item in after}
    ]
    return [
        {"name": item["name"], **build_strategic_patch(items_by_name.get(item["name"], {}), item)} for item in changed
    ] + deletions


def wrap_in_template(kind: str, patch: JsonObject) -> JsonObject:
    """Return the patch of a workload, given the patch of its pod template.

    >>> wrap_in_template("Deployment", {"spec": {"hostNetwork": True}})
    {'spec': {'template': {'spec': {'hostNetwork': True}}}}
    """
    for part in reversed(POD_TEMPLATE_PATHS.get(kind, USUAL_TEMPLATE_PATH)):
        patch = {part: patch}
    return patch


def _patch_members(before: dict[str, Json], after: dict[str, Json], path: str) -> Iterator[Operation]:
    """Yield the operations for the members of two objects."""
    for key in sorted(before.keys() | after.keys()):
        member_path = f"{path}/{escape_pointer(key)}"
        if key not in after:
            yield {"op": "remove", "path": member_path}
        elif key not in before:
            yield {"op": "add", "path": member_path, "value": after[key]}
        else:
            yield from build_json_patch(before[key], after[key], member_path)


def _patch_items(before: list[Json], after: list[Json], path: str) -> Iterator[Operation]:
    """Yield the operations for two lists: item by item, or for what lies between an equal start and an equal end."""
    if len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from build_json_patch(old, new, f"{path}/{place}")
        return
    common_length = min(len(before), len(after))
    start = next((place for place in range(common_length) if before[place] != after[place]), common_length)
    remaining = common_length - start
    end = next((i for i in range(remaining) if before[-1 - i] != after[-1 - i]), remaining)
    for place in reversed(range(start, len(before) - end)):
        yield {"op": "remove", "path": f"{path}/{place}"}
    for place in range(start, len(after) - end):
        yield {"op": "add", "path": f"{path}/{place}", "value": after[place]}


def to_document(obj: msgspec.Struct) -> dict[str, Json]:
    """Return a typed object as its document, without fields at their defaults."""
    document: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(obj))
    return document


def escape_pointer(key: str) -> str:
    """Escape a key for a JSON pointer.

    >>> escape_pointer("node.kubernetes.io/x~y")
    'node.kubernetes.io~1x~0y'
    """
    return key.replace("~", "~0").replace("/", "~1")
