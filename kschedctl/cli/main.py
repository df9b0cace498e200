"""The program: its commands, and the one place where errors become a line on stderr and an exit code.

Exit codes: 0 it schedules, or nothing is pending; 1 it does not schedule; 2 wrong usage or unreadable input; 3 the
cluster could not be reached; 4 a bug of ours; 5 what was not read could change the answer; 130 interrupted; 141 nobody
reads the output any more.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kschedctl.api.garbage import without_garbage_collection
from kschedctl.cli import streams
from kschedctl.cli.help_text import GroupedOptions, HelpContext
from kschedctl.cli.program import command_line, program
from kschedctl.errors import KschedctlError
from kschedctl.reports.command import EXIT_CODES, CommandEntry, HelpHeading, all_commands
from kschedctl.text.urls import without_user
from kschedctl.text.version import VERSION

COMMANDS: dict[str, CommandEntry] = {
    command.name: command
    for heading in HelpHeading
    for command in sorted(all_commands(), key=lambda command: command.place)
    if command.heading is heading
}
"""Name -> command, in the order of the help.

The command is the function of its name, with underscores for hyphens, in `command.py` of its folder, or a dict of
functions by sub-command. The EXAMPLES of the module are command lines for its help, or a dict of such.
"""

EXAMPLES = (
    "kschedctl explain shop/web-6d4cf56db6-h8s2k",
    "kschedctl explain -A --demo",
    "helm template web ./web | kschedctl simulate -f -",
    "kschedctl drain general-a1",
)
COMPLETE = "__complete"
"""What the completion scripts call; it is no command for people."""
USAGE, BUG, INTERRUPTED, BROKEN_PIPE = 2, 4, 130, 141
log = logging.getLogger("kschedctl")


class Commands(TyperGroup):
    """Loads a command's module when the command is wanted, so that ``--help`` stays instant."""

    context_class = HelpContext

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # to suggest one

    def list_commands(self, ctx: object) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for heading, commands in groupby(COMMANDS.values(), key=lambda command: command.heading):
            with formatter.section(heading):
                formatter.write_dl([(command.name, command.summary) for command in commands], col_max=14)


def load(name: str) -> object:
    """Return a command as typer runs it."""
    entry, made = COMMANDS[name], _typer()
    with without_garbage_collection(lasting=True):
        module = import_module(f"kschedctl.commands.{entry.module}.command")
    functions, examples = getattr(module, entry.module), module.EXAMPLES
    if isinstance(functions, dict):
        made.callback(help=entry.summary, epilog=_epilog(examples[""], entry.exit_codes))(lambda: None)
        for command, function in functions.items():
            made.command(command, cls=GroupedOptions, epilog=_epilog(examples[command], entry.exit_codes))(function)
    else:
        made.command(name, cls=GroupedOptions, epilog=_epilog(examples, entry.exit_codes))(functions)
    command = typer.main.get_command(made)
    for shown in (command, *getattr(command, "commands", {}).values()):
        shown.context_class = HelpContext
    return command


def _epilog(examples: Iterable[str], codes: str) -> str:
    """Below the options of a help: command lines to begin with, as they are, and the exit codes."""
    lines = "\n".join(f"  {example.replace('kschedctl', program())}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{codes}"


def _typer(**settings: Any) -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


app = _typer(cls=Commands, invoke_without_command=True, epilog=_epilog(EXAMPLES, EXIT_CODES))


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Replays kube-scheduler on a snapshot of a cluster: why a pod is Pending, where it would go, what if."""
    if version:
        typer.echo(f"kschedctl {VERSION}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    with streams.ready():
        _log_to_stderr()
        try:
            exit_code = _run(arguments)
            sys.stdout.flush()
            return exit_code
        except (KschedctlError, typer.TyperException) as error:
            for problem in (error, *getattr(error, "also", ())):
                _tell(problem.format_message() if isinstance(problem, typer.TyperException) else str(problem))
            return error.exit_code if isinstance(error, KschedctlError) else USAGE
        except BrokenPipeError:
            return BROKEN_PIPE
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:
            _tell(
                f"{type(error).__name__}: {error} (this is a bug of kschedctl: run with -vv and report what it prints)"
            )
            return BUG


def _run(arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == [COMPLETE]:
        return int(import_module("kschedctl.cli.completing").complete(arguments[1:]))
    answer = typer.main.get_command(app).main(arguments, prog_name=program(), standalone_mode=False)
    if answer is None or isinstance(answer, int):
        return answer or 0
    content = answer.made_by(without_user(command_line(*arguments))).content()
    (sys.stdout.buffer if isinstance(content, bytes) else sys.stdout).write(content)
    return int(answer.exit_code)


class _Line(logging.Formatter):
    """What the program says besides its answer, in one line each."""

    def format(self, record: logging.LogRecord) -> str:
        return streams.in_one_line(without_user(record.getMessage()))


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line())
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING)


def _tell(problem: str) -> None:
    if log.isEnabledFor(logging.DEBUG):
        for line in traceback.format_exc().splitlines():
            streams.tell(without_user(line))
    streams.tell(f"error: {without_user(problem)}")
