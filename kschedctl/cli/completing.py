"""Shell completion: `kschedctl __complete WORD…`, which the completion scripts of all shells call.

The last word is the one that is being typed. Each candidate is a line, with its meaning after a tab; the last line is a
colon and kubectl's ShellCompDirective. Options are read from `completions/options.json`, because loading a command
loads the scheduler, which takes half a second or more. `python -m kschedctl.cli.completing` writes that file anew after
an option has changed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kschedctl.cli.candidates import find_names_in_time
from kschedctl.cli.main import COMMANDS, load_command

FILES_TOO, NO_FILES, KEEP_ORDER = 0, 4, 36
"""Directives of kubectl: offer files as well; no files; no files, and keep the order of the words."""
NAME_KINDS = {
    "--namespace": "namespaces",
    "--context": "contexts",
    "--cluster": "clusters",
    "--user": "users",
    "--as-if-priority-class": "priority-classes",
    "--select": "rules",
    "--ignore": "rules",
}
"""Option -> the kind of names that it takes."""


class Completions(NamedTuple):
    """Candidate words with their meanings, and a directive."""

    words: Iterable[tuple[str, str]]
    directive: int = NO_FILES


def complete(words: Sequence[str]) -> int:
    """Print the completions of the last word and return the exit code."""
    completions = find_completions(words)
    lines = [f"{word}\t{_collapse_whitespace(meaning)}" if meaning else word for word, meaning in completions.words]
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, f":{completions.directive}")))
    return 0


def find_completions(words: Sequence[str]) -> Completions:
    """Return the completions that begin like the last word. After `--option=`, they are values of the option."""
    typed = _join_options(words)
    option, equals, value = typed[-1].partition("=")
    if not (option.startswith("--") and equals):
        return _filter_by_prefix(_list_completions(typed), typed[-1])
    completions = _filter_by_prefix(_list_completions([*typed[:-1], option, value]), value)
    shell_splits_at_equals = typed[-1] != words[-1]
    if shell_splits_at_equals:
        return completions
    return completions._replace(words=[(f"{option}={word}", meaning) for word, meaning in completions.words])


def _join_options(words: Sequence[str]) -> list[str]:
    """Join `--option=value` again, which bash splits into three words.

    >>> _join_options(["explain", "-n", "shop", "--color", "=", "n"])
    ['explain', '-n', 'shop', '--color=n']
    """
    joined: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if joined and joined[-1].startswith("--") and "=" in (word, before):
            joined[-1] += word
        else:
            joined.append(word)
    return joined or [""]


def _filter_by_prefix(completions: Completions, current: str) -> Completions:
    """Return the completions that start with the current word."""
    return completions._replace(words=[pair for pair in completions.words if pair[0].startswith(current)])


def _list_completions(typed: Sequence[str]) -> Completions:
    """Return all completions that may follow the words, whatever is typed already of the last one.

    They are the value of the option before, a rule after `lint explain`, options after a hyphen, else an argument.
    """
    *earlier, current = typed
    command_name = next((word for word in earlier if word in COMMANDS), "")
    if not command_name:
        if current.startswith("-"):
            return Completions([("--help", ""), ("--version", "")])
        return Completions([(name, command.summary) for name, command in COMMANDS.items()])

    # Until a subcommand is typed, the options of all subcommands are offered
    command = read_outline(command_name)
    subcommand = next((command.subcommands[word] for word in earlier if word in command.subcommands), None)
    outlines = [subcommand] if subcommand else [*command.subcommands.values()] or [command]
    options = [option for outline in outlines for option in outline.options]

    for option in options:
        if earlier[-1] in option.names and option.takes_value:
            return _complete_value(option, typed)
    if command_name == "lint" and earlier[-1] == "explain":
        return _complete_names("rules", typed)
    if current.startswith("-"):
        return Completions({name: option.help for option in options for name in option.names}.items())
    metavars = [metavar for outline in outlines for metavar in outline.argument_metavars]
    return _complete_argument([] if subcommand else command.subcommands, metavars, typed)


def _complete_value(option: OptionOutline, typed: Sequence[str]) -> Completions:
    """Return the completions of an option's value, which depend on the option's metavar."""
    kind = next((NAME_KINDS[name] for name in option.names if name in NAME_KINDS), "")
    if kind:
        return _complete_names(kind, typed)
    return Completions(_iter_choices(option.metavar), FILES_TOO if "FILE" in option.metavar else NO_FILES)


def _complete_argument(subcommands: Iterable[str], metavars: Sequence[str], typed: Sequence[str]) -> Completions:
    """Return the completions of an argument, which depend on the metavars of the command's arguments."""
    metavar_text = " ".join(metavars)
    if "POD" in metavar_text:
        return _complete_names("pods", typed)
    if "NODE" in metavar_text:
        return _complete_names("nodes", typed)
    words = [(word, "") for word in subcommands]
    words += [pair for metavar in metavars for pair in _iter_choices(metavar)]
    takes_file = re.search(r"FILE|SCENARIO|BEFORE|AFTER", metavar_text)
    return Completions(words, FILES_TOO if takes_file else NO_FILES)


