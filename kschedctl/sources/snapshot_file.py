"""Snapshots: a Cluster in one file, compressed, only what scheduling reads; made to be read back fast.

The first line is JSON that says what the file is and what is in it (``head -1``); then come the sections that it
lists, one a kind, each msgpack compressed with zlib, which is in the standard library and unpacks faster than the
objects are made. Pods are stored as their table: distinct parts once, and for each pod which of them it has.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from kschedctl import __version__
from kschedctl.api.columns import Column, Ints, Texts, Times, Uids
from kschedctl.api.noise import without_noise
from kschedctl.api.objects import (
    KINDS,
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
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import FIELDS, Cluster, Picture
from kschedctl.errors import InputError
from kschedctl.sources.garbage import without_garbage_collection
from kschedctl.sources.output_file import write_file

FORMAT = 1
KIND = "Snapshot"
LONGEST_HEADER = 16 << 20
LARGEST_SECTION = 4 << 30
_LEVEL = 6


class Section(msgspec.Struct, frozen=True):
    """The objects of a kind: how many, and how many bytes they take in the file and unpacked."""

    kind: str
    objects: int
    length: int
    size: int


class Header(msgspec.Struct, frozen=True, rename="camel", omit_defaults=False):
    """The first line of a snapshot."""

    api_version: str = "kschedctl.dev/v1"
    kind: str = KIND
    format: int = FORMAT
    written_by: str = ""
    written_at: str = ""
    anonymized: bool = False
    kube_version: str = ""
    feature_gates: dict[str, bool] = {}
    configuration: dict[str, Any] | None = None
    admit: bool = False
    unread: dict[str, str] = {}
    partly_read: dict[str, str] = {}
    picture: Picture | None = None
    sections: tuple[Section, ...] = ()


class _Column(msgspec.Struct, array_like=True):
    """Texts as numbers: int32 codes of the distinct ``values``, int64 times, or the bytes of UIDs."""

    form: str
    data: bytes
    values: list[str] = []


class _PodRecord(msgspec.Struct, array_like=True):
    """A PodTable. ``templates``: int32 (T, 5), which metadata, spec, affinity, volumes and status a template has."""

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


class _NodeRecord(msgspec.Struct, array_like=True):
    """Nodes without images; the distinct images; int32 how many a node has, and which, one node after the other."""

    nodes: list[Node]
    images: list[ContainerImage]
    counts: bytes
    codes: bytes


# -- writing ------------------------------------------------------------------------------------------------------


def write_snapshot(cluster: Cluster, path: str, *, anonymized: bool = False) -> Header:
    """Write the file, ``-`` for standard output. Raises InputError where it cannot be written."""
    packed = {kind: _pack(kind, getattr(cluster, field)) for kind, field in FIELDS.items() if getattr(cluster, field)}
    sections = tuple(
        Section(kind, len(getattr(cluster, FIELDS[kind])), len(data), size) for kind, (data, size) in packed.items()
    )
    header = Header(
        written_by=f"kschedctl {__version__}",
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        anonymized=anonymized,
        kube_version=cluster.kube_version,
        feature_gates=dict(cluster.feature_gates),
        configuration=None if cluster.configuration is None else dict(cluster.configuration),
        admit=cluster.admit,
        unread=dict(cluster.unread),
        partly_read=dict(cluster.partly_read),
        picture=cluster.picture,
        sections=sections,
    )
    write_file(path, [msgspec.json.encode(header), b"\n", *(data for data, _ in packed.values())], private=True)
    return header


def _pack(kind: str, objects: Sequence[Any]) -> tuple[bytes, int]:
    """The section of a kind, and its size unpacked."""
    if kind == "Pod":
        record: object = _pod_record(PodTable.of(objects))
    elif kind == "Node":
        record = _node_record([without_noise(node) for node in objects])
    else:
        record = [without_noise(obj) for obj in objects]
    data = msgspec.msgpack.encode(record)
    return zlib.compress(data, _LEVEL), len(data)


class _Distinct:
    """The distinct ones of many parts, and the number of each."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self._known: dict[bytes, int] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def number(self, part: Any) -> int:
        found = self._known.setdefault(self._encode(part), len(self.parts))
        if found == len(self.parts):
            self.parts.append(part)
        return found


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
        _column(table.uids),
        _column(table.node),
        _column(table.created),
        _column(table.started),
    )


