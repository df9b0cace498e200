"""The pages of the commands: what each answers, its examples, its output on the demo cluster, and its options."""

from __future__ import annotations

import inspect
import lzma
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr
from functools import cache
from importlib import import_module
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any

from site_pages import escape_cell
from terminal_picture import draw_terminal

from kschedctl.cli.main import COMMANDS, load_command

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from documents import run  # noqa: E402 - the module that runs the examples of the documents

DRAIN_STEP = """'{"steps": [{"drain": {"nodes": ["general-a1"]}}]}'"""
SHOWN_COMMANDS = {
    "explain": ("explain shop/cart-5f7b8c9d4-zr5mt --demo --brief", "explain -A --demo --brief"),
    "remedies": ("remedies recommend-7959c8d6b4-c8w5r -n shop --demo",),
    "wakes": ("wakes recommend-7959c8d6b4-c8w5r -n shop --demo",),
    "simulate": ("simulate -f tests/lint/charts/web-app.yaml --demo",),
    "capacity": ("capacity -f tests/lint/charts/web-app.yaml --demo",),
    "drain": ("drain general-a1 --demo",),
    "failures": ("failures --zones --demo --brief",),
    "make-room": ("make-room shop/checkout-7d9f6c5b8-x2x4q --demo",),
    "rebalance": ("rebalance --demo",),
    "size": ("size --demo",),
    "whatif": (f"whatif {DRAIN_STEP} --demo",),
    "pools": ("pools --demo",),
    "scale": ("scale up --demo", "scale down --demo"),
    "provision": (
        "provision -f tests/field/33-karpenter-subnet-zone/in.yaml --assume-complete "
        "--instance-types tests/field/types.json",
    ),
    "consolidate": ("consolidate --demo --pool spot",),
    "instance-types": ("instance-types --demo",),
    "lint": ("lint tests/lint/charts/postgresql.yaml", "lint explain pdb-zero-disruptions"),
    "audit": ("audit --demo --brief",),
    "config": ("config view",),
    "priorities": ("priorities --demo",),
    "latency": ("latency --metrics metrics.txt",),
    "packing": ("packing --demo",),
    "topology": ("topology --demo",),
    "races": ("races --demo",),
    "sampling": ("sampling --demo",),
    "snapshot": ("snapshot show demo.ksnap",),
    "watch": ("watch --demo",),
    "queues": ("queues -f tests/field/19-kueue-podsets-sum/in.yaml",),
    "browse": (),
    "mcp": (),
    "demo": ("demo",),
    "version": ("version",),
    "versions": ("versions 1.35 1.36",),
    "schema": ("schema",),
    "completion": (),
    "help": (),
}
"""Command -> the command lines whose output its page shows, () for a command that needs more than the demo cluster."""
FILES_OF_USERS = {"metrics.txt", "demo.ksnap"}
"""Files in these command lines that do not exist in the repository: a saved /metrics text and a snapshot."""
PICTURES = {"explain": ("report.png", "As an HTML report, with `-o html`:"), "browse": ("browse.svg", "The screen:")}
"""Command -> its picture in kschedctl/cli/topics/pictures, and the caption. Others get a picture of the terminal."""
SHARED_OPTIONS = ("Cluster and scheduler", "Output", "Replay", "Extenders")
"""Groups of options that most commands have. They are folded, and come after the command's own options."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HEADING = re.compile(r"^# (.+)", re.MULTILINE)


def build_command_index() -> str:
    """Build the page that lists all commands by the question that they answer."""
    lines = [
        "# Questions\n",
        "Each command of kschedctl answers a question.",
    ]
    for heading, entries in groupby(COMMANDS.values(), key=lambda entry: entry.heading):
        lines += ["", f"## {heading}", "", "| Question | Command |", "| --- | --- |"]
        lines += [f"| {escape_cell(entry.summary)} | [{entry.name}]({entry.name}.md) |" for entry in entries]
    return "\n".join(lines)


def build_command_page(name: str, topics: Mapping[str, Path]) -> str:
    """Build the page of a command."""
    entry = COMMANDS[name]
    command: Any = load_command(name)
    examples = import_module(f"kschedctl.commands.{entry.module}.command").EXAMPLES
    parts = [f"# {name}: {entry.summary.removesuffix('.')}"]  # the search looks at titles first
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        description = _format_description(command).removeprefix(escape_cell(entry.summary)).lstrip()
        parts += [description, _format_examples(examples)]
    parts += [*_format_output(name), *_format_picture(name)]
    if subcommands is None:
        parts.append(_format_options(command, name, "## "))
    else:
        for subcommand, details in subcommands.items():
            parts += [f"## {name} {subcommand}", _format_description(details), _format_examples(examples[subcommand])]
            parts.append(_format_options(details, f"{name} {subcommand}", "### "))
    parts += ["## Exit codes", escape_cell(entry.exit_codes.removeprefix("Exit codes: ")).capitalize()]
    parts.append("[Exit codes](../reference/exit-codes.md) says what each means, and how a script uses it.")
    if entry.schemas:
        links = (f"[{schema}](../reference/json/{schema}.md)" for schema in sorted(entry.schemas))
        parts += ["## JSON", f"`-o json` prints {', '.join(links)}."]
    parts += ["## Read on", "\n".join(f"- {link}" for link in (*_link_neighbours(name), *_find_mentions(name, topics)))]
    return "\n\n".join(part for part in parts if part)


def _format_picture(name: str) -> list[str]:
    """Return the picture of the command with a caption, or nothing if it has none."""
    if name in PICTURES:
        picture, caption = PICTURES[name]
    elif SHOWN_COMMANDS[name]:
        picture, caption = name_terminal_picture(name), "In a terminal:"
    else:
        return []
    return [caption, f"![{name} on the demo cluster](../pictures/{picture})"]


def _link_neighbours(name: str) -> list[str]:
    """Return links to the other commands below the same heading, as a list item."""
    heading = COMMANDS[name].heading
    links = [
        f"[{other}]({other}.md)" for other, entry in COMMANDS.items() if entry.heading == heading and other != name
    ]
    return [f"Related questions: {', '.join(links)}"] if links else []


def name_terminal_picture(name: str) -> str:
    """Return the file name of the picture of the terminal for a command."""
    return f"{name}.svg"


def build_terminal_pictures() -> Mapping[str, str]:
    """Draw the output of the first shown command line of each command, by file name."""
    return {
        name_terminal_picture(name): draw_terminal(f"kschedctl {lines[0]}", _run_in_colour(name, lines[0]))
        for name, lines in SHOWN_COMMANDS.items()
        if lines and name not in PICTURES
    }


def iter_parameters(command: Any, name: str) -> Iterable[tuple[str, str, str]]:
    """Yield the group, the spelling and the help of each argument and option, rare options included."""
    context = command.make_context(name, [], resilient_parsing=True)
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and "--help-all" not in parameter.opts:
            is_argument = parameter.param_type_name == "argument"
            group = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
            yield group, *record


def iter_commands() -> Iterable[tuple[str, Any]]:
    """Yield the name and the command of everything that takes options: commands, and subcommands by both names."""
    for name in COMMANDS:
        command: Any = load_command(name)
        if subcommands := getattr(command, "commands", None):
            yield from ((f"{name} {subcommand}", details) for subcommand, details in subcommands.items())
        else:
            yield name, command


def _format_description(command: Any) -> str:
    """Return the help text of a command as Markdown."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    return text.replace("<", "&lt;").replace("*", "\\*")


