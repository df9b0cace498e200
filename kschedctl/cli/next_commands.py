"""Command lines to suggest after an answer, ready to be pasted."""

from __future__ import annotations

import json
from collections.abc import Iterable

from kschedctl.api.json_values import JsonObject
from kschedctl.api.ownership import Owner
from kschedctl.cli.main import build_command_line
from kschedctl.cli.options import Source
from kschedctl.cli.run_options import RunOptions

STDIN = "-"


def build_command(
    source: Source, command: str, *arguments: str | Iterable[str], options: Iterable[str] = ()
) -> tuple[str, ...]:
    """Build a command about the same cluster, or () if a part of the cluster came from standard input."""
    if STDIN in (*source.filename, *source.snapshot, source.config):
        return ()
    return (build_command_line(command, *arguments, source.to_cli_options(), options),)


def build_whatif_command(source: Source, scenario: JsonObject, options: Iterable[str]) -> tuple[str, ...]:
    """Build the `whatif` command for a scenario, or () if a part of the cluster came from standard input."""
    return build_command(source, "whatif", json.dumps(scenario, ensure_ascii=False), options)


def build_replay_options(run: RunOptions, more_options: Iterable[str] = ()) -> list[str]:
    """Build the options with which another command replays like this run, followed by `more_options`."""
    options = []
    if run.seed:
        options += ["--seed", str(run.seed)]
    if run.sampling:
        options.append("--sampling")
    if run.start_index is not None:
        options += ["--start-index", str(run.start_index)]
    return [*options, *more_options]


def build_workload_arguments(title: str) -> tuple[str, ...]:
    """Build the arguments that name a workload, from a title such as `Deployment shop/web`."""
    workload = Owner.parse(title)
    return (f"{workload.kind.lower()}/{workload.name}", "-n", workload.namespace)
