"""Encoding of the objects of a kind in a snapshot as msgpack, in which pods and nodes are tables of distinct values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
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
from kschedctl.api.noise import hash_host_path, strip_unread_data
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
from kschedctl.api.pod_columns import PodTextColumns
from kschedctl.api.pod_table import PodTable
from kschedctl.sources.decoding import validate_stored_names


class _ColumnForm(StrEnum):
    """The form in which a column of texts is stored."""

    TEXTS = "texts"
    TIMES = "times"
    UIDS = "uids"


class _Column(msgspec.Struct, array_like=True):
    """A column of texts, stored in one of three forms."""

    form: _ColumnForm
    data: bytes
    """int32 codes of ``values``, int64 times in seconds, or the bytes of UIDs."""
    values: list[str] = []
    """The distinct texts."""


class _PodRecord(msgspec.Struct, array_like=True):
    """The stored form of a PodTable. The first snapshots of this format end before ``scheduled``."""

    metadata: list[PodMeta]
    specs: list[PodSpec]
    affinities: list[Affinity | None]
    volumes: list[tuple[Volume, ...]]
    statuses: list[PodStatus]
    templates: bytes
    """int32, shape (T, 5): the numbers of metadata, spec, affinity, volumes and status of each template."""
    template: bytes
    """int32, shape (P,): the template of each pod."""
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
    """The stored form of nodes, with each distinct image stored once."""

    nodes: list[Node]
    """The nodes without images."""
    images: list[ContainerImage]
    """The distinct images."""
    counts: bytes
    """int32: the number of images of each node."""
    codes: bytes
    """int32: the numbers of the images of all nodes, one node after the other."""


# -- writing ------------------------------------------------------------------------------------------------------


def encode_objects(kind: str, objects: Sequence[Any]) -> bytes:
    """Encode the objects of a kind as a section of a snapshot, without fields that scheduling does not read."""
    if kind == "Pod":
        record: object = _build_pod_record(PodTable.from_pods(objects))
    elif kind == "Node":
        record = _build_node_record([strip_unread_data(node) for node in objects])
    else:
        record = [strip_unread_data(obj) for obj in objects]
    return msgspec.msgpack.encode(record)


class _DistinctValues:
    """The distinct values among many values, which are referred to by their index."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._indexes: dict[bytes, int] = {}
        """The index of each value, by its msgpack."""
        self._encode = msgspec.msgpack.Encoder().encode

    def intern_value(self, value: object) -> int:
        """Return the index of the value among the distinct values. A new value is added to them."""
        index = self._indexes.setdefault(self._encode(value), len(self.values))
        is_new = index == len(self.values)
        if is_new:
            self.values.append(value)
        return index


def _build_pod_record(table: PodTable) -> _PodRecord:
    """Build the record of a pod table. Equal metadata, specs, affinities, volumes and statuses are stored once.

    The paths of hostPath volumes are hashed.
    """
    metadata, specs, affinities, volumes, statuses = (_DistinctValues() for _ in range(5))

    # Each template becomes a row with the indexes of its five parts
    rows = []
    for template in table.templates:
        spec = template.spec
        row = [
            metadata.intern_value(template.metadata),
            specs.intern_value(replace(spec, affinity=None, volumes=())),
            affinities.intern_value(spec.affinity),
            volumes.intern_value(tuple(map(hash_host_path, spec.volumes))),
            statuses.intern_value(template.status),
        ]
        rows.append(row)
    return _PodRecord(
        metadata.values,
        specs.values,
        affinities.values,
        volumes.values,
        statuses.values,
        _encode_numbers(rows),
        _encode_numbers(table.template),
        list(table.names),
        *map(_encode_column, table.columns),  # the record's last fields are in the order of the table's columns
    )


