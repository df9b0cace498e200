"""The command `kschedctl watch`: scheduling metrics for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files
from typing import Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.api.workloads import is_workload_manifest
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import (
    SCHEDULES,
    TABLE,
    UNDECIDED,
    Answer,
    Output,
    OutputFormat,
    declare_output_option,
)
from kschedctl.cli.source import ALL_KINDS, get_cluster_time, load_cluster
from kschedctl.cli.streams import leave_on_sigterm
from kschedctl.commands.explain.watching import follow_cluster
from kschedctl.commands.help.command import read_topics
from kschedctl.commands.watch import cluster_metrics
from kschedctl.errors import UsageError
from kschedctl.sources.read import read_paths

EXAMPLES = (
    "kschedctl watch --metrics :9090",
    "kschedctl watch --metrics :9090 --losses zone --room-for web.yaml",
    "kschedctl watch -o openmetrics > kschedctl.prom",
    "kschedctl watch --print rules",
)


class Unit(StrEnum):
    """A kind of failure domain whose loss can be simulated."""

    NODE = "node"
    ZONE = "zone"
    POOL = "pool"


class MonitoringFile(StrEnum):
    """A file of the package that sets up monitoring, named without suffix."""

    DEPLOYMENT = "deployment"
    AUDIT = "audit"
    RULES = "rules"
    DASHBOARD = "dashboard"


@dataclass(frozen=True)
class MetricsOutput(Output):
    """The output options, including the format openmetrics."""

    output: Annotated[
        OutputFormat, declare_output_option("table", "wide", "json", "yaml", "markdown", "html", "csv", "openmetrics")
    ] = TABLE


@with_options
def watch(
    *,
    source: Source,
    view: MetricsOutput,
    metrics: Annotated[
        str,
        typer.Option(
            "--metrics",
            metavar="HOST:PORT",
            help="Serve the metrics over HTTP at this address, such as :9090, under the path /metrics, until "
            "interrupted.",
        ),
    ] = "",
    room_for: Annotated[
        list[str] | None,
        typer.Option(
            "--room-for",
            metavar="FILE",
            help="Also report how many more pods of the workload in this file fit. Repeatable.",
        ),
    ] = None,
    losses: Annotated[
        list[Unit] | None,
        typer.Option(
            "--losses",
            metavar="node|zone|pool",
            help="Also report how many pods would get no node if a node, zone or pool were lost. Repeatable.",
        ),
    ] = None,
    every: Annotated[
        str,
        typer.Option(
            "--every",
            metavar="DURATION",
            help="With --metrics: minimum time between updates of the metrics, such as 30s.",
        ),
    ] = "30s",
    printed: Annotated[
        MonitoringFile | None,
        typer.Option(
            "--print",
            metavar="deployment|audit|rules|dashboard",
            help="Print a file and exit: a Deployment that runs watch, a CronJob that runs audit, alert rules for "
            "Prometheus, or a Grafana dashboard.",
        ),
    ] = None,
) -> Answer | int:
    """Export metrics: pending pods by cause, stuck pods, free room, the effect of losses, and quotas.

    Prints the metrics once. With --metrics, watches the cluster and serves metrics that follow its changes. All metrics
    are gauges. See kschedctl help monitoring for alerts, a dashboard, and how to run the command in the cluster.
    """
    if printed:
        typer.echo(_read_monitoring_file(printed), nl=False)
        return SCHEDULES
    shapes, units = _read_shapes(room_for or ()), [str(unit) for unit in losses or ()]
    if metrics:
        return _serve_metrics(metrics, source, shapes, units, every)
    cluster = load_cluster(source, live=ALL_KINDS)
    report = cluster_metrics(cluster, shapes, units=units, now=get_cluster_time(cluster, source))
    return view.build_answer(report, UNDECIDED if report.undecided else SCHEDULES)


def _serve_metrics(
    address: str, source: Source, shapes: Sequence[JsonObject], units: Sequence[str], interval: str
) -> int:
    """Serve metrics until the process is stopped, and return the exit code.

    `interval` is the minimum time between two updates. Raises UsageError unless the cluster is live, and KschedctlError
    if the cluster can no longer be followed.
    """
    from kschedctl.commands.watch.openmetrics import MetricsServer  # noqa: PLC0415 - only for those who serve
    from kschedctl.sources.live.connection import parse_timeout  # noqa: PLC0415 - only live clusters need the client

    if not source.live:
        raise UsageError("only a live cluster can be watched", where="--metrics", hint="-o openmetrics prints once")
    interval_seconds = parse_timeout(interval, "--every")
    with leave_on_sigterm(), MetricsServer(address) as server:
        for cluster in follow_cluster(source, None, ALL_KINDS, max_seconds=interval_seconds):
            started = time.monotonic()
            now = datetime.now(UTC).isoformat(timespec="seconds")
            metrics = cluster_metrics(cluster, shapes, units=units, now=now)
            server.publish(metrics, time.monotonic() - started)

            # Sleep at least as long as the update took, so that updates use at most half of a CPU
            update_seconds = time.monotonic() - started
            time.sleep(max(interval_seconds, update_seconds))
    return SCHEDULES  # metrics have no verdict of their own, so that the exit code is 0


def _read_shapes(names: Sequence[str]) -> list[JsonObject]:
    """Read the manifests of pods and workloads from files. Other manifests are ignored.

    Raises InputError if a file cannot be read, and UsageError if no file has a pod or workload.
    """
    if not names:
        return []
    manifests = [
        manifest.document for manifest in read_paths(names).manifests if is_workload_manifest(manifest.document)
    ]
    if not manifests:
        raise UsageError("no manifest of a pod or of a workload", where="--room-for")
    return manifests


def _read_monitoring_file(file_name: MonitoringFile) -> str:
    """Return the text of a file that sets up monitoring.

    The text of the Deployment starts with the RBAC rules that it needs.
    """
    folder = files("kschedctl.commands.watch")
    text = next(file.read_text("utf-8") for file in folder.iterdir() if file.name.partition(".")[0] == file_name)
    if file_name is not MonitoringFile.DEPLOYMENT:
        return text
    # The rules are the first YAML block of the help topic on rights.
    _, _, from_first_block = read_topics()["rights"].partition("```yaml\n")
    rbac_rules, _, _ = from_first_block.partition("```")
    return f"{rbac_rules}---\n{text}"
