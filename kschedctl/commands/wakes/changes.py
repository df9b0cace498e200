"""Changes of objects, parsed from documents or found by comparing two clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kschedctl.api import objects as api
from kschedctl.api.defaults import apply_node_defaults
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import KINDS, get_kind
from kschedctl.api.objects import get_object_key
from kschedctl.cluster import CLUSTER_SCOPED, FIELDS, convert_document, describe_document, fill_namespace, flatten_lists
from kschedctl.commands.snapshot import iter_object_differences
from kschedctl.errors import InputError
from kschedctl.replay.edits import change_pods
from kschedctl.scheduler.framework.events import ChangedObject
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import get_group_key
from kschedctl.snapshot.snapshot import compute_allocatable_amounts

SIDES_BY_ACTION: Mapping[str, tuple[str, ...]] = {"Add": ("new",), "Update": ("old", "new"), "Delete": ("old",)}
"""Action -> the states of the object that it has: before, after or both."""
IDENTITY_FIELDS = {"apiVersion", "kind", "metadata"}
"""The only fields of a document that identifies an object without describing it."""


def parse_change(event: JsonObject, view: Fork) -> ChangedObject | None:
    """Parse an event `{action, old, new}`. Return None if scheduling does not read objects of this kind.

    The API server's defaults are applied to the objects. Raises InputError for an unknown action, a missing object, or
    old and new states of different objects.
    """
    if not isinstance(event, Mapping):
        raise InputError("expected an object with action, old and new", where="event")
    sides = SIDES_BY_ACTION.get(str(event.get("action")))
    if sides is None:
        raise InputError("expected Add, Update or Delete", where="event, action")
    documents = {side: _get_event_object(event, side) for side in sides}
    kinds = {get_kind(document) for document in documents.values()}
    if len(kinds) != 1 or "" in kinds:
        raise InputError("expected objects of the same kind in old and new", where="event")
    kind = kinds.pop()
    if kind not in KINDS:
        return None
    objects = {
        side: apply_object_defaults(kind, convert_document(document), view) for side, document in documents.items()
    }
    old, new = objects.get("old"), objects.get("new")
    if old is None or new is None:
        return ChangedObject(kind, old, new)
    if get_object_key(old) != get_object_key(new):
        raise InputError("old and new must be the same object", where=f"event, {describe_document(documents['new'])}")
    return ChangedObject(kind, old, new, (documents["old"], documents["new"]))


def parse_changes(documents: Sequence[JsonObject], view: Fork, where: str = "") -> list[ChangedObject]:
    """Parse events `{action, old, new}`, watch events `{type, object}`, and plain objects.

    A plain object is added to the cluster, or replaces the object of the same name. A deleted object may be given by
    name only. Raises InputError for an invalid document, for a kind that scheduling does not read, and if there is no
    document. `where` names the file in errors.
    """
    changed_objects = []
    for number, document in enumerate(flatten_lists(documents), 1):
        try:
            change = parse_change(_convert_to_event(document, view), view)
        except InputError as error:
            document_place = f"document {number}" if where else ""
            places = filter(None, (where, document_place, error.where))
            raise InputError(error.what, where=", ".join(places), hint=error.hint) from None
        if change is None:
            # an event has the object in one of these fields, otherwise the document is the object
            nested_objects = filter(None, (object_at(document, key) for key in ("new", "old", "object")))
            changed_object = next(nested_objects, document)
            raise InputError(
                f"{describe_document(changed_object)}: scheduling does not read objects of this kind", where=where
            )
        changed_objects.append(change)
    if not changed_objects:
        raise InputError("contains no event and no object", where=where)
    return changed_objects


def iter_changes(before: Fork, after: Fork) -> Iterator[ChangedObject]:
    """Yield the changes between two states of a cluster. A recreated object is first deleted, then added.

    Changes of kinds that were not read in one of the two states are skipped.
    """
    for difference in iter_object_differences(before.cluster, after.cluster):
        namespace, _ = difference.key
        if difference.old is None and before.cluster.find_gap(difference.kind, namespace):
            continue
        if difference.new is None and after.cluster.find_gap(difference.kind, namespace):
            continue
        old = None if difference.old is None else apply_object_defaults(difference.kind, difference.old, before)
        new = None if difference.new is None else apply_object_defaults(difference.kind, difference.new, after)
        if difference.is_recreated:
            yield ChangedObject(difference.kind, old, new=None)
            yield ChangedObject(difference.kind, old=None, new=new)
        else:
            yield ChangedObject(difference.kind, old, new)


def _convert_to_event(document: JsonObject, view: Fork) -> JsonObject:
    """Convert a watch event or a plain object to an event `{action, old, new}`.

    An object of type ADDED or MODIFIED and a plain object become an update if the object exists in the cluster, and
    otherwise an addition. An object of type DELETED becomes a deletion. A document that already has an action stays as
    it is. If only the identity of a deleted object is given, the cluster's version replaces it. Raises InputError if
    the type of a watch event is unknown.
    """
    # An event {action, old, new}
    if "action" in document:
        old = document.get("old")
        if document["action"] == "Delete" and isinstance(old, Mapping):
            return {**document, "old": _complete_document(old, view)}
        return document

    # A watch event {type, object}
    applied_object = document
    watch_type, watched_object = document.get("type"), document.get("object")
    if isinstance(watched_object, Mapping):
        if watch_type == "DELETED":
            return {"action": "Delete", "old": _complete_document(watched_object, view)}
        if watch_type not in ("ADDED", "MODIFIED"):
            raise InputError("expected ADDED, MODIFIED or DELETED", where="event, type")
        applied_object = watched_object

    # The object of a watch event, or a plain object, is added to the cluster or updated there
    existing = _find_existing_object(applied_object, view)
    if existing is None:
        return {"action": "Add", "new": applied_object}
    return {"action": "Update", "old": existing, "new": applied_object}


def _complete_document(document: JsonObject, view: Fork) -> JsonObject:
    """Return the document. If it only identifies an object, return the cluster's version of the object instead."""
    if not document.keys() <= IDENTITY_FIELDS:
        return document
    existing = _find_existing_object(document, view)
    return document if existing is None else existing


