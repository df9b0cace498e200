"""``snapshot``: save, show and compare what scheduling reads of a cluster.

``archive_diff`` compares two snapshots. Reading and writing them is in ``kschedctl/sources/archive``.
"""

from __future__ import annotations

from kschedctl.cluster import Cluster
from kschedctl.commands.snapshot.archive_diff import compare
from kschedctl.commands.snapshot.report import SnapshotDiff


def diff(before: Cluster, after: Cluster, names: tuple[str, str] = ("before", "after")) -> SnapshotDiff:
    """What changed between two moments of a cluster, of what scheduling reads; ``names``: what these are called.

    >>> import kschedctl
    >>> str(diff(kschedctl.Cluster.from_objects([]), kschedctl.Cluster.from_objects([])))
    'No difference that scheduling reads'
    """
    return compare(before, after, names)
