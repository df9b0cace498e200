"""Snapshot files: a cluster in one zip file, with a member for the header and one for each kind of objects.

A file is read with limits that follow from its size. Sizes that the file itself states are not trusted.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec
import numpy as np

from kschedctl.api.component_flags import DEFAULT_API_SERVER, ApiServerInstance, AutoscalerInstance
from kschedctl.api.decoding import decode_json
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.json_values import Json, JsonDict
from kschedctl.api.kube_version import KubeVersion, clamp_minor, describe_version_substitute
from kschedctl.cluster import CREATION_KINDS, FIELDS, NOT_HELD, Cluster, Gap, Provenance
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.secrets import redact_secrets
from kschedctl.sources.archive_sections import decode_objects, encode_objects
from kschedctl.sources.documents.files import STDIN, format_file_path, open_without_unpacking
from kschedctl.sources.output_file import write_file

# -- the zip file ------------------------------------------------------------------------------------------------

MAGIC = b"PK\x03\x04"
"""The first bytes of a zip file."""
MAX_FILE_SIZE = 1 << 30
"""The maximum size of a snapshot file in bytes."""
MIN_MEMORY_LIMIT = 1 << 30
"""The bytes of memory that every snapshot may take."""
MAX_MEMORY_RATIO = 300
"""The bytes of memory that a snapshot may take for each byte of its file.

Snapshots of real clusters take 50. Constructed files could take a thousand, and their content two hundred times more.
"""
MAP_BYTES, OBJECT_BYTES, REFERENCE_BYTES = 200, 56, 8
"""Memory for what msgpack stores in one byte: the largest struct, any other object, and its place in a list."""
_COMPRESSION_LEVEL = 6
_UNPACKING_THREADS = 4
_HEAD_SIZE = 512
_FIRST_FORMAT = re.compile(rb'\{"apiVersion":"kschedctl.dev/v1","kind":"Snapshot","format":(\d+),')
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip file; the real time is in the header
_BLOCK_SIZE = 1 << 16
_DAMAGE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, MemoryError, RecursionError),
    *(ValueError, KeyError, IndexError, OverflowError, NotImplementedError, RuntimeError),
)
"""The errors that zipfile and the decoders raise for damaged files. msgspec.DecodeError is a ValueError."""


def build_archive(members: Mapping[str, bytes]) -> bytes:
    """Build the zip file from its members, given by name. Equal members give equal files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, _COMPRESSION_LEVEL)
    return buffer.getvalue()


class Archive:
    """A reader of the members of a zip file, which several threads may use."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._zip = zipfile.ZipFile(file)
        self._limit = max(MIN_MEMORY_LIMIT, MAX_MEMORY_RATIO * size)
        self._reserved = 0

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read_member(self, name: str, max_size: int = MAX_FILE_SIZE) -> bytes:
        """Return the content of the member with this name.

        Raises KeyError if the member does not exist. Raises InputError if the member or its objects would take too much
        memory. If the member is damaged, raises ValueError or an error of zipfile.
        """
        info = self._zip.getinfo(name)
        if info.file_size > max_size:
            raise InputError(f"its part {name} is larger than {max_size >> 20:,} MiB")
        # Besides the byte itself, each byte may need a reference to the object that it begins.
        self._reserve_memory((1 + REFERENCE_BYTES) * info.file_size)
        with self._zip.open(info) as stream:
            data = stream.read(info.file_size + 1)
        if len(data) != info.file_size:
            raise ValueError(f"{name} does not have the size that the archive's directory lists")
        self._reserve_memory(_estimate_memory(data))
        return data

    def _reserve_memory(self, size: int) -> None:
        """Add the bytes to the memory that the snapshot takes. Raises InputError if the sum exceeds the limit."""
        self._reserved += size
        if self._reserved > self._limit:
            raise InputError(f"needs more than {self._limit >> 20:,} MiB of memory")


def _estimate_memory(data: bytes) -> int:
    """Estimate the maximum memory in bytes of objects decoded from msgpack, apart from the lists that hold them.

    All bytes that can begin an object are counted. Most of these bytes are really part of a text.

    >>> _estimate_memory(bytes([0x92, 0x80, 0xA1, 0x61])) == MAP_BYTES + 2 * OBJECT_BYTES
    True
    """
    # Objects begin with a byte from 0x80 on, which is negative as an int8, and maps with one from 0x80 to 0x8f.
    signed_bytes = np.frombuffer(data, np.int8)
    map_count = object_count = 0
    for start in range(0, len(signed_bytes), _BLOCK_SIZE):
        block = signed_bytes[start : start + _BLOCK_SIZE]
        object_count += int(np.count_nonzero(block < 0))
        map_count += int(np.count_nonzero(block < 0x90 - 0x100))
    return MAP_BYTES * map_count + OBJECT_BYTES * (object_count - map_count)


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Open the zip file at the path, or on standard input for ``-``.

    Errors that a damaged file causes within the block are raised as InputError with the path.
    """
    with _open_seekable(path) as (file, size):
        try:
            yield Archive(file, size)
        except InputError as error:
            raise InputError(error.what, where=format_file_path(path), hint=error.hint) from None
        except _DAMAGE_ERRORS as error:
            message = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise InputError(f"damaged snapshot: {message[:120]}", where=format_file_path(path)) from None


