"""What to try next, as command lines that can be typed as they stand: none reads what standard input gave before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Protocol

from kschedctl.api.json_values import JsonObject
from kschedctl.cli.options import Source
from kschedctl.cli.program import command_line
from kschedctl.cli.run_options import RunOptions
from kschedctl.cli.source import Asked

STDIN = "-"


def again(
    source: Source, command: str, *arguments: str | Iterable[str], options: Iterable[str] = ()
) -> tuple[str, ...]:
    """The command about the same cluster; none where a part of it came from standard input."""
    if STDIN in (*source.filename, *source.snapshot, source.config):
        return ()
    return (command_line(command, *arguments, source.arguments(), options),)


class WithScenario(Protocol):
    """A report that may propose a scenario for ``whatif``."""

    @property
    def remedy(self) -> JsonObject | None: ...


def after_remedy(run: RunOptions, more: Iterable[str] = ()) -> Callable[[Asked, WithScenario], tuple[str, ...]]:
    """Return a function that puts the scenario of a report into a ``whatif`` command, with ``more`` options."""
    start = [] if run.start_index is None else ["--start-index", str(run.start_index)]
    options = [*(["--seed", str(run.seed)] if run.seed else []), *["--sampling"] * run.sampling, *start, *more]

    def following(asked: Asked, report: WithScenario) -> tuple[str, ...]:
        if report.remedy is None:
            return ()
        return again(asked.source, "whatif", json.dumps(report.remedy, ensure_ascii=False), options)

    return following
