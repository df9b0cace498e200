"""The options and arguments of every command, read from a file so that Tab does not wait for a command to load.

Loading a command loads the scheduler, which takes half a second or more. `python -m kschedctl.cli.outline` writes the
file `completions/options.json` anew after an option has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kschedctl.cli.main import COMMANDS, load_command

FILE = Path(__file__).parent / "completions" / "options.json"


class OptionOutline(NamedTuple):
    """An option of a command."""

    names: tuple[str, ...]
    metavar: str
    help: str
    takes_value: bool


class CommandOutline(NamedTuple):
    """The options and arguments of a command, or of each of its subcommands."""

    options: tuple[OptionOutline, ...]
    """The options that the help shows, or shows with `--help-all`."""
    argument_metavars: tuple[str, ...]
    subcommands: Mapping[str, CommandOutline]


def build_outline(command: Any) -> CommandOutline:
    """Build the outline of a command, as typer runs it."""
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    return CommandOutline(
        tuple(OptionOutline(tuple(p.opts), p.metavar or "", p.help or "", not (p.is_flag or p.count)) for p in options),
        tuple(p.metavar or "" for p in command.params if p.param_type_name == "argument"),
        {name: build_outline(subcommand) for name, subcommand in getattr(command, "commands", {}).items()},
    )


def read_outline(name: str) -> CommandOutline:
    """Return the outline of a command: from the file, or from the command itself if the file does not have it."""
    content = json.loads(FILE.read_bytes()).get(name)
    return build_outline(load_command(name)) if content is None else _decode(content)


def _decode(content: Any) -> CommandOutline:
    options, argument_metavars, subcommands = content
    return CommandOutline(
        tuple(OptionOutline(tuple(names), *rest) for names, *rest in options),
        tuple(argument_metavars),
        {name: _decode(subcommand) for name, subcommand in subcommands.items()},
    )


def encode_outlines() -> str:
    """Return the content of the file: JSON with the outline of every command, an option per line."""
    commands = ",\n".join(f"{json.dumps(name)}: {_encode(build_outline(load_command(name)))}" for name in COMMANDS)
    return f"{{\n{commands}\n}}\n"


def _encode(outline: CommandOutline) -> str:
    options = ",\n".join(json.dumps(option, ensure_ascii=False) for option in outline.options)
    subcommands = ",\n".join(f"{json.dumps(name)}: {_encode(sub)}" for name, sub in outline.subcommands.items())
    return f"[[\n{options}\n], {json.dumps(outline.argument_metavars, ensure_ascii=False)}, {{{subcommands}}}]"


if __name__ == "__main__":
    FILE.write_text(encode_outlines(), "utf-8")
