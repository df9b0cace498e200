"""The zip file of a snapshot, which is read with limits that follow from the size of the file.

Sizes that the file itself states are not trusted.
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
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np

from kschedctl.errors import InputError
from kschedctl.sources.documents.files import STDIN, display_path, open_raw

MAGIC = b"PK\x03\x04"
MAX_FILE_SIZE = 1 << 30
MIN_MEMORY_LIMIT = 1 << 30
"""The bytes of memory that every snapshot may take."""
MAX_MEMORY_RATIO = 300
"""The bytes of memory that a snapshot may take for each byte of its file.

Snapshots of real clusters take 50. Constructed files could take a thousand, and their content two hundred times more.
"""
MAP_BYTES, OBJECT_BYTES, REFERENCE_BYTES = 200, 56, 8
"""Memory for what msgpack stores in one byte: the largest struct, any other object, and its place in a list."""
_COMPRESSION_LEVEL = 6
_HEAD_SIZE = 512
_FIRST_FORMAT = re.compile(rb'\{"apiVersion":"kschedctl.dev/v1","kind":"Snapshot","format":(\d+),')
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the least that zip knows: the header says when it was written
_BLOCK_SIZE = 1 << 16
_DAMAGE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, MemoryError, RecursionError),
    *(ValueError, KeyError, IndexError, OverflowError, NotImplementedError, RuntimeError),
)
"""The errors that zipfile and the decoders raise for damaged files. msgspec.DecodeError is a ValueError."""


def build_archive(members: Mapping[str, bytes]) -> bytes:
    """Build the zip file of the members. Equal members give equal files."""
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

    def read(self, name: str, max_size: int = MAX_FILE_SIZE) -> bytes:
        """Return a member. Raises InputError if the member is too large, and zipfile's errors if it is damaged."""
        info = self._zip.getinfo(name)
        if info.file_size > max_size:
            raise InputError(f"{name} in it is larger than {max_size >> 20:,} MiB")
        self._reserve((1 + REFERENCE_BYTES) * info.file_size)
        with self._zip.open(info) as stream:
            data = stream.read(info.file_size + 1)
        if len(data) != info.file_size:
            raise ValueError(f"{name} does not have the size in the directory")
        self._reserve(_estimate_memory(data))
        return data

    def _reserve(self, size: int) -> None:
        """Reserve memory. Raises InputError if the reserved memory exceeds the limit."""
        self._reserved += size
        if self._reserved > self._limit:
            raise InputError(f"would take more than {self._limit >> 20:,} MiB of memory")


def _estimate_memory(data: bytes) -> int:
    """Estimate the maximum memory of objects decoded from msgpack, without their places in lists.

    The bytes that can begin an object are counted.

    >>> _estimate_memory(bytes([0x92, 0x80, 0xA1, 0x61])) == MAP_BYTES + 2 * OBJECT_BYTES
    True
    """
    bytes_read = np.frombuffer(data, np.int8)  # what begins an object is from 0x80 on: negative; up to 0x8f a map
    maps = starts = 0
    for start in range(0, len(bytes_read), _BLOCK_SIZE):
        block = bytes_read[start : start + _BLOCK_SIZE]
        starts += int(np.count_nonzero(block < 0))
        maps += int(np.count_nonzero(block < 0x90 - 0x100))
    return MAP_BYTES * maps + OBJECT_BYTES * (starts - maps)


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Open the zip file at the path, or on standard input for ``-``.

    Every error within the block is raised as an InputError, since the file is damaged then.
    """
    with _open_seekable(path) as (file, size):
        try:
            yield Archive(file, size)
        except InputError as error:
            raise InputError(error.what, where=display_path(path), hint=error.hint) from None
        except _DAMAGE_ERRORS as error:
            words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise InputError(f"damaged snapshot: {words[:120]}", where=display_path(path)) from None


@contextmanager
def _open_seekable(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """Yield a file that can seek, and its size."""
    with open_raw(path) as (file, first):
        head = first + file.read(_HEAD_SIZE)
        status = None if path == STDIN else os.fstat(file.fileno())
        if status is not None and stat.S_ISREG(status.st_mode):
            _validate_head(head, status.st_size, path)
            yield file, status.st_size
        else:
            _validate_head(head, len(head), path)
            data = head + file.read(MAX_FILE_SIZE)
            _validate_head(head, len(data), path)
            yield io.BytesIO(data), len(data)


def _validate_head(head: bytes, size: int, path: str) -> None:
    """Raise InputError if the file is not a zip file or too large, before the rest of the file is read."""
    if size > MAX_FILE_SIZE:
        raise InputError(f"larger than {MAX_FILE_SIZE >> 20:,} MiB", where=display_path(path))
    if match := _FIRST_FORMAT.match(head):
        raise InputError(f"a snapshot of format {match[1].decode()}", where=display_path(path), hint="save it again")
    if not head.startswith(MAGIC):
        hint = "kschedctl snapshot save writes them; -f reads other files"
        raise InputError("not a snapshot", where=display_path(path), hint=hint)
