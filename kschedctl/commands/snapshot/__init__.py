"""The command `snapshot`: save, show and compare what scheduling reads of a cluster.

The comparison of two snapshots is in this module. `kschedctl/sources/archive_file.py` reads and writes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    StoredJob,
    StoredWorkload,
    Struct,
    WorkloadStatus,
    get_object_key,
)
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import CREATION_KINDS, FIELDS, OBSERVED, Cluster
from kschedctl.commands.snapshot.report import FieldChange, ObjectChange, SnapshotDiff

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_Key = tuple[str, str]
SCHEDULING_KINDS = frozenset(FIELDS) - {*OBSERVED, *CREATION_KINDS}
"""The kinds that kube-scheduler reads, without those that record how scheduling went or decide which pods exist."""


def diff(before: Cluster, after: Cluster, names: tuple[str, str] = ("before", "after")) -> SnapshotDiff:
    """Compare what scheduling reads in two states of a cluster. `names` are the names of the states in the report.

    >>> import kschedctl
    >>> str(diff(kschedctl.Cluster.from_objects([]), kschedctl.Cluster.from_objects([])))
    'No difference that matters for scheduling'
    """
    differences = iter_object_differences(before, after, kinds=FIELDS.keys() - OBSERVED)
    return SnapshotDiff(
        *names,
        tuple(map(_build_change, differences)),
        tuple(_iter_scheduler_changes(before, after)),
        not_compared=_find_kinds_read_once(before, after),
    )


def _find_kinds_read_once(before: Cluster, after: Cluster) -> tuple[str, ...]:
    """Return the kinds that only one of the snapshots contains, because they were not read for the other one."""
    return tuple(kind for kind in FIELDS if (before.find_gap(kind) is None) != (after.find_gap(kind) is None))


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
        """True if the object was deleted and another one was created under the same name."""
        if self.old is None or self.new is None:
            return False
        old_uid, new_uid = self.old.metadata.uid, self.new.metadata.uid
        return bool(old_uid and new_uid) and old_uid != new_uid


def iter_object_differences(
    before: Cluster, after: Cluster, kinds: Collection[str] = SCHEDULING_KINDS
) -> Iterator[_Difference]:
    """Yield the objects of these kinds that differ in a field that is read, by kind and by name within each kind.

    Kinds that were read for only one of the clusters are left out.
    """
    not_compared = _find_kinds_read_once(before, after)
    for kind, field in FIELDS.items():
        if kind not in kinds or kind in not_compared:
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
    return {(namespaces[template], name): (numbers[template], node, uid) for template, name, node, uid in columns}


def _build_change(difference: _Difference) -> ObjectChange:
    """Build the report entry for an object that differs."""
    kind, key, old, new = difference
    name = "/".join(part for part in key if part)
    if old is None or new is None:
        return ObjectChange(kind, name, "added" if old is None else "removed")
    old_document = _to_builtins_with_zeros(_strip_unread_parts(old))
    new_document = _to_builtins_with_zeros(_strip_unread_parts(new))
    fields = tuple(_iter_field_changes("", old_document, new_document))
    return ObjectChange(kind, name, "recreated" if difference.is_recreated else "changed", fields)


def _to_builtins_with_zeros(obj: Struct) -> dict[str, Any]:
    """Convert a struct to plain data that includes whole numbers with their default 0. Other defaults are left out."""
    builtins: dict[str, Any] = msgspec.to_builtins(obj)
    for attribute, name in zip(obj.__struct_fields__, obj.__struct_encode_fields__, strict=True):
        value = getattr(obj, attribute)
        if type(value) is int:
            builtins.setdefault(name, value)
        elif isinstance(value, Struct) and (fields := _to_builtins_with_zeros(value)):
            builtins[name] = fields
    return builtins


def _strip_unread_parts(obj: Any) -> Any:
    """Return the object without the fields that scheduling does not read, and without UID and creation time.

    Conditions of nodes and the status of workloads are removed as well. Of Jobs, the numbers of ended pods and the
    conditions stay, since these decide whether evicted pods are recreated.
    """
    obj = strip_unread_data(obj)
    if isinstance(obj, Node):
        obj = replace(obj, status=replace(obj.status, conditions=()))
    if isinstance(obj, StoredWorkload | ReplicationController):
        obj = replace(obj, status=WorkloadStatus())
    if isinstance(obj, StoredJob):
        conditions = tuple(
            replace(condition, message="", last_transition_time=None) for condition in obj.status.conditions
        )
        obj = replace(obj, status=replace(obj.status, conditions=conditions))
    if isinstance(obj, Pod):
        obj = replace(obj, status=_strip_pod_status(obj.status))
    metadata: ObjectMeta | PodMeta = replace(obj.metadata, uid="", creation_timestamp=None)
    return replace(obj, metadata=metadata)


def _strip_pod_status(status: PodStatus) -> PodStatus:
    """Return the status without times, reason and message, and with only the conditions about resizing."""
    resize_conditions = tuple(
        replace(condition, message="", last_transition_time=None)
        for condition in status.conditions
        if "Resize" in condition.type
    )
    return replace(status, start_time=None, reason="", message="", conditions=resize_conditions)


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
