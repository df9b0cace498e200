"""Layout of help texts: options by group, rare ones only with `--help-all`, and no broken words."""

from __future__ import annotations

import re
import shutil
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
"""The options that the help leaves out; shell completion offers them all."""
ALL = "--help-all"
LEAST_HELP_WIDTH = 30
NARROW_HELP_WIDTH = 60
"""Below this width, the meaning of a long option begins in the line after it."""
_CONTEXT: Any = TyperGroup.context_class
_HYPHEN = "\ue000"
"""Stands for a hyphen while lines are folded, so that options and URLs are not broken."""


class HelpFormatter(_CONTEXT.formatter_class):  # type: ignore[misc]  # typer exports its formatter under no name
    """A formatter that breaks no word, folds long lists of choices, and fits narrow terminals."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.width: int
        columns = shutil.get_terminal_size().columns
        if columns <= self.width:  # the base class writes at least 50 columns
            self.width = max(columns - 1, LEAST_HELP_WIDTH)

    def write(self, string: str) -> None:
        """Write folded text, with real hyphens."""
        super().write(string.replace(_HYPHEN, "-"))

    def write_text(self, text: str) -> None:
        """Fold a paragraph and write it, without a break at hyphens."""
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], *widths: int, **named: int) -> None:
        """Write a definition list, such as options with their meanings. Choices are folded at `|`."""
        room = self.width - self.current_indent
        definitions = [(_fold_choices(first, room), second.replace("-", _HYPHEN)) for first, second in rows]
        if not widths and self.width < NARROW_HELP_WIDTH:
            named.setdefault("col_max", self.width // 3)
        super().write_dl(definitions, *widths, **named)


def _fold_choices(choices: str, room: int) -> str:
    """Fold choices such as `a|b|c` into lines that fit."""
    lines = [""]
    for part in re.split(r"(?<=\|)", choices):
        if len(lines[-1] + part) > room:
            lines.append(" " * 6)
        lines[-1] += part
    return "\n".join(lines)


class HelpContext(_CONTEXT):  # type: ignore[misc]
    """A context that formats help with HelpFormatter."""

    formatter_class = HelpFormatter


def _print_full_help(context: Any, option: object, is_set: bool) -> None:
    """Print the help with all options and exit if `--help-all` is given."""
    if is_set and not context.resilient_parsing:
        context.meta[ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


class GroupedOptions(TyperCommand):
    """A command whose help lists the options by group."""

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
                callback=_print_full_help,
            )
        )

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by group. Rare options are left out unless `--help-all` is given."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if _is_rare(parameter) and not ctx.meta.get(ALL):
                continue
            record = parameter.get_help_record(ctx)
            if not record:
                continue
            if parameter.param_type_name == "argument":
                panel = "Arguments"
            else:
                panel = getattr(parameter, "rich_help_panel", None) or "Options"
            panels.setdefault(panel, []).append(record)
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _is_rare(parameter: Any) -> bool:
    """Return whether the option is hidden without `--help-all`."""
    return not RARE.isdisjoint(parameter.opts) and not getattr(parameter, "hidden", False)
