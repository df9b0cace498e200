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
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kschedctl.api.garbage import without_garbage_collection
from kschedctl.cli import streams
from kschedctl.cli.help_text import GroupedOptions, HelpContext
from kschedctl.cli.program import command_line, program
from kschedctl.errors import KschedctlError
from kschedctl.text.urls import without_user
from kschedctl.text.version import VERSION

COMMANDS = {
    "explain": "Why is this pod Pending? Or: why are these?",
    "remedies": "Which changes would let this pod schedule?",
    "wakes": "What makes the scheduler retry a refused pod?",
    "lint": "What in manifests, or in a cluster, breaks scheduling?",
    "audit": "Is the scheduler healthy, and is the cluster scheduled well?",
    "priorities": "Who outranks whom, who starves, and who would be evicted first?",
    "latency": "How long does kube-scheduler take, and what holds it up?",
    "browse": "Explore pending pods, nodes and fixes in the terminal.",
    "snapshot": "Save what scheduling reads of a cluster to a file; show and compare such files.",
    "config": "Is this KubeSchedulerConfiguration valid, and what does it do?",
    "simulate": "Where would the pods of these manifests go?",
    "capacity": "How many more of these pods fit, and what stops the next one?",
    "drain": "Where would the pods of these nodes go, and what blocks the drain?",
    "failures": "What would no longer fit if a node, a zone or a pool were lost?",
    "make-room": "Which pods have to move so that these fit?",
    "size": "Which nodes would all workloads need, had they to be bought anew?",
    "rebalance": "What would the descheduler evict, where to, and does that end?",
    "whatif": "What would these changes to the cluster do to its pods?",
    "pools": "Which node pools are there, and what is free on their nodes?",
    "scale": "What would the Cluster Autoscaler do next, and why not more?",
    "provision": "Which nodes would Karpenter launch for pending pods?",
    "consolidate": "Which nodes could go, and what keeps the others?",
    "instance-types": "Print the instance types of a cluster's nodes, for --instance-types.",
    "races": "How many pods would be double-booked?",
    "packing": "Which free capacity is stranded, and which nodes could go?",
    "sampling": "What does sampling nodes cost, and what does it save?",
    "topology": "What does losing a node, zone or rack cost each workload, and does spreading hold?",
    "watch": "How does the cluster schedule, as metrics for Prometheus?",
    "mcp": "Serve these questions to agents, by the Model Context Protocol.",
    "demo": "A short tour of the embedded demo cluster.",
    "version": "Print the versions of kschedctl, of what it replays, and of the cluster.",
    "versions": "What differs between versions of kube-scheduler?",
    "schema": "Print the JSON Schema of a document.",
    "completion": "Print the completion script of a shell.",
    "help": "Help on a command, or on a topic such as rights or ci.",
}
"""Command -> its line in the help.

It is the function of its name, with underscores for hyphens, in the module of that name in this package, or a dict of
functions by sub-command; the EXAMPLES of the module are command lines for its help, or a dict of such.
"""

GROUPS = {
    "Ask": ("explain", "remedies", "wakes", "browse"),
    "What if": ("simulate", "capacity", "drain", "failures", "make-room", "rebalance", "size", "whatif"),
    "Autoscalers": ("pools", "scale", "provision", "consolidate", "instance-types"),
    "Check": ("lint", "audit", "config", "priorities", "latency", "packing", "topology", "races", "sampling"),
    "Cluster": ("snapshot", "watch", "version", "versions"),
}
"""How the help lists them; the others come last."""

EXAMPLES = (
    "kschedctl explain shop/web-6d4cf56db6-h8s2k",
    "kschedctl explain -A --demo",
    "helm template web ./web | kschedctl simulate -f -",
    "kschedctl drain general-a1",
)
COMPLETE = "__complete"
"""What the completion scripts call; it is no command for people."""
USAGE, BUG, INTERRUPTED, BROKEN_PIPE = 2, 4, 130, 141
FAILURES = "2 usage or input, 3 cluster unreachable, 4 a bug"
EPILOG = f"Exit codes: 0 schedules, 1 does not schedule, {FAILURES}, 5 undecided."
EPILOGS = {
    "size": f"Exit codes: 0 all pods get a node, 1 some do not, {FAILURES}, 5 undecided.",
    "rebalance": f"Exit codes: 0 quiet in the end, 1 loops, or would do harm, {FAILURES}, 5 undecided.",
    "wakes": f"Exit codes: 0 answered, or woken, 1 not woken, or missed (--between), {FAILURES}, 5 undecided.",
    "lint": f"Exit codes: 0 nothing found from --fail-on up, 1 findings, {FAILURES}.",
    "audit": f"Exit codes: 0 nothing found from --fail-on up, 1 findings, {FAILURES}, 5 undecided.",
    "priorities": f"Exit codes: 0 nothing found from --fail-on up, 1 findings, {FAILURES}, 5 undecided.",
    "latency": f"Exit codes: 0 nothing found from --fail-on up, 1 findings, {FAILURES}, 5 undecided.",
    "config": f"Exit codes: 0 nothing found from --fail-on up, 1 findings, {FAILURES}.",
    "sampling": f"Exit codes: 0 answered, {FAILURES}, 5 undecided.",
    "snapshot": f"Exit codes: 0 done, or no difference, 1 a difference (diff), {FAILURES}.",
    "packing": f"Exit codes: 0 nothing found from --fail-on up, 1 findings, {FAILURES}, 5 undecided.",
    "races": f"Exit codes: 0 answered, {FAILURES}.",
    "topology": f"Exit codes: 0 nothing found from --fail-on up, 1 findings, {FAILURES}, 5 undecided.",
    "version": f"Exit codes: 0 done, {FAILURES}.",
    "watch": f"Exit codes: 0 answered, {FAILURES}, 5 undecided.",
    "versions": "Exit codes: 0 done, 2 usage, 4 a bug.",
    "instance-types": f"Exit codes: 0 done, {FAILURES}, 5 undecided.",
    "schema": "Exit codes: 0 done, 2 usage, 4 a bug.",
    "completion": "Exit codes: 0 done, 2 usage, 4 a bug.",
    "help": "Exit codes: 0 done, 2 usage, 4 a bug.",
    "mcp": f"Exit codes: 0 done, {FAILURES}.",
    "browse": f"Exit codes: 0 done, {FAILURES}.",
}
"""Exit codes of commands whose answers are others."""
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
        grouped = {name for names in GROUPS.values() for name in names}
        for title, names in {**GROUPS, "Other": tuple(name for name in COMMANDS if name not in grouped)}.items():
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name]) for name in names], col_max=14)


def load(name: str) -> object:
    """A command as typer runs it."""
    with without_garbage_collection(lasting=True):
        module = import_module(f"kschedctl.commands.{name.replace('-', '_')}.command")
    made, codes = _typer(), EPILOGS.get(name, EPILOG)
    functions, examples = getattr(module, name.replace("-", "_")), module.EXAMPLES
    if isinstance(functions, dict):
        made.callback(help=COMMANDS[name], epilog=_epilog(examples[""], codes))(lambda: None)
        for command, function in functions.items():
            made.command(command, cls=GroupedOptions, epilog=_epilog(examples[command], codes))(function)
    else:
        made.command(name, cls=GroupedOptions, epilog=_epilog(examples, codes))(functions)
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


app = _typer(cls=Commands, invoke_without_command=True, epilog=_epilog(EXAMPLES, EPILOG))


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
