"""Apply fixes to documents without the tested code: JSON patches, created and deleted objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from kschedctl.reports.remedy import Remedy

Json = dict[str, Any]


def apply(remedy: Remedy, documents: Iterable[Json]) -> list[Json]:
    """Return the documents with the changes of a remedy."""
    return apply_changes(documents, remedy.changes)


def apply_changes(documents: Iterable[Json], changes: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Return the documents with objects created, deleted and patched by the changes.

    Only patched documents are copied.
    """
    found = {_build_object_key(each["kind"], each["metadata"]): each for each in documents}
    for change in changes:
        if "create" in change:
            new = _build_object_key(change["create"]["kind"], change["create"]["metadata"])
            assert new not in found
            found[new] = deepcopy(change["create"])
        elif "delete" in change:
            del found[_build_object_key(change["delete"]["kind"], change["delete"])]
        else:
            patched = _build_object_key(change["kind"], change)
            found[patched] = deepcopy(found[patched])
            for operation in change["patch"]:
                operate(found[patched], operation)
    return list(found.values())


def operate(document: Any, operation: Mapping[str, Any]) -> None:
    """Apply one operation of a JSON patch to the document, in place.

    The path must exist if a value is removed or replaced.
    """
    *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
    place = document
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    at: Any = int(last) if isinstance(place, list) else last
    if operation["op"] != "add":
        del place[at]
    if operation["op"] == "remove":
        return
    if isinstance(place, list):
        place.insert(at, deepcopy(operation["value"]))
    else:
        place[at] = deepcopy(operation["value"])


def _build_object_key(kind: str, meta: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the key of an object."""
    return kind, meta.get("namespace") or "", meta["name"]
