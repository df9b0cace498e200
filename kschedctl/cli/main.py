"""The entry point: it runs a command, lays out help texts, and turns errors into a line on stderr and an exit code.

Exit codes: 0 schedules, or nothing is pending; 1 does not schedule; 2 usage or input error; 3 the cluster cannot be
reached; 4 a bug of kschedctl; 5 undecided; 130 interrupted; 141 the output has no reader. Help lists the options of a
command by group, and rare ones only with `--help-all`.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from kschedctl.api.garbage import without_garbage_collection
from kschedctl.cli import streams
from kschedctl.errors import KschedctlError
from kschedctl.reports.command import EXIT_CODES, CommandEntry, HelpHeading, load_command_table
from kschedctl.text.counts import counted, join_words
from kschedctl.text.printable import strip_credentials
from kschedctl.text.version import VERSION

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
_LEAST_HELP_WIDTH = 30
_NARROW_HELP_WIDTH = 60
"""Below this width, the meaning of a long option begins in the line after it."""
SIMILAR_OPTION = 0.7
"""The similarity from which on an option is suggested for one that does not exist."""
_CONTEXT: Any = TyperGroup.context_class
_HYPHEN = "\ue000"
"""Stands for a hyphen while lines are folded, so that options and URLs are not broken."""

COMMANDS: dict[str, CommandEntry] = {
    command.name: command
    for heading in HelpHeading
    for command in sorted(load_command_table(), key=lambda command: command.place)
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
"""The command that completion scripts call."""
USAGE, BUG, INTERRUPTED, BROKEN_PIPE = 2, 4, 130, 141
log = logging.getLogger("kschedctl")


class _HelpFormatter(_CONTEXT.formatter_class):  # type: ignore[misc]  # typer exports its formatter under no name
    """A formatter that breaks no word, folds long lists of choices, and fits narrow terminals."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.width: int
        columns = shutil.get_terminal_size().columns
        if columns <= self.width:  # the base class writes at least 50 columns
            self.width = max(columns - 1, _LEAST_HELP_WIDTH)

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
        if not widths and self.width < _NARROW_HELP_WIDTH:
            named.setdefault("col_max", self.width // 3)
        super().write_dl(definitions, *widths, **named)


def _fold_choices(choices: str, room: int) -> str:
    """Break choices such as `a|b|c` after bars into lines of at most ``room`` characters.

    All lines but the first are indented. A choice that is longer than a line is not broken.
    """
    lines = [""]
    for part in re.split(r"(?<=\|)", choices):
        if len(lines[-1] + part) > room:
            lines.append(" " * 6)
        lines[-1] += part
    return "\n".join(lines)


class _HelpContext(_CONTEXT):  # type: ignore[misc]
    """A context that formats help with _HelpFormatter."""

    formatter_class = _HelpFormatter


def _print_full_help(context: Any, option: object, is_set: bool) -> None:
    """Print the help with all options and exit if `--help-all` is given."""
    if is_set and not context.resilient_parsing:
        context.meta[ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


class _GroupedOptions(TyperCommand):
    """A command whose help lists the options by group."""

    context_class = _HelpContext

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


def get_program_name() -> str:
    """Return `kschedctl`, or `kubectl ksched` if kubectl runs it as a plugin."""
    return "kubectl ksched" if os.path.basename(sys.argv[0]).startswith("kubectl-ksched") else "kschedctl"


def build_command_line(*arguments: str | Iterable[str]) -> str:
    """Build a command line of the program, quoted for a shell. An argument may be a list of arguments."""
    words: list[str] = []
    for argument in arguments:
        if isinstance(argument, str):
            words.append(argument)
        else:
            words += argument
    return f"{get_program_name()} {shlex.join(words)}"


class Commands(TyperGroup):
    """A group that imports a command's module only when needed, so that `--help` is instant."""

    context_class = _HelpContext

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # names to suggest after a typo

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command, or return None if there is no command of this name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their summaries, below the headings of the help."""
        for heading, commands in groupby(COMMANDS.values(), key=lambda command: command.heading):
            with formatter.section(heading):
                formatter.write_dl([(command.name, command.summary) for command in commands], col_max=14)


def load_command(name: str) -> object:
    """Import a command with its subcommands, and return the object that typer runs."""
    return _load_command(name, get_program_name())


@cache
def _load_command(name: str, program_name: str) -> object:
    """Import a command and build its typer command. ``program_name`` is the program's name in the help.

    The result is cached, because building a command is slow.
    """
    entry = COMMANDS[name]
    with without_garbage_collection(freezes_objects=True):
        module = import_module(f"kschedctl.commands.{entry.module}.command")
    functions = getattr(module, entry.module)
    application = _create_typer()
    if isinstance(functions, dict):
        _register_subcommands(application, entry, functions, module.EXAMPLES, program_name)
    else:
        epilog = _build_epilog(module.EXAMPLES, entry.exit_codes, program_name)
        application.command(name, cls=_GroupedOptions, epilog=epilog)(functions)

    command = typer.main.get_command(application)
    subcommands = getattr(command, "commands", {}).values()
    for command_or_subcommand in (command, *subcommands):
        command_or_subcommand.context_class = _HelpContext
    return command


def _register_subcommands(
    application: typer.Typer,
    entry: CommandEntry,
    functions: Mapping[str, Callable[..., Any]],
    examples: Mapping[str, Sequence[str]],
    program_name: str,
) -> None:
    """Register the functions of a command's subcommands, and the help of the command itself.

    ``examples`` has the example command lines of each subcommand, and those of the command itself under "".
    """
    # The callback does nothing, because it only carries the help of the command
    epilog = _build_epilog(examples[""], entry.exit_codes, program_name)
    application.callback(help=entry.summary, epilog=epilog)(lambda: None)
    for subcommand, function in functions.items():
        epilog = _build_epilog(examples[subcommand], entry.exit_codes, program_name)
        application.command(subcommand, cls=_GroupedOptions, epilog=epilog)(function)


def _build_epilog(examples: Iterable[str], codes: str, program_name: str) -> str:
    """Build the end of a help text: example command lines and exit codes."""
    lines = "\n".join(f"  {example.replace('kschedctl', program_name)}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{codes}"


def _create_typer(**settings: Any) -> typer.Typer:
    """Create a typer application with our settings."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


app = _create_typer(
    cls=Commands, invoke_without_command=True, epilog=_build_epilog(EXAMPLES, EXIT_CODES, get_program_name())
)


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
    """Run one command line and return the exit code. Errors are printed to stderr."""
    with streams.checked_streams():
        _set_up_logging()
        try:
            exit_code = _run_command(arguments)
            sys.stdout.flush()
            return exit_code
        except (KschedctlError, typer.TyperException) as error:
            for problem in (error, *getattr(error, "also", ())):
                _print_error(_describe_error(problem))
            return error.exit_code if isinstance(error, KschedctlError) else USAGE
        except BrokenPipeError:
            return BROKEN_PIPE
        except KeyboardInterrupt:
            return INTERRUPTED
        except Exception as error:
            _print_error(
                f"{type(error).__name__}: {error} (this is a bug of kschedctl: run with -vv and report what it prints)"
            )
            return BUG


def _describe_error(error: Exception) -> str:
    """Describe an error. For a usage error, add a hint about correct usage if there is one."""
    if not isinstance(error, typer.TyperException):
        return str(error)
    # Typer does not export the classes of its usage errors, so they are told apart by their attributes and messages.
    message = error.format_message()
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    option = getattr(error, "option_name", "")
    is_unknown_option = hasattr(error, "possibilities")
    is_unexpected_argument = message.startswith("Got unexpected extra argument")

    is_before_command = context.parent is None
    if option and is_before_command:
        problem = f"unknown option {option}" if is_unknown_option else message
        return f"{problem} (options follow the command: {get_program_name()} COMMAND {option})"
    if is_unknown_option:
        if subcommands := getattr(context.command, "commands", None):
            hint = f"{context.command_path} needs a subcommand: {join_words(list(subcommands), 'or')}"
        else:
            candidates = getattr(error, "possibilities", None) or ()
            hint = _suggest_options(option, candidates, context.command_path)
        return f"unknown option {option} ({hint})"
    takes_files = any("-f" in parameter.opts for parameter in context.command.params)
    if is_unexpected_argument and takes_files:
        return f"{message} ({context.command_path} takes no names; files are given with -f)"
    return message


def _suggest_options(option: str, candidates: Iterable[str], command: str) -> str:
    """Suggest the candidate whose name is most similar to an option that does not exist, or else the command's help.

    >>> _suggest_options("--namspace", ["--namespace"], "kschedctl explain")
    'did you mean --namespace?'
    >>> _suggest_options("--demo", ["--nodes"], "kschedctl config")
    'kschedctl config --help lists the options'
    """
    from difflib import get_close_matches  # noqa: PLC0415 - not for a command that runs

    by_name = {candidate.lstrip("-"): candidate for candidate in candidates}
    similar = get_close_matches(option.lstrip("-"), by_name, n=1, cutoff=SIMILAR_OPTION)
    return f"did you mean {by_name[similar[0]]}?" if similar else f"{command} --help lists the options"


def _run_command(arguments: Sequence[str] | None) -> int:
    """Run the command, print its answer and return the exit code.

    If ``arguments`` is None, the arguments of the process are used.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments[:1] == [COMPLETE]:
        return int(import_module("kschedctl.cli.completing").print_completions(arguments[1:]))
    answer = typer.main.get_command(app).main(arguments, prog_name=get_program_name(), standalone_mode=False)
    if answer is None or isinstance(answer, int):
        return answer or 0
    command = strip_credentials(build_command_line(*arguments))
    content = answer.with_provenance(command, _build_full_command(arguments)).render()
    if isinstance(content, bytes):
        sys.stdout.buffer.write(content)
    else:
        sys.stdout.write(content)
    return int(answer.exit_code)


def _build_full_command(arguments: Sequence[str]) -> str:
    """Build the command line without `--brief`.

    Return "" if it cannot be pasted, because it reads standard input or contains credentials.
    """
    command = build_command_line([argument for argument in arguments if argument != "--brief"])
    return command if "-" not in arguments and strip_credentials(command) == command else ""


class _LineFormatter(logging.Formatter):
    """A formatter that puts each log message on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message on one line, without credentials."""
        return streams.shorten_line(strip_credentials(record.getMessage()))


def _set_up_logging() -> None:
    """Send log messages to stderr. By default, only warnings and errors are shown."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter())
    log.handlers = [handler]
    log.propagate = False
    log.setLevel(logging.WARNING)


def _print_error(problem: str) -> None:
    """Print an error to stderr. At `-vv`, the traceback is included."""
    if log.isEnabledFor(logging.DEBUG):
        for line in traceback.format_exc().splitlines():
            streams.print_to_stderr(strip_credentials(line))
    streams.print_to_stderr(f"error: {strip_credentials(problem)}")