def _parts(template: Pod) -> tuple[Any, ...]:
    spec = template.spec
    return (
        template.metadata,
        replace(spec, affinity=None, volumes=()),
        spec.affinity,
        spec.volumes,
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


def _column(column: Column) -> _Column:
    match column:
        case Times():
            return _Column("times", column.seconds.astype("<i8").tobytes())
        case Uids():
            return _Column("uids", column.data)
        case Texts():
            return _Column("texts", _bytes(column.codes), list(column.values))
    raise TypeError(column)


def _bytes(numbers: Any) -> bytes:
    return np.asarray(numbers, "<i4").tobytes()


# -- reading ------------------------------------------------------------------------------------------------------


def read_header(path: str) -> Header:
    """What the file is and holds. Raises InputError."""
    return _open(path)[0]


def read_snapshot(path: str) -> Cluster:
    """The Cluster of the file, ``-`` for standard input. Raises InputError."""
    with without_garbage_collection():
        return _cluster(*_open(path), path)


def _cluster(header: Header, data: memoryview, path: str) -> Cluster:
    starts = np.cumsum([0, *(section.length for section in header.sections)]).tolist()
    if starts[-1] != len(data):
        raise InputError(f"{len(data):,} bytes of data instead of {starts[-1]:,}: the file is cut short", where=path)
    with ThreadPoolExecutor(4) as threads:  # unpacking leaves the interpreter to the others
        slices = [data[start : start + s.length] for start, s in zip(starts, header.sections, strict=False)]
        unpacked = [threads.submit(_unpack, part, s.size) for part, s in zip(slices, header.sections, strict=True)]
        try:
            objects: dict[str, Any] = {
                FIELDS[section.kind]: _decode(section.kind, future.result())
                for section, future in zip(header.sections, unpacked, strict=True)
                if section.kind in FIELDS
            }
        except (zlib.error, msgspec.DecodeError, ValueError, IndexError) as error:
            raise InputError(f"damaged snapshot: {error}", where=path) from None
    return Cluster(
        configuration=header.configuration,
        feature_gates=header.feature_gates,
        kube_version=header.kube_version,
        admit=header.admit,
        unread=header.unread,
        partly_read=header.partly_read,
        picture=header.picture,
        **objects,
    )


def _open(path: str) -> tuple[Header, memoryview]:
    """The header and all that follows it. Raises InputError."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InputError((error.strerror or str(error)).lower(), where=path) from None
    end = data.find(b"\n", 0, LONGEST_HEADER)
    try:
        header = msgspec.json.decode(data[: max(end, 0)], type=Header)
    except msgspec.DecodeError:
        header = Header(kind="")
    if header.kind != KIND:
        raise InputError("no snapshot", where=path, hint="kschedctl snapshot save writes them; -f reads other files")
    if header.format != FORMAT:
        hint = f"this kschedctl reads format {FORMAT}"
        raise InputError(f"a snapshot of format {header.format}, written by {header.written_by}", where=path, hint=hint)
    return header, memoryview(data)[end + 1 :]


def _unpack(data: memoryview, size: int) -> bytes:
    """Raises ValueError, zlib.error."""
    if not 0 <= size <= LARGEST_SECTION:
        raise ValueError("a section of impossible size")
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(data, size + 1)
    if len(unpacked) != size or not unpacker.eof:
        raise ValueError("a section is of another size than the header says")
    return unpacked


def _decode(kind: str, data: bytes) -> Sequence[Struct]:
    return _DECODE.get(kind, _decoder(kind))(data)


def _pods(data: bytes) -> PodTable:
    record = msgspec.msgpack.decode(data, type=_PodRecord)
    rows = _ints(record.templates).reshape(-1, 5).tolist()
    templates = [
        Pod(
            record.metadata[m],
            replace(record.specs[s], affinity=record.affinities[a], volumes=record.volumes[v]),
            record.statuses[t],
        )
        for m, s, a, v, t in rows
    ]
    template = _ints(record.template)
    if len(template) != len(record.names):
        raise ValueError("columns of different length")
    return PodTable(
        templates,
        template,
        names=record.names,
        uids=_any_column(record.uids),
        node=_texts(record.node),
        created=_any_column(record.created),
        started=_any_column(record.started),
    )


def _nodes(data: bytes) -> tuple[Node, ...]:
    record = msgspec.msgpack.decode(data, type=_NodeRecord)
    images, codes = record.images, _ints(record.codes).tolist()
    ends = np.cumsum(_ints(record.counts)).tolist()
    held = (tuple([images[code] for code in codes[start:end]]) for start, end in zip([0, *ends], ends, strict=False))
    return tuple(
        replace(node, status=replace(node.status, images=found)) if found else node
        for node, found in zip(record.nodes, held, strict=True)
    )


@cache
def _decoder(kind: str) -> Callable[[bytes], Sequence[Struct]]:
    decode: Callable[[bytes], Sequence[Struct]] = msgspec.msgpack.Decoder(
        GenericAlias(tuple, (KINDS[kind], ...))
    ).decode
    return decode


def _texts(column: _Column) -> Texts:
    """Raises ValueError."""
    if column.form != "texts":
        raise ValueError(f"a column of {column.form}")
    return Texts(_ints(column.data), column.values)


def _any_column(column: _Column) -> Column:
    """Raises ValueError."""
    match column.form:
        case "times":
            return Times(np.frombuffer(column.data, "<i8").astype(np.int64, copy=False))
        case "uids":
            return Uids(column.data)
    return _texts(column)


def _ints(data: bytes) -> Ints:
    return np.frombuffer(data, "<i4").astype(np.int32, copy=False)


_DECODE: Mapping[str, Callable[[bytes], Sequence[Struct]]] = {"Pod": _pods, "Node": _nodes}
