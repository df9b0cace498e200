"""Remedies applied to documents as anybody could: RFC 6902 operations, objects created and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from kschedctl.reports.remedies import Remedy

Json = dict[str, Any]


def apply(remedy: Remedy, documents: Iterable[Json]) -> list[Json]:
    """The documents with the changes of a remedy."""
    found = {_name(document): deepcopy(document) for document in documents}
    for change in remedy.changes:
        if "create" in change:
            found[_name(change["create"])] = change["create"]
        elif "delete" in change:
            del found[_key(change["delete"])]
        else:
            operate(found[_key(change)], change["patch"])
    return list(found.values())


def operate(document: Any, operations: Iterable[Mapping[str, Any]]) -> None:
    """Add, remove and replace, as RFC 6902 has it: a path that does not exist is an error."""
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at = document
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at[part]
        match operation["op"], at:
            case "add", list():
                at.insert(len(at) if last == "-" else int(last), operation["value"])
            case "add", _:
                at[last] = operation["value"]
            case "remove", list():
                del at[int(last)]
            case "remove", _:
                del at[last]
            case "replace", list():
                at[int(last)] = operation["value"]
            case _:
                assert last in at, operation
                at[last] = operation["value"]


def _name(document: Json) -> tuple[str, str, str]:
    meta = document["metadata"]
    namespace = "" if document["kind"] == "Node" else meta.get("namespace", "")
    return document["kind"], namespace, meta["name"]


def _key(named: Mapping[str, str]) -> tuple[str, str, str]:
    return named["kind"], named["namespace"], named["name"]
