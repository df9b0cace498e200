"""``kschedctl audit``: is the scheduler healthy, and is the cluster scheduled soundly?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from kschedctl.api.times import nanoseconds
from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.judged import Judged
from kschedctl.cli.option_groups.metrics import MetricsOptions
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.source import connection, load
from kschedctl.cluster import Cluster
from kschedctl.demo import DEMO_TIME
from kschedctl.errors import InputError, UsageError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.audit.audit import NEEDED, SECTIONS
from kschedctl.studies.audit.audit import audit as audited
from kschedctl.studies.audit.ground import Ground, Thresholds

EXAMPLES = (
    "kschedctl audit",
    "kschedctl audit --demo",
    "kschedctl audit --snapshot prod.ksnap --section pending -o json",
    "kschedctl audit --fail-on error -o sarif > audit.sarif",
    "kschedctl audit -f cluster.json --now 2026-05-06T09:12:00Z",
    "kschedctl audit --metrics metrics.txt",
)


@with_options
def audit(
    *,
    source: Source,
    shown: Judged,
    metrics: MetricsOptions,
    section: Annotated[
        list[str] | None,
        typer.Option("--section", metavar="|".join(SECTIONS), help="Only this section. Repeatable."),
    ] = None,
    now: Annotated[
        str,
        typer.Option(
            "--now", metavar="TIME", help="When the cluster was as it is, RFC 3339.  [default: when it was read]"
        ),
    ] = "",
) -> Answer:
    """Is the scheduler healthy, and is the cluster scheduled soundly?

    Answers in sections, each with its evidence and what to do. A section is sound only where everything was read that
    its claim stands on; else it says what is missing, and the exit code is 5 unless something else is wrong.
    """
    _check(section or (), now, metrics)
    thresholds = Thresholds(latency=metrics.limits())
    measured = metrics.measured(lambda: connection(source)) if metrics.asked else None
    cluster = load(source)
    with bars() as progress:
        ground = Ground(
            Scheduler(cluster),
            now or time_of(cluster, source),
            thresholds,
            measured=measured,
            progress=progress,
        )
        return shown.judged(audited(ground, section or ()))


def time_of(cluster: Cluster, source: Source) -> str:
    """When the cluster was as it is; of files nobody knows."""
    if source.demo:
        return DEMO_TIME
    return cluster.picture.read_at if cluster.picture else ""


def _check(names: Sequence[str], now: str, metrics: MetricsOptions) -> None:
    """Raises UsageError for sections that there are not, or without what they need, and for what is no time."""
    if "latency" in names and not metrics.asked:
        raise UsageError(f"--section latency needs {NEEDED['latency'][0]}")
    for name in names:
        if name not in SECTIONS:
            raise UsageError(f'no section "{name}"', where="--section", hint=f"there are: {', '.join(SECTIONS)}")
    if now:
        try:
            nanoseconds(now)
        except InputError as error:
            raise UsageError(str(error), where="--now") from None
