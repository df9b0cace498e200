"""The options that say when a cluster was as it is, and with which earlier moment of it to compare."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from kschedctl.api.times import parse_nanoseconds
from kschedctl.cli.options import Source
from kschedctl.cli.source import load_cluster
from kschedctl.cluster import Cluster
from kschedctl.demo import DEMO_TIME
from kschedctl.errors import InputError, UsageError


@dataclass(frozen=True)
class Moment:
    """The moment that is looked at."""

    now: Annotated[
        str,
        typer.Option(
            "--now", metavar="TIME", help="When the cluster was as it is, RFC 3339.  [default: when it was read]"
        ),
    ] = ""

    def moment(self, source: Source, cluster: Cluster) -> str:
        """An RFC 3339 time; of files nobody knows. Raises UsageError."""
        if self.now:
            try:
                parse_nanoseconds(self.now)
            except InputError as error:
                raise UsageError(str(error), where="--now") from None
            return self.now
        if source.demo:
            return DEMO_TIME
        return cluster.provenance.read_at if cluster.provenance else ""


@dataclass(frozen=True)
class AuditTimes(Moment):
    """The times of an audit: now, and an earlier one."""

    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="FILE", help="A snapshot of it from before: whether what changed since woke pods."
        ),
    ] = ""

    def earlier(self, source: Source, cluster: Cluster) -> Cluster | None:
        """The cluster of the snapshot, where one is named. Raises UsageError for one that is not from before."""
        if not self.since:
            return None
        before = load_cluster(replace(source, snapshot=[self.since], filename=[], demo=False))
        times = [
            provenance.read_at
            for provenance in (before.provenance, cluster.provenance)
            if provenance and provenance.read_at
        ]
        if len(times) == 2 and parse_nanoseconds(times[0]) >= parse_nanoseconds(times[1]):
            moments = f"{self.since} is of {times[0]}, the cluster of {times[1]}"
            raise UsageError(moments, where="--since", hint="want a snapshot from before")
        return before
