"""The command line of `kschedctl audit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer
from kschedctl.cli.progress import show_progress
from kschedctl.cli.source import ALL_KINDS, connect_to_cluster, load_cluster
from kschedctl.commands.audit import REQUIRED_INPUTS, SECTIONS
from kschedctl.commands.audit import audit as audit_cluster
from kschedctl.commands.audit.audited_cluster import Thresholds
from kschedctl.commands.audit.next_commands import build_next_commands
from kschedctl.commands.audit.options import AuditTimeOptions, DrawableFindingsOutput, MetricsOptions
from kschedctl.errors import UsageError

EXAMPLES = (
    "kschedctl audit",
    "kschedctl audit --demo",
    "kschedctl audit --snapshot prod.ksnap --section pending -o json",
    "kschedctl audit --since monday.ksnap --section queue",
    "kschedctl audit --fail-on error -o sarif > audit.sarif",
    "kschedctl audit -f cluster.json --now 2026-05-06T09:12:00Z",
    "kschedctl audit --metrics metrics.txt",
)


@with_options
def audit(
    *,
    source: Source,
    findings_output: DrawableFindingsOutput,
    metrics: MetricsOptions,
    times: AuditTimeOptions,
    section: Annotated[
        list[str] | None,
        typer.Option(
            "--section",
            metavar="|".join(SECTIONS),
            help="Print only this section, with its evidence. queue is the scheduler's queue, queues are Kueue's. "
            "Repeatable.",
        ),
    ] = None,
) -> Answer:
    """Is the scheduler healthy, and is the cluster scheduled well?

    The answer has sections, each with its evidence and recommendations. A section is reported as ok only if
    everything that it depends on was read. Otherwise it says what is missing, and the exit code is 5 if there are no
    findings.
    """
    _validate_sections(section or (), metrics)
    thresholds = Thresholds(latency=metrics.build_limits())
    measured = metrics.read_metrics(lambda: connect_to_cluster(source)) if metrics.has_source else None
    cluster = load_cluster(source, live=ALL_KINDS)
    with show_progress() as progress:
        report = audit_cluster(
            cluster,
            section or (),
            now=times.resolve_time(source, cluster),
            earlier=times.load_earlier_cluster(source, cluster),
            thresholds=thresholds,
            measured=measured,
            progress=progress,
        )
        return findings_output.build_answer_with_exit_code(report, build_next_commands(source, *report.sections))


def _validate_sections(section_names: Sequence[str], metrics: MetricsOptions) -> None:
    """Raise UsageError for unknown sections and for sections without the input that they need."""
    if "latency" in section_names and not metrics.has_source:
        raise UsageError(f"--section latency needs {REQUIRED_INPUTS['latency'].options}")
    for name in section_names:
        if name not in SECTIONS:
            raise UsageError(f'no section "{name}"', where="--section", hint=f"available: {', '.join(SECTIONS)}")
