"""The files that the program writes: whole or not at all, never anything but a regular file, ``-`` for stdout."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress

from kschedctl.errors import InputError, UsageError

STDOUT = "-"
PRIVATE, PUBLIC = 0o600, 0o666


def check_output_files(*paths: str | None) -> None:
    """Refuse, before any work is done, files that could not be written, or that are one and the same.

    Raises InputError, UsageError.
    """
    named = [path for path in paths if path is not None]
    for path in named:
        if path != STDOUT:
            _target(path)
    places = [path if path == STDOUT else os.path.realpath(path) for path in named]
    if len(set(places)) < len(places):
        raise UsageError("two outputs in one file", where=named[-1], hint="name another file for one of them")


def write_file(path: str, parts: Iterable[bytes], *, private: bool = False) -> None:
    """Write the file: a new one beside it that takes its place when all of it is on the disk.

    A symlink stays, and what it points to is written. A file that is there keeps its mode, and its owner where that is
    allowed; a new one has the mode that the umask leaves, 0600 where it is ``private``. Raises InputError for anything
    but a regular file and where it cannot be written; then nothing has changed.
    """
    if path == STDOUT:
        _write_to_stdout(parts)
        return
    target, before = _target(path)
    temporary = os.path.join(os.path.dirname(target), f".kschedctl-{os.urandom(8).hex()}")
    try:
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE if private else PUBLIC), "wb"
        ) as file:
            if before is not None:
                _take_after(before, file.fileno())
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise _failure(path, error) from None
        raise
    _sync_folder(os.path.dirname(target))


def _target(path: str) -> tuple[str, os.stat_result | None]:
    """The file that the path leads to, and what it is if it is there. Raises InputError."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise _failure(path, error) from None
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    problem = _problem_of_new(path, folder) if status is None else _problem_of(status, target)
    if not problem and not os.access(folder, os.W_OK | os.X_OK):
        problem = "permission denied in its folder"
    if problem:
        raise InputError(f"cannot be written: {problem}", where=path)
    return target, status


def _problem_of_new(path: str, folder: str) -> str:
    if not path or path.endswith(os.sep):
        return "not a file name"
    return "" if os.path.isdir(folder) else "no such folder"


def _problem_of(status: os.stat_result, target: str) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "a folder"
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file (- writes to standard output)"
    return "" if os.access(target, os.W_OK) else "permission denied"


def _take_after(before: os.stat_result, file: int) -> None:
    with suppress(OSError):  # only root can give files away
        os.fchown(file, before.st_uid, before.st_gid)
    os.fchmod(file, stat.S_IMODE(before.st_mode))


def _sync_folder(folder: str) -> None:
    """Make the new name last; not all file systems can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_to_stdout(parts: Iterable[bytes]) -> None:
    """Whoever stops reading is dealt with where the program ends."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(parts)
    sys.stdout.buffer.flush()


def _failure(path: str, error: Exception) -> InputError:
    words = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be written: {words[:1].lower()}{words[1:]}", where=path)
