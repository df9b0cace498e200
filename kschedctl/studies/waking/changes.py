"""A change of an object, from documents or from two clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kschedctl.api import objects as api
from kschedctl.api.defaults import default_node
from kschedctl.cluster import CLUSTER_SCOPED, convert, describe, namespaced
from kschedctl.errors import InputError
from kschedctl.scheduler.queueing.events import ChangedObject
from kschedctl.snapshot.fork import Fork

ACTIONS: Mapping[str, tuple[str, ...]] = {"Add": ("new",), "Update": ("old", "new"), "Delete": ("old",)}
"""Action -> which sides of the object it takes."""


def change_of(event: Mapping[str, Any], view: Fork) -> ChangedObject | None:
    """The change that an event ``{action, old, new}`` tells; None for kinds that scheduling does not read.

    Raises InputError.
    """
    sides = ACTIONS.get(str(event.get("action")))
    if sides is None:
        raise InputError("expected Add, Update or Delete", where="event, action")
    documents = {side: _document(event, side) for side in sides}
    kinds = {str(document.get("kind", "")) for document in documents.values()}
    if len(kinds) != 1 or "" in kinds:
        raise InputError("expected an object with a kind, the same in old and new", where="event")
    kind = kinds.pop()
    if kind not in api.KINDS:
        return None
    old, new = (stored(kind, convert(documents[s]), view) if s in documents else None for s in ("old", "new"))
    if old is not None and new is not None and _name(old) != _name(new):
        raise InputError("old and new are not the same object", where=f"event, {describe(documents['new'])}")
    return ChangedObject(kind, old, new, (documents["old"], documents["new"]) if len(documents) == 2 else None)


def stored(kind: str, found: Any, view: Fork) -> Any:
    """The object as the API server would hold it. Raises InputError."""
    if kind not in CLUSTER_SCOPED:
        found = namespaced(found)
    if isinstance(found, api.Pod):
        return view.stored(found)
    return default_node(found) if isinstance(found, api.Node) else found


def view_after(view: Fork, change: ChangedObject) -> Fork:
    """The view once a change is known, but for nodes and pods."""
    if change.new is None or change.kind in ("Node", "Pod"):
        return view
    after = view.fork()
    after.objects.replace({change.kind: [change.new]})
    return after


def _document(event: Mapping[str, Any], side: str) -> Mapping[str, Any]:
    found = event.get(side)
    if not isinstance(found, Mapping):
        raise InputError(f"expected an object, as {event['action']} has one", where=f"event, {side}")
    return found


def _name(found: Any) -> tuple[str, str]:
    return found.metadata.namespace, found.metadata.name