def _find_existing_object(document: JsonObject, view: Fork) -> JsonObject | None:
    """Return, as a document, the cluster's object with the same kind, namespace and name as `document`, or None."""
    kind = get_kind(document)
    if kind not in FIELDS:
        return None
    wanted: Any = convert_document(document)
    if kind not in CLUSTER_SCOPED:
        wanted = fill_namespace(wanted)
    wanted_key = get_object_key(wanted)

    objects_of_kind = getattr(view.cluster, FIELDS[kind])
    existing = next((item for item in objects_of_kind if get_object_key(item) == wanted_key), None)
    if existing is None:
        return None
    # Typed objects are decoded without their kind and apiVersion
    type_fields = {name: document[name] for name in ("kind", "apiVersion") if name in document}
    return {**type_fields, **msgspec.to_builtins(existing)}


def apply_object_defaults(kind: str, obj: Any, view: Fork) -> Any:
    """Apply the API server's defaults to an object of the kind.

    Raises InputError if the object has no name, or if a quantity in it is malformed.
    """
    if not obj.metadata.name:
        raise InputError("required", where=f"event, {kind}, metadata.name")
    if kind not in CLUSTER_SCOPED:
        obj = fill_namespace(obj)
    if isinstance(obj, api.Pod):
        obj = view.build_stored_pod(obj)
        _check_pod_quantities(obj, view)
    elif isinstance(obj, api.Node):
        obj = apply_node_defaults(obj)
        _check_node_quantities(obj)
    return obj


def _check_pod_quantities(pod: api.Pod, view: Fork) -> None:
    """Raise InputError if a quantity among the pod's requests is malformed."""
    info = PodInfo(pod, view.settings.requests)
    info.compute_amounts(info.options)


def _check_node_quantities(node: api.Node) -> None:
    """Raise InputError if a quantity among the amounts that the node offers is malformed."""
    compute_allocatable_amounts(node)


def apply_change_to_view(view: Fork, change: ChangedObject) -> Fork:
    """Return the cluster as queueing hints see it after the change.

    Changes of nodes, and of pods outside of groups, are not applied, because hints receive them with the event. The
    change of a pod of a group is applied, because the group is scheduled as a whole. Other objects stay in the view
    after they are deleted.
    """
    if change.kind == "Pod" and get_group_key(change.object) is not None:
        changed = change_pods(view.cluster, {get_object_key(change.object): change.new})
        return Fork.from_cluster(changed, view.settings)
    if change.new is None or change.kind in ("Node", "Pod"):
        return view
    after = view.fork()
    after.objects.replace_objects({change.kind: [change.new]})
    return after


def _get_event_object(event: JsonObject, side: str) -> JsonObject:
    """Return the object in the event's field `side`, which is "old" or "new". Raises InputError if it is missing."""
    obj = event.get(side)
    if not isinstance(obj, Mapping):
        raise InputError(f"expected an object: a {event['action']} event must have one", where=f"event, {side}")
    return obj


def describe_change(change: ChangedObject) -> str:
    """Describe a change: the object, and what happened to it.

    >>> from kschedctl.api.objects import Node, ObjectMeta
    >>> describe_change(ChangedObject("Node", None, Node(ObjectMeta("n1"))))
    'Node n1 added'
    """
    namespace, name = get_object_key(change.object)
    if change.old is None:
        verb = "added"
    elif change.new is None:
        verb = "deleted"
    else:
        verb = "changed"
    full_name = f"{namespace}/{name}" if namespace else name
    return f"{change.kind} {full_name} {verb}"
