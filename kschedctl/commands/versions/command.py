"""The command `versions`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.options import with_options
from kschedctl.cli.output_options import Answer, Untabled
from kschedctl.commands.versions import version_changes

EXAMPLES = (
    "kschedctl versions",
    "kschedctl versions 1.33 1.36",
    "kschedctl versions 1.34.1 1.34.2 -o json",
)


@with_options
def versions(
    *,
    result: Untabled,
    first: Annotated[
        str | None, typer.Argument(metavar="[BEFORE]", help="Version to compare from, such as 1.33 or 1.33.4.")
    ] = None,
    second: Annotated[str | None, typer.Argument(metavar="[AFTER]", help="Version to compare BEFORE with.")] = None,
) -> Answer:
    """What differs between the versions of kube-scheduler, or between two of them?

    Lists changes to scheduling rules, messages, plugins and feature gates. Each row shows the state before and after
    the change, and upstream's pull request or file, if known. A minor version alone means its newest patch release. A
    queueing hint is a plugin's function that decides whether an event, such as a new node, makes the scheduler retry a
    pod that the plugin rejected.
    """
    commands = {}
    if first and second:
        commands["versions"] = (f"kschedctl whatif --compare-version {first} {second}",)
    return result.build_answer(version_changes(first or "", second or ""), commands=commands)
