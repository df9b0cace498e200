"""Search, opening and unpacking of the files that users name. Every failure is an InputError."""

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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kschedctl.errors import InputError

STDIN = "-"
EXTENSIONS = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
GZIP_MAGIC = b"\x1f\x8b"
MAX_EXPANSION = 200
"""The maximum ratio of unpacked to packed bytes. Lists of pods have 30, artificial lists 60, and gzip allows 1000."""
MIN_EXPANDED_LIMIT = 64 << 20
"""The bytes to which every gzip file may expand."""
PIPE_TIMEOUT_SECONDS = 5
_CHUNK = 8 << 20


def format_file_path(path: str) -> str:
    r"""Return the path as messages and reports show it, with bytes that are not UTF-8 as escapes.

    >>> format_file_path("a\udcff.yaml")
    'a\\xff.yaml'
    """
    if path == STDIN:
        return "standard input"
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def make_relative_path(file: str) -> str:
    """Return the path relative to the working directory if the file is in it, or else the path itself.

    Code scanning and annotations of CI systems expect relative paths.
    """
    relative = os.path.relpath(file) if file else file
    return file if relative.startswith("..") else relative


class FoundFiles(NamedTuple):
    """The files to which the paths of a command line lead."""

    files: tuple[str, ...]
    """The files in the order in which they are read."""
    skipped_count: int
    """The number of files in folders that are not documents."""
    dumps: tuple[str, ...]
    """The folders that ``kubectl cluster-info dump`` wrote."""


def find_files(paths: Sequence[str], recursive: bool = False) -> FoundFiles:
    """Find the files to read: named files as they are, and the JSON and YAML files in named folders.

    The files of a folder (.json, .yaml, .yml, also with .gz) are sorted by name. Subfolders are read only if
    ``recursive`` is true, or if the folder is an output of ``kubectl cluster-info dump``. A named file need not exist.
    Raises InputError for a folder that cannot be listed or has no such files.
    """
    files: list[str] = []
    dumps = []
    skipped_count = 0
    for path in paths:
        if path == STDIN or "\0" in path or not os.path.isdir(path):
            files.append(path)
            continue
        is_cluster_dump = is_dump_folder(path)
        if is_cluster_dump:
            dumps.append(path)
        entries = list(_iter_regular_files(path, recursive=recursive or is_cluster_dump))
        documents = [entry for entry in entries if entry.lower().endswith(EXTENSIONS)]
        if not documents:
            hint = "" if recursive or not _has_subfolders(path) else "add -R to read the folders in it, too"
            raise InputError("no .json, .yaml or .yml file in this folder", where=format_file_path(path), hint=hint)
        files += documents
        skipped_count += len(entries) - len(documents)
    return FoundFiles(tuple(files), skipped_count, tuple(dumps))


def is_dump_folder(folder: str) -> bool:
    """Return whether ``kubectl cluster-info dump --output-directory`` wrote the folder.

    A dump has a file of nodes and a folder with pods for each namespace.
    """
    return os.path.isfile(os.path.join(folder, "nodes.json")) and any(Path(folder).glob("*/pods.json"))


@contextmanager
def open_file(path: str, stdin: BinaryIO | None = None) -> Iterator[Reader]:
    """Open a file, or ``stdin`` for ``-``, and unpack it if it is gzip.

    Raises InputError if the file cannot be opened.
    """
    with open_without_unpacking(path, stdin) as (raw, first):
        yield Reader(path, raw, first)


@contextmanager
def open_without_unpacking(path: str, stdin: BinaryIO | None = None) -> Iterator[tuple[BinaryIO, bytes]]:
    """Open a file, or ``stdin`` for ``-``, without unpacking it.

    Yield the open file and the bytes that were already read from its beginning. Bytes are only read ahead from a pipe,
    in order to wait for its writer. Raises InputError if the file cannot be opened.
    """
    try:
        if path == STDIN:
            yield stdin or _get_stdin(), b""
            return
        with _open_nonblocking(path) as raw:
            first_bytes = _await_pipe_writer(raw.fileno())  # may have to read a byte from a pipe to see its writer
            yield raw, first_bytes
    except OSError as error:
        raise InputError(_describe_error(error), where=format_file_path(path)) from None


def _get_stdin() -> BinaryIO:
    """Return the standard input. Raises InputError if the program was started without one."""
    if sys.stdin is None:
        raise InputError("closed", where=format_file_path(STDIN))
    return sys.stdin.buffer


