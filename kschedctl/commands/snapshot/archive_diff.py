"""What changed between two snapshots of a cluster that scheduling reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kschedctl.api.api_object import ApiObject, object_key
from kschedctl.api.json_values import Json
from kschedctl.api.objects import (
    Node,
    ObjectMeta,
    Pod,
    PodMeta,
    PodStatus,
    ReplicationController,
    StoredWorkload,
    WorkloadStatus,
)
from kschedctl.api.observed.noise import strip_noise
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS, OBSERVED, OF_CREATION, Cluster
from kschedctl.commands.snapshot.report import FieldChange, ObjectChange, SnapshotDiff

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
Key = tuple[str, str]


class Difference(NamedTuple):
    """An object before and after; ``old`` is None for one that came, ``new`` for one that went."""

    kind: str
    key: Key
    old: ApiObject | None
    new: ApiObject | None

    @property
    def recreated(self) -> bool:
        """Whether it is another object of the same name."""
        uids = [state.metadata.uid for state in (self.old, self.new) if state is not None]
        return len(uids) == 2 and all(uids) and uids[0] != uids[1]


def compare(before: Cluster, after: Cluster, names: tuple[str, str]) -> SnapshotDiff:
    """The differences in the order of kinds and names; ``names`` are what the snapshots are called."""
    changes = tuple(_change(difference) for difference in differences(before, after))
    return SnapshotDiff(*names, changes, tuple(_scheduler_changes(before, after)))


def differences(before: Cluster, after: Cluster) -> Iterator[Difference]:
    """The objects that are not the same in what scheduling reads, in the order of kinds and names."""
    for kind, field in FIELDS.items():
        if kind in (*OBSERVED, *OF_CREATION):
            continue
        sides = getattr(before, field), getattr(after, field)
        find = _of_pods if kind == "Pod" else _of_others
        yield from (Difference(kind, *changed) for changed in find(*sides))


def _scheduler_changes(before: Cluster, after: Cluster) -> Iterator[FieldChange]:
    for field in ("kube_version", "feature_gates", "configuration"):
        yield from _fields(field, getattr(before, field), getattr(after, field))


def _of_others(
    before: Sequence[ApiObject], after: Sequence[ApiObject]
) -> Iterator[tuple[Key, ApiObject | None, ApiObject | None]]:
    old, new = ({object_key(obj): obj for obj in objects} for objects in (before, after))
    yield from ((key, old.get(key), new.get(key)) for key in sorted(old | new) if _differ(old, new, key))


def _differ(old: Mapping[Key, ApiObject], new: Mapping[Key, ApiObject], key: Key) -> bool:
    if key not in old or key not in new:
        return True
    return _encode(_read_part(old[key])) != _encode(_read_part(new[key]))


def _of_pods(before: Sequence[Pod], after: Sequence[Pod]) -> Iterator[tuple[Key, Pod | None, Pod | None]]:
    """Pods are compared by their rows: only those that differ are made."""
    tables = PodTable.from_pods(before), PodTable.from_pods(after)
    known: dict[bytes, int] = {}
    old, new = (_rows(table, known) for table in tables)
    for key in sorted(old.keys() | new.keys()):
        if (was := old.get(key)) != (now := new.get(key)):
            namespace, name = key
            sides = (t.find(namespace, name) if row else None for t, row in zip(tables, (was, now), strict=True))
            yield key, *sides  # type: ignore[misc]


def _rows(table: PodTable, known: dict[bytes, int]) -> dict[Key, tuple[int, str, str]]:
    """(namespace, name) -> what is read of the pod: the number of its info, its node, its UID."""
    numbers = [known.setdefault(_encode(_read_part(pod)), len(known)) for pod in table.templates]
    namespaces = [pod.metadata.namespace for pod in table.templates]
    columns = zip(table.template.tolist(), table.names, table.node.texts(), table.uids.texts(), strict=True)
    return {(namespaces[t], name): (numbers[t], node, uid) for t, name, node, uid in columns}


def _change(difference: Difference) -> ObjectChange:
    kind, key, old, new = difference
    name = "/".join(part for part in key if part)
    if old is None or new is None:
        return ObjectChange(kind, name, "added" if old is None else "removed")
    fields = _fields("", *(msgspec.to_builtins(_read_part(obj)) for obj in (old, new)))
    return ObjectChange(kind, name, "recreated" if difference.recreated else "changed", tuple(fields))


def _read_part(obj: Any) -> Any:
    """The object less its identity and what changes without a meaning for scheduling."""
    obj = strip_noise(obj)
    if isinstance(obj, Node):
        obj = replace(obj, status=replace(obj.status, conditions=()))
    if isinstance(obj, StoredWorkload | ReplicationController):
        obj = replace(obj, status=WorkloadStatus())
    if isinstance(obj, Pod):
        obj = replace(obj, status=_pod_status(obj.status))
    timeless: ObjectMeta | PodMeta = replace(obj.metadata, uid="", creation_timestamp=None)
    return replace(obj, metadata=timeless)


def _pod_status(status: PodStatus) -> PodStatus:
    resize = tuple(replace(c, message="", last_transition_time=None) for c in status.conditions if "Resize" in c.type)
    return replace(status, start_time=None, reason="", message="", conditions=resize)


def _fields(path: str, old: Json, new: Json) -> Iterator[FieldChange]:
    """Where two values differ: maps key by key, all else as a whole."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted(old.keys() | new.keys()):
            yield from _fields(_step(path, key), old.get(key), new.get(key))
    else:
        yield FieldChange(path, _text(old), _text(new))


def _step(path: str, key: str) -> str:
    plain = key.isidentifier()
    return (f"{path}.{key}" if path else key) if plain else f'{path}["{key}"]'


def _text(value: Json) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
