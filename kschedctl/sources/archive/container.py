"""The container of a snapshot: a zip file, of which every member has a checksum and any archiver can list the members.

Nothing that the file says of itself is believed: what is unpacked has bounds that follow from the size of the file.
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
LARGEST_FILE = 1 << 30
HELD_ANYWAY, MOST_HELD = 1 << 30, 300
"""Bytes of memory that a snapshot may take: so many, or so many times its size. Those of real clusters take 50 times
theirs; what is made up can take a thousand, and what is in that another two hundred."""
BYTES_OF_MAP, BYTES_OF_OTHER, BYTES_OF_PLACE = 200, 56, 8
"""What msgpack stores in a byte takes in memory: the largest struct; any other object; the place of it in a list."""
_LEVEL = 6
_HEAD = 512
_FIRST_FORMAT = re.compile(rb'\{"apiVersion":"kschedctl.dev/v1","kind":"Snapshot","format":(\d+),')
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the least that zip knows: the header says when it was written
_BLOCK = 1 << 16
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, MemoryError, RecursionError),
    *(ValueError, KeyError, IndexError, OverflowError, NotImplementedError, RuntimeError),
)
"""What zipfile and the decoders raise for bytes that nobody wrote like that; msgspec.DecodeError is a ValueError."""


def archive(members: Mapping[str, bytes]) -> bytes:
    """The zip file of these members, the same for the same members."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, _LEVEL)
    return made.getvalue()


class Archive:
    """Reads the members of a zip file of so many bytes; several threads may at once."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._zip = zipfile.ZipFile(file)
        self._limit = max(HELD_ANYWAY, MOST_HELD * size)
        self._held = 0

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str, longest: int = LARGEST_FILE) -> bytes:
        """A member. Raises InputError where it would be too large, and whatever zipfile raises for damages."""
        info = self._zip.getinfo(name)
        if info.file_size > longest:
            raise InputError(f"{name} in it is larger than {longest >> 20:,} MiB")
        self._hold((1 + BYTES_OF_PLACE) * info.file_size)
        with self._zip.open(info) as stream:
            data = stream.read(info.file_size + 1)
        if len(data) != info.file_size:
            raise ValueError(f"{name} does not have the size in the directory")
        self._hold(_weight(data))
        return data

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > self._limit:
            raise InputError(f"would take more than {self._limit >> 20:,} MiB of memory")


def _weight(data: bytes) -> int:
    """The most that objects made of msgpack take beside their places in lists, counted by their first bytes.

    >>> _weight(bytes([0x92, 0x80, 0xA1, 0x61])) == BYTES_OF_MAP + 2 * BYTES_OF_OTHER
    True
    """
    bytes_read = np.frombuffer(data, np.int8)  # what begins an object is from 0x80 on: negative; up to 0x8f a map
    maps = others = 0
    for start in range(0, len(bytes_read), _BLOCK):
        block = bytes_read[start : start + _BLOCK]
        others += int(np.count_nonzero(block < 0))
        maps += int(np.count_nonzero(block < 0x90 - 0x100))
    return BYTES_OF_MAP * maps + BYTES_OF_OTHER * (others - maps)


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """The zip file of the path, ``-`` for standard input.

    Raises InputError, also for all that goes wrong with it while it is open: then the file is damaged.
    """
    with _opened(path) as (file, size):
        try:
            yield Archive(file, size)
        except InputError as error:
            raise InputError(error.what, where=display_path(path), hint=error.hint) from None
        except _DAMAGED as error:
            words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise InputError(f"damaged snapshot: {words[:120]}", where=display_path(path)) from None


@contextmanager
def _opened(path: str) -> Iterator[tuple[BinaryIO, int]]:
    """A file in which one can seek, and its size."""
    with open_raw(path) as (file, first):
        head = first + file.read(_HEAD)
        if path != STDIN and stat.S_ISREG((status := os.fstat(file.fileno())).st_mode):
            _check(head, status.st_size, path)
            yield file, status.st_size
        else:
            _check(head, len(head), path)
            data = head + file.read(LARGEST_FILE)
            _check(head, len(data), path)
            yield io.BytesIO(data), len(data)


def _check(head: bytes, size: int, path: str) -> None:
    """Refuse what is no zip file before the rest of it is read."""
    if size > LARGEST_FILE:
        raise InputError(f"larger than {LARGEST_FILE >> 20:,} MiB", where=display_path(path))
    if match := _FIRST_FORMAT.match(head):
        raise InputError(f"a snapshot of format {match[1].decode()}", where=display_path(path), hint="save it again")
    if not head.startswith(MAGIC):
        hint = "kschedctl snapshot save writes them; -f reads other files"
        raise InputError("not a snapshot", where=display_path(path), hint=hint)
