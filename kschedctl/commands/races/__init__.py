"""``races``: how many pods would be double-booked?

The analysis is the audit's section, ``kschedctl/commands/audit/races``.
"""

from __future__ import annotations

from kschedctl.cluster import Cluster
from kschedctl.commands.audit.races import compare
from kschedctl.commands.audit.races.measured import Measures, measures_of
from kschedctl.commands.audit.races.question import GivenFields, question_of
from kschedctl.commands.audit.races.report import Races
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler


def races(
    fields: GivenFields | None = None,
    cluster: Cluster | None = None,
    *,
    measures: Measures | None = None,
    progress: Progress = NO_PROGRESS,
) -> Races:
    """How many pods would be double-booked? Simulates pods that are assumed, bound and confirmed, or expire.

    ``fields``: numbers of ``nodes``, ``rates`` of pods a second, ``expiries``, ``seconds`` and so on; a ``cluster``, or
    its ``measures``, gives those that are not set, else they are usual ones. Each size is combined with each rate and
    expiry. Raises UsageError.

    >>> races({"nodes": [10], "rates": [1.0], "seconds": 10.0}).assumptions.seconds
    10.0
    """
    if measures is None and cluster is not None:
        measures = measures_of_cluster(cluster)
    return compare.races(question_of(fields or GivenFields(), measures), progress)


def measures_of_cluster(cluster: Cluster) -> Measures:
    """What a cluster tells of the model's figures."""
    return measures_of(Scheduler(cluster).view)
