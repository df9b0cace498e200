"""The man page, made of the help: commands with their own options, the options that many share, topics, exit codes.

`python -m kschedctl.cli.man_page` writes it to `kschedctl.1`, which wheels install as `share/man/man1/kschedctl.1`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import groupby
from pathlib import Path

from kschedctl.cli.completing import CommandOutline, OptionOutline, read_outline
from kschedctl.cli.main import COMMANDS, EXAMPLES

MAN_PAGE = Path(__file__).parent / "kschedctl.1"
COMMON_FROM = 8
"""An option that at least so many commands have with the same meaning is described once, below COMMON OPTIONS."""
_EXIT_CODE = re.compile(r"^\| (\d) \| (.+) \|$", re.MULTILINE)


def build_man_page() -> str:
    """Return the man page in the macros of man(7)."""
    return "".join(f"{line}\n" for line in _iter_man_page_lines())


def _iter_man_page_lines() -> Iterator[str]:
    """Yield the lines of the man page in troff: commands with their options, exit codes, topics and examples.

    Options that many commands share are described once, in a section of their own.
    """
    topics = {file.name.removesuffix(".md"): file for file in files("kschedctl.cli").joinpath("topics").iterdir()}
    topic_texts = {name: file.read_text("utf-8") for name, file in sorted(topics.items()) if file.name.endswith(".md")}
    outlines = [(name, outline) for command in COMMANDS for name, outline in _iter_outlines(command)]
    command_counts = Counter(option for _, outline in outlines for option in outline.options)
    common = [option for option, count in command_counts.items() if count >= COMMON_FROM]

    yield '.TH KSCHEDCTL 1 "" kschedctl "User Commands"'
    yield from (".ad l", ".nh")  # neither stretch lines nor hyphenate words
    yield ".SH NAME"
    purpose = "replays kube-scheduler on a snapshot of a cluster: why a pod is Pending, where it would go, what if"
    yield rf"kschedctl \- {_escape(purpose)}"
    yield ".SH SYNOPSIS"
    yield r".B kschedctl"
    yield r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]"
    yield ".SH DESCRIPTION"
    yield "kschedctl reads a cluster (the live one, files, or a snapshot) and changes nothing."
    yield r"\fBkschedctl\fR \fICOMMAND\fR \fB\-\-help\fR describes a command in full,"
    yield r"\fBkschedctl help\fR \fITOPIC\fR a topic."
    for heading, entries in groupby(COMMANDS.values(), key=lambda entry: entry.heading):
        yield f".SH COMMANDS: {_escape(heading.upper())}"
        for entry in entries:
            yield from _iter_entry(rf"\fB{_escape(entry.name)}\fR", entry.summary)
            for name, outline in _iter_outlines(entry.name):
                yield from _iter_usage_and_options(name, outline, common)
    yield ".SH COMMON OPTIONS"
    for option in common:
        yield from _iter_entry(_format_option(option), option.help)
    yield ".SH EXIT STATUS"
    for code, meaning in _EXIT_CODE.findall(topic_texts["exit-codes"]):
        yield from _iter_entry(rf"\fB{code}\fR", meaning.replace("`", ""))
    yield ".SH TOPICS"
    for name, text in topic_texts.items():
        yield from _iter_entry(rf"\fB{_escape(name)}\fR", text.partition("\n")[0].lstrip("# "))
    yield ".SH EXAMPLES"
    for example in EXAMPLES:
        yield from (".PP", ".nf", _escape(example), ".fi")
    yield ".SH SEE ALSO"
    yield r"\fBkubectl\fR(1)"


def _iter_outlines(command: str) -> Iterator[tuple[str, CommandOutline]]:
    """Yield the command's name and outline, or those of each subcommand if the command has any."""
    outline = read_outline(command)
    if not outline.subcommands:
        yield command, outline
    for name, subcommand in outline.subcommands.items():
        yield f"{command} {name}", subcommand


def _iter_usage_and_options(name: str, outline: CommandOutline, common: Iterable[OptionOutline]) -> Iterator[str]:
    """Yield the roff lines with a command's usage and options. The common options are left out."""
    usage = " ".join(rf"\fI{_escape(metavar)}\fR" for metavar in outline.argument_metavars if metavar)
    yield ".RS"
    yield ".PP"
    yield rf"\fBkschedctl {_escape(name)}\fR [\fIOPTIONS\fR] {usage}".rstrip()
    for option in outline.options:
        if option not in common:
            yield from _iter_entry(_format_option(option), option.help)
    yield ".RE"


def _iter_entry(term: str, meaning: str) -> Iterator[str]:
    """Yield the lines of a definition: the term, already marked up, and its meaning as an indented paragraph."""
    yield from (".TP", term, _escape(" ".join(meaning.split())))


def _format_option(option: OptionOutline) -> str:
    """Return the names of an option and what it takes, as in ``-n, --namespace NAME``."""
    names = ", ".join(rf"\fB{_escape(name)}\fR" for name in option.names)
    return rf"{names} \fI{_escape(option.metavar)}\fR" if option.metavar else names


def _escape(text: str) -> str:
    r"""Escape what groff would read as markup: backslashes, hyphens, and a dot or quote at the beginning of a line.

    Lines may be broken after a `|`.

    >>> _escape(".kube/config of -n")
    '\\&.kube/config of \\-n'
    """
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("|", r"|\:")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    MAN_PAGE.write_text(build_man_page(), "utf-8")