def _build_node_record(nodes: list[Node]) -> _NodeRecord:
    """Build the record of nodes, in which equal images are stored once."""
    images = _DistinctValues()
    codes = [images.intern_value(image) for node in nodes for image in node.status.images]
    return _NodeRecord(
        [replace(node, status=replace(node.status, images=())) for node in nodes],
        images.values,
        _encode_numbers([len(node.status.images) for node in nodes]),
        _encode_numbers(codes),
    )


def _encode_column(column: TextColumn) -> _Column:
    """Build the record for a column of texts.

    The texts are stored in the column's form: as times, as UIDs or as codes.
    """
    match column:
        case TimeColumn():
            return _Column(_ColumnForm.TIMES, column.seconds.astype("<i8").tobytes())
        case UidColumn():
            return _Column(_ColumnForm.UIDS, column.data)
        case InternedTexts():
            return _Column(_ColumnForm.TEXTS, _encode_numbers(column.codes), list(column.values))
    raise TypeError(column)


def _encode_numbers(numbers: object) -> bytes:
    """Encode numbers as little-endian int32, row by row."""
    return np.asarray(numbers, "<i4").tobytes()


# -- reading ------------------------------------------------------------------------------------------------------


def decode_objects(kind: str, data: bytes, count: int) -> Sequence[Struct]:
    """Decode the objects in a section. Raises ValueError unless the section has ``count`` valid objects."""
    decode = _DECODERS.get(kind)
    objects = decode(data) if decode else _decode_struct_list(kind, data)
    if len(objects) != count:
        raise ValueError(f"{len(objects):,} objects of kind {kind} instead of {count:,}")

    # The names of pods were validated as columns, without building the pods
    if kind != "Pod":
        validate_stored_names(name for obj in objects for name in (obj.metadata.namespace, obj.metadata.name))  # type: ignore[attr-defined]
    return objects


def _decode_pods(data: bytes) -> PodTable:
    """Decode the pods of a section. Raises ValueError if a name is invalid or the columns do not fit together."""
    record = decode_msgpack(data, _PodRecord)
    validate_stored_names(record.names)
    validate_stored_names(meta.namespace for meta in record.metadata)
    templates = _decode_distinct_pods(record)
    pod_count = len(record.names)
    template_of_pod = _decode_numbers(record.template)
    _validate_codes(template_of_pod, len(templates))
    _validate_column_length(len(template_of_pod), pod_count)
    return PodTable(templates, template_of_pod, record.names, _decode_columns(record, pod_count))


def _decode_distinct_pods(record: _PodRecord) -> list[Pod]:
    """Rebuild the distinct pods of a pod table from their stored metadata, specs, affinities, volumes and statuses.

    Raises ValueError if a pod refers to a part that does not exist.
    """
    # Each pod has a row with the indexes of its five parts
    parts: tuple[list[Any], ...] = (record.metadata, record.specs, record.affinities, record.volumes, record.statuses)
    rows = _decode_numbers(record.templates).reshape(-1, len(parts))
    for column, part in zip(rows.T, parts, strict=True):
        _validate_codes(column, len(part))

    pods = []
    for metadata_index, spec_index, affinity_index, volumes_index, status_index in rows.tolist():
        spec = replace(
            record.specs[spec_index],
            affinity=record.affinities[affinity_index],
            volumes=record.volumes[volumes_index],
        )
        pods.append(Pod(record.metadata[metadata_index], spec, record.statuses[status_index]))
    return pods


def _decode_columns(record: _PodRecord, count: int) -> PodTextColumns:
    """Decode the columns of a table with ``count`` pods. Raises ValueError if a column is invalid.

    A column that older snapshots do not have gets its default value in every row.
    """
    return PodTextColumns(
        uids=_decode_column(record.uids, count),
        node=_decode_interned_texts(record.node, count),
        created=_decode_column(record.created, count),
        started=_decode_column(record.started, count),
        scheduled=_decode_column(record.scheduled or _build_constant_column(count), count),
        disrupted=_decode_interned_texts(record.disrupted or _build_constant_column(count), count),
        message=_decode_interned_texts(record.message or _build_constant_column(count), count),
        unschedulable_message=_decode_interned_texts(record.refusal or _build_constant_column(count), count),
        containers=_decode_interned_texts(record.containers or _build_constant_column(count, NOT_RECORDED), count),
    )


