"""The command `snapshot`: save, show and compare what scheduling reads of a cluster.

`archive_diff` compares two snapshots. `kschedctl/sources/archive` reads and writes them.
"""

from __future__ import annotations

from kschedctl.cluster import Cluster
from kschedctl.commands.snapshot.archive_diff import compare_clusters
from kschedctl.commands.snapshot.report import SnapshotDiff


def diff(before: Cluster, after: Cluster, names: tuple[str, str] = ("before", "after")) -> SnapshotDiff:
    """Compare what scheduling reads in two states of a cluster. `names` label the two states in the report.

    >>> import kschedctl
    >>> str(diff(kschedctl.Cluster.from_objects([]), kschedctl.Cluster.from_objects([])))
    'No difference that scheduling reads'
    """
    return compare_clusters(before, after, names)