def _open_nonblocking(path: str) -> BinaryIO:
    """Open the file for reading. If the file is a pipe, do not wait for its writer. Raises OSError if this fails."""
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))
    except ValueError as error:  # the path contains NUL
        raise OSError(errno.EINVAL, str(error)) from None


def _await_pipe_writer(file: int) -> bytes:
    """Wait until a pipe has a writer, and make the file blocking again. Files that are not pipes need no writer.

    Return the byte that was read to detect the writer, or b"" if none was read. Raises OSError if no writer appears
    within PIPE_TIMEOUT_SECONDS.
    """
    first = b""
    if stat.S_ISFIFO(os.fstat(file).st_mode):
        poll = select.poll()
        poll.register(file, select.POLLIN)
        if not poll.poll(PIPE_TIMEOUT_SECONDS * 1000):
            # Without a writer, nothing is read. With a writer that has written nothing yet, reading would block
            with suppress(BlockingIOError):
                first = os.read(file, 1)
                if not first:
                    raise OSError(errno.EPIPE, "no program writes to this pipe")
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(file, True)
    return first


class Reader:
    """A reader of the bytes of one file, which unpacks gzip."""

    def __init__(self, name: str, raw: BinaryIO, first: bytes = b"") -> None:
        """Take the open file and the bytes already read from it."""
        self.name = format_file_path(name)
        self._raw = _CountingStream(raw, first)
        self._is_gzip = self._raw.head == GZIP_MAGIC
        self._stream = gzip.GzipFile(fileobj=self._raw) if self._is_gzip else self._raw
        self._total = 0

    def read(self, size: int) -> bytes:
        """Return the requested number of bytes, or fewer at the end of the file.

        Raises InputError if the data is corrupt or too large, and OSError if reading fails.
        """
        if size <= _CHUNK:
            return self._read_chunk(size)
        chunks = []
        while size > 0 and (chunk := self._read_chunk(min(size, _CHUNK))):
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def _read_chunk(self, size: int) -> bytes:
        """Return at most ``size`` unpacked bytes.

        Raises InputError if a gzip file is damaged, or if it expands to more than MAX_EXPANSION times its size and to
        more than MIN_EXPANDED_LIMIT bytes.
        """
        try:
            data = self._stream.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"damaged gzip file: {str(error).rstrip('.')}", where=self.name) from None
        self._total += len(data)
        if self._is_gzip and self._total > max(MIN_EXPANDED_LIMIT, MAX_EXPANSION * self._raw.count):
            raise InputError(f"expands to more than {MAX_EXPANSION} times its size", where=self.name)
        return data


class _CountingStream(io.RawIOBase):
    """A stream that counts the bytes taken from it. It reads its first two bytes ahead to recognize gzip."""

    def __init__(self, raw: BinaryIO, first: bytes) -> None:
        self._raw = raw
        self.head = first + raw.read(len(GZIP_MAGIC) - len(first))
        self._unread = self.head
        self.count = 0
        """The number of bytes that were returned."""

    def read(self, size: int = -1) -> bytes:
        """Return and count at most ``size`` bytes, or all bytes if ``size`` is negative.

        The bytes read ahead come first.
        """
        remaining_size = max(size - len(self._unread), 0) if size >= 0 else -1
        data = self._unread + self._raw.read(remaining_size)
        self._unread = b""
        self.count += len(data)
        return data


def _iter_regular_files(folder: str, recursive: bool) -> Iterator[str]:
    """Yield the regular files of a folder, sorted by name.

    If ``recursive`` is true, the files of its subfolders follow. Raises InputError if a folder cannot be listed.
    """
    for parent, folders, names in os.walk(folder, onerror=_raise_listing_error):
        folders.sort()
        if not recursive:
            folders.clear()
        for name in sorted(names):
            path = os.path.join(parent, name)
            if os.path.isfile(path):
                yield path


def _has_subfolders(path: str) -> bool:
    """Return whether the folder contains folders."""
    return any(entry.is_dir() for entry in os.scandir(path))


def _raise_listing_error(error: OSError) -> None:
    """Raise an InputError for a folder that cannot be listed."""
    raise InputError(_describe_error(error), where=format_file_path(str(error.filename))) from None


def _describe_error(error: OSError) -> str:
    """Return the operating system's message in lower case."""
    return (error.strerror or str(error)).lower()
