"""What to try next, as command lines that can be typed as they stand: none reads what standard input gave before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kschedctl.cli.options import Source
from kschedctl.cli.program import command_line
from kschedctl.cli.run_options import RunOptions

STDIN = "-"
_COMMAND = re.compile(r"\bkschedctl ([a-z]+) ")


def again(
    source: Source, command: str, *arguments: str | Iterable[str], options: Iterable[str] = ()
) -> tuple[str, ...]:
    """The command about the same cluster; none where a part of it came from standard input."""
    if STDIN in (*source.filename, *source.snapshot, source.config):
        return ()
    return (command_line(command, *arguments, source.arguments(), options),)


def about(source: Source, text: str) -> str:
    """The text with its commands, as ``kschedctl explain shop/web``, about the same cluster."""
    if STDIN in (*source.filename, *source.snapshot, source.config):
        return text
    return _COMMAND.sub(lambda found: f"{command_line(found[1], source.arguments())} ", text)


def scenario(
    source: Source, run: RunOptions, steps: Mapping[str, Any] | None, more: Iterable[str] = ()
) -> tuple[str, ...]:
    """The same for a scenario, if there is one, which stands on the command line itself; with ``more`` options."""
    if steps is None:
        return ()
    start = [] if run.start_index is None else ["--start-index", str(run.start_index)]
    options = [*(["--seed", str(run.seed)] if run.seed else []), *["--sampling"] * run.sampling, *start, *more]
    return again(source, "whatif", json.dumps(steps, ensure_ascii=False), options)
