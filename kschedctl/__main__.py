"""The entry point of `kschedctl`, `kubectl-ksched` and `python -m kschedctl`."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process and return the exit code. Ctrl-C exits quietly, even during imports."""
    # Leave a SIGINT handler of the parent alone: shells ignore the signal for background jobs.
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return _import_and_run()

    # The signal handler acts during imports. The commands restore the default handler, which raises KeyboardInterrupt.
    signal.signal(signal.SIGINT, _exit_on_interrupt)
    try:
        return _import_and_run()
    except KeyboardInterrupt:
        return INTERRUPTED


def _import_and_run() -> int:
    """Import the program, run it and return its exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts a thread for each core; sums of integers use none
    from kschedctl.api.garbage import (  # noqa: PLC0415 - what takes a while to import
        collect_garbage_less_often,
        without_garbage_collection,
    )

    collect_garbage_less_often()
    with without_garbage_collection(freezes_objects=True):
        from kschedctl.cli.main import main  # noqa: PLC0415

    if signal.getsignal(signal.SIGINT) is _exit_on_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return main()


def _exit_on_interrupt(signum: int, frame: FrameType | None) -> None:
    """Exit at once, because an exception inside an import may turn into another one."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