def _format_examples(examples: Iterable[str]) -> str:
    """Return the example command lines as a block of shell code."""
    lines = "\n".join(examples)
    return f"```sh\n{lines}\n```"


def _format_output(name: str) -> list[str]:
    """Return the section with what the command prints for the demo cluster, or nothing."""
    outputs = ((line, COLOUR.sub("", _run_in_colour(name, line))) for line in SHOWN_COMMANDS[name])
    blocks = [f"$ kschedctl {line}\n{output}" for line, output in outputs]
    if not blocks:
        return []
    return ["## What it prints", *(f"```console\n{block}```" for block in blocks)]


@cache
def _run_in_colour(name: str, line: str) -> str:
    """Return what a command line prints, in colour if the command has colours. Its page and its picture share this."""
    with redirect_stderr(StringIO()):  # for notes, such as that prices are unknown
        return _run_with_files(f"{line} --color always" if name in _find_commands_with_colour() else line)


@cache
def _find_commands_with_colour() -> frozenset[str]:
    """Return the names of the commands that have the option --color."""
    return frozenset(
        name.partition(" ")[0]
        for name, command in iter_commands()
        if any("--color" in parameter.opts for parameter in command.params)
    )


def _run_with_files(line: str) -> str:
    """Return what a command line prints. The files of users that it names are made in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: f"{folder}/{name}" for name in FILES_OF_USERS & set(line.split())}
        if metrics := paths.get("metrics.txt"):
            Path(metrics).write_bytes(lzma.decompress((ROOT / "tests/recordings/metrics.txt.xz").read_bytes()))
        if snapshot := paths.get("demo.ksnap"):
            run(f"kschedctl snapshot save --demo -o {snapshot}")
        output = run("kschedctl " + " ".join(paths.get(word, word) for word in line.split(" ")))
        for name, path in paths.items():
            output = output.replace(path, name)
        return output


def _format_options(command: Any, name: str, marks: str) -> str:
    """Return the tables of the arguments and options, by group."""
    groups: dict[str, list[str]] = {}
    for group, spelling, meaning in iter_parameters(command, name):
        groups.setdefault(group, []).append(f"| {format_spelling(spelling)} | {escape_cell(meaning)} |")
    tables = []
    for group in sorted(groups, key=lambda group: group in SHARED_OPTIONS):
        lines = ["| Option | Meaning |", "| --- | --- |", *groups[group]]
        if group in SHARED_OPTIONS:
            tables.append("\n".join((f'??? info "{group}"\n', *(f"    {line}" for line in lines))))
        else:
            tables.append("\n".join((f"{marks}{group}\n", *lines)))
    return "\n\n".join(tables)


def format_spelling(spelling: str) -> str:
    """Return the spelling of an option as code in a table cell."""
    return f"<code>{escape_cell(spelling)}</code>"


def _find_mentions(name: str, topics: Mapping[str, Path]) -> Iterable[str]:
    """Yield links to the help topics that mention the command."""
    for topic, path in topics.items():
        text = path.read_text()
        if re.search(rf"kschedctl {name}\b|`{name}`", text):
            title = HEADING.search(text)
            yield f"[{title[1] if title else topic}](kschedctl/cli/topics/{topic}.md)"