def _build_constant_column(count: int, text: str = "") -> _Column:
    """Build a column with the same text in every row."""
    return _Column(_ColumnForm.TEXTS, bytes(4 * count), [text])  # int32 codes that are all 0


def _decode_nodes(data: bytes) -> tuple[Node, ...]:
    """Decode the nodes of a section. Raises ValueError if the codes or counts of images are invalid."""
    record = decode_msgpack(data, _NodeRecord)
    counts = _decode_numbers(record.counts)
    codes = _decode_numbers(record.codes)
    _validate_codes(codes, len(record.images))
    _validate_codes(counts, len(codes) + 1)  # a count is at most the number of codes
    _validate_column_length(int(counts.sum(dtype=np.int64)), len(codes))

    # The images of all nodes follow each other, so that each node has a slice of them
    images = [record.images[code] for code in codes.tolist()]
    ends = np.cumsum(counts, dtype=np.int64).tolist()
    starts = [0, *ends[:-1]] if ends else []
    nodes = []
    for node, start, end in zip(record.nodes, starts, ends, strict=True):
        if start == end:  # the node has no images
            nodes.append(node)
        else:
            status = replace(node.status, images=tuple(images[start:end]))
            nodes.append(replace(node, status=status))
    return tuple(nodes)


def _decode_struct_list(kind: str, data: bytes) -> tuple[Struct, ...]:
    """Decode a section that is a plain list of the kind's structs. Raises ValueError for any other content."""
    tuple_type: Any = GenericAlias(tuple, (KINDS[kind].struct, ...))
    objects: tuple[Struct, ...] = decode_msgpack(data, tuple_type)
    return objects


def _decode_interned_texts(column: _Column, count: int) -> InternedTexts:
    """Decode a column of ``count`` interned texts.

    Raises ValueError if the column is not a column of texts, if it does not have ``count`` entries, or if its data is
    malformed.
    """
    if column.form != _ColumnForm.TEXTS:
        raise ValueError(f"a column of {column.form}")
    codes = _decode_numbers(column.data)
    _validate_codes(codes, len(column.values))
    _validate_column_length(len(codes), count)
    return InternedTexts(codes, column.values)


def _decode_column(column: _Column, count: int) -> TextColumn:
    """Decode a column of times, UIDs or interned texts.

    Raises ValueError if the column does not have ``count`` rows or holds an invalid value.
    """
    match column.form:
        case _ColumnForm.TIMES:
            seconds = np.frombuffer(column.data, "<i8").astype(np.int64, copy=False)
            _validate_column_length(len(seconds), count)
            if count and not NEVER <= seconds.min() <= seconds.max() <= LATEST:
                raise ValueError("an invalid time")
            return TimeColumn(seconds)
        case _ColumnForm.UIDS:
            _validate_column_length(len(column.data), count * UID_BYTES)
            return UidColumn(column.data)
    return _decode_interned_texts(column, count)


def _decode_numbers(data: bytes) -> Ints:
    """Decode little-endian int32 numbers into an int32 array."""
    return np.frombuffer(data, "<i4").astype(np.int32, copy=False)


def _validate_codes(codes: Ints, value_count: int) -> None:
    """Raise ValueError if a code is not the index of a value."""
    if len(codes) and not 0 <= codes.min() <= codes.max() < value_count:
        raise ValueError("an unknown code")


def _validate_column_length(length: int, expected_length: int) -> None:
    """Raise ValueError if the length is not the expected one."""
    if length != expected_length:
        raise ValueError("columns of different length")


_DECODERS: Mapping[str, Callable[[bytes], Sequence[Struct]]] = {"Pod": _decode_pods, "Node": _decode_nodes}
