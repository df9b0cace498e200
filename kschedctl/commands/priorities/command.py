"""The command line of `kschedctl priorities`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer
from kschedctl.cli.progress import show_progress
from kschedctl.cli.source import LiveKinds, load_cluster
from kschedctl.commands import priorities as library
from kschedctl.commands.audit.audited_cluster import PriorityLimits
from kschedctl.commands.audit.next_commands import build_next_commands
from kschedctl.commands.audit.options import FindingsOutput, TimeOption
from kschedctl.errors import UsageError

EXAMPLES = (
    "kschedctl priorities",
    "kschedctl priorities --grow 50 --tier high --snapshot prod.ksnap",
    "kschedctl priorities --starving-after 15m -o json",
    "kschedctl priorities --demo --fail-on error",
)
MAX_GROWTH = 10_000


@with_options
def priorities(
    *,
    source: Source,
    findings_output: FindingsOutput,
    time: TimeOption,
    grow: Annotated[
        int,
        typer.Option(
            "--grow",
            metavar="NUMBER",
            help="Number of pods to add to the tier named by --tier, to see which pods they would preempt. 0 adds "
            "none.",
        ),
    ] = PriorityLimits.grow,
    tier: Annotated[
        str,
        typer.Option(
            "--tier",
            metavar="CLASS",
            help="Tier that --grow adds pods to: a PriorityClass or a priority.  [default: the highest user tier]",
        ),
    ] = "",
    starving_after: Annotated[
        str,
        typer.Option(
            "--starving-after",
            metavar="DURATION",
            help="Pending time after which a pod counts as starving, such as 5m.",
        ),
    ] = "1h",
) -> Answer:
    """Who outranks whom, who starves, and who would be evicted first?

    A tier consists of all pods of one priority. Pods starve if they wait for room while pods of lower tiers run.
    Workloads starve if their pods are preempted again and again. The report then adds pods of the most frequent kind to
    one tier and replays them one by one with preemption. It lists their victims in order. Finally, it lists pods behind
    Services that higher tiers, except system tiers, may evict.
    """
    if not 0 <= grow <= MAX_GROWTH:
        raise UsageError(f"--grow {grow}: must be a number of pods up to {MAX_GROWTH:,}")
    limits = PriorityLimits(grow, tier, _parse_starving_after(starving_after))
    cluster = load_cluster(source, live=LiveKinds(("Event", "ResourceQuota")))
    with show_progress() as progress:
        section = library.priorities(cluster, limits, now=time.resolve_time(source, cluster), progress=progress)
        return findings_output.build_answer_with_exit_code(section, build_next_commands(source, section))


def _parse_starving_after(duration: str) -> float:
    """Return the value of --starving-after in seconds. Raises UsageError if it is malformed."""
    from kschedctl.sources.live.connection import parse_timeout  # noqa: PLC0415 - it brings the client's libraries along

    return parse_timeout(duration, "--starving-after")