@contextmanager
def _open_seekable(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """Yield the snapshot as a seekable file, and its size. Standard input and pipes are read into memory.

    Raises InputError if the file is not a snapshot or too large.
    """
    with open_without_unpacking(path) as (file, first):
        head = first + file.read(_HEAD_SIZE)
        status = None if path == STDIN else os.fstat(file.fileno())
        if status is not None and stat.S_ISREG(status.st_mode):
            _validate_file_head(head, size=status.st_size, path=path)
            yield file, status.st_size
        else:
            _validate_file_head(head, size=len(head), path=path)  # before the rest is read
            data = head + file.read(MAX_FILE_SIZE)
            _validate_file_head(head, size=len(data), path=path)
            yield io.BytesIO(data), len(data)


def _validate_file_head(head: bytes, *, size: int, path: str) -> None:
    """Raise InputError if the file does not begin like a zip file, or if its size exceeds MAX_FILE_SIZE.

    Snapshots in the first format, which was not a zip file, get their own message.
    """
    if size > MAX_FILE_SIZE:
        raise InputError(f"larger than {MAX_FILE_SIZE >> 20:,} MiB", where=format_file_path(path))
    if match := _FIRST_FORMAT.match(head):
        what = f"a snapshot in format {match[1].decode()}, which is not supported"
        raise InputError(what, where=format_file_path(path), hint="save it again")
    if not head.startswith(MAGIC):
        hint = "kschedctl snapshot save writes them; -f reads other files"
        raise InputError("not a snapshot", where=format_file_path(path), hint=hint)


# -- the header --------------------------------------------------------------------------------------------------

FORMAT = 2
KIND = "Snapshot"
HEADER = "snapshot.json"
MAX_HEADER_SIZE = 16 << 20  # bytes


class _HeaderFormat(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that the headers of all formats have."""

    kind: str = ""
    format: int = 0
    written_by: str = ""


class Header(msgspec.Struct, frozen=True, rename="camel", omit_defaults=False):
    """The description of a snapshot."""

    api_version: str = "kschedctl.dev/v1"
    kind: str = KIND
    format: int = FORMAT
    written_by: str = ""
    written_at: str = ""
    anonymized: bool = False
    stays: tuple[str, ...] = ()
    """The names that were not replaced by pseudonyms."""
    kube_version: str = ""
    feature_gates: dict[str, bool] = {}
    configuration: dict[str, Json] | None = None
    admit: bool = False
    gaps: dict[str, Gap] = {}
    provenance: Provenance | None = msgspec.field(default=None, name="picture")
    objects: dict[str, int] = {}
    """The number of objects of each kind."""
    kinds: tuple[str, ...] = ()
    """The kinds that the snapshot can contain. The first snapshots of this format do not state them."""
    autoscaler: AutoscalerInstance | None = None
    api_server: ApiServerInstance = DEFAULT_API_SERVER


# -- writing ------------------------------------------------------------------------------------------------------


def write_archive(
    cluster: Cluster, path: str, *, written_by: str = "", anonymized: bool = False, stays: tuple[str, ...] = ()
) -> Header:
    """Write a snapshot to a file, or to standard output for ``-``, and return its header.

    Secrets in the configuration are redacted. ``stays`` lists the kinds of names that an anonymized cluster keeps.
    Raises InputError if the file cannot be written.
    """
    by_kind = {kind: getattr(cluster, field) for kind, field in FIELDS.items() if getattr(cluster, field)}
    header = Header(
        written_by=written_by,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        anonymized=anonymized,
        stays=stays,
        kube_version=cluster.kube_version,
        feature_gates=dict(cluster.feature_gates),
        configuration=None if cluster.configuration is None else redact_secrets(cluster.configuration),
        admit=cluster.admit,
        gaps=dict(cluster.gaps),
        provenance=cluster.provenance,
        objects={kind: len(objects) for kind, objects in by_kind.items()},
        kinds=tuple(FIELDS),
        autoscaler=cluster.autoscaler,
        api_server=cluster.api_server,
    )
    members = {HEADER: msgspec.json.encode(header)}
    members |= {_get_member_name(kind): encode_objects(kind, objects) for kind, objects in by_kind.items()}
    write_file(path, [build_archive(members)], private=True)
    return header


# -- reading ------------------------------------------------------------------------------------------------------


def read_header(path: str) -> Header:
    """Return the header of a snapshot file, or of standard input for ``-``.

    Raises InputError if the file is not a readable snapshot.
    """
    with open_archive(path) as members:
        return _decode_header(members)


def read_archive(path: str) -> Cluster:
    """Return the cluster in a snapshot file, or on standard input for ``-``.

    Raises InputError if the file is not a readable snapshot.
    """
    with without_garbage_collection(), open_archive(path) as members:
        header = _decode_header(members)
        return _build_cluster(header, _load_objects(header, members))


def _decode_header(members: Archive) -> Header:
    """Decode the header of a snapshot.

    Raises InputError for a file of another kind or format, and msgspec.DecodeError for a damaged header.
    """
    data = members.read_member(HEADER, MAX_HEADER_SIZE) if HEADER in members else b"{}"
    header_format = decode_json(data, _HeaderFormat)
    if header_format.kind != KIND:
        raise InputError("not a snapshot", hint="kschedctl snapshot save writes them; -f reads other files")
    if header_format.format != FORMAT:
        writer = header_format.written_by or "an unknown program"
        problem = f"a snapshot in format {header_format.format}, written by {writer}, which is not supported"
        raise InputError(problem, hint=f"this kschedctl reads format {FORMAT}")
    return decode_json(data, Header)


def _load_objects(header: Header, members: Archive) -> dict[str, object]:
    """Read the objects of all known kinds, and return them by field name of Cluster."""
    count_by_kind = {kind: count for kind, count in header.objects.items() if kind in FIELDS}
    with ThreadPoolExecutor(_UNPACKING_THREADS) as threads:  # zlib releases the GIL
        futures = {kind: threads.submit(members.read_member, _get_member_name(kind)) for kind in count_by_kind}
        return {
            FIELDS[kind]: decode_objects(kind, futures.pop(kind).result(), count)
            for kind, count in count_by_kind.items()
        }


def _build_cluster(header: Header, objects: JsonDict) -> Cluster:
    """Build a cluster from a snapshot's header and its objects.

    `objects` maps field names of Cluster to their values.
    """
    return Cluster(
        configuration=header.configuration,
        feature_gates=header.feature_gates,
        kube_version=header.kube_version,
        admit=header.admit,
        gaps=_build_gaps(header),
        provenance=header.provenance,
        warnings=_build_version_warnings(header),
        autoscaler=header.autoscaler,
        api_server=header.api_server,
        **objects,
    )


def _build_gaps(header: Header) -> dict[str, Gap]:
    """Return the gaps in the header, and a gap for each kind that the version that wrote the file did not save."""
    # The first snapshots do not state their kinds. They do not contain CREATION_KINDS.
    unsupported = [kind for kind in FIELDS if kind not in header.kinds] if header.kinds else CREATION_KINDS
    return {kind: Gap(NOT_HELD) for kind in unsupported if kind not in header.objects} | header.gaps


def _build_version_warnings(header: Header) -> tuple[str, ...]:
    """Return the warning that the nearest supported version is used instead of the server's version.

    Return () if the server's version is supported or unknown, or if the user chose another version.
    """
    server_version = header.provenance.server_version if header.provenance else ""
    try:
        minor = KubeVersion.parse(server_version).minor
    except ValueError:
        return ()
    warning = describe_version_substitute(server_version, minor)
    is_substitute = KubeVersion.parse(header.kube_version).minor == clamp_minor(minor)
    return (warning,) if warning and is_substitute else ()


def _get_member_name(kind: str) -> str:
    """Return the name of the archive member with the objects of a kind."""
    return f"{kind}.msgpack"
