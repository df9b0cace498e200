"""Handling of SIGTERM in commands that run until they are stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a program that SIGTERM ended, as shells report it."""


class _TerminatedError(BaseException):
    """SIGTERM was received. Not an Exception, so that no handler of errors swallows it."""


@contextmanager
def leave_on_sigterm() -> Iterator[None]:
    """Leave the block on SIGTERM, with which Kubernetes and systemd stop a process."""

    def raise_terminated(*_: object) -> None:
        raise _TerminatedError

    if threading.current_thread() is not threading.main_thread():  # only the main thread may install handlers
        yield
        return
    previous_handler = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    except _TerminatedError:
        return
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
