"""Progress bars on stderr for work of more than a second, on terminals only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0
STEP_SECONDS = 0.1


class ProgressBars:
    """Progress bars, one per piece of work that takes more than a second."""

    def __init__(self) -> None:
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        """The bar of each title."""
        self._shown = sys.stderr.isatty() and logging.getLogger("kschedctl").isEnabledFor(logging.WARNING)

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        """Start a task of `total` steps (0 if unknown). Return a function that reports how many further steps are done.

        The task's bar appears after PATIENCE_SECONDS, or at once if another bar is there already. The bar replaces an
        earlier bar with the title `what`, and is updated at most every STEP_SECONDS.
        """
        started = last_update = monotonic()
        finished = 0
        task = None if self._bars is None else self._restart_bar(what, total)

        def report_done(number: int) -> None:
            """Count further steps as done, and update the bar if it is due."""
            nonlocal finished, last_update, task
            finished += number
            now = monotonic()
            is_too_early = task is None and now - started < PATIENCE_SECONDS
            if not self._shown or is_too_early or now - last_update < STEP_SECONDS:
                return
            last_update = now
            if task is None:
                task = self._restart_bar(what, total)
            count = f"{finished:,} of {total:,}" if total else f"{finished:,}"
            if self._tasks[what] == task:  # else a newer bar has this title
                self._show_bars().update(task, completed=finished, count=count)

        return report_done

    def close(self) -> None:
        """Remove the bars from the screen."""
        if self._bars is not None:
            self._bars.stop()

    def _restart_bar(self, what: str, total: int) -> TaskID:
        """Show an empty bar with this title, instead of an earlier one with the same title."""
        bars = self._show_bars()
        if what in self._tasks:
            bars.remove_task(self._tasks[what])
        self._tasks[what] = bars.add_task(what, total=total or None, count="")
        return self._tasks[what]

    def _show_bars(self) -> Progress:
        """Return rich's progress bars. The first call creates and shows them."""
        if self._bars is None:
            from rich.console import Console  # noqa: PLC0415 - only long work needs it
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeRemainingColumn(),
            )
            console = Console(stderr=True)  # stdout stays as it is: answers ask it how wide it is, and for colors
            self._bars = Progress(*columns, console=console, transient=True, redirect_stdout=False)
            self._bars.start()
        return self._bars


@contextmanager
def show_progress() -> Iterator[ProgressBars]:
    """Show progress bars within the block."""
    bars = ProgressBars()
    try:
        yield bars
    finally:
        bars.close()
