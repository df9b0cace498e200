"""What to try next, as command lines that can be typed as they stand: none reads what standard input gave before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace as altered

from kschedctl.cli.asking import Asked
from kschedctl.cli.options import Source
from kschedctl.cli.program import command_line
from kschedctl.cli.run_options import RunOptions
from kschedctl.render.page import Commands
from kschedctl.reports.audit.section import Section
from kschedctl.reports.drain import Drain
from kschedctl.reports.failures import Failures
from kschedctl.reports.pending import PendingPods

OneSection = TypeVar("OneSection", bound=Section)
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


def about_findings(source: Source, section: OneSection) -> OneSection:
    """A section of an audit, with the commands that help with what was found about the same cluster."""
    return altered(section, findings=tuple(altered(found, fix=about(source, found.fix)) for found in section.findings))


def after_remedy(run: RunOptions, more: Iterable[str] = ()) -> Callable[[Asked, Drain | Failures], tuple[str, ...]]:
    """The scenario that a report proposes, if there is one, on the command line itself; with ``more`` options."""
    start = [] if run.start_index is None else ["--start-index", str(run.start_index)]
    options = [*(["--seed", str(run.seed)] if run.seed else []), *["--sampling"] * run.sampling, *start, *more]

    def following(asked: Asked, report: Drain | Failures) -> tuple[str, ...]:
        if report.remedy is None:
            return ()
        return again(asked.source, "whatif", json.dumps(report.remedy, ensure_ascii=False), options)

    return following


def about_pending(source: Source, report: PendingPods, options: Iterable[str] = ()) -> Commands:
    """To look at the first pod of each group; where none is pending, at those of other namespaces."""
    options = list(options)
    groups = {group.pods[0]: again(source, "explain", group.pods[0], options) for group in report.groups}
    if groups:
        return {"": next(iter(groups.values())), **groups}
    return {"": again(source, "explain", "-A") if report.elsewhere else ()}
