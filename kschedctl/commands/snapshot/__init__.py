"""The command `snapshot`: save, show and compare what scheduling reads of a cluster.

The comparison of two snapshots is in this module. `kschedctl/sources/archive_file.py` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kschedctl.api.json_values import Json
from kschedctl.api.noise import strip_unread_data
from kschedctl.api.objects import (
    ApiObject,
    Node,
    ObjectMeta,
    Pod,
    PodMeta,
    PodStatus,
    ReplicationController,
    StoredWorkload,
    WorkloadStatus,
    get_object_key,
)
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import CREATION_KINDS, FIELDS, OBSERVED, Cluster
from kschedctl.commands.snapshot.report import FieldChange, ObjectChange, SnapshotDiff

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_Key = tuple[str, str]


def diff(before: Cluster, after: Cluster, names: tuple[str, str] = ("before", "after")) -> SnapshotDiff:
    """Compare what scheduling reads in two states of a cluster. `names` are the names of the states in the report.

    >>> import kschedctl
    >>> str(diff(kschedctl.Cluster.from_objects([]), kschedctl.Cluster.from_objects([])))
    'No difference that matters for scheduling'
    """
    changes = tuple(_build_change(difference) for difference in iter_object_differences(before, after))
    return SnapshotDiff(*names, changes, tuple(_iter_scheduler_changes(before, after)))


class _Difference(NamedTuple):
    """An object that differs between the snapshots."""

    kind: str
    key: _Key
    old: ApiObject | None
    """The object before the change, or None if it was added."""
    new: ApiObject | None
    """The object after the change, or None if it was removed."""

    @property
    def is_recreated(self) -> bool:
        """Whether the object was deleted and another one was created under the same name."""
        if self.old is None or self.new is None:
            return False
        old_uid, new_uid = self.old.metadata.uid, self.new.metadata.uid
        return bool(old_uid and new_uid) and old_uid != new_uid


def iter_object_differences(before: Cluster, after: Cluster) -> Iterator[_Difference]:
    """Yield the objects that differ in a field that scheduling reads, by kind and sorted by name within each kind.

    Kinds that only record how scheduling went, or only determine which pods are created, are not compared.
    """
    for kind, field in FIELDS.items():
        if kind in (*OBSERVED, *CREATION_KINDS):
            continue
        if kind == "Pod":
            yield from _iter_pod_changes(before.pods, after.pods)
        else:
            yield from _iter_object_changes(kind, getattr(before, field), getattr(after, field))


def _iter_scheduler_changes(before: Cluster, after: Cluster) -> Iterator[FieldChange]:
    """Yield the changes to the scheduler's version, feature gates and configuration."""
    for field in ("kube_version", "feature_gates", "configuration"):
        yield from _iter_field_changes(field, getattr(before, field), getattr(after, field))


def _iter_object_changes(kind: str, before: Sequence[ApiObject], after: Sequence[ApiObject]) -> Iterator[_Difference]:
    """Yield the objects of a kind other than Pod that differ. Pods are compared by `_iter_pod_changes`."""
    old = {get_object_key(obj): obj for obj in before}
    new = {get_object_key(obj): obj for obj in after}
    for key in sorted(old | new):
        if _is_changed(old, new, key):
            yield _Difference(kind, key, old.get(key), new.get(key))


def _is_changed(old: Mapping[_Key, ApiObject], new: Mapping[_Key, ApiObject], key: _Key) -> bool:
    """Return whether the object with this key was added, removed or changed."""
    if key not in old or key not in new:
        return True
    return _encode(_strip_unread_parts(old[key])) != _encode(_strip_unread_parts(new[key]))


def _iter_pod_changes(before: Sequence[Pod], after: Sequence[Pod]) -> Iterator[_Difference]:
    """Yield the pods that differ. Pods that do not differ are never decoded."""
    old_table, new_table = PodTable.from_pods(before), PodTable.from_pods(after)
    template_numbers: dict[bytes, int] = {}
    old = _index_pod_fingerprints(old_table, template_numbers)
    new = _index_pod_fingerprints(new_table, template_numbers)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            old_pod = old_table.find(*key) if key in old else None
            new_pod = new_table.find(*key) if key in new else None
            yield _Difference("Pod", key, old_pod, new_pod)


def _index_pod_fingerprints(table: PodTable, template_numbers: dict[bytes, int]) -> dict[_Key, tuple[int, str, str]]:
    """Map each pod's key to a fingerprint: the number of its template, its node and its UID.

    Equal templates of both snapshots have the same number. ``template_numbers`` maps the bytes of templates to their
    numbers, and is extended with the templates of this table.
    """
    numbers = [
        template_numbers.setdefault(_encode(_strip_unread_parts(pod)), len(template_numbers)) for pod in table.templates
    ]
    namespaces = [pod.metadata.namespace for pod in table.templates]
    columns = zip(table.template.tolist(), table.names, table.node.texts(), table.uids.texts(), strict=True)
    return {(namespaces[t], name): (numbers[t], node, uid) for t, name, node, uid in columns}


def _build_change(difference: _Difference) -> ObjectChange:
    """Build the report entry for an object that differs."""
    kind, key, old, new = difference
    name = "/".join(part for part in key if part)
    if old is None or new is None:
        return ObjectChange(kind, name, "added" if old is None else "removed")
    fields = _iter_field_changes("", *(msgspec.to_builtins(_strip_unread_parts(obj)) for obj in (old, new)))
    return ObjectChange(kind, name, "recreated" if difference.is_recreated else "changed", tuple(fields))


def _strip_unread_parts(obj: Any) -> Any:
    """Return the object without the fields that scheduling does not read, and without UID and creation time.

    Conditions of nodes and the status of workloads are removed as well.
    """
    obj = strip_unread_data(obj)
    if isinstance(obj, Node):
        obj = replace(obj, status=replace(obj.status, conditions=()))
    if isinstance(obj, StoredWorkload | ReplicationController):
        obj = replace(obj, status=WorkloadStatus())
    if isinstance(obj, Pod):
        obj = replace(obj, status=_strip_pod_status(obj.status))
    metadata: ObjectMeta | PodMeta = replace(obj.metadata, uid="", creation_timestamp=None)
    return replace(obj, metadata=metadata)


def _strip_pod_status(status: PodStatus) -> PodStatus:
    """Return the status without times, reason and message, and with only the conditions about resizing."""
    resize = tuple(
        replace(condition, message="", last_transition_time=None)
        for condition in status.conditions
        if "Resize" in condition.type
    )
    return replace(status, start_time=None, reason="", message="", conditions=resize)


def _iter_field_changes(path: str, old: Json, new: Json) -> Iterator[FieldChange]:
    """Yield the fields that differ between two values. Maps are compared key by key, other values as a whole.

    ``path`` is the path of both values in the object.
    """
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _iter_field_changes(_join_path(path, key), old.get(key), new.get(key))
    else:
        yield FieldChange(path, _format_json(old), _format_json(new))


def _join_path(path: str, key: str) -> str:
    """Append a key to a path. A key that is not an identifier is put in brackets."""
    if not key.isidentifier():
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _format_json(value: Json) -> str | None:
    """Encode the value as JSON. None stays None."""
    return None if value is None else msgspec.json.encode(value).decode()
