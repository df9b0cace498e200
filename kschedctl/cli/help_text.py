"""How helps look: options by group, the rare ones only with ``--help-all``, and no word that is broken."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from kschedctl.text.counts import counted

RARE = frozenset(
    (
        *("--feature-gates", "--cluster", "--user", "--as", "--as-group", "--request-timeout", "--cache"),
        *("--admission-plugins", "--kustomize", "--helm", "--values", "--assume-namespaces"),
        *("--scheduler-name", "--color", "--quiet", "--compact", "--plot"),
        *("--call-extenders", "--record-extenders", "--extender-answers"),
        *("--sampling", "--start-index", "--seed", "--jobs", "--dask"),
        *("--as-if-priority", "--as-if-priority-class", "--karpenter"),
        *("--metrics-ca-file", "--metrics-insecure", "--metrics-token-file", "--prometheus-labels"),
    )
)
"""The options that a help leaves out; Tab knows them all."""
ALL = "--help-all"
_CONTEXT: Any = TyperGroup.context_class
_HYPHEN = "\ue000"
"""What stands for a hyphen while lines are folded: options and URLs are copied from a help."""


class HelpText(_CONTEXT.formatter_class):  # type: ignore[misc]  # typer exports its formatter under no name
    """Helps in which no word is broken, and no list of choices is longer than the line."""

    def write(self, string: str) -> None:
        super().write(string.replace(_HYPHEN, "-"))

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], *widths: int, **named: int) -> None:
        room = self.width - self.current_indent
        definitions = [(_folded(first, room), second.replace("-", _HYPHEN)) for first, second in rows]
        super().write_dl(definitions, *widths, **named)


def _folded(choices: str, room: int) -> str:
    """``a|b|c`` in lines that fit."""
    lines = [""]
    for part in re.split(r"(?<=\|)", choices):
        if len(lines[-1] + part) > room:
            lines.append(" " * 6)
        lines[-1] += part
    return "\n".join(lines)


class HelpContext(_CONTEXT):  # type: ignore[misc]
    """Makes helps so."""

    formatter_class = HelpText


def _show_all(context: Any, option: object, asked: bool) -> None:
    """The help with every option, and the end of the program."""
    if asked and not context.resilient_parsing:
        context.meta[ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


class GroupedOptions(TyperCommand):
    """A command whose help has its options by group."""

    context_class = HelpContext

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        rare = sum(map(_is_rare, self.params))
        self.params.append(
            TyperOption(
                param_decls=[ALL],
                is_flag=True,
                expose_value=False,
                is_eager=True,
                help=f"Show {counted(rare, 'more option')} and exit.",
                hidden=not rare,
                callback=_show_all,
            )
        )

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            panel = "Arguments" if parameter.param_type_name == "argument" else ""
            if (ctx.meta.get(ALL) or not _is_rare(parameter)) and (record := parameter.get_help_record(ctx)):
                panels.setdefault(panel or getattr(parameter, "rich_help_panel", None) or "Options", []).append(record)
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _is_rare(parameter: Any) -> bool:
    return not RARE.isdisjoint(parameter.opts) and not getattr(parameter, "hidden", False)
