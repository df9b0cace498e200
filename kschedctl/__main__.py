"""The program: ``kschedctl``, ``kubectl-ksched``, ``python -m kschedctl``."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process; the exit code. Ctrl-C says nothing, not even while modules are imported."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored: by nohup, or in the background
        return _run()
    signal.signal(signal.SIGINT, _end)
    try:
        return _run()
    except KeyboardInterrupt:
        return INTERRUPTED


def _run() -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts a thread for each core; sums of integers use none
    from kschedctl.api.garbage import without_garbage_collection  # noqa: PLC0415 - what takes a while to import

    with without_garbage_collection(lasting=True):
        from kschedctl.cli.main import main  # noqa: PLC0415

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return main()


def _end(signum: int, frame: FrameType | None) -> None:
    """End at once: nothing is begun yet, and an exception in the middle of an import may turn into another one."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
