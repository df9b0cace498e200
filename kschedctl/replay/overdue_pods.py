"""Terminating pods that should be gone: their grace period ended before the cluster was read.

A finalizer, or a kubelet that does not respond, keeps such a pod, so that waiting for it does not help.
"""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.objects import Pod
from kschedctl.api.times import format_age, parse_microseconds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.text.counts import spell_age

OVERDUE_SECONDS = 60
"""The time that a pod may outlive its grace period."""


def describe_overdue(cluster: Cluster, pods: Iterable[Pod]) -> str:
    """Return for how long the most overdue of the terminating pods should have been gone, such as ``9 days``.

    Return "" if no pod is overdue, or if it is not known when the cluster was read. The grace period of a pod ends at
    its metadata.deletionTimestamp.
    """
    read_at = cluster.provenance.read_at if cluster.provenance else ""
    deadlines = [pod.metadata.deletion_timestamp for pod in pods if pod.metadata.deletion_timestamp]
    if not read_at or not deadlines:
        return ""
    earliest = min(deadlines)
    try:
        late_microseconds = parse_microseconds(read_at) - parse_microseconds(earliest)
    except InputError:
        return ""
    return spell_age(format_age(earliest, read_at)) if late_microseconds > OVERDUE_SECONDS * 10**6 else ""
