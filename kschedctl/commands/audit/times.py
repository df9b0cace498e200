"""Command line options for the time of the cluster and for an earlier snapshot to compare it with."""

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
class TimeOption:
    """The option `--now`."""

    now: Annotated[
        str,
        typer.Option(
            "--now", metavar="TIME", help="When the cluster was as it is, RFC 3339.  [default: when it was read]"
        ),
    ] = ""

    def resolve_time(self, source: Source, cluster: Cluster) -> str:
        """Return the RFC 3339 time of the cluster, empty if unknown. Raises UsageError for a malformed time."""
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
class AuditTimeOptions(TimeOption):
    """The options `--now` and `--since`."""

    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="FILE", help="A snapshot of it from before: whether what changed since woke pods."
        ),
    ] = ""

    def load_earlier_cluster(self, source: Source, cluster: Cluster) -> Cluster | None:
        """Load the cluster of `--since`, or return None without it. Raises UsageError if it is not older."""
        if not self.since:
            return None
        earlier = load_cluster(replace(source, snapshot=[self.since], filename=[], demo=False))
        times = [
            provenance.read_at
            for provenance in (earlier.provenance, cluster.provenance)
            if provenance and provenance.read_at
        ]
        if len(times) == 2 and parse_nanoseconds(times[0]) >= parse_nanoseconds(times[1]):
            moments = f"{self.since} is of {times[0]}, the cluster of {times[1]}"
            raise UsageError(moments, where="--since", hint="want a snapshot from before")
        return earlier
