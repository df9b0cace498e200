"""Extract the command lines that an answer prints: every text that continues after ``kschedctl`` with a command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache, partial
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import typer
import yaml

from kschedctl.api.copying import replace
from kschedctl.cli.main import COMMANDS, app, load_command
from kschedctl.cli.options import Source, parse_feature_gates
from kschedctl.cli.output_options import Answer
from kschedctl.render.page import UNFOLDED

DATA = {"json": json.loads, "sarif": json.loads, "yaml": partial(yaml.load, Loader=yaml.CSafeLoader)}
NO_TEXT = ("svg", "png")
MENTIONED = re.compile(rf"kschedctl (?:{'|'.join(map(re.escape, COMMANDS))})\b.*")
command_of = cache(load_command)
SOURCE = tuple(field.name for field in fields(Source))


def answer_command_line(arguments: list[str]) -> Answer | None:
    """Return the answer of a command line, or None for a command that prints its output itself."""
    found = typer.main.get_command(app).main(arguments, prog_name="kschedctl", standalone_mode=False)
    return found if isinstance(found, Answer) else None


def list_text_formats(arguments: list[str]) -> list[str]:
    """Return the values of ``-o`` that the command accepts and that print text."""
    command = command_of(arguments[0])
    command = getattr(command, "commands", {}).get(arguments[1], command) if len(arguments) > 1 else command
    (output,) = (each for each in command.params if "--output" in each.opts)
    return [name for name in output.metavar.split("|") if "=" not in name and name not in NO_TEXT]


def list_printed_commands(answer: Answer, form: str) -> set[str]:
    """Return the command lines that one output format of the answer prints."""
    style = replace(answer.style, wide=form == "wide", width=UNFOLDED if form == "wide" else answer.style.width)
    content = replace(answer, format=form, style=style).render()
    assert isinstance(content, str)
    return {found for text in _iter_texts(content, form) for found in iter_commands(text)}


def iter_commands(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if match := MENTIONED.search(line):
            yield match[0].strip()


def _iter_texts(content: str, form: str) -> Iterator[str]:
    """Yield the texts in the content of an output format that may contain command lines."""
    if form in DATA:
        yield from _iter_strings(DATA[form](content))
    elif form == "html":
        yield from _Texts.of(content)
    elif form == "markdown":
        yield from re.findall(r"(?<!`)`([^`]+)`(?!`)", content)
        yield re.sub(r"(?<!`)`([^`]+)`(?!`)", "", content)
    elif form == "junit":
        for element in ElementTree.fromstring(content).iter():
            yield from (element.text or "", element.get("message", ""))
    else:
        yield content


def _iter_strings(value: Any) -> Iterator[str]:
    """Yield all strings in lists and in the values of mappings, at any depth."""
    match value:
        case str():
            yield value
        case list():
            yield from (text for each in value for text in _iter_strings(each))
        case dict():
            yield from (text for each in value.values() for text in _iter_strings(each))


class _Texts(HTMLParser):
    """The texts between tags, and those of the data that the page's script shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.data = False

    @classmethod
    def of(cls, page: str) -> list[str]:
        parser = cls()
        parser.feed(page)
        return parser.found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.data = tag == "script" and dict(attrs).get("type") == "application/json"

    def handle_data(self, data: str) -> None:
        self.found += _iter_strings(json.loads(data)) if self.data and data.strip() else [data]
        self.data = False


def parse_source(arguments: list[str]) -> Source:
    """Return the cluster options of a command line, as the program parses them. Raises the errors of typer."""
    command, rest = command_of(arguments[0]), arguments[1:]
    given = command.make_context(arguments[0], list(rest)).params
    values = {name: given[name] for name in SOURCE if name in given}
    source = Source(**{name: list(value) if isinstance(value, tuple) else value for name, value in values.items()})
    gates = sorted(f"{name}={on}" for name, on in parse_feature_gates(source.feature_gates).items())
    return replace(source, feature_gates=gates)
