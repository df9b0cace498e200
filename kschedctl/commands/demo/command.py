"""The command `demo`."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.cli.main import build_command_line
from kschedctl.cli.options import Scope, Source, with_options
from kschedctl.cli.output_options import Answer, View
from kschedctl.cli.source import load_cluster
from kschedctl.commands.explain.command import build_commands_for_pending_pods, summarize_pending_pods
from kschedctl.scheduler.scheduler import Scheduler

EXAMPLES = ("kschedctl demo",)

OUTPUT_OPTIONS = ((), ("-o", "wide"), ("-o", "markdown"))
"""Output options for the commands of the tour."""


@with_options
def demo(view: View) -> Answer:
    """Take a short tour of the built-in demo cluster: what is pending and why, and three commands to try."""
    source = Source(demo=True)
    report = summarize_pending_pods(
        Scheduler(load_cluster(source)), source, Scope(all_namespaces=True), view.max_matrices
    )
    examples = zip(report.groups, OUTPUT_OPTIONS, strict=False)
    tour = [build_command_line("explain", group.pods[0], source.to_cli_options(), form) for group, form in examples]
    commands = {**build_commands_for_pending_pods(source, report), "": tour}
    return view.build_answer(replace(report, scope="in the demo cluster"), commands=commands)
