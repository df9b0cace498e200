"""A remedy's changes as anybody would apply them: operations on the documents as read, without any code of ours."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import msgspec

from kschedctl.studies.remedies.json_patch import json_patch
from kschedctl.studies.remedies.trials import RemedyTrial

Json = dict[str, Any]


def applied(documents: Iterable[Json], trial: RemedyTrial) -> list[Json]:
    """The documents with what the trial changes, deletes and creates."""
    found = {_key(document): document for document in deepcopy(list(documents))}
    for key, edit in trial.edits.items():
        if edit.after is None:
            del found[tuple(key)]
        elif edit.before is None:
            assert tuple(key) not in found
            found[tuple(key)] = {"kind": key.kind, **msgspec.to_builtins(edit.after)}
        else:
            for operation in json_patch(msgspec.to_builtins(edit.before), msgspec.to_builtins(edit.after)):
                apply(found[tuple(key)], operation)
    return list(found.values())


def apply(document: Any, operation: Json) -> None:
    """One operation of RFC 6902 on a document in place; what is removed or replaced has to be there."""
    *way, last = (part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:])
    place = document
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    at: Any = int(last) if isinstance(place, list) else last
    match operation["op"]:
        case "add" if isinstance(place, list):
            place.insert(at, deepcopy(operation["value"]))
        case "add":
            place[at] = deepcopy(operation["value"])
        case "replace":
            place[at]  # it has to be there
            place[at] = deepcopy(operation["value"])
        case "remove":
            del place[at]
        case other:
            raise AssertionError(other)


def _key(document: Json) -> tuple[str, ...]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]
