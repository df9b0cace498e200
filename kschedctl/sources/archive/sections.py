"""The objects of a kind as the bytes that a snapshot keeps of them: msgpack, of pods and nodes as tables.

Pods are stored as their table: distinct parts once, and for each pod which of them it has; nodes without their images,
which many have in common. What is read back is checked as far as the rest of the program relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints
from kschedctl.api.columns import LATEST, NEVER, UID_BYTES, InternedTexts, TextColumn, TimeColumn, UidColumn
from kschedctl.api.container_states import NOT_RECORDED
from kschedctl.api.decoding import decode_msgpack
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import (
    Affinity,
    ContainerImage,
    Node,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    Struct,
    Volume,
)
from kschedctl.api.observed.noise import hash_host_path, strip_noise
from kschedctl.api.pod_columns import OwnColumns
from kschedctl.api.pod_table import PodTable
from kschedctl.sources.object_checks import validate_stored_names


class _Column(msgspec.Struct, array_like=True):
    """Texts as numbers: int32 codes of the distinct ``values``, int64 times, or the bytes of UIDs."""

    form: str
    data: bytes
    values: list[str] = []


class _PodRecord(msgspec.Struct, array_like=True):
    """A PodTable. ``templates``: int32 (T, 5), which metadata, spec, affinity, volumes and status a template has.

    From ``scheduled`` on there was nothing in the first snapshots of this format.
    """

    metadata: list[PodMeta]
    specs: list[PodSpec]
    affinities: list[Affinity | None]
    volumes: list[tuple[Volume, ...]]
    statuses: list[PodStatus]
    templates: bytes
    template: bytes
    names: list[str]
    uids: _Column
    node: _Column
    created: _Column
    started: _Column
    scheduled: _Column | None = None
    disrupted: _Column | None = None
    message: _Column | None = None
    refusal: _Column | None = None
    containers: _Column | None = None


class _NodeRecord(msgspec.Struct, array_like=True):
    """Nodes without images; the distinct images; int32 how many a node has, and which, one node after the other."""

    nodes: list[Node]
    images: list[ContainerImage]
    counts: bytes
    codes: bytes


# -- writing ------------------------------------------------------------------------------------------------------


def pack(kind: str, objects: Sequence[Any]) -> bytes:
    """The section of a kind."""
    if kind == "Pod":
        record: object = _pod_record(PodTable.from_pods(objects))
    elif kind == "Node":
        record = _node_record([strip_noise(node) for node in objects])
    else:
        record = [strip_noise(obj) for obj in objects]
    return msgspec.msgpack.encode(record)


class _Distinct:
    """The distinct ones of many parts, and the number of each."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self._known: dict[bytes, int] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def number(self, part: object) -> int:
        place = self._known.setdefault(self._encode(part), len(self.parts))
        if place == len(self.parts):
            self.parts.append(part)
        return place


def _pod_record(table: PodTable) -> _PodRecord:
    parts = [_Distinct() for _ in range(5)]
    rows = [
        [column.number(part) for column, part in zip(parts, _parts(template), strict=True)]
        for template in table.templates
    ]
    metadata, specs, affinities, volumes, statuses = (column.parts for column in parts)
    return _PodRecord(
        metadata,
        specs,
        affinities,
        volumes,
        statuses,
        _bytes(rows),
        _bytes(table.template),
        list(table.names),
        *map(_column, table.columns),
    )


def _parts(template: Pod) -> tuple[object, ...]:
    spec = template.spec
    return (
        template.metadata,
        replace(spec, affinity=None, volumes=()),
        spec.affinity,
        tuple(map(hash_host_path, spec.volumes)),
        template.status,
    )


def _node_record(nodes: list[Node]) -> _NodeRecord:
    images = _Distinct()
    codes = [images.number(image) for node in nodes for image in node.status.images]
    return _NodeRecord(
        [replace(node, status=replace(node.status, images=())) for node in nodes],
        images.parts,
        _bytes([len(node.status.images) for node in nodes]),
        _bytes(codes),
    )


def _column(column: TextColumn) -> _Column:
    match column:
        case TimeColumn():
            return _Column("times", column.seconds.astype("<i8").tobytes())
        case UidColumn():
            return _Column("uids", column.data)
        case InternedTexts():
            return _Column("texts", _bytes(column.codes), list(column.values))
    raise TypeError(column)


def _bytes(numbers: object) -> bytes:
    return np.asarray(numbers, "<i4").tobytes()


# -- reading ------------------------------------------------------------------------------------------------------