def _iter_choices(metavar: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a metavar such as `[FILE… | rules | explain RULE]` that are typed literally.

    >>> [word for word, _ in _iter_choices("[FILE… | rules | explain RULE]")]
    ['rules', 'explain']
    >>> [word for word, _ in _iter_choices("json|jsonpath=…")]
    ['json', 'jsonpath=']
    """
    if "|" in metavar:
        yield from ((word, "") for word in re.findall(r"(?<![\w…])[a-z][a-z-]*=?(?!\w)", metavar))


def _complete_names(kind: str, typed: Sequence[str]) -> Completions:
    """Return the names of objects of a kind as completions."""
    return Completions([(name, "") for name in find_names_in_time(kind, typed)], KEEP_ORDER)


def _collapse_whitespace(text: str) -> str:
    """Replace each run of whitespace by one space, so that a meaning fits on a line."""
    return " ".join(text.split())


OUTLINE_FILE = Path(__file__).parent / "completions" / "options.json"


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
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    return CommandOutline(
        tuple(_build_option_outline(option) for option in options if not option.hidden),
        tuple(argument.metavar or "" for argument in arguments),
        {name: build_outline(subcommand) for name, subcommand in getattr(command, "commands", {}).items()},
    )


def _build_option_outline(option: Any) -> OptionOutline:
    """Build the outline of an option. Flags and counted options take no value."""
    takes_value = not (option.is_flag or option.count)
    return OptionOutline(tuple(option.opts), option.metavar or "", option.help or "", takes_value)


def read_outline(name: str) -> CommandOutline:
    """Return the outline of a command: from the file, or from the command itself if the file does not have it."""
    content = json.loads(OUTLINE_FILE.read_bytes()).get(name)
    return build_outline(load_command(name)) if content is None else _decode_outline(content)


def _decode_outline(content: Any) -> CommandOutline:
    """Decode an outline from the lists in the file."""
    options, argument_metavars, subcommands = content
    return CommandOutline(
        tuple(OptionOutline(tuple(names), *rest) for names, *rest in options),
        tuple(argument_metavars),
        {name: _decode_outline(subcommand) for name, subcommand in subcommands.items()},
    )


def encode_outlines() -> str:
    """Return the content of the file: JSON with the outline of every command, an option per line."""
    commands = ",\n".join(
        f"{json.dumps(name)}: {_encode_outline(build_outline(load_command(name)))}" for name in COMMANDS
    )
    return f"{{\n{commands}\n}}\n"


def _encode_outline(outline: CommandOutline) -> str:
    """Encode an outline as JSON lists."""
    options = ",\n".join(json.dumps(option, ensure_ascii=False) for option in outline.options)
    subcommands = ",\n".join(f"{json.dumps(name)}: {_encode_outline(sub)}" for name, sub in outline.subcommands.items())
    return f"[[\n{options}\n], {json.dumps(outline.argument_metavars, ensure_ascii=False)}, {{{subcommands}}}]"


if __name__ == "__main__":
    OUTLINE_FILE.write_text(encode_outlines(), "utf-8")
