"""What differs between the versions of kube-scheduler: from the oldest to the newest, or between two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from kschedctl.api.kube_version import KubeVersion
from kschedctl.reports.version_changes import VersionChange, VersionChanges
from kschedctl.scheduler.version_changes import MINORS, Varying, changes

SORTS = ("rule", "plugin", "gate")


def version_changes() -> VersionChanges:
    """Every change since the oldest version that is replayed."""
    return VersionChanges(tuple(f"1.{minor}" for minor in MINORS), False, _newest_first(_all()))


def between(first: str, second: str) -> VersionChanges:
    """What is not the same in two versions, from the first to the second. Raises ConfigurationError."""
    versions = KubeVersion.supported(first), KubeVersion.supported(second)
    return VersionChanges(tuple(map(str, versions)), True, _newest_first(_between(*versions)))


def _all() -> Iterator[VersionChange]:
    for change in changes():
        for (_, before), (since, after) in pairwise(change.values.steps):
            if before:
                yield _row(change, since, before, after)


def _between(first: KubeVersion, second: KubeVersion) -> Iterator[VersionChange]:
    for change in changes():
        before, after = change.values.at(first), change.values.at(second)
        if before and after and before != after:
            since, _ = change.values.step(max(first, second))
            yield _row(change, since, before, after)


def _row(change: Varying, since: str, before: str, after: str) -> VersionChange:
    upstream = change.values.upstream
    return VersionChange(change.sort, change.where, change.values.what, tuple(since.split()), before, after, upstream)


def _newest_first(rows: Iterable[VersionChange]) -> tuple[VersionChange, ...]:
    return tuple(sorted(rows, key=lambda row: (SORTS.index(row.sort), -KubeVersion.parse(row.since[-1]).minor)))