def unpack(kind: str, data: bytes, count: int) -> Sequence[Struct]:
    """The ``count`` objects of a section. Raises ValueError for what ``pack`` does not make of so many."""
    unpacked = _UNPACK.get(kind)
    objects = unpacked(data) if unpacked else _others(kind, data)
    if len(objects) != count:
        raise ValueError(f"{len(objects):,} objects of kind {kind} instead of {count:,}")
    if kind != "Pod":
        validate_stored_names(name for obj in objects for name in (obj.metadata.namespace, obj.metadata.name))  # type: ignore[attr-defined]
    return objects


def _pods(data: bytes) -> PodTable:
    record = decode_msgpack(data, _PodRecord)
    validate_stored_names(record.names)
    validate_stored_names(meta.namespace for meta in record.metadata)
    parts: tuple[Sequence[object], ...] = (
        record.metadata,
        record.specs,
        record.affinities,
        record.volumes,
        record.statuses,
    )
    rows = _ints(record.templates).reshape(-1, len(parts))
    for column, part in zip(rows.T, parts, strict=True):
        _check_codes(column, len(part))
    templates = [
        Pod(
            record.metadata[m],
            replace(record.specs[s], affinity=record.affinities[a], volumes=record.volumes[v]),
            record.statuses[t],
        )
        for m, s, a, v, t in rows.tolist()
    ]
    template, count = _ints(record.template), len(record.names)
    _check_codes(template, len(templates))
    _check_length(len(template), count)
    return PodTable(templates, template, record.names, _columns(record, count))


def _columns(record: _PodRecord, count: int) -> OwnColumns:
    return OwnColumns(
        uids=_any_column(record.uids, count),
        node=_texts(record.node, count),
        created=_any_column(record.created, count),
        started=_any_column(record.started, count),
        scheduled=_any_column(record.scheduled or _nothing(count), count),
        disrupted=_texts(record.disrupted or _nothing(count), count),
        message=_texts(record.message or _nothing(count), count),
        unschedulable_message=_texts(record.refusal or _nothing(count), count),
        containers=_texts(record.containers or _nothing(count, NOT_RECORDED), count),
    )


def _nothing(count: int, text: str = "") -> _Column:
    return _Column("texts", bytes(4 * count), [text])


def _nodes(data: bytes) -> tuple[Node, ...]:
    record = decode_msgpack(data, _NodeRecord)
    images, counts, codes = record.images, _ints(record.counts), _ints(record.codes)
    _check_codes(codes, len(images))
    _check_codes(counts, len(codes) + 1)
    _check_length(int(counts.sum(dtype=np.int64)), len(codes))
    numbers, ends = codes.tolist(), np.cumsum(counts, dtype=np.int64).tolist()
    held = (tuple([images[code] for code in numbers[start:end]]) for start, end in zip([0, *ends], ends, strict=False))
    return tuple(
        replace(node, status=replace(node.status, images=images)) if images else node
        for node, images in zip(record.nodes, held, strict=True)
    )


def _others(kind: str, data: bytes) -> tuple[Struct, ...]:
    objects: Any = GenericAlias(tuple, (KINDS[kind].struct, ...))
    decoded: tuple[Struct, ...] = decode_msgpack(data, objects)
    return decoded


def _texts(column: _Column, count: int) -> InternedTexts:
    if column.form != "texts":
        raise ValueError(f"a column of {column.form}")
    codes = _ints(column.data)
    _check_codes(codes, len(column.values))
    _check_length(len(codes), count)
    return InternedTexts(codes, column.values)


def _any_column(column: _Column, count: int) -> TextColumn:
    match column.form:
        case "times":
            seconds = np.frombuffer(column.data, "<i8").astype(np.int64, copy=False)
            _check_length(len(seconds), count)
            if count and not NEVER <= seconds.min() <= seconds.max() <= LATEST:
                raise ValueError("an invalid time")
            return TimeColumn(seconds)
        case "uids":
            _check_length(len(column.data), count * UID_BYTES)
            return UidColumn(column.data)
    return _texts(column, count)


def _ints(data: bytes) -> Ints:
    return np.frombuffer(data, "<i4").astype(np.int32, copy=False)


def _check_codes(codes: Ints, values: int) -> None:
    """Each is the place of one of so many values. Raises ValueError."""
    if len(codes) and not 0 <= codes.min() <= codes.max() < values:
        raise ValueError("an unknown code")


def _check_length(length: int, wanted: int) -> None:
    if length != wanted:
        raise ValueError("columns of different length")


_UNPACK: Mapping[str, Callable[[bytes], Sequence[Struct]]] = {"Pod": _pods, "Node": _nodes}
