"""What may stand at the cursor: ``kschedctl __complete WORD…``, which the completion scripts of all shells call.

The last word is the one that is being typed. A line for each candidate, after a tab what it means; the last line is a
colon and kubectl's ShellCompDirective.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kschedctl.cli.candidates import names_in_time
from kschedctl.cli.main import COMMANDS
from kschedctl.cli.outline import OptionOutline, read_outline

FILES_TOO, NO_FILES, KEEP_ORDER = 0, 4, 36
"""Directives of kubectl that are needed; the last one means no files, either."""
NAMED = {
    "--namespace": "namespaces",
    "--context": "contexts",
    "--cluster": "clusters",
    "--user": "users",
    "--as-if-priority-class": "priority-classes",
    "--select": "rules",
    "--ignore": "rules",
}
"""Option -> the names that it takes."""


class Completions(NamedTuple):
    """Words with what they mean, and a directive."""

    words: Iterable[tuple[str, str]]
    directive: int = NO_FILES


def complete(words: Sequence[str]) -> int:
    """Print what may stand at the cursor."""
    completions = at_cursor(words)
    lines = [f"{word}\t{_in_one_line(meaning)}" if meaning else word for word, meaning in completions.words]
    sys.stdout.write("".join(f"{line}\n" for line in (*lines, f":{completions.directive}")))
    return 0


def at_cursor(words: Sequence[str]) -> Completions:
    """What begins as the last word does."""
    typed = _whole(words)
    option, equals, value = typed[-1].partition("=")
    if not (option.startswith("--") and equals):
        return _begun(_completions(typed), typed[-1])
    completions = _begun(_completions([*typed[:-1], option, value]), value)
    if typed[-1] != words[-1]:  # a shell for which = parts words
        return completions
    return completions._replace(words=[(f"{option}={word}", meaning) for word, meaning in completions.words])


def _whole(words: Sequence[str]) -> list[str]:
    """With ``--option=value`` in one word, which bash makes three of.

    >>> _whole(["explain", "-n", "shop", "--color", "=", "n"])
    ['explain', '-n', 'shop', '--color=n']
    """
    whole: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if whole and whole[-1].startswith("--") and "=" in (word, before):
            whole[-1] += word
        else:
            whole.append(word)
    return whole or [""]


def _begun(completions: Completions, current: str) -> Completions:
    return completions._replace(words=[pair for pair in completions.words if pair[0].startswith(current)])


def _completions(typed: Sequence[str]) -> Completions:
    *earlier, current = typed
    named = next((word for word in earlier if word in COMMANDS), "")
    if not named:
        if current.startswith("-"):
            return Completions([("--help", ""), ("--version", "")])
        return Completions([(name, command.summary) for name, command in COMMANDS.items()])
    command = read_outline(named)
    chosen = next((command.subcommands[word] for word in earlier if word in command.subcommands), None)
    shown = [chosen] if chosen else [*command.subcommands.values()] or [command]
    options = [option for outline in shown for option in outline.options]
    for option in options:
        if earlier[-1] in option.names and option.takes_value:
            return _values(option, typed)
    if [named, "explain"] == ["lint", earlier[-1]]:
        return _names("rules", typed)
    if current.startswith("-"):
        return Completions({name: option.help for option in options for name in option.names}.items())
    metavars = [metavar for outline in shown for metavar in outline.argument_metavars]
    return _arguments([] if chosen else command.subcommands, metavars, typed)


def _values(option: OptionOutline, typed: Sequence[str]) -> Completions:
    """Return the words that may follow an option, and whether files may: its metavar is FILE, or lists the choices."""
    kind = next((NAMED[name] for name in option.names if name in NAMED), "")
    if kind:
        return _names(kind, typed)
    return Completions(_choices(option.metavar), FILES_TOO if "FILE" in option.metavar else NO_FILES)


def _arguments(inner: Iterable[str], metavars: Sequence[str], typed: Sequence[str]) -> Completions:
    said = " ".join(metavars)
    if kind := "pods" if "POD" in said else "nodes" if "NODE" in said else "":
        return _names(kind, typed)
    words = [(word, "") for word in inner] + [pair for metavar in metavars for pair in _choices(metavar)]
    return Completions(words, FILES_TOO if re.search(r"FILE|SCENARIO|BEFORE|AFTER", said) else NO_FILES)


def _choices(metavar: str) -> Iterator[tuple[str, str]]:
    """The words of ``[FILE… | rules | explain RULE]`` that are typed as they stand.

    >>> [word for word, _ in _choices("[FILE… | rules | explain RULE]")]
    ['rules', 'explain']
    >>> [word for word, _ in _choices("json|jsonpath=…")]
    ['json', 'jsonpath=']
    """
    if "|" in metavar:
        yield from ((word, "") for word in re.findall(r"(?<![\w…])[a-z][a-z-]*=?(?!\w)", metavar))


def _names(kind: str, typed: Sequence[str]) -> Completions:
    return Completions([(name, "") for name in names_in_time(kind, typed)], KEEP_ORDER)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
