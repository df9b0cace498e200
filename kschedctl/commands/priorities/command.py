"""The command line of `kschedctl priorities`."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.options import Source, with_options
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
        int, typer.Option("--grow", metavar="NUMBER", help="By how many pods a tier grows; 0: it does not.")
    ] = PriorityLimits.grow,
    tier: Annotated[
        str,
        typer.Option(
            "--tier", metavar="CLASS", help="Which tier, by PriorityClass or value.  [default: the top one of users]"
        ),
    ] = "",
    starving_after: Annotated[
        str, typer.Option("--starving-after", metavar="DURATION", help="Pods that wait longer starve.")
    ] = "1h",
) -> Answer:
    """Who outranks whom, who starves, and who would be evicted first?

    Tiers are pods of one priority. Starving are pods that wait for room while pods of lower tiers run, and workloads
    whose pods are preempted again and again. The tier that grows gets more pods like most of its pods: they are
    replayed with preemption, one after the other, and their victims listed in order. Last come the pods behind Services
    that tiers above may evict; tiers of the system are left out there.
    """
    if not 0 <= grow <= MAX_GROWTH:
        raise UsageError(f"--grow {grow}: a number of pods, up to {MAX_GROWTH:,}")
    limits = PriorityLimits(grow, tier, _parse_starving_after(starving_after))
    cluster = load_cluster(source, live=LiveKinds(("Event",)))
    with show_progress() as progress:
        section = library.priorities(cluster, limits, now=time.resolve_time(source, cluster), progress=progress)
        return findings_output.build_answer(section, build_next_commands(source, section))


def _parse_starving_after(duration: str) -> float:
    """Return the value of --starving-after in seconds. Raises UsageError."""
    from kschedctl.sources.live.connection import parse_timeout  # noqa: PLC0415 - it brings the client's libraries along

    return parse_timeout(duration, "--starving-after")
