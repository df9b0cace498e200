"""The command `help`: print the help of a command, or a topic."""

from __future__ import annotations

import sys
import textwrap
from importlib.resources import files
from typing import Annotated

import typer

from kschedctl.cli.output_options import get_output_width
from kschedctl.errors import UsageError

EXAMPLES = ("kschedctl help", "kschedctl help rights", "kschedctl help explain")
SUFFIX = ".md"


def help(
    context: typer.Context,
    topic: Annotated[
        str, typer.Argument(metavar="[COMMAND|TOPIC]", help="A command or a topic. [default: list all]")
    ] = "",
) -> int:
    """The help of a command, or about a topic: sources, output, rights, ci …"""
    root = context.find_root()
    if topic in (topics := read_topics()):
        _print_markdown(topics[topic])
    elif not topic:
        titles = (line for name, text in topics.items() for line in _fold_title(name, text))
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


def _fold_title(name: str, text: str) -> list[str]:
    """Return the lines with a topic's name and its title, folded to the width of the output."""
    title = text.partition("\n")[0].lstrip("# ")
    return textwrap.wrap(
        title, get_output_width(wide=False), initial_indent=f"  {name:<12}  ", subsequent_indent=" " * 16
    )


def _print_markdown(text: str) -> None:
    """Print Markdown, formatted if stdout is a terminal, otherwise folded to the width of the output."""
    if not sys.stdout.isatty():
        from kschedctl.cli.markdown_text import fold_markdown  # noqa: PLC0415 - most of the help is plain text

        typer.echo(fold_markdown(text, get_output_width(wide=False)), nl=False)
        return
    from rich.console import Console  # noqa: PLC0415 - most of the help is plain text
    from rich.markdown import Markdown  # noqa: PLC0415

    Console().print(Markdown(text))
