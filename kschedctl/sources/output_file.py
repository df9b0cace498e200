"""Output files, which are written either completely or not at all, and only as regular files.

``-`` stands for standard output.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress

from kschedctl.errors import InputError, UsageError

STDOUT = "-"
PRIVATE, PUBLIC = 0o600, 0o666


def validate_output_files(*paths: str | None) -> None:
    """Check that all output files can be written and are different. Nothing is written.

    Raises InputError if a file cannot be written, and UsageError if two files are the same.
    """
    output_paths = [path for path in paths if path is not None]
    for path in output_paths:
        if path != STDOUT:
            _resolve_target(path)  # raises InputError if the file cannot be written
    targets = [path if path == STDOUT else os.path.realpath(path) for path in output_paths]
    if len(set(targets)) < len(targets):
        hint = "choose another file for one of them"
        raise UsageError("two outputs would go to the same file", where=output_paths[-1], hint=hint)


def write_file(path: str, parts: Iterable[bytes], *, private: bool = False) -> None:
    """Write a file, or standard output for ``-``. A new file replaces the old one once it is completely on disk.

    A symbolic link is kept, and its target is written. An existing file keeps its mode and, if permitted, its owner. A
    new file gets the mode that the umask allows, or 0600 if ``private``. Raises InputError, changing nothing, if the
    target is not a regular file or cannot be written.
    """
    if path == STDOUT:
        _write_to_stdout(parts)
        return
    target, old_status = _resolve_target(path)
    temporary = os.path.join(os.path.dirname(target), f".kschedctl-{os.urandom(8).hex()}")
    try:
        mode = PRIVATE if private else PUBLIC
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            if old_status is not None:
                _copy_owner_and_mode(old_status, file.fileno())
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise _build_write_error(path, error) from None
        raise
    _sync_folder(os.path.dirname(target))


def _resolve_target(path: str) -> tuple[str, os.stat_result | None]:
    """Return the path of the file to write, with symbolic links resolved, and the file's status if it exists.

    Raises InputError if the file cannot be created or replaced.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    except (OSError, ValueError) as error:  # a ValueError means that the path contains NUL
        raise _build_write_error(path, error) from None
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if status is None:
        problem = _explain_uncreatable_file(path, folder)
    else:
        problem = _explain_why_not_replaceable(status, target)
    if not problem and not os.access(folder, os.W_OK | os.X_OK):
        problem = "permission denied in its folder"
    if problem:
        raise InputError(f"cannot be written: {problem}", where=path)
    return target, status


def _explain_uncreatable_file(path: str, folder: str) -> str:
    """Return the reason why no file can be created at the path in the folder, or "" if it can."""
    if not path or path.endswith(os.sep):
        return "not a file name"
    return "" if os.path.isdir(folder) else "no such folder"


def _explain_why_not_replaceable(status: os.stat_result, target: str) -> str:
    """Return why the existing file must not or cannot be replaced, or "" if it can."""
    if stat.S_ISDIR(status.st_mode):
        return "a folder"
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file (- writes to standard output)"
    return "" if os.access(target, os.W_OK) else "permission denied"


def _copy_owner_and_mode(old_status: os.stat_result, file: int) -> None:
    """Give the new file the mode of the old one, and its owner if permitted."""
    with suppress(OSError):  # only root can change owners
        os.fchown(file, old_status.st_uid, old_status.st_gid)
    os.fchmod(file, stat.S_IMODE(old_status.st_mode))


def _sync_folder(folder: str) -> None:
    """Flush the folder's new entry to the disk, if the file system supports that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_to_stdout(parts: Iterable[bytes]) -> None:
    """Write to standard output, after what was printed before. Raises OSError, such as BrokenPipeError."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(parts)
    sys.stdout.buffer.flush()


def _build_write_error(path: str, error: Exception) -> InputError:
    """Build the InputError for a file that cannot be written, with the operating system's reason."""
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be written: {reason[:1].lower()}{reason[1:]}", where=path)
