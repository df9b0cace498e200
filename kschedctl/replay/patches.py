"""Patches that turn one document into another: of RFC 6902 with ``add``, ``remove`` and ``replace`` alone, of RFC 7386,
and the API's own.

They come in one fixed order, so that the same change always reads the same. Reference: Update API Objects in Place
Using kubectl patch (k8s.io/docs): a strategic merge patch merges lists by the keys that the API defines for them and
replaces the others; ``$patch: replace`` replaces one that would be merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kschedctl.admission.pod_security_policy import IN_SPEC, TEMPLATES
from kschedctl.api.json_values import Json, JsonObject

Operation = dict[str, Json]
REPLACED = {"topologySpreadConstraints", "ports"}
"""Lists that a strategic merge patch would merge by a key, where the whole list is meant."""
MERGED_BY_NAME = {"containers", "initContainers", "resourceClaims", "volumes"}


def json_patch(before: Json, after: Json, path: str = "") -> Iterator[Operation]:
    """The operations from ``before`` to ``after``, plain data; what is alike is not mentioned.

    >>> list(json_patch({"a": [1, 2], "b": 0}, {"a": [2], "c": 1}))
    [{'op': 'remove', 'path': '/a/0'}, {'op': 'remove', 'path': '/b'}, {'op': 'add', 'path': '/c', 'value': 1}]
    """
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _members(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _items(before, after, path)
    else:
        yield {"op": "replace", "path": path, "value": after}


def merge_patch(before: Json, after: Json) -> Json:
    """RFC 7386: what of ``before`` becomes another in ``after``, plain data; null for what goes.

    >>> merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": [1]})
    {'a': {'b': 3, 'c': None}}
    """
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    changed = {key: merge_patch(before.get(key), value) for key, value in after.items() if before.get(key) != value}
    return changed | {key: None for key in before if key not in after}


def strategic_patch(before: JsonObject, after: JsonObject) -> dict[str, Json]:
    """The strategic merge patch from one to the other: null for what goes."""
    merged: dict[str, Json] = {}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            merged[key] = strategic_patch(old, new)
        elif key in MERGED_BY_NAME and isinstance(old, list) and isinstance(new, list):
            merged[key] = _by_name(old, new)
        elif key in REPLACED and isinstance(new, list):
            merged[key] = [{"$patch": "replace"}, *new]
        else:
            merged[key] = new
    return merged


def _by_name(before: list[JsonObject], after: list[JsonObject]) -> list[JsonObject]:
    known = {item["name"]: item for item in before}
    changed = [item for item in after if known.get(item["name"]) != item]
    gone: list[JsonObject] = [
        {"name": name, "$patch": "delete"} for name in known if name not in {item["name"] for item in after}
    ]
    return [{"name": item["name"], **strategic_patch(known.get(item["name"], {}), item)} for item in changed] + gone


def of_template(kind: str, patch: JsonObject) -> JsonObject:
    """The patch of a workload from that of the pod in it.

    >>> of_template("Deployment", {"spec": {"hostNetwork": True}})
    {'spec': {'template': {'spec': {'hostNetwork': True}}}}
    """
    for part in reversed(TEMPLATES.get(kind, IN_SPEC)):
        patch = {part: patch}
    return patch


def _members(before: dict[str, Json], after: dict[str, Json], path: str) -> Iterator[Operation]:
    for key in sorted(before.keys() | after.keys()):
        here = f"{path}/{escaped(key)}"
        if key not in after:
            yield {"op": "remove", "path": here}
        elif key not in before:
            yield {"op": "add", "path": here, "value": after[key]}
        else:
            yield from json_patch(before[key], after[key], here)


def _items(before: list[Json], after: list[Json], path: str) -> Iterator[Operation]:
    """Lists of one length compared item by item; else what stands between the same beginning and the same end."""
    if len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from json_patch(old, new, f"{path}/{place}")
        return
    both = min(len(before), len(after))
    start = next((place for place in range(both) if before[place] != after[place]), both)
    rest = both - start
    end = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    for place in reversed(range(start, len(before) - end)):
        yield {"op": "remove", "path": f"{path}/{place}"}
    for place in range(start, len(after) - end):
        yield {"op": "add", "path": f"{path}/{place}", "value": after[place]}


def plain(obj: msgspec.Struct) -> dict[str, Json]:
    """A typed object as its document: what is at its default is left out."""
    document: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(obj))
    return document


def escaped(key: str) -> str:
    """A key as part of a JSON pointer.

    >>> escaped("node.kubernetes.io/x~y")
    'node.kubernetes.io~1x~0y'
    """
    return key.replace("~", "~0").replace("/", "~1")
