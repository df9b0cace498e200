"""The files that the user named: found in folders, opened, unpacked, with every failure an InputError."""

from __future__ import annotations

import errno
import gzip
import io
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kschedctl.errors import InputError

STDIN = "-"
EXTENSIONS = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
GZIP_MAGIC = b"\x1f\x8b"
MOST_EXPANDED = 200  # lists of pods shrink some 30 times, made-up ones 60 times; 1000 is what gzip can do
EXPANDED_ANYWAY = 64 << 20  # bytes
PATIENCE_SECONDS = 5
_PIECE = 8 << 20


def shown(path: str) -> str:
    """The path as messages and reports name it: bytes that are not UTF-8 as escapes.

    >>> shown("a\\udcff.yaml")
    'a\\\\xff.yaml'
    """
    if path == STDIN:
        return "standard input"
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def from_here(file: str) -> str:
    """The path as seen from here, if it is below: what code scanning and annotations expect."""
    relative = os.path.relpath(file) if file else file
    return file if relative.startswith("..") else relative


class Found(NamedTuple):
    """What the paths stand for: files to read in order, how many were passed over, and folders that are dumps."""

    files: tuple[str, ...]
    passed_over: int
    dumps: tuple[str, ...]


def find_files(paths: Sequence[str], recursive: bool = False) -> Found:
    """Files as they are, and of folders the .json, .yaml and .yml files (.gz too) in order of their names.

    Folders in folders only when ``recursive``, or when ``kubectl cluster-info dump`` wrote the folder. Raises
    InputError for what does not exist, cannot be listed, or is a folder without any such file.
    """
    files: list[str] = []
    dumps = []
    passed_over = 0
    for path in paths:
        if path == STDIN or "\0" in path or not os.path.isdir(path):
            files.append(path)
            continue
        dump = is_dump(path)
        dumps += [path] * dump
        entries = list(_walk(path, recursive or dump))
        documents = [entry for entry in entries if entry.lower().endswith(EXTENSIONS)]
        if not documents:
            hint = "" if recursive or not _has_folders(path) else "-R also reads the folders in it"
            raise InputError("no .json, .yaml or .yml file in this folder", where=shown(path), hint=hint)
        files += documents
        passed_over += len(entries) - len(documents)
    return Found(tuple(files), passed_over, tuple(dumps))


def is_dump(folder: str) -> bool:
    """Whether ``kubectl cluster-info dump --output-directory`` wrote it: the nodes, and a folder a namespace."""
    return os.path.isfile(os.path.join(folder, "nodes.json")) and any(Path(folder).glob("*/pods.json"))


@contextmanager
def open_file(path: str, stdin: BinaryIO | None = None) -> Iterator[Reader]:
    """The file, or ``stdin`` for ``-``, for reading, unpacked where it is gzip. Raises InputError."""
    with open_raw(path, stdin) as (raw, first):
        yield Reader(path, raw, first)


@contextmanager
def open_raw(path: str, stdin: BinaryIO | None = None) -> Iterator[tuple[BinaryIO, bytes]]:
    """A file as it is, and what was read of it already. Raises InputError."""
    try:
        with nullcontext(stdin or _stdin()) if path == STDIN else _opened(path) as raw:
            yield raw, b"" if path == STDIN else _waited_for(raw.fileno())
    except OSError as error:
        raise InputError(_reason(error), where=shown(path)) from None


def _stdin() -> BinaryIO:
    """Raises InputError where the program was started without it."""
    if sys.stdin is None:
        raise InputError("closed", where=shown(STDIN))
    return sys.stdin.buffer


def _opened(path: str) -> BinaryIO:
    """The file, also a pipe to which nobody writes. Raises OSError."""
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))
    except ValueError as error:  # a NUL in the path
        raise OSError(errno.EINVAL, str(error)) from None


def _waited_for(file: int) -> bytes:
    """The first bytes of a pipe, as far as it takes to know that somebody writes to it. Raises OSError if nobody does.

    With the file open without blocking, a pipe without a writer is at its end, and one with a silent writer is not.
    """
    first = b""
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        waiting = select.poll()
        waiting.register(file, select.POLLIN)
        if not waiting.poll(PATIENCE_SECONDS * 1000):
            with suppress(BlockingIOError):
                first = os.read(file, 1)
                if not first:
                    raise OSError(errno.EPIPE, "nobody writes to this pipe")
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(file, True)
    return first


class Reader:
    """Reads bytes of one file, unpacked."""

    def __init__(self, name: str, raw: BinaryIO, first: bytes = b"") -> None:
        """``first``: what was read of it already."""
        self.name = shown(name)
        self._raw = _Counted(raw, first)
        self._packed = self._raw.head == GZIP_MAGIC
        self._stream = gzip.GzipFile(fileobj=self._raw) if self._packed else self._raw
        self._total = 0

    def read(self, size: int) -> bytes:
        """The next bytes: as many as asked for unless the file ends. Raises InputError, OSError."""
        if size <= _PIECE:
            return self._read(size)
        pieces = []
        while size > 0 and (piece := self._read(min(size, _PIECE))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"damaged gzip file: {str(error).rstrip('.')}", where=self.name) from None
        self._total += len(data)
        if self._packed and self._total > max(EXPANDED_ANYWAY, MOST_EXPANDED * self._raw.count):
            raise InputError(f"expands to more than {MOST_EXPANDED} times its size", where=self.name)
        return data


class _Counted(io.RawIOBase):
    """A stream of which the first two bytes are known, and how many bytes were read."""

    def __init__(self, raw: BinaryIO, first: bytes) -> None:
        self._raw, self.head = raw, first + raw.read(len(GZIP_MAGIC) - len(first))
        self._unread, self.count = self.head, 0

    def read(self, size: int = -1) -> bytes:
        data = self._unread + self._raw.read(max(size - len(self._unread), 0) if size >= 0 else -1)
        self._unread = b""
        self.count += len(data)
        return data


def _walk(folder: str, recursive: bool) -> Iterator[str]:
    """The regular files in a folder, each folder's own first, by name."""
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders.sort()
        if not recursive:
            folders.clear()
        yield from (path for path in (os.path.join(parent, name) for name in sorted(names)) if os.path.isfile(path))


def _has_folders(path: str) -> bool:
    return any(entry.is_dir() for entry in os.scandir(path))


def _refuse(error: OSError) -> None:
    raise InputError(_reason(error), where=shown(str(error.filename))) from None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
