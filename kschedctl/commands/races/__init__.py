"""The `races` command: how many pods would be double-booked.

The analysis is section "races" of the audit (`kschedctl/commands/audit/races`).
"""

from __future__ import annotations

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.races import compare
from kschedctl.commands.audit.races.question import Measures, RaceFields, build_race_question, measure_cluster
from kschedctl.commands.audit.races.report import Races
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler


def races(
    fields: RaceFields | None = None,
    cluster: Cluster | None = None,
    *,
    measures: Measures | None = None,
    progress: Progress = NO_PROGRESS,
) -> Races:
    """Return how many pods would be double-booked with each size, rate and expiry.

    In the simulation, pods are assumed, bound and confirmed, or they expire. `fields` are the parameters, such as
    numbers of `nodes`, `rates` in pods per second, `expiries` and `seconds`. Missing parameters come from a `cluster`
    or its `measures`, and otherwise have defaults. If the user interrupts, the report has the results so far. Raises
    UsageError if a parameter is invalid, and KeyboardInterrupt if the user interrupts before there is a result.

    >>> races({"nodes": [10], "rates": [1.0], "seconds": 10.0}).assumptions.seconds
    10.0
    """
    if measures is None and cluster is not None:
        measures = measure_cluster_for_races(cluster)
    return compare.compare_expiries(build_race_question(fields or RaceFields(), measures), progress)


def measure_cluster_for_races(cluster: Cluster) -> Measures:
    """Measure the parameters of the simulation in a cluster."""
    return measure_cluster(Scheduler(cluster).view)
