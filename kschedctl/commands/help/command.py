"""The command `help`: print the help of a command, or a topic.

A topic is Markdown. Its paragraphs are folded to the terminal's width, and tables that are too wide become lists.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.resources import files
from itertools import groupby
from typing import Annotated

import typer

from kschedctl.cli.output_options import get_output_width
from kschedctl.errors import UsageError
from kschedctl.text.counts import join_words

EXAMPLES = ("kschedctl help", "kschedctl help rights", "kschedctl help explain")
SUFFIX = ".md"

_FENCE = "```"
_CELL_BORDER = re.compile(r"(?<!\\)\|")
_LIST_ITEM = re.compile(r"( *(?:[-*]|\d+\.) )")


def help(
    context: typer.Context,
    topic: Annotated[
        str, typer.Argument(metavar="[COMMAND|TOPIC]", help="A command or a topic. [default: list all]")
    ] = "",
) -> int:
    """Show the help for a command, or for a topic such as sources, output, rights or ci."""
    root = context.find_root()
    if topic in (topics := read_topics()):
        _print_markdown(topics[topic])
    elif not topic:
        entries = (line for name, text in topics.items() for line in _format_topic_entry(name, text))
        typer.echo("\n".join((root.get_help(), "", "Topics (read one with help TOPIC):", *entries)))
    else:
        command = root.command.get_command(root, topic)  # type: ignore[attr-defined]
        if command is None:
            similar = get_close_matches(topic, (*topics, *root.command.list_commands(root)))  # type: ignore[attr-defined]
            suggestion = f"did you mean {join_words(similar, 'or')}? " if similar else ""
            raise UsageError(
                f'no command or topic "{topic}"',
                hint=f"{suggestion}topics: {', '.join(topics)}; see kschedctl --help",
            )
        typer.echo(command.get_help(typer.Context(command, info_name=topic, parent=root)))
    return 0


def read_topics() -> dict[str, str]:
    """Read the help topics, and return them by name. Each topic is Markdown, and its first line is the title."""
    topic_files = (path for path in files("kschedctl.cli").joinpath("topics").iterdir() if path.name.endswith(SUFFIX))
    return {
        path.name.removesuffix(SUFFIX): path.read_text("utf-8")
        for path in sorted(topic_files, key=lambda path: path.name)
    }


def _format_topic_entry(name: str, text: str) -> list[str]:
    """Return the lines for one topic in the topic list: its name and its title, folded to the output's width.

    The title is the first line of the topic's text.
    """
    title = text.partition("\n")[0].lstrip("# ")
    return textwrap.wrap(
        title, get_output_width(wide=False), initial_indent=f"  {name:<12}  ", subsequent_indent=" " * 16
    )


def _print_markdown(text: str) -> None:
    """Print Markdown, formatted if stdout is a terminal, otherwise folded to the width of the output."""
    if not sys.stdout.isatty():
        typer.echo(fold_markdown(text, get_output_width(wide=False)), nl=False)
        return
    from rich.console import Console  # noqa: PLC0415 - most of the help is plain text
    from rich.markdown import Markdown  # noqa: PLC0415

    Console().print(Markdown(text))


def fold_markdown(text: str, width: int) -> str:
    """Fold Markdown text to the width. Code blocks, and words longer than the width, stay as they are.

    >>> print(fold_markdown("A paragraph of two\\nlines.\\n\\n- an item that is long", 14), end="")
    A paragraph of
    two lines.
    <BLANKLINE>
    - an item that
      is long
    """
    is_code = False

    def classify_line(line: str) -> str:
        """Return the kind of block to which the line belongs, and record whether a code block is open."""
        nonlocal is_code
        if line.startswith(_FENCE):
            is_code = not is_code
            return "code"
        if is_code:
            return "code"
        return "table" if line.startswith("|") else "prose"

    blocks = groupby(text.splitlines(), classify_line)
    return "\n".join(line for kind, lines in blocks for line in _FOLDERS[kind](list(lines), width)) + "\n"


def _keep_code(lines: list[str], width: int) -> list[str]:
    """Return the lines of code blocks unchanged."""
    return lines


def _fold_prose(lines: list[str], width: int) -> Iterator[str]:
    """Yield the lines of folded paragraphs, list items, and headings."""
    paragraph: list[str] = []
    for line in lines:
        starts_anew = not line or line.startswith(("#", "!")) or _LIST_ITEM.match(line)
        if starts_anew and paragraph:
            yield from _fold_paragraph(" ".join(paragraph), width)
            paragraph = []
        if line:
            paragraph.append(line if starts_anew else line.strip())
        else:
            yield ""
    if paragraph:
        yield from _fold_paragraph(" ".join(paragraph), width)


def _fold_paragraph(text: str, width: int) -> list[str]:
    """Return the folded lines of a paragraph. Later lines of a list item are indented like its text."""
    item = _LIST_ITEM.match(text)
    return _fold_text(text, width, " " * len(item[1]) if item else "")


def _fold_text(text: str, width: int, indent: str, first_indent: str = "") -> list[str]:
    """Fold the text to the width, and return its lines.

    `first_indent` is the indent of the first line, and `indent` that of the other lines.
    """
    return textwrap.wrap(
        text,
        width,
        initial_indent=first_indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _fold_table(lines: list[str], width: int) -> Iterator[str]:
    """Yield the lines of a table or, if it is too wide, of a list with an item for each row.

    If the table has two columns, an item is a sentence of both cells. Otherwise each cell has a line, which begins with
    the title of its column.
    """
    if max(map(len, lines)) <= width:
        yield from lines
        return
    titles, _, *rows = [_split_row(line) for line in lines]
    for row in rows:
        if len(row) == 2:
            yield from _fold_text(f"- {row[0]}: {row[1]}", width, "  ")
            continue
        yield from _fold_text(f"- {row[0]}", width, "  ")
        for title, cell in zip(titles[1:], row[1:], strict=False):
            if cell:
                yield from _fold_text(f"{title}: {cell}" if title else cell, width, "    ", "  ")


def _split_row(line: str) -> list[str]:
    r"""Return the cells of a row.

    >>> _split_row(r"| `a\|b` | c |")
    ['`a|b`', 'c']
    """
    cells = _CELL_BORDER.split(line.strip().removeprefix("|").removesuffix("|"))
    return [cell.strip().replace(r"\|", "|") for cell in cells]


_FOLDERS = {"code": _keep_code, "table": _fold_table, "prose": _fold_prose}
"""Kind of block -> the function that folds its lines."""
