"""The command line of `kschedctl races`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from kschedctl.api.times import parse_duration
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, DrawnUnlisted
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import load_cluster
from kschedctl.commands import races as library
from kschedctl.commands.audit.races.latency import parse_latency
from kschedctl.commands.audit.races.question import DEFAULT_EXPIRIES, Measures, RaceFields, parse_expiry
from kschedctl.errors import InputError, UsageError

EXAMPLES = (
    "kschedctl races",
    "kschedctl races --nodes 5000 --rate 100 --binding-latency exponential:10s",
    "kschedctl races --expiry 30s --expiry 10m --informer-lag lognormal:1s,40s",
    "kschedctl races --snapshot prod.ksnap --instances 2 --runs 10 -o json",
)


@dataclass(frozen=True)
class RaceOptions:
    """The sizes and times to simulate. Options that are not given come from the cluster or have a default."""

    nodes: Annotated[
        list[int],
        typer.Option(
            "--nodes",
            metavar="NUMBER",
            help="Number of nodes in the simulation. Repeatable.",
        ),
    ] = field(default_factory=list)
    rate: Annotated[
        list[float],
        typer.Option("--rate", metavar="NUMBER", help="Number of pods created per second. Repeatable."),
    ] = field(default_factory=list)
    expiry: Annotated[
        list[str],
        typer.Option(
            "--expiry",
            metavar="DURATION|adaptive|never",
            help="Time after which an assumed pod expires, such as 30s; adaptive means 30s for up to 1,000 nodes and "
            "proportionally more for larger clusters. Repeat to compare several.  "
            f"[default: {', '.join(DEFAULT_EXPIRIES)}]",
        ),
    ] = field(default_factory=list)
    binding_latency: Annotated[
        str | None,
        typer.Option(
            "--binding-latency",
            metavar="DISTRIBUTION",
            help="Time that the API server takes to bind a pod: constant:TIME, exponential:MEAN, "
            "lognormal:MEDIAN,P99, or measured to use the times measured in the cluster.  [default: "
            "exponential:10s]",
        ),
    ] = None
    informer_lag: Annotated[
        str | None,
        typer.Option(
            "--informer-lag",
            metavar="DISTRIBUTION",
            help="Time from when the API server confirms a binding until the scheduler's informer sees it, in the "
            "format of --binding-latency.  [default: same as --binding-latency]",
        ),
    ] = None
    instances: Annotated[
        int, typer.Option("--instances", metavar="NUMBER", help="Number of schedulers that place pods in parallel.")
    ] = 1
    pods_per_node: Annotated[
        int | None,
        typer.Option("--pods-per-node", metavar="NUMBER", help="Number of pods that fit on a node.  [default: 30]"),
    ] = None
    load: Annotated[
        float | None,
        typer.Option(
            "--load",
            metavar="SHARE",
            help="Fraction of the cluster's capacity that pods use, such as 0.8.  [default: 1]",
        ),
    ] = None
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            metavar="DURATION",
            help="Simulated time during which pods arrive, such as 10m.  [default: 5m, or 3 times the longest "
            "--expiry if longer]",
        ),
    ] = None
    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Random seed for the simulation.")] = 0
    runs: Annotated[
        int,
        typer.Option(
            "--runs",
            metavar="NUMBER",
            help="Number of runs, each with a different seed. The report shows the range of the results.",
        ),
    ] = 1

    def build_fields(self, measures: Measures | None) -> RaceFields:
        """Build the parameters that options set, and leave out the others.

        `measures` has the cluster's latencies, to which the latency options can refer. Raises UsageError for invalid
        values.
        """
        lags = measures.lags if measures else None
        fields = RaceFields(instances=self.instances, seed=self.seed, runs=self.runs)
        if self.nodes:
            fields["nodes"] = self.nodes
        if self.rate:
            fields["rates"] = self.rate
        if self.expiry:
            fields["expiries"] = [parse_expiry(text) for text in self.expiry]
        if self.binding_latency:
            fields["binding"] = parse_latency(self.binding_latency, "--binding-latency", lags)
        if self.informer_lag:
            fields["informer"] = parse_latency(self.informer_lag, "--informer-lag", lags)
        if self.pods_per_node is not None:
            fields["room"] = self.pods_per_node
        if self.load is not None:
            fields["load"] = self.load
        if self.duration is not None:
            fields["seconds"] = _parse_duration_option(self.duration)
        return fields


@with_options
def races(*, source: Source, simulated: RaceOptions, result: DrawnUnlisted) -> Answer:
    """How many pods would be double-booked?

    Simulates pods that are scheduled, assumed, bound and confirmed. If an assumed pod is not confirmed in time, the
    scheduler forgets it and gives its room to the next pod. Each cluster size is combined with each rate and expiry.
    Sizes, rates and times that no option sets are measured in the cluster, if you name one.
    """
    with show_progress() as progress:
        measures = _measure_named_cluster(source)
        report = library.races(simulated.build_fields(measures), measures=measures, progress=progress)
    return result.build_answer(report, choose_exit_code(good=True, interrupted=report.interrupted))


def _measure_named_cluster(source: Source) -> Measures | None:
    """Measure the cluster that options name or files contain, or return None if there is neither.

    Without an option, the current context of the kubeconfig is not measured. Raises KschedctlError if the cluster
    cannot be read.
    """
    is_named = source.kubeconfig or source.context or source.cluster or source.user
    if source.live and not is_named:
        return None
    return library.measure_cluster_for_races(load_cluster(source))


def _parse_duration_option(duration: str) -> float:
    """Return the value of --duration in seconds. Raises UsageError if it is malformed or 0."""
    try:
        seconds = parse_duration(duration)
    except InputError as error:
        raise UsageError(error.what, where="--duration", hint=error.hint) from None
    if not seconds:
        raise UsageError("must be more than 0", where="--duration", hint="such as 5m")
    return seconds
