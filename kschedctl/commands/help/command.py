"""The command `help`: print the help of a command, or a topic."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Annotated

import typer

from kschedctl.errors import UsageError

EXAMPLES = ("kschedctl help", "kschedctl help rights", "kschedctl help explain")
SUFFIX = ".md"


def help(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="[COMMAND|TOPIC]", help="A command or a topic; none lists all.")] = "",
) -> int:
    """The help of a command, or about a topic: sources, output, rights, ci …"""
    root = context.find_root()
    if topic in (topics := read_topics()):
        _print_markdown(topics[topic])
    elif not topic:
        titles = (f"  {name:<12}  {text.partition(chr(10))[0].lstrip('# ')}" for name, text in topics.items())
        typer.echo("\n".join((root.get_help(), "", "Topics, each printed by help TOPIC:", *titles)))
    else:
        command = root.command.get_command(root, topic)  # type: ignore[attr-defined]
        if command is None:
            raise UsageError(
                f'no command or topic "{topic}"', hint=f"topics: {', '.join(topics)}; see kschedctl --help"
            )
        typer.echo(command.get_help(typer.Context(command, info_name=topic, parent=root)))
    return 0


def read_topics() -> dict[str, str]:
    """Read the help topics by name. They are Markdown, and their first line is the title."""
    topic_files = (path for path in files("kschedctl.cli.topics").iterdir() if path.name.endswith(SUFFIX))
    return {
        path.name.removesuffix(SUFFIX): path.read_text("utf-8") for path in sorted(topic_files, key=lambda p: p.name)
    }


def _print_markdown(text: str) -> None:
    """Print Markdown, which is formatted if stdout is a terminal."""
    if not sys.stdout.isatty():
        typer.echo(text, nl=False)
        return
    from rich.console import Console  # noqa: PLC0415 - most of the help is plain text
    from rich.markdown import Markdown  # noqa: PLC0415

    Console().print(Markdown(text))
