"""``kschedctl help``: the help of a command, or about a topic."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import typer

from kschedctl.errors import UsageError

EXAMPLES = ("kschedctl help plugins", "kschedctl help explain")
TOPICS = {"plugins": "Scheduler plugins of one's own: a Filter, a Score and a Permit plugin that work."}


def help(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="[COMMAND|TOPIC]", help="A command, or a topic: plugins.")] = "",
) -> int:
    """The help of a command, or about a topic: plugins, on scheduler plugins of one's own."""
    root = context.find_root()
    if topic in TOPICS:
        typer.echo(files("kschedctl.cli.topics").joinpath(f"{topic}.md").read_text(encoding="utf-8"), nl=False)
    elif not topic:
        typer.echo(root.get_help())
    else:
        found = root.command.get_command(root, topic)  # type: ignore[attr-defined]
        if found is None:
            raise UsageError(
                f'no command or topic "{topic}"', hint=f"topics: {', '.join(TOPICS)}; see kschedctl --help"
            )
        typer.echo(found.get_help(typer.Context(found, info_name=topic, parent=root)))
    return 0
